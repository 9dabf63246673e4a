"""Time that moves only forward, where many checks break the same few files in turn."""

from ground import loop, medians, names, one_each, ratio_row, repository, rounds, verify

CHECKS = one_each(25, names(5), before="sleep 0.05; ")
COMMANDS = [check.run for check in CHECKS for _ in range(3)]

with repository(names(5), CHECKS) as root:
    tried, commands = medians(rounds(7), lambda: verify(root).seconds, lambda: loop(COMMANDS, root))
ratio_row(
    "25 checks of 50 ms spread over 5 files, all waits included",
    "the same 75 commands in a loop",
    tried,
    commands,
    1.5,
)
