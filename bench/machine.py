"""The machine that the table is about, and the head of the table."""

import os
import platform
import subprocess
from pathlib import Path

from ground import HEAD


def cpu() -> str:
    """Return the model as Linux or macOS tells it."""
    about = Path("/proc/cpuinfo")
    if about.exists():
        models = [line for line in about.read_text().splitlines() if line.startswith("model name")]
        return models[0].partition(":")[2].strip() if models else platform.machine()
    return said("sysctl", "-n", "machdep.cpu.brand_string")


def said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


print(
    f"{os.cpu_count()} cores, {cpu()}; {platform.system()} {platform.release()};"
    f" {said('git', '--version')}; Python {platform.python_version()}; load {os.getloadavg()[0]:.1f}\n"
)
print(HEAD, flush=True)
