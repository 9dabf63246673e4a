"""What a large repository costs those who cover little of it."""

from ground import ROXY, Check, everything, medians, names, ratio_row, repository, rounds, seconds

COVERED = Check([f"src/{number:03}/**" for number in range(10)], names(1_000))

with (
    repository(names(100_000), [COVERED]) as large,
    repository(names(10), [everything(10)]) as small,
):
    gate, least = medians(
        rounds(30), seconds([ROXY, "gate"], large), seconds([ROXY, "gate"], small)
    )
ratio_row("`roxy gate`, 1,000 covered of 100,000 files", "`roxy gate`, 10 files", gate, least, 1.5)
