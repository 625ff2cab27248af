"""Measures `rmhdag validate` of one large workflow of Montage's shape: wall clock, processor time and memory."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from rmhdag.lab.bench.montage import montage_of

HERE = Path(__file__).resolve().parent.parent


def measure(nodes: int, runs: int, tree: Path) -> dict[str, object]:
    walls, processors, memory = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "montage.yaml"
        file.write_text(montage_of(nodes, queue="light-tasks"), encoding="utf-8")
        size_bytes = file.stat().st_size
        command = [str(tree / ".venv/bin/python"), "-m", "rmhdag.cli", "validate", str(file)]
        # The first run writes the byte code and is not counted.
        for _ in range(runs + 1):
            began = time.perf_counter()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                raise SystemExit(f"{nodes} nodes are refused: run the command without this script to see why")
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
    parser = argparse.ArgumentParser(prog="scripts/bench-validate", description=__doc__)
    parser.add_argument("nodes", nargs="?", type=int, default=10_000, help="default: 10000")
    parser.add_argument("runs", nargs="?", type=int, default=5, help="default: 5")
    parser.add_argument("--tree", type=Path, default=HERE, help="another clone, set up, to measure instead of this one")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    figures = measure(arguments.nodes, arguments.runs, arguments.tree.resolve())
    if arguments.json:
        print(json.dumps(figures))
        return
    print(
        f"rmhdag validate, {figures['nodes']:,} nodes in {figures['file_mb']} MB: {figures['wall_seconds']} s "
        f"(at most 3 wanted), {figures['processor_seconds']} s of processor time, {figures['peak_memory_mb']} MB"
    )


if __name__ == "__main__":
    main()
