"""The boundary: whatever happens below ends here as text and one exit code (S43, S47, S48)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from roxy.cli import exit_codes, shortcut
from roxy.cli.invocation import Invocation
from roxy.cli.streams import standard_streams
from roxy.core.errors import Fault, Interrupted, RoxyError
from roxy.reports import human

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def run(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Do what `arguments` ask for, tell whatever went wrong, and return the exit code."""
    invocation = Invocation(standard_streams(), environ)
    wants_json = wants_document(arguments)
    try:
        code = _dispatch(arguments, invocation)
    except RoxyError as error:
        code = exit_codes.CANNOT_JUDGE
        _tell(invocation, error.faults, wants_json=wants_json)
    except Interrupted as interruption:
        code = exit_codes.of_signal(interruption.signum)
        _tell_interruption(invocation, interruption.signum, wants_json=wants_json)
    except OSError as error:
        code = exit_codes.CANNOT_JUDGE
        _tell(invocation, [_refusal(error)], wants_json=wants_json)
    except Exception as error:  # noqa: BLE001 - a bug must not look like an answer
        code = exit_codes.CANNOT_JUDGE
        _tell(invocation, [_bug(invocation, error)], wants_json=wants_json)
    return _checked(invocation, code)


def _dispatch(arguments: Sequence[str], invocation: Invocation) -> int:
    code = shortcut.dispatch(arguments, invocation)
    if code is None:
        from roxy.cli import commands  # noqa: PLC0415 - click, which `gate` does not wait for

        code = commands.dispatch(arguments, invocation)
    return code


def wants_document(arguments: Sequence[str]) -> bool:
    """Return whether `--json` is among the options, which also holds when they cannot be parsed."""
    for argument in arguments:
        if argument == "--":
            break
        if argument == "--json":
            return True
    return False


def _tell(invocation: Invocation, faults: Sequence[Fault], *, wants_json: bool) -> None:
    if wants_json:
        _print_error_document(invocation, faults)
    err = invocation.streams.err
    err.write(human.errors(faults, color=invocation.wants_color(err)))


def _tell_interruption(invocation: Invocation, signum: int, *, wants_json: bool) -> None:
    if wants_json:
        _print_error_document(invocation, [Fault(f"interrupted by {human.signal_name(signum)}")])
    invocation.streams.err.write(human.interruption(signum, None))


def _print_error_document(invocation: Invocation, faults: Sequence[Fault]) -> None:
    from roxy.reports import json  # noqa: PLC0415 - most calls do not need it

    invocation.streams.out.write(json.error_document(faults))


def _refusal(error: OSError) -> Fault:
    """Say what the system would not do, where nothing closer to it had better words."""
    name = error.filename
    where = os.fsdecode(name) if isinstance(name, (str, bytes)) else None
    return Fault(
        f"the system refuses: {error.strerror or error}",
        where=where,
        hint="see to permissions, space and limits (`ulimit -a`), then run the same command again",
    )


def _bug(invocation: Invocation, error: Exception) -> Fault:
    from roxy.cli.crash import record_crash  # noqa: PLC0415 - hardly ever needed

    path = record_crash(invocation.state, error)
    place = "could not be written to a file" if path is None else f"is in `{path}`"
    return Fault(f"this is a bug in roxy, {type(error).__name__}: the traceback {place}")


def _checked(invocation: Invocation, code: int) -> int:
    """Return `code`, unless the answer that goes with it was lost on the way."""
    failure = invocation.streams.out.failure
    if failure is None or code not in (exit_codes.YES, exit_codes.NO):
        return code
    fault = Fault(
        f"cannot write to standard output: {failure.strerror}",
        hint="see to where it leads (space, permissions), then run the same command again",
    )
    _tell(invocation, [fault], wants_json=False)
    return exit_codes.CANNOT_JUDGE
