"""A process like a worker's child: it prepares a small file, then a large one, and prints how much memory that took.

Its arguments: a folder with the storage, and the parameters of the two runs as JSON.
"""

import json
import sys
from pathlib import Path

from rmhdag.testing.bench import HandlerBench
from tests.memory import peak_mb


def main() -> None:
    bench = HandlerBench(Path(sys.argv[1]))
    peaks = []
    count = 0
    for number, params in enumerate(json.loads(sys.argv[2])):
        run = bench.run("vector.prepare", params, job_id=f"job-{number}")
        count = run.output["total_features"]
        peaks.append(peak_mb())
    print(json.dumps({"count": count, "small_mb": peaks[0], "large_mb": peaks[1]}))


if __name__ == "__main__":
    main()
