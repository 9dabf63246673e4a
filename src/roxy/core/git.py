"""Questions to git, asked so that nobody's settings change the answer (S4-S7).

Every call runs in a scrubbed environment, passes what it needs explicitly, and reads bytes: names
are what the kernel says, prose is never parsed.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
import subprocess
import threading
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, Self

from roxy.core import files
from roxy.core.errors import Fault, GitError, PlatformError, UsageError
from roxy.core.interrupts import held
from roxy.core.model import MANIFEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_CARRIED = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})
_SETTINGS = (
    "--no-pager",
    "--literal-pathspecs",
    "-c",
    "core.quotePath=false",
    "-c",
    "core.fsmonitor=false",  # may name a command
    "-c",
    "core.attributesFile=" + os.devnull,
    "-c",
    "submodule.recurse=false",
)
_STEERING = (  # lets a shell or a CI step be steered from outside (S6)
    r"(?s)BASH_FUNC_.*|BASH_ENV|ENV|SHELLOPTS|BASHOPTS|PS4|CDPATH"
    r"|GITHUB_ENV|GITHUB_PATH|GITHUB_OUTPUT|GITHUB_STEP_SUMMARY|ACTIONS_.*TOKEN.*"
)
_WHERE = re.compile(
    rb"(?:true|false)\n(?:true|false)\n(.*)\n(?:true|false)\n(.*)\n(?:true|false)\n(.*)\n",
    re.DOTALL,
)
_LEFT_OUT = rb"(?m)could not open directory .*: (?!No such file or directory$|Not a directory$)"
"""What git prints when it lists nothing of a folder that is there; it ends with 0 all the same."""
_PATIENCE = 300
"""Seconds that one question to git may take; one about a million files takes a few."""
_OF_HEAD = ("ls-tree", "-z", "--full-tree", "HEAD", "--")
_ARGUMENTS_AT_ONCE = 60_000
"""Bytes of path arguments for one call, well below every system's limit."""


