"""100,000 files that roxy has to read, since nothing is left of what it read before."""

from pathlib import Path
from tempfile import NamedTemporaryFile

from ground import ROXY, everything, medians, names, ratio_row, repository, rounds, run, seconds

FILES = names(100_000)

with repository(FILES, [everything(len(FILES))]) as root, NamedTemporaryFile() as paths:
    paths.write("\0".join(FILES).encode())
    paths.flush()

    def cold() -> float:
        (root / ".git/roxy/digests").unlink(missing_ok=True)
        return run([ROXY, "gate"], root).seconds

    sha256sum = seconds(["xargs", "-0", "sha256sum"], root, stdin=Path(paths.name))
    gate, reading = medians(rounds(5), cold, sha256sum)
ratio_row("the same, without its digests", "`xargs -0 sha256sum`", gate, reading, 1.2)
