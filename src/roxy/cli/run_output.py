"""What the runs print, shown while they do (`-v`)."""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from roxy.core.events import NeedFinished, NeedStarted, RunFinished, RunOutput, RunStarted
from roxy.reports.text import printable, printable_output

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roxy.cli.streams import Stream
    from roxy.core.events import Event

_LONGEST = 8192
"""Characters that may wait for the end of their line."""
_LINE_END = re.compile(r"\r\n|\n|\r(?!\Z)")
"""A carriage return at the very end may be half of a line end, and waits."""


class RunOutputPrinter:
    """Prints a header for each run, then its lines as they end, escaped."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._unfinished = ""

    def hear(self, event: Event) -> None:
        """Take the next event of a verify."""
        match event:
            case RunStarted():
                name = printable(event.check.id)
                self._stream.write(f"{name}: {event.phase} run, {event.number} of {event.total}\n")
            case NeedStarted():
                name, command = printable(event.check.id), printable(event.command)
                self._stream.write(f"{name}: needs {command}\n")
            case RunOutput():
                self._add(self._decoder.decode(event.chunk))
            case RunFinished() | NeedFinished():
                self._finish()
            case _:
                pass

    def _add(self, text: str) -> None:
        *lines, self._unfinished = _LINE_END.split(self._unfinished + text)
        if len(self._unfinished) > _LONGEST:
            lines.append(self._unfinished)
            self._unfinished = ""
        self._print(lines)

    def _finish(self) -> None:
        self._add(self._decoder.decode(b"", final=True))
        if self._unfinished:
            self._print([self._unfinished.removesuffix("\r")])
            self._unfinished = ""
        self._decoder.reset()

    def _print(self, lines: Iterable[str]) -> None:
        self._stream.write("".join(f"{printable_output(line)}\n" for line in lines))
