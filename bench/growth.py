"""How cost grows: `docs/growth.svg`, and whether it is linear or better.

Both axes of the plot are logarithmic, so what is linear rises as the dashed line does.
"""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

from gate_checks import overlapping

from ground import (
    ROXY,
    everything,
    medians,
    ms,
    names,
    one_each,
    repository,
    rounds,
    row,
    run,
    verify,
)

ROUNDS = rounds(7)
FILES = (1_000, 10_000, 100_000)
CHECKS = (1, 10, 100, 1_000)
SLACK = 1.2
"""How much more a further file or check may cost in one step of ten than in the step before."""

Curve = dict[int, float]


def over_files() -> dict[str, Curve]:
    """Measure `gate` where nothing changed, and where everything must be read."""
    warm, cold = {}, {}
    for count in FILES:
        with repository(names(count), [everything(count)]) as root:

            def unread(root: Path = root) -> float:
                (root / ".git/roxy/digests").unlink(missing_ok=True)
                return run([ROXY, "gate"], root).seconds

            def unchanged(root: Path = root) -> float:
                return run([ROXY, "gate"], root).seconds

            cold[count], warm[count] = medians(ROUNDS, unread, unchanged)
    return {"gate, nothing known": cold, "gate, unchanged": warm}


def over_checks() -> dict[str, Curve]:
    """Measure `gate` with checks that share 10,000 files, and `verify` with a file for each."""
    gate, tried = {}, {}
    for count in CHECKS:
        with repository(names(10_000), overlapping(count)) as root:
            gate[count] = medians(ROUNDS, lambda: run([ROXY, "gate"], root).seconds)[0]
        with repository(names(count), one_each(count, names(count), "")) as root:
            took = verify(root)
            tried[count] = took.seconds - took.last_wait
    return {"verify, without the last wait": tried, "gate, 10,000 files": gate}


# ------------------------------------------------------------------- the plot

WIDE, HIGH = 360, 300
LEFT, TOP, FOOT = 60, 40, 50
COLORS = ("#b3400f", "#1f5fa8")
SECONDS = (0.01, 1_000)


def panel(title: str, unit: str, curves: dict[str, Curve], shift: int) -> str:
    """Draw some curves on axes of their own."""
    xs = sorted(next(iter(curves.values())))
    parts = [f'<g transform="translate({shift + LEFT},{TOP})">', text(0, -16, title)]

    def x(value: float) -> float:
        return WIDE * math.log(value / xs[0]) / math.log(xs[-1] / xs[0])

    def y(value: float) -> float:
        return HIGH - HIGH * math.log(value / SECONDS[0]) / math.log(SECONDS[1] / SECONDS[0])

    for power in range(-2, 4):
        at = y(10.0**power)
        parts.append(line([(0, at), (WIDE, at)], "#ddd"))
        parts.append(text(-6, at + 4, f"{10.0**power:g} s", "end"))
    parts += [text(x(value), HIGH + 18, f"{value:,}", "middle") for value in xs]
    parts.append(text(WIDE / 2, HIGH + 38, unit, "middle"))
    for (name, curve), color in zip(curves.items(), COLORS, strict=True):
        start = curve[xs[0]]
        ends = [(x(xs[0]), y(start)), (x(xs[-1]), y(start * xs[-1] / xs[0]))]
        parts.append(line(ends, color, dashed=True))
        parts.append(line([(x(count), y(took)) for count, took in curve.items()], color))
        last = curve[xs[-1]]
        parts.append(text(WIDE, y(last) + 16, name, "end", color))
    return "\n".join((*parts, "</g>"))


def text(x: float, y: float, words: str, anchor: str = "start", color: str = "#333") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{words}</text>'


def line(points: list[tuple[float, float]], color: str, *, dashed: bool = False) -> str:
    way = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    style = ' stroke-dasharray="3 4"' if dashed else ' stroke-width="2"'
    return f'<polyline points="{way}" fill="none" stroke="{color}"{style}/>'


def plot(files: dict[str, Curve], checks: dict[str, Curve]) -> str:
    one = LEFT + WIDE + 30
    size = f'viewBox="0 0 {2 * one} {TOP + HIGH + FOOT}" font-family="sans-serif" font-size="12"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
            '<rect width="100%" height="100%" fill="#fff"/>',
            panel("One check; dashed: linear", "covered files", files, 0),
            panel("Many checks; dashed: linear", "checks", checks, one),
            "</svg>\n",
        )
    )


def steepest(curve: Curve) -> float:
    """Return the most that a further file or check cost, over what one cost in the step before.

    What is there from the start, such as Python itself, is so left out of it.
    """
    each = [
        (after - before) / (more - few) for (few, before), (more, after) in pairwise(curve.items())
    ]
    return max(after / before for before, after in pairwise(each))


files, checks = over_files(), over_checks()
Path(__file__).parent.parent.joinpath("docs/growth.svg").write_text(plot(files, checks))
for name, curve in (files | checks).items():
    ratio = steepest(curve)
    row(
        f"growth: {name}",
        f"{', '.join(f'{count:,}' for count in curve)} {'files' if name in files else 'checks'}",
        ", ".join(ms(took) for took in curve.values()),
        "",
        f"{ratio:.2f}",
        f"a further one costs at most {SLACK:g} times what it did before",
        ok=ratio <= SLACK,
    )
