"""The live view of `verify` on a terminal (S46). The only file that imports rich.

Nothing is drawn by itself: each event of a verify may draw once, so there is no thread, and what
else roxy prints never meets a half-drawn line. The cursor is never hidden: a killed roxy could not
bring it back.
"""

from __future__ import annotations

import io
import os
import signal
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from roxy.cli.streams import Stream
from roxy.core.events import (
    CheckFinished,
    CheckStarted,
    EditKept,
    EditsKept,
    NeedFinished,
    NeedStarted,
    PatchShown,
    Remarked,
    RunFinished,
    RunOutput,
    RunStarted,
    RunTick,
)
from roxy.reports.text import decoded, printable, printable_output

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import FrameType, TracebackType
    from typing import Self

    from roxy.core.events import Event
    from roxy.core.model import Check

_PAUSE = 0.1
"""Seconds between two drawings, at least."""
_MINUTE = 60
_TAIL = 1024
"""Bytes of output in which the last line is looked for."""
_SPARE = 3
"""Columns at the right that stay free, so that an echoed `^C` does not begin another line."""
_LEAST_OUTPUT = 12
"""Columns below which no output is shown beside the facts."""
_BAR = range(5, 31)
"""Columns that the bar may have."""
_LEAST_ROWS = 3
"""Of a terminal, for the second line."""


_DOING: dict[type[Event], str] = {
    NeedStarted: "asking for what it needs",
    NeedFinished: "preparing",
    RunFinished: "checking the files",
}


