"""One of 100,000 files edited: it is read, the answer tells its name, the digests are written."""

import time

from ground import (
    AGE,
    CONTENT,
    ROXY,
    everything,
    medians,
    names,
    ratio_row,
    repository,
    rounds,
    run,
    verify,
)

FILES = names(100_000)

with repository(FILES, [everything(len(FILES))]) as root:
    verify(root)  # leaves the receipt that names can be taken from

    def write(content: bytes) -> None:
        (root / FILES[50_000]).write_bytes(content)
        time.sleep(AGE)  # or the file is too young for its digest to be kept

    def edited() -> float:
        write(CONTENT.replace(b"hello", b"hallo"))
        return run([ROXY, "gate"], root, code=1).seconds

    def unchanged() -> float:
        write(CONTENT)
        run([ROXY, "gate"], root)
        return run([ROXY, "gate"], root).seconds

    after, before = medians(rounds(7), edited, unchanged)
ratio_row(
    "one of 100,000 files edited, then `roxy gate`", "`roxy gate`, unchanged", after, before, 1.1
)
