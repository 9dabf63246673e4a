"""Seals every test from the machine it runs on."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import warm
from project import Project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOURCE = Path(__file__).resolve().parent.parent / "src"
# How long an example takes says how busy the machine is, and nothing about roxy.
settings.register_profile(
    "roxy", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("roxy")

_PR_SET_CHILD_SUBREAPER = 36
_KEPT = ("PATH", "TMPDIR", "SYSTEMROOT")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rule", help="run only the tests that hold this rule, such as S28")


def pytest_xdist_auto_num_workers() -> int:
    """Tests wait for processes and for the clock (S30) more than they compute."""
    return 4 * (os.cpu_count() or 1)


def pytest_unconfigure() -> None:
    warm.end()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rule = config.getoption("--rule")
    if rule is not None:
        chosen = [item for item in items if rule in rules_of(item)]
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = chosen
    items[:] = spread(items)


def spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Put slow tests apart and early: no worker gets many of them, and none is left for the end."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    others = [item for item in items if not item.get_closest_marker("slow")]
    step = len(others) // (2 * len(slow)) + 1 if slow else len(others) + 1
    ordered: list[pytest.Item] = []
    for number, item in enumerate(others):
        if slow and number % step == 0:
            ordered.append(slow.pop(0))
        ordered.append(item)
    return ordered + slow


def rules_of(item: pytest.Item) -> set[str]:
    """Return the rules that a test says it holds."""
    return {name for mark in item.iter_markers("rule") for name in mark.args}


@pytest.fixture(autouse=True)
def sealed(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Give the test an environment of its own, and its home."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name not in _KEPT and not name.startswith("PYTEST"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    # The environment in which roxy runs from source has the interpreter of the tests first.
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Tester\n\temail = tester@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    yield home
    if sys.platform == "linux":
        # A verify in this very process took on all orphans; those of the next test are not for it.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a fresh repository without a commit, without roxy.toml."""
    return Project.make(tmp_path / "project")


@pytest.fixture
def verified(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a committed project whose one check, `greeting/text`, is verified.

    It is a copy of one that each worker makes, for a verify has to wait for the clock (S30).
    """
    template = Project(tmp_path_factory.getbasetemp() / "verified")
    if not template.root.exists():
        made = Project.make(tmp_path_factory.mktemp("template") / "project")
        made.greet()
        made.commit()
        assert made.roxy("verify").code == 0
        made.commit()
        made.root.rename(template.root)
    shutil.copytree(template.root, project.root, symlinks=True, dirs_exist_ok=True)
    project.git("update-index", "--refresh")  # git knows files by their inodes, too
    return project


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[[str], Project]:
    """Return a maker of further repositories beside each other."""
    return lambda name: Project.make(tmp_path / name)
