"""The past and the inside of checks for people: what `history` and `show` print."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from roxy.core import when
from roxy.core.model import Result, State
from roxy.core.status import in_words, optional_keys
from roxy.core.tries import Try
from roxy.core.verdict import how_it_ended
from roxy.reports import human
from roxy.reports.text import decoded, path_text, printable, printable_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Sized

    from roxy.core.about import About, Excerpt, Preview, Reach
    from roxy.core.lookup import Contrast, History
    from roxy.core.model import Check, Details
    from roxy.core.tries import CutShort, PastRun

_HASH = 8
_COMMIT = 7
"""Digits that are shown of a receipt's SHA-256 and of a commit."""
_DIFF_LINES = 200
"""Lines of a mutation that are shown unless all are asked for."""
_CUT_SHORT = "cut short"
_DIFF_STYLES = {"+": "32", "-": "31", "@": "36"}


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _styled(text: str, codes: str, *, color: bool) -> str:
    return f"\x1b[{codes}m{text}\x1b[0m" if color and codes else text


# ------------------------------------------------------------------- history


def history(found: History, *, quiet: bool, color: bool) -> str:
    """Return a line for each past try, newest first, and the share that was verified.

    With `quiet` only the others, and no share.
    """
    lines = [
        line(one, color=color)
        for one in found.tries
        if not (quiet and isinstance(one, Try) and one.result == Result.VERIFIED)
    ]
    if not quiet:
        lines.append(_share(found.tries))
    return _joined(lines)


def line(one: Try | CutShort, *, color: bool) -> str:
    """Return one try on one line: when, receipt, commit, result, check, seconds and reason."""
    if not isinstance(one, Try):
        marks = f"{'-' * _HASH} {'-' * _COMMIT} "
        what = human.marked(_CUT_SHORT, color=color)
        return (
            f"{when.local(one.time)} {marks} {what} {printable(one.id)}:"
            f" roxy (pid {one.pid}) ended before it could judge"
        )
    commit = (one.commit or "-" * _COMMIT)[:_COMMIT] + ("+" if one.dirty else " ")
    head = f"{when.local(one.time)} {one.name.sha256[:_HASH]} {printable(commit)}"
    return f"{head} {_result(one, color=color)} ({_all_seconds(one.runs)}){_because(one)}"


def _result(one: Try, *, color: bool) -> str:
    return f"{human.marked(one.result, color=color)} {printable(one.id)}"


def _because(one: Try) -> str:
    return "" if one.reason is None else f": {printable(one.reason.text)}"


def _all_seconds(runs: Sequence[PastRun]) -> str:
    return ", ".join(f"{run.seconds:.1f}" for run in runs) + " s" if runs else "no run"


def _share(tries: Sequence[Try | CutShort]) -> str:
    if not tries:
        return "no try yet"
    counts = Counter(one.result if isinstance(one, Try) else _CUT_SHORT for one in tries)
    total = "1 try" if len(tries) == 1 else f"{len(tries)} tries"
    parts = ", ".join(f"{count} {printable(word)}" for word, count in counts.most_common())
    return f"{total}: {parts}; {percent(tries)}% verified"


def percent(tries: Sequence[Try | CutShort]) -> int:
    """Return how many in a hundred of some tries were verified; all but all are never 100."""
    good = sum(isinstance(one, Try) and one.result == Result.VERIFIED for one in tries)
    return 100 * good // len(tries)


# ------------------------------------------------------------------- a check


def about(checks: Sequence[About], *, verbose: bool, quiet: bool, color: bool) -> str:
    """Return all about some checks; with `quiet` only about those that are not verified."""
    shown = [one for one in checks if not quiet or one.entry.state is not State.VERIFIED]
    return "\n".join(_about(one, verbose=verbose, color=color) for one in shown)


def _about(one: About, *, verbose: bool, color: bool) -> str:
    entry = one.entry
    lines = [human.standing(entry, color=color).removesuffix("\n")]
    if one.description is not None:
        lines.append(f"  claim: {printable(one.description)}")
    lines.append(f"  run: {printable(entry.check.run)}")
    for reach in one.covers:
        lines += _reach("covers", reach, verbose=verbose)
    for reach in one.inputs:
        lines += _reach("inputs", reach, verbose=verbose)
    lines += _options(entry.check)
    for preview in one.mutations:
        lines += _preview(preview, verbose=verbose, color=color)
    recorded = "is the same" if one.recorded == one.fingerprint else f"has {one.recorded}"
    lines.append(f"  fingerprint: {one.fingerprint}")
    lines.append(f"  roxy.lock {'has none' if one.recorded is None else recorded}")
    lines.append("  last tries:" if one.tries else "  last tries: none on this machine")
    for attempt in one.tries:
        lines.append(f"    {line(attempt, color=color)}")
        if isinstance(attempt, Try):
            lines += [f"      {text}" for text in _runs(attempt)]
    if one.excerpt is not None:
        lines += _excerpt(one.excerpt, color=color)
    return _joined(lines)


def _options(check: Check) -> list[str]:
    """Return a line for each optional key that is set; for each value, where it has several."""
    lines = []
    for name, value in optional_keys(check).items():
        match value:
            case _ if name == "inputs":  # told with their files
                continue
            case dict():
                values = [f"{variable}={text}" for variable, text in value.items()]
            case list():
                values = value
            case bool():
                values = [str(value).lower()]
            case float():
                values = [f"{value:g}s"]
            case _:
                values = [str(value)]
        lines += [f"  {name}: {printable(text)}" for text in values]
    return lines


