"""Whatever a power cut leaves of what was not synced, the next roxy puts everything back (S28, S33).

See the states with `pytest -s tests/test_power.py | grep power`.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from disk import FOREIGN, Cut, Recorder, lay_out
from ground import Clock, Ground, Killed, Meddler, refuse_flags
from roxy.core import exchange, files, lockfile, recorder, tree_writer
from roxy.core.events import CheckFinished, RunStarted
from roxy.core.journal import ChangedMeanwhileError
from roxy.core.model import Check, Result
from roxy.core.outcome import Outcome, Phase
from roxy.core.receipts import ReceiptKeeper, past_seconds
from roxy.core.tries import Archive
from roxy.core.working_tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from disk import State
    from roxy.core.mutation import Edit

PATHS = b"src/deep/down/f.py", b"src/g.py"
OLD, NEW, OTHER = b"value = 1\n", b"value = 2\n", b"value = 4\n"
MEMORY = Path("/dev/shm")  # noqa: S108 - each test makes a folder of its own in it
LIMIT = 1000 if os.environ.get("ROXY_POWER") == "all" else 8
"""States that are tried of one power cut, of which there are hundreds; `ROXY_POWER=all` for more."""
TRIED: Counter[str] = Counter()
DISKS = ["plain", "no exchange", "no links", "another device"]


@contextlib.contextmanager
def on(disk: str) -> Iterator[None]:
    """Be on a disk that lacks something."""

    def other_device(*_arguments: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    with pytest.MonkeyPatch.context() as patch:
        if disk in ("no exchange", "another device"):
            answer = refuse_flags if disk == "no exchange" else other_device
            for module in (exchange, tree_writer):
                patch.setattr(module, "rename_at", answer)
        if disk == "another device":
            patch.setattr(tree_writer, "_move", other_device)
        if disk == "no links":
            patch.setattr(tree_writer, "_link", lambda _source, _to: None)
        yield


class Bench:
    """A ground on a disk that is listened to, and a place to lay out what a power cut leaves."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.ground = lay(Ground.make(top / "ground"))
        self.before = self.ground.snapshot()
        edits = [self.edits() for _ in range(2)]
        self.cycles = iter(edits)
        self.disk = Recorder(self.ground.root.parent)
        self.torn_writes = False
        """Whether files are overwritten in place, so that half of what roxy writes may be kept."""
        self.since = 0
        """After how many operations the law holds."""
        self.first = self.ground.path(PATHS[0])
        self.foreign = FOREIGN
        self.edited = {FOREIGN}
        self._seen: set[tuple[str, State]] = set()
        self._number = itertools.count()

    def edits(self) -> list[Edit]:
        return [self.ground.edit(path, NEW + path) for path in PATHS]

    def cycle(self, between: Callable[[], None] = lambda: None) -> None:
        with self.ground.patched(*next(self.cycles)):
            between()

    @contextlib.contextmanager
    def somebody(self) -> Iterator[Recorder]:
        """Let somebody who is not roxy act."""
        yield self.disk
        self.since = len(self.disk.ops)

    def put_in_place(self, target: str | None) -> None:
        with self.somebody() as disk:
            disk.replace(self.first, target)

    def save(self) -> None:
        with self.somebody() as disk:
            disk.save(self.first, FOREIGN)

    # --------------------------------------------------------------- power cuts

    def cut(
        self,
        law: Callable[[Ground], None],
        points: Iterable[int] | None = None,
        *,
        limit: int = LIMIT,
        torn: bool = False,
    ) -> None:
        """Let the power go at each of these points, in many ways, and hold the law of each."""
        if points is None:
            points = range(self.since, len(self.disk.ops) + 1)
        for nth, at in enumerate(points):
            for state in Cut(self.disk, at, torn).states(limit, only_new=nth > 0):
                key = law.__name__, state
                if key in self._seen:
                    continue
                self._seen.add(key)
                TRIED[law.__name__] += 1
                with self.laid_out(state) as ground:
                    try:
                        law(ground)
                    except BaseException as error:
                        error.add_note(
                            f"power cut after {at}: {self.disk.ops[max(at - 12, 0) : at]}"
                        )
                        error.add_note("\n".join(map(str, state)))
                        raise

    @contextlib.contextmanager
    def laid_out(self, state: State) -> Iterator[Ground]:
        folder = self.top / f"cut-{next(self._number)}"
        folder.mkdir()
        lay_out(state, folder)
        yield Ground(folder / "tree", folder / "state", Clock(self.ground.clock.ahead))
        files.remove_folder(folder)

    def all_back(self, ground: Ground) -> None:
        ground.recover()
        assert ground.snapshot() == self.before
        assert ground.leftovers() == []
        assert self.torn_writes or not ground.kept()

    def all_back_and_saved(self, ground: Ground) -> None:
        """Hold also that what somebody saved is kept."""
        ground.recover()
        assert ground.snapshot() == self.before
        assert ground.leftovers() == []
        assert self.foreign in {seen.content for seen in ground.kept().values()}

    def edited_is_there(self, ground: Ground) -> None:
        """Hold that an edit made before the next roxy is where it was made, or kept."""
        ground.path(PATHS[0]).write_bytes(FOREIGN)  # in place, as a shell does
        self.edits_are_there(ground)

    def edits_are_there(self, ground: Ground) -> None:
        ground.recover()
        found = ground.snapshot()
        held = found.pop(PATHS[0])
        assert found == {path: seen for path, seen in self.before.items() if path != PATHS[0]}
        there = {seen.content for seen in ground.kept().values()} | {held.content}
        assert there >= self.edited
        if held.content not in self.edited:
            assert held == self.before[PATHS[0]]


