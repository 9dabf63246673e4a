"""1,000 checks that share 10,000 files, beside one check of them all."""

from ground import ROXY, Check, everything, medians, names, ratio_row, repository, rounds, seconds

FILES = names(10_000)


def overlapping(count: int) -> list[Check]:
    """Return checks of one or two of the hundred folders each."""
    folders = [FILES[i : i + 100] for i in range(0, len(FILES), 100)]
    checks = []
    for i in range(count):
        chosen = sorted({i % 100, i * 7 % 100})
        covered = [path for number in chosen for path in folders[number]]
        checks.append(Check([f"src/{number:03}/**" for number in chosen], covered))
    return checks


if __name__ == "__main__":
    with (
        repository(FILES, overlapping(1_000)) as many,
        repository(FILES, [everything(len(FILES))]) as one,
    ):
        gate, least = medians(
            rounds(15), seconds([ROXY, "gate"], many), seconds([ROXY, "gate"], one)
        )
    ratio_row("`roxy gate`, 1,000 checks over 10,000 files", "1 check over them", gate, least, 2)
