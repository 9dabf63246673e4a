"""What roxy itself costs for each check that it tries, beside the commands of those checks."""

from statistics import median

from ground import Took, loop, medians, ms, names, one_each, repository, rounds, row, verify

CHECKS = one_each(100, names(100), before="sleep 0.003; ")  # with `sh` and `grep`, 5 ms
COMMANDS = [check.run for check in CHECKS for _ in range(3)]
OWN = 0.025

with repository(names(100), CHECKS) as root:
    tries: list[Took] = []

    def without_last_wait() -> float:
        tries.append(verify(root))
        return tries[-1].seconds - tries[-1].last_wait

    tried, commands = medians(rounds(5), without_last_wait, lambda: loop(COMMANDS, root))
own = (tried - commands) / len(CHECKS)
waited = median(took.last_wait for took in tries)
row(
    "`roxy verify`, 100 checks of 5 ms",
    "the same 300 commands in a loop",
    f"{ms(tried)}, then {ms(waited)} for the clock",
    ms(commands),
    f"{ms(own)} own per check",
    f"at most {ms(OWN)} own per check",
    ok=own <= OWN,
)