class Progress:
    """Two lines about the run that is going on, gone without a trace when nothing is.

    Everything that drawing needs is loaded once this exists: a check may rewrite a module that is
    imported later (S51). While it is entered, a suspended roxy leaves a clean terminal too.
    """

    def __init__(self, stream: Stream, *, color: bool = False) -> None:
        _rehearse()
        self._stream = stream
        self._view = _View(stream, color=color)
        self._check: Check | None = None
        self._doing = ""
        self._done, self._total = 0, 0
        self._began = time.monotonic()
        self._since: float | None = None
        self._expected: float | None = None
        self._end: float | None = None
        self._output = b""
        self._drawn = 0.0
        self._is_busy = False
        self._is_to_stop = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for signum, handler in ((signal.SIGTSTP, self._stop), (signal.SIGCONT, self._go_on)):
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, handler)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        self._before.clear()

    def clear(self) -> None:
        """Take the lines away, until the next event draws them again."""
        with self._undisturbed():
            self._view.clear()
        self._drawn = 0.0

    def hear(self, event: Event) -> None:
        """Take the next event of a verify."""
        match event:
            case CheckStarted():
                self._begin(event)
            case RunStarted():
                self._doing, self._output = f"run {event.number} of {event.total}", b""
            case RunOutput():
                before = b"" if len(event.chunk) >= _TAIL else self._output
                self._output = (before + event.chunk)[-_TAIL:]
                if self._was_just_drawn():
                    return
            case RunTick():
                if self._was_just_drawn():
                    return
            case NeedStarted() | NeedFinished() | RunFinished():
                self._doing, self._output = _DOING[type(event)], b""
            case Remarked() | EditKept() | EditsKept() | PatchShown() | CheckFinished():
                # somebody else speaks next
                self.clear()
                return
        self._draw()

    def _begin(self, event: CheckStarted) -> None:
        now = time.monotonic()
        self._check, self._doing, self._output = event.check, "preparing", b""
        self._done, self._total = event.number - 1, event.total
        self._since, self._expected = now, event.expected
        self._end = None if event.seconds_left is None else now + event.seconds_left

    def _was_just_drawn(self) -> bool:
        return time.monotonic() - self._drawn < _PAUSE

    def _draw(self) -> None:
        if not self._stream.is_in_front:  # the shell has the terminal
            return
        self._drawn = time.monotonic()
        columns, rows = self._stream.size
        room = max(columns - _SPARE, 1)
        lines = [self._first_line(room)]
        if rows >= _LEAST_ROWS:
            lines.append(self._second_line(room))
        with self._undisturbed():
            self._view.show(lines, room)

    def _first_line(self, room: int) -> Text:
        elapsed = None if self._since is None else self._drawn - self._since
        name = printable("" if self._check is None else self._check.id)
        output = _last_line(self._output)
        return first_line(room, name, facts(self._doing, elapsed, self._expected), output)

    def _second_line(self, room: int) -> Text:
        remaining = None if self._end is None else max(0.0, self._end - self._drawn)
        share = self._done / self._total if self._total else 0.0
        if remaining is not None:
            passed = self._drawn - self._began
            share = 1 - remaining / max(passed + remaining, _PAUSE)
        bars = ("\N{BOX DRAWINGS HEAVY HORIZONTAL}", "\N{BOX DRAWINGS LIGHT HORIZONTAL}")
        full, empty = bars if self._stream.can_show("".join(bars)) else ("=", "-")
        return second_line(room, share, self._done, self._total, remaining, full + empty)

    # --------------------------------------------------------------- suspended by the shell

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Finish what is being drawn before a signal stops roxy."""
        self._is_busy = True
        try:
            yield
        finally:
            self._is_busy = False
        if self._is_to_stop:
            self._stop(signal.SIGTSTP, None)

    def _stop(self, signum: int, _frame: FrameType | None) -> None:
        """Wipe the lines, then stop as if nobody had caught the signal."""
        self._is_to_stop = self._is_busy
        if self._is_to_stop:
            return
        self._view.clear()
        ours = signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
        signal.signal(signum, ours)  # from here on roxy goes on

    def _go_on(self, _signum: int, _frame: FrameType | None) -> None:
        """Leave alone what somebody else may have written meanwhile."""
        self._view.forget()


# ------------------------------------------------------------------- what the lines say


def facts(doing: str, elapsed: float | None, expected: float | None) -> list[str]:
    """Return what is known of the running check, in full and then ever shorter."""
    if elapsed is None:
        return [doing]
    brief = doing.removeprefix("run ").replace(" of ", "/").removesuffix(" the files")
    took = _duration(elapsed)
    known = [] if expected is None else [f"{doing}  {took} of about {_duration(expected, 0)}"]
    return [*known, f"{doing}  {took}", f"{brief}  {took}", brief]


def first_line(room: int, name: str, said: Sequence[str], output: str) -> Text:
    """Name the check, whatever there is room for; its output, dimmed, gets what is left."""
    text = Text(name, no_wrap=True, overflow="crop")
    needed = min(text.cell_len, room // 2) + 2
    fact = next((one for one in said if needed + len(one) <= room), said[-1])
    text.truncate(max(room - len(fact) - 2, 0), overflow="crop")
    text.append(f"  {fact}" if text.plain else fact)
    if output and text.cell_len + _LEAST_OUTPUT <= room:
        text.append(f"  {output}", style="dim")
    text.truncate(room, overflow="crop")
    return text


def second_line(
    room: int, share: float, done: int, total: int, remaining: float | None, bar: str
) -> Text:
    """Say how far the whole command is; `bar` has the characters for what is done and what not."""
    count = f"{done} of {total} done"
    long = count if remaining is None else f"{count}  about {_duration(remaining, 0)} left"
    said = long if len(long) <= room else count
    length = min(room - len(said) - 2, _BAR[-1])
    if length not in _BAR:
        return Text(said[:room], no_wrap=True)
    full = round(length * min(max(share, 0.0), 1.0))
    text = Text(bar[0] * full, style="green", no_wrap=True)
    return Text.assemble(text, (bar[1] * (length - full), "dim"), f"  {said}", no_wrap=True)


def _last_line(output: bytes) -> str:
    lines = [line for line in decoded(output).splitlines() if line.strip()]
    return printable_output(lines[-1]).strip() if lines else ""


def _duration(seconds: float, digits: int = 1) -> str:
    if seconds < _MINUTE:
        return f"{seconds:.{digits}f}s"
    minutes, rest = divmod(int(seconds), _MINUTE)
    return f"{minutes}m{rest:02}s"


# ------------------------------------------------------------------- how they get there


class _View:
    """Some lines at the bottom of a terminal, the cursor behind the last one."""

    def __init__(self, stream: Stream, *, color: bool) -> None:
        self._stream = stream
        self._draft = io.StringIO()
        self._console = Console(
            file=self._draft,
            force_terminal=True,
            force_jupyter=False,
            color_system="standard" if color else None,
            legacy_windows=False,
            markup=False,
            emoji=False,
            highlight=False,
        )
        self._cells: list[int] = []
        """How wide each line is that stands on the terminal."""

    def show(self, lines: Sequence[Text], room: int) -> None:
        """Draw lines, each no wider than `room`, in the place of those that are there."""
        erased = self._erased()
        self._console.width = room
        for number, line in enumerate(lines):
            self._console.print(line, end="" if number == len(lines) - 1 else "\n")
        self._cells = [line.cell_len for line in lines]
        self._stream.write(erased + self._draft.getvalue())
        self._draft.seek(0)
        self._draft.truncate()

    def clear(self) -> None:
        """Wipe the lines, if they are there."""
        erased = self._erased()
        self._cells = []
        if erased:
            self._stream.write(erased)

    def forget(self) -> None:
        """Take it that the lines are no longer where they were."""
        self._cells = []

    def _erased(self) -> str:
        """Return what wipes the lines.

        A terminal that has become narrower has wrapped them, as nearly all do by now.
        """
        if not self._cells:
            return ""
        columns, _ = self._stream.size
        up = sum(1 + max(cells - 1, 0) // columns for cells in self._cells) - 1
        return "\r" + (f"\x1b[{up}A" if up else "") + "\x1b[J"


def _rehearse() -> None:
    """Draw every kind of thing once to nowhere, since rich imports some modules on first use."""
    descriptor = os.open(os.devnull, os.O_WRONLY)
    for color in (False, True):
        view = _View(Stream(descriptor, "utf-8"), color=color)
        name = "na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve \N{CJK UNIFIED IDEOGRAPH-540D}" * 99
        for room in (79, 9):
            lines = [
                first_line(room, name[:room], ["0"], name),
                second_line(room, 0.5, 1, 2, 3, "=-"),
            ]
            view.show(lines, room)
        view.clear()
    os.close(descriptor)