def lay(ground: Ground) -> Ground:
    ground.write(PATHS[0], OLD, 0o640)
    ground.write(PATHS[1], b"other = 1\n", 0o755)
    ground.write(b"src/neighbour", b"untouched")
    ground.path(b"src/deep").chmod(0o2775)
    return ground


@contextlib.contextmanager
def new_bench() -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        fast = str(MEMORY) if MEMORY.is_dir() else None
        top = stack.enter_context(tempfile.TemporaryDirectory(dir=fast))
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(os, "fsync", lambda _fd: None)
        yield Bench(Path(top))


@pytest.fixture(scope="module", autouse=True)
def figures() -> Iterator[None]:
    yield
    print(f"\npower: {TRIED.total()} states, none lost")  # noqa: T201 - with -s


@pytest.fixture
def bench() -> Iterator[Bench]:
    with new_bench() as bench:
        yield bench


@pytest.mark.rule("S28", "S33")
@pytest.mark.parametrize(
    ("disk", "renames"),
    [*((disk, "whole") for disk in DISKS), ("plain", "torn"), ("no exchange", "torn")],
)
def test_a_power_cut_in_two_whole_cycles_loses_nothing(
    bench: Bench, disk: str, renames: str
) -> None:
    bench.torn_writes = disk == "another device"
    with on(disk):
        with bench.disk.at_work():
            bench.cycle()
            bench.cycle()
        bench.cut(bench.all_back, torn=renames == "torn")


@pytest.mark.rule("S28", "S29", "S33")
@pytest.mark.parametrize("disk", DISKS)
def test_an_edit_made_after_a_power_cut_is_not_in_the_way(bench: Bench, disk: str) -> None:
    with on(disk):
        with bench.disk.at_work():
            bench.cycle()
        bench.cut(bench.edited_is_there)


@pytest.mark.rule("S29", "S33")
@pytest.mark.parametrize("disk", DISKS)
def test_what_somebody_saved_meanwhile_outlasts_a_power_cut(bench: Bench, disk: str) -> None:
    with on(disk):
        with bench.disk.at_work():
            bench.cycle(bench.save)
        bench.cut(bench.all_back_and_saved)


@pytest.mark.rule("S29", "S33")
def test_what_somebody_saved_at_that_very_moment_outlasts_a_power_cut(bench: Bench) -> None:
    meddler = Meddler(bench.save, at=2)
    with bench.disk.at_work(), meddler.at_work():
        bench.cycle()
    bench.cut(bench.all_back_and_saved)


@pytest.mark.rule("S29", "S33")
@pytest.mark.parametrize("disk", DISKS)
@pytest.mark.parametrize("target", ["../../neighbour", None], ids=["a link", "a folder"])
def test_what_somebody_put_in_the_place_of_a_file_outlasts_a_power_cut(
    bench: Bench, disk: str, target: str | None
) -> None:
    bench.foreign = FOREIGN if target is None else target.encode()
    with on(disk):
        with bench.disk.at_work():
            bench.cycle(lambda: bench.put_in_place(target))
        bench.cut(bench.all_back_and_saved)


@pytest.mark.rule("S28", "S33")
def test_the_mode_of_a_folder_outlasts_a_power_cut(bench: Bench) -> None:
    with bench.disk.at_work():
        bench.cycle(lambda: bench.disk.chmod(bench.ground.path(b"src/deep"), 0o700))
    bench.cut(bench.all_back)


