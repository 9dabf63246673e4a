"""The `roxy` command as the system starts it.

Everything else is imported where Ctrl-C is already met with an exit code and not a traceback.
"""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run roxy on the arguments of this process, and end the process with its exit code.

    Nothing of this process is taken apart first: no buffer holds anything (`streams`), the system
    takes back the rest, and for `gate` that is a tenth of its time.
    """
    os._exit(answer())


def answer() -> int:
    """Run roxy on the arguments of this process and return its exit code."""
    if sys.platform == "win32":  # before anything is imported that is not there (S3)
        sys.stderr.write(
            "error: roxy works on Linux and macOS, not on Windows\n"
            "hint: run it inside WSL, on a repository that lives there\n"
        )
        sys.stderr.flush()
        return 2
    gc.disable()  # a short life makes no garbage worth looking for; `verify` enables it
    try:
        from roxy.cli.boundary import run  # noqa: PLC0415 - see above

        return run(sys.argv[1:], os.environ)
    except KeyboardInterrupt:  # outside the time in which signals are flags (S32)
        return 130
