"""What `roxy gate` costs at least: ten files, beside a Python that does nothing."""

import sys

from ground import ROXY, everything, medians, names, ratio_row, repository, rounds, seconds

with repository(names(10), [everything(10)]) as root:
    gate, python = medians(
        rounds(40), seconds([ROXY, "gate"], root), seconds([sys.executable, "-c", "pass"], root)
    )
ratio_row("`roxy gate`, 10 covered files", "`python -c pass`", gate, python, 7)