def _reach(key: str, reach: Reach, *, verbose: bool) -> list[str]:
    names = [f"    {printable(path_text(path))}" for path in reach.files] if verbose else []
    return [f"  {key}: {printable(reach.glob)} ({_count(reach.files)})", *names]


def _count(files: Sized) -> str:
    return "1 file" if len(files) == 1 else f"{len(files)} files"


def _preview(preview: Preview, *, verbose: bool, color: bool) -> list[str]:
    name = printable(preview.mutation)
    if preview.misfit is not None:
        lines = [f"  mutation: {printable(preview.misfit.text)}; as it was written:"]
    else:
        how = ", ".join(map(printable, preview.notes)) or "fits"
        lines = [f"  mutation: {name} ({how}), in the code as it is:"]
    diff = preview.diff.splitlines()
    most = len(diff) if verbose else _DIFF_LINES
    lines += [_diff_line(raw, color=color) for raw in diff[:most]]
    if len(diff) > most:
        lines.append(f"    ({len(diff) - most} more lines; -v shows them)")
    return lines


def _diff_line(raw: bytes, *, color: bool) -> str:
    text = decoded(raw)
    style = "1" if text.startswith(("--- ", "+++ ")) else _DIFF_STYLES.get(text[:1], "")
    shown = text[:1] + printable_output(text[1:])
    return "    " + (_styled(shown, style, color=color))


def _runs(one: Try) -> list[str]:
    """Return how each run of a try ended, and what was remarked."""
    lines = []
    for run in one.runs:
        what = f"{printable(run.phase)} run {how_it_ended(run)} after {run.seconds:.1f} s"
        if run.mutation is not None and len(one.mutations) > 1:
            what += f" with {printable(run.mutation)}"
        lines.append(what)
    return lines + [f"note: {printable(note)}" for note in one.notes]


def _excerpt(excerpt: Excerpt, *, color: bool) -> list[str]:
    run = printable(excerpt.run.phase)
    place = printable(path_text(excerpt.path))
    return [
        f"  the {run} run printed, in {place}:",
        *human.output(excerpt.lines, color=color).splitlines(),
    ]


# ------------------------------------------------------------------- receipts


def receipt(one: Try, excerpt: Excerpt | None, *, verbose: bool, color: bool) -> str:
    """Return all that one receipt tells."""
    commit = one.commit or "none yet"
    covers = ", ".join(map(printable, one.covers))
    lines = [
        f"{_result(one, color=color)}{_because(one)}",
        f"  receipt: {one.name.file}",
        f"  time: {when.local(one.time)}",
        f"  commit: {printable(commit)}{', with changes' if one.dirty else ''}",
        f"  roxy: {printable(one.roxy)}",
        f"  run: {printable(one.run)}",
        *(f"  {printable(key)}: {printable(str(value))}" for key, value in one.options.items()),
        *(
            f"  mutation: {printable(path)} ({printable(sha[:_HASH])})"
            for path, sha in one.mutations
        ),
        f"  fingerprint: {printable(one.fingerprint or 'none')}",
        f"  covers: {covers} ({_count(one.files)})",
    ]
    if verbose:
        lines += [_file(path, digest) for path, digest in sorted(one.files.items())]
    lines += [f"  {text}" for text in _runs(one)]
    if excerpt is not None:
        lines += _excerpt(excerpt, color=color)
    return _joined(lines)


def _file(path: bytes, digest: str) -> str:
    return f"    {printable(digest[:_HASH])} {printable(path_text(path))}"


def contrast(found: Contrast, *, verbose: bool, color: bool) -> str:
    """Return what differs between two tries."""
    first, second = found.first, found.second
    lines = [f"from {line(first, color=color)}", f"to   {line(second, color=color)}"]
    if first.id != second.id:
        lines.append("  they are of different checks")
    if found.details.command_changed:
        lines += [
            "  command:",
            _diff_line(b"-" + _raw(first.run), color=color),
            _diff_line(b"+" + _raw(second.run), color=color),
        ]
    for text in _patches(dict(first.mutations), dict(second.mutations)):
        lines.append(f"  mutation: {text}")
    lines += [f"  {printable(key)} in roxy.toml: otherwise" for key in found.keys]
    lines += _files(found.details, verbose=verbose)
    if found.is_empty:
        lines.append("  command, mutation and files: the same")
    if first.result != second.result:
        lines.append(f"  result: {printable(first.result)}, then {printable(second.result)}")
    lines.append(f"  seconds: {_all_seconds(first.runs)}, then {_all_seconds(second.runs)}")
    return _joined(lines)


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _patches(then: Mapping[str, str], now: Mapping[str, str]) -> Iterable[str]:
    for path in dict.fromkeys([*then, *now]):
        if then.get(path) != now.get(path):
            how = "changed" if path in then and path in now else "added"
            yield f"`{printable(path)}` {how if path in now else 'removed'}"


def _files(details: Details, *, verbose: bool) -> list[str]:
    if not verbose:
        files = details._replace(command_changed=False, mutation_changed=False, keys_changed=())
        words = in_words(files)
        return [f"  files: {printable(words)}"] if words else []
    return [
        f"  {what}: {printable(path_text(path))}"
        for what, paths in (
            ("changed", details.changed),
            ("added", details.added),
            ("removed", details.removed),
        )
        for path in paths
    ]