class Answer(NamedTuple):
    """What one git call ended with."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def complaint(self) -> str:
        """What git printed on standard error, as one line."""
        text = self.stderr.decode("utf-8", "surrogateescape")
        return "; ".join(line.strip() for line in text.splitlines() if line.strip())


def git_environment(
    environ: Mapping[str, str], settings: Sequence[tuple[str, str]] = ()
) -> dict[str, str]:
    """Return the environment for roxy's own git calls (S6).

    Of the caller's `GIT_*` names only those stay that can carry `safe.directory`. `settings` are
    keys and values that win over every configuration file; unlike after `-c`, a key may hold `=`.
    """
    clean = {
        name: value
        for name, value in environ.items()
        if not name.startswith("GIT_") or name in _CARRIED
    }
    pairs = [*(("safe.directory", value) for value in _safe_directories(environ)), *settings]
    if pairs:
        clean["GIT_CONFIG_COUNT"] = str(len(pairs))
        for index, (key, value) in enumerate(pairs):
            clean[f"GIT_CONFIG_KEY_{index}"] = key
            clean[f"GIT_CONFIG_VALUE_{index}"] = value
    clean |= {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        # A partial clone would otherwise fetch what it lacks (S20). The first name is for git
        # from 2.44 on, the second forbids every transport to the older ones.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }
    return clean


def _safe_directories(environ: Mapping[str, str]) -> list[str]:
    count = environ.get("GIT_CONFIG_COUNT", "")
    if not count.isascii() or not count.isdigit():
        return []
    return [
        environ.get(f"GIT_CONFIG_VALUE_{index}", "")
        for index in range(min(int(count), 1000))
        if environ.get(f"GIT_CONFIG_KEY_{index}", "").lower() == "safe.directory"
    ]


def call(
    arguments: Sequence[str | bytes],
    *,
    cwd: Path | str | bytes,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    stdout: IO[bytes] | int | None = None,
) -> Answer:
    """Run `git` with exactly `arguments` and wait for it; a non-zero end is an answer too.

    With `stdout`, git writes there and the answer's `stdout` is empty. Raises `PlatformError` when
    there is no git to run (S2).
    """
    with Question(arguments, cwd=cwd, env=env, stdin=stdin, stdout=stdout) as question:
        return question.answer()


class Question:
    """A call of git, under way from the start of the `with` block that it is asked in to its end."""

    def __init__(
        self,
        arguments: Sequence[str | bytes],
        *,
        cwd: Path | str | bytes,
        env: Mapping[str, str],
        stdin: bytes | None = None,
        stdout: IO[bytes] | int | None = None,
    ) -> None:
        self._arguments = arguments
        self._cwd = cwd
        self._env = env
        self._stdin = stdin
        self._stdout = stdout
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        """Begin. Raises `PlatformError` when there is no git to run (S2)."""
        try:
            with held():
                self._process = self._started()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _started(self) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ["git", *self._arguments],
                cwd=self._cwd,
                env=self._env,
                stdin=subprocess.DEVNULL if self._stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE if self._stdout is None else self._stdout,
                stderr=subprocess.PIPE,
                process_group=0,  # Ctrl-C is roxy's to handle
            )
        except (FileNotFoundError, PermissionError) as error:
            if _is_on_path("git", self._env):
                raise
            raise PlatformError(
                "`git` is not on PATH", hint="install git 2.31 or newer, or mend PATH"
            ) from error

    def answer(self) -> Answer:
        """Wait for git. Raises `GitError` when it takes longer than anybody would wait."""
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._process.kill()

        patience = threading.Timer(_PATIENCE, give_up)  # `communicate` would wait in steps
        patience.daemon = True  # a signal while it starts must not make roxy wait for it
        try:
            _start(patience)
            stdout, stderr = self._process.communicate(self._stdin)
        finally:
            patience.cancel()
        if late.is_set():
            raise GitError(
                f"`git {_words(self._arguments)}` did not end within {_PATIENCE} seconds",
                where=os.fsdecode(self._cwd),
                hint="see what it waits for: a FIFO named `.gitignore` or `.gitattributes`, say",
            )
        return Answer(self._process.returncode, stdout or b"", stderr)

    def __exit__(self, *exception: object) -> None:
        if not hasattr(self, "_process"):  # it never began
            return
        if self._process.returncode is None:
            self._process.kill()
        with self._process:  # closes its pipes and waits for it
            pass


def _start(patience: threading.Timer) -> None:
    """Start a timer. Raises `OSError` where the system has no thread to give."""
    try:
        patience.start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN)) from error


def _is_on_path(name: str, environ: Mapping[str, str]) -> bool:
    places = environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(f"{place or os.curdir}/{name}", os.X_OK) for place in places)


def _words(arguments: Sequence[str | bytes]) -> str:
    """Return the name of the git command that some arguments are for, options left out."""
    skipped = ("-", "core.", "submodule.")
    words = [os.fsdecode(one) for one in arguments]
    return next((word for word in words if not word.startswith(skipped)), "")


class Repository:
    """The working tree that roxy works in, and git's view of it."""

    def __init__(self, root: Path, git_dir: Path, state: Path, environ: Mapping[str, str]) -> None:
        self.root = root
        """Top of the working tree, absolute and resolved."""
        self.git_dir = git_dir
        self.state = state
        """`roxy/` in the git directory of this working tree: all that roxy keeps (S5)."""
        self.environ = environ
        """The caller's environment, unscrubbed."""

    def ask(
        self,
        *arguments: str | bytes,
        stdin: bytes | None = None,
        stdout: IO[bytes] | None = None,
        settings: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """Ask git something at the top of the working tree; see `git_environment` on `settings`."""
        asked = self.question(*arguments, stdin=stdin, stdout=stdout, settings=settings)
        with asked as question:
            return question.answer()

    def question(
        self,
        *arguments: str | bytes,
        stdin: bytes | None = None,
        stdout: IO[bytes] | None = None,
        settings: Sequence[tuple[str, str]] = (),
    ) -> Question:
        """Return the same, to be asked in a `with` block; go on while git is at work."""
        env = git_environment(self.environ, settings) if settings else self._env
        return Question(
            [*_SETTINGS, *arguments], cwd=self.root, env=env, stdin=stdin, stdout=stdout
        )

    @cached_property
    def _env(self) -> dict[str, str]:
        return git_environment(self.environ)

    def listing(self, prefixes: Sequence[bytes]) -> Listing:
        """Ask for the files that can count below `prefixes`, before any look at the disk (S12, S16).

        A prefix is a file's whole path, or a folder's with a `/` at its end, or empty for all.
        """
        return Listing(
            self, prefixes, "--cached", "--others", "--exclude-standard", "--deduplicate"
        )

    def files(self, prefixes: Sequence[bytes]) -> list[bytes]:
        """Return them. Tracked files may be absent from the disk. Raises `GitError`."""
        with self.listing(prefixes) as listing:
            return listing.paths()

    def untracked(self, prefixes: Sequence[bytes]) -> Listing:
        """Ask for those of them that are not in the index."""
        return Listing(self, prefixes, "--others", "--exclude-standard")

    def ignored_files(self, prefixes: Sequence[bytes]) -> list[bytes]:
        """Return the untracked files below `prefixes` that git ignores (S14)."""
        options = ("--others", "--ignored", "--exclude-standard")
        with Listing(self, prefixes, *options) as listing:
            return listing.paths()

    @cached_property
    def ignores_case(self) -> str:
        """Whether the disk takes one name for another in other case, as git spells yes and no.

        Git's own note of it may come from another disk, and then a new file beside one of nearly
        the same name would not be listed (S7).
        """
        other_name = os.fsdecode(MANIFEST).swapcase()
        is_found = os.path.lexists(self.root / other_name)
        return "true" if is_found and other_name not in os.listdir(self.root) else "false"

    def head_blobs(self, paths: Iterable[bytes]) -> dict[bytes, str] | None:
        """Return the object id in HEAD of each of `paths` that HEAD has; None without a commit."""
        with HeadBlobs(self, paths) as asked:
            return asked.answer()

    def blob(self, object_id: str, limit: int) -> bytes | None:
        """Return a blob's bytes, None when git lacks it or it has more than `limit`.

        Never fetches (S20).
        """
        size = self.ask("cat-file", "-s", object_id)
        if size.code or int(size.stdout) > limit:
            return None
        answer = self.ask("cat-file", "blob", object_id)
        return None if answer.code else answer.stdout

    def copy_blob(self, object_id: str, into: IO[bytes]) -> bool:
        """Write a blob's bytes to `into` and say whether git has it. Never fetches (S20)."""
        return self.ask("cat-file", "blob", object_id, stdout=into).code == 0

    def conversion_settings(self) -> dict[str, str]:
        """Return the effective `core.autocrlf`, `core.eol` and `attr.tree`, where set (S7, S21)."""
        answer = self.ask("config", "-z", "--get-regexp", r"^(core\.(autocrlf|eol)|attr\.tree)$")
        pairs = (item.decode("utf-8", "replace") for item in answer.stdout.split(b"\0") if item)
        parted = (pair.partition("\n") for pair in pairs)
        return {key: value if has_value else "true" for key, has_value, value in parted}

    def attribute(self, name: str, paths: Sequence[bytes]) -> dict[bytes, str]:
        """Return one attribute's value for each of `paths`, `unspecified` where nothing sets it.

        Reads the tree's `.gitattributes` and `info/attributes`, no file of the user's (S7).
        """
        answer = self.ask(
            "check-attr", "-z", "--stdin", name, stdin=b"".join(path + b"\0" for path in paths)
        )
        if answer.code:
            raise GitError(f"git cannot read attributes: {answer.complaint}")
        fields = answer.stdout.split(b"\0")
        return {
            path: value.decode("utf-8", "replace")
            for path, value in zip(fields[0::3], fields[2::3], strict=False)
        }

    def tracked(self, paths: Iterable[bytes]) -> set[bytes]:
        """Return those of `paths` that are in the index. Raises `GitError`."""
        found: set[bytes] = set()
        for some in portions(paths):
            answer = self.ask("ls-files", "-z", "--cached", "--", *some)
            if answer.code:
                raise GitError(f"git cannot list the files here: {answer.complaint}")
            found.update(answer.stdout.split(b"\0")[:-1])
        return found

    def place_of(self, name: str) -> Path:
        """Return where a file of the git directory is, which linked working trees may share."""
        answer = self.ask("rev-parse", "--git-path", name)
        if answer.code:
            raise GitError(f"git cannot say where `{name}` is: {answer.complaint}")
        return self.root / os.fsdecode(answer.stdout.removesuffix(b"\n"))

    def commit(self) -> str | None:
        """Return the id of HEAD, or None when there is no commit yet."""
        answer = self.ask("rev-parse", "--quiet", "--verify", "HEAD^{commit}")
        return None if answer.code else answer.stdout.decode("ascii").strip()

    def is_dirty(self) -> bool:
        """Say whether a tracked file differs from HEAD, as far as `git status` sees it.

        No filter command is run for it. A file counts as different when only one could tell.
        """
        answer = self.ask(
            "status",
            "--porcelain",
            "-z",
            "--untracked-files=no",
            "--ignore-submodules=all",
            settings=self.filters_off(),
        )
        return bool(answer.code or answer.stdout)

    def filters_off(self) -> list[tuple[str, str]]:
        """Return settings with which no filter driver has a command."""
        answer = self.ask("config", "-z", "--name-only", "--get-regexp", r"^filter\..*\.")
        keys = (os.fsdecode(key) for key in answer.stdout.split(b"\0") if key)
        drivers = dict.fromkeys(key.rpartition(".")[0] for key in keys)
        off = {"clean": "", "process": "", "required": "false"}
        return [(f"{driver}.{key}", value) for driver in drivers for key, value in off.items()]

    def check_environment(self) -> dict[str, str]:
        """Return the environment that every run of a check gets (S6, S23)."""
        answer = self.ask("rev-parse", "--local-env-vars")
        if answer.code:
            raise GitError(f"git cannot name its own variables: {answer.complaint}")
        local = set(answer.stdout.decode("ascii", "replace").split())
        return {
            name: value
            for name, value in self.environ.items()
            if name not in local and not re.fullmatch(_STEERING, name)
        }


class Listing:
    """The names of files, asked of git: it is at work from the start of the `with` block on."""

    def __init__(self, repository: Repository, prefixes: Sequence[bytes], *options: str) -> None:
        self._repository = repository
        self._options = options
        self._portions = list(portions(prefixes))
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self._first = self._ask(self._portions[0]) if self._portions else None
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def paths(self) -> list[bytes]:
        """Return them, sorted, each once. Raises `GitError`."""
        if self._first is None:
            return []
        found = self._names(*self._first)
        for portion in self._portions[1:]:
            found += self._names(*self._ask(portion))
        return sorted(found if len(self._portions) == 1 else set(found))

    def _ask(self, portion: Sequence[bytes]) -> tuple[Question, IO[bytes]]:
        # A pipe would hold git up until somebody reads.
        file = self._stack.enter_context(files.unnamed(self._repository.state))
        paths = [] if b"" in portion else [b"--", *portion]
        question = self._repository.question(
            "ls-files",
            "-z",
            *self._options,
            *paths,
            stdout=file,
            settings=[("core.ignoreCase", self._repository.ignores_case)],
        )
        self._stack.push(question)  # a signal may come as soon as git is under way
        return question.__enter__(), file

    def _names(self, question: Question, file: IO[bytes]) -> list[bytes]:
        answer = question.answer()
        if answer.code:
            raise GitError(f"git cannot list the files here: {answer.complaint}")
        if answer.stderr and re.search(_LEFT_OUT, answer.stderr):
            raise GitError(
                f"git does not see every file here: {answer.complaint}",
                hint="make that folder readable, or have git ignore it",
            )
        file.seek(0)
        names = file.read()
        found = names.split(b"\0")[:-1]
        return [path for path in found if path[-1:] != b"/"] if b"/\0" in names else found


class HeadBlobs:
    """The objects in HEAD of some paths, asked of git in the same way."""

    def __init__(self, repository: Repository, paths: Iterable[bytes]) -> None:
        first, *rest = list(portions(paths)) or [[]]
        self._repository = repository
        self._first = repository.question(*_OF_HEAD, *first)
        self._rest = rest

    def __enter__(self) -> Self:
        try:
            self._first.__enter__()
        except BaseException:
            self._first.__exit__()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._first.__exit__()

    def answer(self) -> dict[bytes, str] | None:
        """Return what `Repository.head_blobs` does."""
        blobs: dict[bytes, str] = {}
        more = (self._repository.ask(*_OF_HEAD, *some) for some in self._rest)
        for answer in itertools.chain([self._first.answer()], more):
            if answer.code:
                return None
            for line in answer.stdout.split(b"\0")[:-1]:
                facts, _, path = line.partition(b"\t")
                blobs[path] = facts.split()[2].decode("ascii")
        return blobs


def portions(paths: Iterable[bytes]) -> Iterable[list[bytes]]:
    """Part paths into lists that one call of git can take."""
    portion: list[bytes] = []
    size = 0
    for path in paths:
        if portion and size + len(path) > _ARGUMENTS_AT_ONCE:
            yield portion
            portion, size = [], 0
        portion.append(path)
        size += len(path) + 1
    if portion:
        yield portion


def find_repository(
    start: Path, environ: Mapping[str, str], *, needs_manifest: bool = True
) -> Repository:
    """Return the working tree that `start` is in, with roxy.toml at its top (S2-S5, S7).

    Without `needs_manifest`, roxy.toml may be missing. Raises `UsageError`, `PlatformError` or
    `GitError`; what git itself says is quoted.
    """
    if not (os.path.isdir(start) and os.access(start, os.X_OK)):
        raise UsageError(
            f"`{start}` is not a folder that can be entered", hint="go to one that can be"
        )
    if not _is_on_path("sh", environ):
        raise PlatformError("`sh` is not on PATH", hint="mend PATH; checks run through `sh -c`")
    answer = call(
        [
            *_SETTINGS,
            "rev-parse",
            "--is-bare-repository",
            "--is-inside-git-dir",
            # Answers of true and false between the paths: a path may hold a newline.
            "--show-toplevel",
            "--is-inside-work-tree",
            "--absolute-git-dir",
            "--is-inside-work-tree",
            "--git-path",
            "roxy",
        ],
        cwd=start,
        env=git_environment(environ),
    )
    match = _WHERE.fullmatch(answer.stdout)
    if answer.code or match is None:
        raise GitError.of([_no_working_tree(start, answer)])
    root, git_dir, state = (Path(os.fsdecode(group)) for group in match.groups())
    root = root.resolve()
    _reject_foreign_worktree(start, root, git_dir)
    repository = Repository(root, git_dir, (start / state).resolve(), dict(environ))
    if needs_manifest and not os.path.lexists(root / os.fsdecode(MANIFEST)):
        raise GitError(
            "there is no `roxy.toml`",
            where=f"{root}",
            hint="`roxy init` writes one to start from",
        )
    return repository


def _no_working_tree(start: Path, answer: Answer) -> Fault:
    is_bare, _, rest = answer.stdout.partition(b"\n")
    if is_bare == b"true":
        return Fault(
            "this is a bare repository, it has no files to check",
            where=f"{start}",
            hint="go to a working tree of it, or name one with -C",
        )
    if rest.startswith(b"true"):
        return Fault(
            "this is the inside of a git directory",
            where=f"{start}",
            hint="go to the working tree, or name it with -C",
        )
    complaint, *advice = answer.complaint.split("; ")
    hint = "go to a git working tree that has a `roxy.toml`, or name one with -C"
    if advice and advice[-1].startswith("git "):  # it trusts no files of somebody else's
        hint = f"`{advice[-1]}`, if you trust whoever owns it"
    what = f"git finds no working tree here: {complaint or 'it gave no reason'}"
    return Fault(what, where=f"{start}", hint=hint)


def _reject_foreign_worktree(start: Path, root: Path, git_dir: Path) -> None:
    """Refuse a `core.worktree` that leads away from the folder that holds `.git` (S7)."""
    if start.resolve().is_relative_to(root) and _is_git_dir_of(root, git_dir):
        return
    raise GitError(
        f"git says that the working tree of this repository is `{root}`",
        where=f"{start}",
        hint="unset `core.worktree` in its git configuration, or go to that working tree",
    )


def _is_git_dir_of(root: Path, git_dir: Path) -> bool:
    marker = root / ".git"
    try:
        if marker.is_dir():
            return marker.samefile(git_dir)
        content = marker.read_bytes()
    except OSError:
        return False
    if not content.startswith(b"gitdir: "):
        return False
    named = os.fsdecode(content.removeprefix(b"gitdir: ").rstrip(b"\r\n"))
    try:
        return (root / named).samefile(git_dir)
    except OSError:
        return False
