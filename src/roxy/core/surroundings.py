"""How a project is tested already, as far as its files tell: what `roxy init` proposes.

Nothing is proposed that is not there. All of it is read below the top of the working tree, and
bounded; a file that cannot be read or understood is passed over.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from roxy.core import regular_file, toml_text
from roxy.core.regular_file import MEBIBYTE, UnreadableFileError
from roxy.core.toml_text import TomlError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roxy.core.working_tree import Tree

_FOLDERS = (
    *("src", "lib", "app", "apps", "packages", "crates"),
    *("cmd", "internal", "pkg", "server", "client", "web"),
)
"""Where code lies by custom."""
_NOT_CODE = frozenset({"tests", "test", "docs", "doc", "examples", "scripts", "benchmarks"})
_JAVASCRIPT = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte")
_PYTHON = (".py",)
_ANY = (*_JAVASCRIPT, *_PYTHON, ".rs", ".go", ".c", ".cc", ".cpp", ".java", ".kt", ".rb", ".swift")
_PACKAGE_MANAGERS = (
    ("bun.lock", "bun run test"),  # `bun test` would be another runner
    ("bun.lockb", "bun run test"),
    ("pnpm-lock.yaml", "pnpm test"),
    ("yarn.lock", "yarn test"),
    ("package-lock.json", "npm test"),
    ("npm-shrinkwrap.json", "npm test"),
)
_PYTHONS = (
    ("uv.lock", "uv run python"),
    ("poetry.lock", "poetry run python"),
    ("pdm.lock", "pdm run python"),
)
_NO_TEST = "no test specified"
"""What npm writes into a package.json that has no test."""
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TEST_FILE = re.compile(
    r"(?:^|/)(?:test[^/]*\.py|[^/]*_test\.(?:py|go)|[^/]*\.(?:test|spec)\.[a-z]+)$"
)
_IMPORTS = re.compile(r"^[ \t]*(?:import|from)[ \t]+(pytest|unittest)\b", re.MULTILINE)
_PLAIN = re.compile(r"[A-Za-z0-9_.@+-]+(?:/[A-Za-z0-9_.@+-]+)*")
"""Paths that need no escaping in a glob, in TOML and in a comment."""
_LOOKED_AT = 20
"""Test files that are read to see what runs them."""


class Command(NamedTuple):
    """A command that tests the project."""

    run: str
    why: str
    """Where it was found, in words."""
    covers: tuple[str, ...]
    """Globs of code that it may be about; each matches a file. Can be empty."""


def find_commands(tree: Tree, listed: Sequence[bytes]) -> tuple[Command, ...]:
    """Return the commands that test a project, the likeliest first; `listed` are its files."""
    names = [path.decode("utf-8", "replace") for path in tree.stamps(listed)]
    look = _Look(tree, [name for name in names if _PLAIN.fullmatch(name)])
    found = (*_package_json(look), *_python(look), *_cargo(look), *_go(look), *_make(look))
    return tuple(found)


class _Look:
    """The files of a project: their names, and what the few at hand say."""

    def __init__(self, tree: Tree, names: Sequence[str]) -> None:
        self._tree = tree
        self.names = names
        self._known = frozenset(names)

    def has(self, name: str) -> bool:
        return name in self._known

    def is_there(self, name: str) -> bool:
        """Whether a file is on the disk, listed or not."""
        return self._tree.look(name.encode()) is not None

    def text(self, name: str) -> str:
        """Return what a file says, nothing when it cannot be read."""
        try:
            data = regular_file.read_inside(self._tree.fd, name.encode(), MEBIBYTE)
        except UnreadableFileError:
            return ""
        return data.decode("utf-8", "replace")

    def covers(self, endings: tuple[str, ...]) -> tuple[str, ...]:
        """Return globs of what lies where code does and has one of these endings."""
        code = [name for name in self.names if name.endswith(endings)]
        code = [name for name in code if not _TEST_FILE.search(name)]
        folders = {name.partition("/")[0] for name in code if "/" in name}
        chosen = [folder for folder in _FOLDERS if folder in folders]
        if endings == _PYTHON:
            packages = {name.split("/")[0] for name in code if name.endswith("/__init__.py")}
            top = {one for one in packages if self.has(f"{one}/__init__.py")}
            chosen += sorted(top - _NOT_CODE - set(chosen))
        if chosen:
            return tuple(f"{folder}/**" for folder in chosen)
        top_endings = {name[name.rindex(".") :] for name in code if "/" not in name}
        return tuple(f"*{ending}" for ending in sorted(top_endings))


def _package_json(look: _Look) -> Iterator[Command]:
    if not look.has("package.json"):
        return
    script = _within(_parsed_json(look.text("package.json")), "scripts", "test")
    if not isinstance(script, str) or not script.strip() or _NO_TEST in script:
        return
    run = next((run for lock, run in _PACKAGE_MANAGERS if look.has(lock)), "npm test")
    yield Command(run, "`package.json` has a script `test`", look.covers(_JAVASCRIPT))


def _python(look: _Look) -> Iterator[Command]:
    tests = [name for name in look.names if name.endswith(".py") and _TEST_FILE.search(name)]
    why = _why_pytest(look)
    runner = "pytest -q"
    if why is None:
        found = {match: name for name in tests[:_LOOKED_AT] for match in _imports(look, name)}
        if "pytest" in found:
            why = f"`{found['pytest']}` imports pytest"
        elif "unittest" in found:
            where = found["unittest"].rpartition("/")[0]
            top = " -t ." if look.has(f"{where}/__init__.py") else ""
            runner = f"unittest discover -s {where}{top}" if where else "unittest"
            why = f"`{found['unittest']}` imports unittest"
    if why is None or not tests:
        return
    yield Command(f"{_interpreter(look)} -m {runner}", why, look.covers(_PYTHON))


def _why_pytest(look: _Look) -> str | None:
    """Say which file tells that pytest runs the tests."""
    project = _parsed_toml(look.text("pyproject.toml")) if look.has("pyproject.toml") else {}
    if _within(project, "tool", "pytest") is not None:
        return "`pyproject.toml` has settings of pytest"
    wanted = [
        _within(project, "project", "dependencies"),
        _within(project, "project", "optional-dependencies"),
        _within(project, "dependency-groups"),
        _within(project, "tool", "poetry"),
        _within(project, "tool", "uv", "dev-dependencies"),
    ]
    if any(_asks_for_pytest(one) for one in wanted):
        return "`pyproject.toml` asks for pytest"
    if look.has("pytest.ini"):
        return "there is a `pytest.ini`"
    for name, section in (("setup.cfg", "[tool:pytest]"), ("tox.ini", "[pytest]")):
        if look.has(name) and section in look.text(name):
            return f"`{name}` has settings of pytest"
    return None


def _asks_for_pytest(value: object) -> bool:
    """Say whether anything in some values of TOML is the name of pytest, with a version or not."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            left += one
        elif isinstance(one, str) and re.match(r"pytest\b", one):
            return True
    return False