@pytest.mark.rule("S28", "S33")
def test_a_folder_that_was_made_anew_outlasts_a_power_cut(bench: Bench) -> None:
    with bench.disk.at_work():
        bench.cycle(lambda: bench.disk.remove(bench.ground.path(b"src/deep/down")))
    bench.cut(bench.all_back)


@pytest.mark.rule("S29", "S33")
def test_a_file_given_back_to_who_saved_it_outlasts_a_power_cut(bench: Bench) -> None:
    meddler = Meddler(bench.save)
    with bench.disk.at_work(), meddler.at_work(), pytest.raises(ChangedMeanwhileError):
        bench.cycle()
    bench.cut(bench.edits_are_there)


@pytest.mark.rule("S29", "S33")
@pytest.mark.parametrize("edits", [1, 2])
def test_edits_between_a_kill_and_a_power_cut_are_kept(edits: int) -> None:
    with new_bench() as bench, bench.disk.at_work():
        bench.cycle()
    exchanges = [at for at, name in enumerate(bench.disk.steps) if name == "rename_at"]
    with new_bench() as bench:
        bench.disk.at = exchanges[2] + 1  # the first file is back, its folder not synced
        with bench.disk.at_work(), contextlib.suppress(Killed):
            bench.cycle()
        bench.disk.revive()
        with bench.somebody() as disk:
            disk.overwrite(bench.first, FOREIGN)
            if edits == 2:
                disk.save(bench.first, OTHER)
                bench.edited.add(OTHER)
        with bench.disk.at_work():
            bench.ground.recover()
        if edits == 1:
            bench.since = bench.disk.dropped(b"entry.json")
        bench.cut(bench.edits_are_there)


@pytest.mark.rule("S28", "S33")
@pytest.mark.parametrize("disk", DISKS)
def test_a_power_cut_in_a_recovery_loses_nothing(disk: str) -> None:
    for step in range(4, 60, 5):
        with new_bench() as bench, on(disk):
            bench.torn_writes = disk == "another device"
            bench.disk.at = step
            with bench.disk.at_work(), contextlib.suppress(Killed):
                bench.cycle()
            bench.since = len(bench.disk.ops)
            bench.disk.revive()
            with bench.disk.at_work():
                bench.ground.recover()
            bench.cut(bench.all_back, limit=LIMIT // 3)


# ------------------------------------------------------------------- evidence

CHECK = Check(claim="a", name="b", run="true", covers=("src/**",), mutations=("it.patch",))
OUTCOMES = [
    Outcome(CHECK, Result.VERIFIED, None, (), "sha256:" + digit * 64, {PATHS[1]: b"digest"})
    for digit in "123"
]


@pytest.mark.rule("S35", "S36", "S39")
def test_after_a_power_cut_roxy_lock_is_an_old_or_a_new_one_and_no_torn_receipt_counts(
    bench: Bench,
) -> None:
    written = []
    tree = Tree(bench.ground.root)
    with bench.disk.at_work(), contextlib.closing(tree):
        keep = ReceiptKeeper(bench.ground.state, lambda _check: [b""], None, False, "1")
        record = recorder.Recorder(tree, bench.ground.state, lockfile.Lockfile())
        for outcome in OUTCOMES:
            keep(RunStarted(CHECK, Phase.CLEAN, 1, 3))
            keep(CheckFinished(outcome))
            record(CheckFinished(outcome))
            written.append(len(bench.disk.ops))

    def evidence_is_whole(ground: Ground) -> None:
        reader = Tree(ground.root)
        with contextlib.closing(reader):
            found = lockfile.read(reader.fd).fingerprint(CHECK)
        assert found in allowed
        for outcome in OUTCOMES:
            basis = Archive(ground.state).evidence(CHECK, str(outcome.fingerprint))
            assert basis is None or basis.files == {PATHS[1]: b"digest".hex()}
            seen.add(basis is None)
        past_seconds(ground.state, [CHECK])

    seen: set[bool] = set()
    fingerprints = [None, *(outcome.fingerprint for outcome in OUTCOMES)]
    for number, (since, until) in enumerate(itertools.pairwise([0, *written])):
        allowed = set(fingerprints[number : number + 2])
        bench.cut(evidence_is_whole, range(since, until))
    allowed = {OUTCOMES[-1].fingerprint}
    bench.cut(evidence_is_whole, range(written[-1], written[-1] + 1))
    assert seen == {True, False}
