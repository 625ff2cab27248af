"""Measures `rmhdag validate` of one large workflow of Montage's shape: wall clock, processor time and memory."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rmhdag.bench.montage import montage_of


def measure(nodes: int, runs: int) -> dict[str, object]:
    walls, processors, memory = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "montage.yaml"
        file.write_text(montage_of(nodes, queue="light-tasks"), encoding="utf-8")
        size_bytes = file.stat().st_size
        command = [sys.executable, "-m", "rmhdag.cli", "validate", str(file)]
        # The first run writes the byte code and is not counted.
        for _ in range(runs + 1):
            began = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0, "the generated workflow is not valid"
            walls.append(time.perf_counter() - began)
            processors.append(usage.ru_utime + usage.ru_stime)
            memory.append(usage.ru_maxrss / 1024)
    return {
        "nodes": nodes,
        "file_mb": round(size_bytes / 1024**2, 1),
        "runs": runs,
        "wall_seconds": round(statistics.median(walls[1:]), 2),
        "processor_seconds": round(statistics.median(processors[1:]), 2),
        "peak_memory_mb": round(max(memory)),
    }


def main() -> None:
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()]
    figures = measure(*(numbers + [10_000, 5][len(numbers) :]))
    if "--json" in sys.argv:
        print(json.dumps(figures))
        return
    print(
        f"rmhdag validate, {figures['nodes']:,} nodes in {figures['file_mb']} MB: {figures['wall_seconds']} s "
        f"(at most 3 wanted), {figures['processor_seconds']} s of processor time, {figures['peak_memory_mb']} MB"
    )


if __name__ == "__main__":
    main()
