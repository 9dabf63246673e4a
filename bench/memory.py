"""The most memory that roxy itself ever holds, whatever it is given."""

import subprocess
import sys
from pathlib import Path

from ground import CONTENT, ENV, Check, everything, names, repository, row

GIGABYTE = 1_000_000_000
BESIDE = """
import resource, sys
from roxy.cli.main import answer
try:
    answer()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
"""
"""Roxy, telling what it held. `os.wait4` from outside counts git and the checks in as well."""
FROM_A_SMALL_PARENT = ["sh", "-c", '"$@"; exit $?', "sh"]
"""Linux counts what the parent held when a program is started, and this script may hold more."""
UNIT = 1 if sys.platform == "darwin" else 1024


def peak(root: Path, *arguments: str) -> float:
    """Return megabytes."""
    argv = [*FROM_A_SMALL_PARENT, sys.executable, "-c", BESIDE, *arguments]
    done = subprocess.run(argv, cwd=root, env=ENV, capture_output=True, check=True)
    return int(done.stderr.split()[-1]) * UNIT / 1e6


def tell(work: str, megabytes: float, below: float) -> None:
    aim = f"under {below:g} MB"
    row(work, "", f"{megabytes:.0f} MB", "", "", aim, ok=megabytes < below)


with repository(names(100_000), [everything(100_000)]) as root:
    cold = peak(root, "gate")
    tell("memory: `roxy gate`, 100,000 files", max(cold, peak(root, "gate")), 150)

with repository(names(1), [Check(names(1), names(1), f"yes | head -c {2 * GIGABYTE}; ")]) as root:
    tell("memory: `roxy verify`, a check that prints 2 GB", peak(root, "verify", "--all"), 60)

with repository(names(1), [everything(1)]) as root:
    with (root / names(1)[0]).open("ab") as file:
        for _ in range(GIGABYTE // len(CONTENT)):
            file.write(CONTENT.replace(b"hello", b"-----"))
    tell("memory: `roxy verify`, a mutation of a 1 GB file", peak(root, "verify", "--all"), 60)
