"""NAME as an argument: a claim, a check as claim/check, or a glob over those (S44).

Shells complete it from the roxy.toml of the working tree. That takes no lock and reads no patch,
and where roxy.toml cannot be used it offers nothing.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from roxy.cli.invocation import Invocation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import click

_PLAIN = re.compile(r"[\w.@%+,:=~^/-]+")
"""Names that every shell takes as they are; bash would expand or split others."""


def check_names(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the claims and checks that begin with `incomplete`: `shell_complete` of a NAME."""
    invocation = context.find_object(Invocation)
    if invocation is None:
        return []
    given = context.params.get(parameter.name or "") or ()
    return [
        CompletionItem(name)
        for name in known_names(invocation.settings.start, invocation.environ)
        if name.startswith(incomplete) and name not in given and _PLAIN.fullmatch(name)
    ]


def known_names(start: Path, environ: Mapping[str, str]) -> list[str]:
    """Return each claim, followed by its checks; nothing when that cannot be told."""
    from roxy.core import manifest  # noqa: PLC0415 - only shells ask for it
    from roxy.core.errors import RoxyError  # noqa: PLC0415 - as above
    from roxy.core.git import find_repository  # noqa: PLC0415 - as above

    try:
        top = os.open(find_repository(start, environ).root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            claims = manifest.read_claims(top)
        finally:
            os.close(top)
    except (RoxyError, OSError):
        return []
    return [
        name for claim in claims for name in (claim.name, *(check.id for check in claim.checks))
    ]
