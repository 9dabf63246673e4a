"""100,000 files of which none changed, beside tools that answer much the same question."""

from ground import BIN, ROXY, everything, medians, names, ratio_row, repository, rounds, seconds

WORK = "`roxy gate`, 100,000 covered files, unchanged"
MORE = {
    "Taskfile.yml": b'version: "3"\ntasks:\n  check:\n    sources: ["src/**/*"]\n    cmds: ["true"]\n',
    ".gitignore": b"/.task/\n",
}

with repository(names(100_000), [everything(100_000)], MORE) as root:
    gate, git, task = medians(
        rounds(15),
        seconds([ROXY, "gate"], root),
        seconds(["git", "status"], root),
        seconds([str(BIN / "task"), "--silent", "check"], root),
    )
ratio_row(WORK, "`git status`", gate, git, 3)
ratio_row(WORK, "go-task's checksum", gate, task, 0.5)
