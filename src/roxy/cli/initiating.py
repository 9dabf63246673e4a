"""What `init` does on the command line. It takes no lock; `core/initiation.py` says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roxy.cli import exit_codes
from roxy.core.git import find_repository
from roxy.core.initiation import begin
from roxy.core.interrupts import Interrupts
from roxy.core.working_tree import Tree
from roxy.reports import init

if TYPE_CHECKING:
    from roxy.cli.invocation import Invocation


def answer(invocation: Invocation) -> int:
    """Write what is missing, tell what was done, and return the exit code."""
    settings = invocation.settings
    interrupts = Interrupts()
    interrupts.install()
    try:
        with interrupts.breakable():
            repository = find_repository(settings.start, invocation.environ, needs_manifest=False)
        tree = Tree(repository.root)
        try:
            initiation = begin(repository, tree, interrupts)
        finally:
            tree.close()
    finally:
        interrupts.uninstall()
    invocation.streams.out.write(
        init.document(initiation) if settings.json else init.lines(initiation, quiet=settings.quiet)
    )
    interrupts.check()  # what came while files were written
    return exit_codes.of_init(initiation)
