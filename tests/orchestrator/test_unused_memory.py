"""What a process has freed goes back to the system, also from between values that it still holds."""

import subprocess
import sys

from rmhdag.orchestrator.duties import UPKEEP, unused_memory

PROGRAM = """
from pathlib import Path
from rmhdag.machine.memory import trim

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 // 2**20

values = [bytes(2000) for _ in range(100_000)]
kept = values[::50]
del values
before = resident_mb()
print(trim(), before - resident_mb())
"""


def test_freed_memory_goes_back_to_the_system() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    was_any, megabytes = done.stdout.split()
    assert was_any == "True"
    assert int(megabytes) > 100
    assert unused_memory in UPKEEP
