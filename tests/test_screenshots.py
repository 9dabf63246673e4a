"""The pictures in docs/ show what roxy really prints."""

from __future__ import annotations

import html
import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"


def words(svg: str) -> str:
    """Return what a picture says, whichever rich drew it."""
    return " ".join(html.unescape(" ".join(re.findall(r">([^<]*)</text>", svg))).split())


@pytest.mark.slow
@pytest.mark.rule("S45", "S46")
def test_every_picture_says_what_roxy_prints_now(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("screenshots", DOCS / "screenshots.py")
    assert spec is not None
    assert spec.loader is not None
    screenshots = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(screenshots)
    drawn = {path.name: words(path.read_text()) for path in screenshots.draw(tmp_path)}
    kept = {path.name: words(path.read_text()) for path in (DOCS / "screenshots").iterdir()}
    assert drawn == kept
    assert "was not noticed" in kept["verify-rejected.svg"]
