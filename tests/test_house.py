"""The house keeps its own rules: layers, one door per side effect, a test for every rule."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parent.parent
PACKAGE = TOP / "src/roxy"
RULES = [f"S{number}" for number in range(1, 53)]


@cache
def modules() -> dict[str, ast.Module]:
    """Return every module of roxy by its path below the package."""
    return {
        str(path.relative_to(PACKAGE)): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != "__init__.py"
    }


def imports(tree: ast.AST) -> Iterator[str]:
    """Give each module that is imported when the code runs, `if TYPE_CHECKING` left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        yield from imports(node)


def tour() -> list[list[str]]:
    """Return the files of the table in docs/design.md, row by row."""
    text = (TOP / "docs/design.md").read_text()
    rows = re.findall(r"^\| (`[a-z_/]+\.py`.*?) \|", text, re.MULTILINE)
    return [re.findall(r"`([a-z_/]+\.py)`", row) for row in rows]


@cache
def marked_rules() -> set[str]:
    """Return every rule that some test says it holds."""
    found: set[str] = set()
    for path in (TOP / "tests").glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.rule"):
                found |= {ast.literal_eval(argument) for argument in node.args}
    return found


def test_every_rule_has_a_test() -> None:
    assert [rule for rule in RULES if rule not in marked_rules()] == []


def test_no_test_holds_a_rule_that_does_not_exist() -> None:
    assert [rule for rule in marked_rules() if rule not in {f"S{n}" for n in range(1, 53)}] == []


def test_the_tour_names_every_module_once() -> None:
    named = [name for row in tour() for name in row]
    assert sorted(named) == sorted(name for name in modules() if name != "__main__.py")


def test_imports_go_down_the_tour() -> None:
    level = {name: index for index, row in enumerate(tour()) for name in row}
    upward = []
    for name, tree in modules().items():
        for imported in imports(tree):
            target = imported.removeprefix("roxy.").replace(".", "/") + ".py"
            if target in level and name in level and level[target] < level[name]:
                upward.append(f"{name} imports {target}")
    assert upward == []


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("click", ["cli/"]),
        ("rich", ["cli/progress.py"]),
        ("tomli_w", ["core/lockfile.py", "core/recorder.py"]),
    ],
)
def test_each_library_stays_in_its_room(library: str, rooms: list[str]) -> None:
    outside = [
        name
        for name, tree in modules().items()
        if any(one.split(".")[0] == library for one in imports(tree))
        and not any(name.startswith(room) for room in rooms)
    ]
    assert outside == []


def test_nothing_below_cli_prints() -> None:
    printing = [
        name
        for name, tree in modules().items()
        if not name.startswith("cli/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.stdout.write")
    ]
    assert printing == []


def test_no_file_is_too_large_to_be_one_noun() -> None:
    assert [path.name for path in PACKAGE.rglob("*.py") if path.stat().st_size > 24_000] == []
