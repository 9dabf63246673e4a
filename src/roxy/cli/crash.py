"""A file about a bug in roxy, so that the message can be short and the report complete (S43)."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def record_crash(state: Path | None, error: BaseException) -> Path | None:
    """Write down `error` for whoever mends it; return where, or None when there is no room.

    The place is in `state`, roxy's folder in the git directory; else the system's for temporary
    files.
    """
    places = [Path(tempfile.gettempdir())]
    if state is not None:
        places.insert(0, state / "crashes")
    for place in places:
        path = place / f"roxy-crash-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.txt"
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            _write(path, _described(error))
        except OSError:
            continue
        return path
    return None


def _described(error: BaseException) -> str:
    return "\n".join(
        [
            f"arguments: {sys.argv[1:]!r}",
            f"python: {sys.version}",
            f"system: {sys.platform} {os.uname().release}",
            "",
            "".join(traceback.format_exception(error)),
        ]
    )


def _write(path: Path, text: str) -> None:
    with os.fdopen(os.open(path, _NEW, 0o600), "wb") as file:
        file.write(text.encode("utf-8", "backslashreplace"))
