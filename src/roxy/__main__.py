"""``python -m roxy``: the same as the ``roxy`` command."""

from roxy.cli.main import main

if __name__ == "__main__":
    main()