def _imports(look: _Look, name: str) -> set[str]:
    return set(_IMPORTS.findall(look.text(name)))


def _interpreter(look: _Look) -> str:
    """Return the Python that has the project's packages, as far as can be told."""
    managed = next((run for lock, run in _PYTHONS if look.has(lock)), None)
    own = ".venv/bin/python"
    return managed or (own if look.is_there(own) else "python3")


def _cargo(look: _Look) -> Iterator[Command]:
    if look.has("Cargo.toml"):
        yield Command("cargo test --quiet", "there is a `Cargo.toml`", look.covers((".rs",)))


def _go(look: _Look) -> Iterator[Command]:
    test = next((name for name in look.names if name.endswith("_test.go")), None)
    if look.has("go.mod") and test is not None:
        yield Command(
            "go test ./...", f"`go.mod`, and tests such as `{test}`", look.covers((".go",))
        )


def _make(look: _Look) -> Iterator[Command]:
    # Make takes the first of these that is there.
    name = next((name for name in _MAKEFILES if look.has(name)), None)
    if name is not None and any(map(_is_test_target, look.text(name).splitlines())):
        yield Command("make test", f"`{name}` has a target `test`", look.covers(_ANY))


def _is_test_target(line: str) -> bool:
    """Say whether a line of a makefile begins the rule of a target `test`."""
    targets, colon, rest = line.partition(":")
    is_rule = bool(colon) and not rest.lstrip(":").startswith("=")
    return (
        is_rule
        and not line[:1].isspace()
        and not set("#=") & set(targets)
        and ("test" in targets.split())
    )


def _parsed_json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _parsed_toml(text: str) -> Any:
    try:
        return toml_text.parse(text)
    except TomlError:
        return None


def _within(value: Any, *keys: str) -> Any:
    """Return what nested tables hold at some keys, None where there is no such thing."""
    for key in keys:
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value
