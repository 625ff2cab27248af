"""The same benchmark of this tree and of an earlier commit, in turns, on the same machine.

Rounds alternate as here, there, there, here: on a shared machine the second of two runs is often the slower one, and
with a fixed order that would look like a difference. Compared are medians.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent.parent
SCENARIOS = ("chain", "hop", "crowded")
# What is shown: scenario, figure, and whether more is better.
FIGURES = (
    ("chain", "tasks_per_second", True),
    ("chain", "ratio_to_floor", True),
    ("hop", "p50_ms", False),
    ("hop", "ratio_to_bare", False),
    ("crowded", "crowded_p50_ms", False),
    ("crowded", "ratio", False),
)


def run(tree: Path) -> dict[str, dict[str, float]]:
    chosen = [word for name in SCENARIOS for word in ("--only", name)]
    command = [str(tree / ".venv/bin/rmhdag"), "bench", *chosen, "--pairs", "1", "--json"]
    found: dict[str, dict[str, float]] = json.loads(
        subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout
    )
    return found


def compare(there: Path, pairs: int) -> list[tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]]:
    rounds = []
    for pair in range(pairs):
        order = (HERE, there) if pair % 2 == 0 else (there, HERE)
        found = {tree: run(tree) for tree in order}
        rounds.append((found[HERE], found[there]))
        print(f"pair {pair + 1} of {pairs} is done", file=sys.stderr)
    return rounds


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-against", description=__doc__.split("\n", 1)[0])
    parser.add_argument("commit", help="what to compare with, such as HEAD~1")
    parser.add_argument("pairs", nargs="?", type=int, default=7, help="rounds of each (default: 7)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rmhdag-bench-") as folder:
        there = Path(folder) / "tree"
        subprocess.run(["git", "clone", "-q", "--no-checkout", str(HERE), str(there)], check=True)
        subprocess.run(["git", "checkout", "-q", given.commit], cwd=there, check=True)
        subprocess.run([str(there / "scripts/setup"), "core"], cwd=there, check=True, stdout=sys.stderr)
        rounds = compare(there, given.pairs)
    print(f"{'':28}{'here':>10}{'there':>10}{'here / there':>14}")
    for scenario, figure, more_is_better in FIGURES:
        here = median(mine[scenario][figure] for mine, _ in rounds)
        there_ = median(other[scenario][figure] for _, other in rounds)
        ratio = here / there_ if more_is_better else there_ / here
        print(f"{scenario + ' ' + figure:28}{here:>10.2f}{there_:>10.2f}{ratio:>13.2f}×")
    print("Above 1 is better, whatever the figure.")


if __name__ == "__main__":
    main()
