"""The same benchmarks of this tree and of an earlier commit, in turns, on the same machine.

Pairs alternate as here, there, there, here: on a shared machine the second of two runs is often the slower one, and
with a fixed order that would look like a difference. Each pair gives one ratio; shown is the median of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent.parent
MORE, LESS = True, False
Numbers = dict[str, Any]


class NotMeasured(Exception):
    """The tree does not have this benchmark, or the benchmark failed in it."""


@dataclass(frozen=True)
class Benchmark:
    """How one tree is measured, and which of its figures are compared: path in the JSON, and what is better."""

    run: Callable[[Path], Numbers]
    figures: dict[str, bool]
    # The libraries that it needs, as `scripts/setup` names them.
    needs: str = "core"


@dataclass
class Comparison:
    """Figures of both trees, pair by pair, and why something is missing."""

    rounds: dict[str, list[tuple[Numbers, Numbers]]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    # Something does not run in this tree.
    is_broken: bool = False


def scenario(name: str, rounds: int = 1) -> Callable[[Path], Numbers]:
    """One scenario of the tree's own `rmhdag bench`. A round of one second needs several: the first ones of a young
    platform also show how it grows its tables and warms its caches."""

    def run(tree: Path) -> Numbers:
        command = [str(tree / ".venv/bin/rmhdag"), "bench", "--only", name, "--pairs", str(rounds), "--json"]
        numbers: Numbers = call(command, tree)[name]
        return numbers

    return run


def run_engine(tree: Path) -> Numbers:
    """This tree's script with the other tree's package: both are measured by the same rounds."""
    return call(
        [str(tree / ".venv/bin/python"), str(HERE / "scripts/bench_engine.py"), "--rounds", "1", "--json"], tree
    )


def run_cli(tree: Path) -> Numbers:
    script = str(HERE / "scripts/bench_cli.py")
    only = [word for name in COMMANDS for word in ("--only", name.removeprefix("rmhdag "))]
    return call([sys.executable, script, "5", *only, "--tree", str(tree), "--json"], HERE)


def run_validate(tree: Path) -> Numbers:
    script = str(HERE / "scripts/bench_validate.py")
    return call([sys.executable, script, "10000", "1", "--tree", str(tree), "--json"], HERE)


def run_raster(tree: Path) -> Numbers:
    """Smaller than the figures of docs/performance.md, by the tree's own script, which knows its handlers."""
    options = ["--rounds", "1", "--size", "2048", "--files", "60", "--json"]
    # The exit code says whether the absolute figures are good enough, which is not the question here.
    return call([str(tree / ".venv/bin/python"), "scripts/bench_raster.py", *options], tree, good_codes=(0, 1))


def call(command: Sequence[str], tree: Path, good_codes: Sequence[int] = (0,)) -> Numbers:
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    except OSError as error:
        raise NotMeasured(str(error)) from error
    try:
        if done.returncode in good_codes:
            numbers: Numbers = json.loads(done.stdout)
            return numbers
    except json.JSONDecodeError:
        pass
    lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    raise NotMeasured(f"exit {done.returncode}: {lines[-1] if lines else 'it printed no JSON'}")


COMMANDS = ("rmhdag --help", "rmhdag validate", "rmhdag graph", "rmhdag jobs", "rmhdag job", "rmhdag submit")
BENCHMARKS = {
    "chain": Benchmark(
        scenario("chain", 7), {"tasks_per_second": MORE, "ratio_to_floor": MORE, "orchestrator_cpu_us_per_task": LESS}
    ),
    "hop": Benchmark(scenario("hop", 7), {"p50_ms": LESS, "p99_ms": LESS, "ratio_to_bare": LESS}),
    "crowded": Benchmark(scenario("crowded"), {"crowded_p50_ms": LESS, "ratio": LESS}),
    "fan_out": Benchmark(scenario("fan_out"), {"tasks_per_second": MORE, "ratio_to_chain": MORE}),
    "cold": Benchmark(scenario("cold"), {"cold_ms": LESS, "warm_ms": LESS}),
    "poisoned": Benchmark(scenario("poisoned"), {"with_poison_p50_ms": LESS, "ratio": LESS}),
    "idle_jobs": Benchmark(
        scenario("idle_jobs"), {"idle_core_percent": LESS, "tasks_per_second": MORE, "ratio_to_empty": MORE}
    ),
    "submit": Benchmark(scenario("submit"), {"in_batches_per_second": MORE, "singly_per_second": MORE}),
    "idle_api": Benchmark(scenario("idle_api"), {"tasks_per_second": MORE, "ratio": MORE}),
    "listeners": Benchmark(scenario("listeners"), {"tasks_per_second": MORE, "ratio": MORE}),
    "callbacks": Benchmark(scenario("callbacks"), {"callbacks_per_second": MORE}),
    "history": Benchmark(scenario("history"), {"tasks_per_second": MORE, "ratio_to_empty": MORE}),
    "retention": Benchmark(scenario("retention"), {"jobs_deleted_per_minute": MORE, "ratio": MORE}),
    "pinned": Benchmark(scenario("pinned"), {"last_tasks_per_second": MORE, "ratio": MORE}),
    "api": Benchmark(scenario("api"), {"worst_p99_ms": LESS, "worst_list_p99_ms": LESS}),
    "engine": Benchmark(
        run_engine,
        {
            "chain_results_per_second": MORE,
            **{f"fan_out_microseconds_per_result/{size}": LESS for size in (100, 1_000, 10_000, 100_000)},
        },
    ),
    "cli": Benchmark(run_cli, {f"{name}/processor_median_ms": LESS for name in COMMANDS}),
    "validate": Benchmark(run_validate, {"processor_seconds": LESS, "wall_seconds": LESS, "peak_memory_mb": LESS}),
    "raster": Benchmark(
        run_raster, {"one/pipeline_seconds": LESS, "many/pipeline_seconds": LESS, "many/speedup": MORE}, needs="geo"
    ),
}
BY_DEFAULT = ("chain", "hop", "crowded")
# Every figure of docs/performance.md that takes a minute or less in one tree.
ALL = (*BY_DEFAULT, "fan_out", "poisoned", "idle_jobs", "submit", "idle_api", "engine", "cli", "validate", "raster")


def compare(names: Sequence[str], there: Path, pairs: int) -> Comparison:
    """All benchmarks once per pair. One that a tree cannot run is left out of the pairs that follow."""
    comparison = Comparison()
    for pair in range(pairs):
        for name in names:
            if name in comparison.left_out:
                continue
            order = (HERE, there) if pair % 2 == 0 else (there, HERE)
            numbers: dict[Path, Numbers] = {}
            for tree in order:
                try:
                    numbers[tree] = BENCHMARKS[name].run(tree)
                except NotMeasured as error:
                    whose = "this tree" if tree == HERE else "the earlier commit"
                    comparison.left_out[name] = f"{whose} cannot run it ({error})"
                    comparison.is_broken |= tree == HERE
                    break
            else:
                comparison.rounds.setdefault(name, []).append((numbers[HERE], numbers[there]))
            print(f"pair {pair + 1} of {pairs}: {name} is done", file=sys.stderr, flush=True)
    return comparison


def figure_of(numbers: Numbers, path: str) -> float | None:
    value: Any = numbers
    for key in path.split("/"):
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def summarise(comparison: Comparison) -> Iterator[Numbers]:
    """A line per figure. Ratios are turned so that above 1 is better, whatever the figure."""
    for name, rounds in comparison.rounds.items():
        for path, more_is_better in BENCHMARKS[name].figures.items():
            pairs = [(figure_of(mine, path), figure_of(other, path)) for mine, other in rounds]
            known = [(mine, other) for mine, other in pairs if mine is not None and other is not None]
            title = f"{name} {path.replace('/', ' ')}"
            if not known:
                comparison.left_out[title] = "not a figure of both commits"
                continue
            ratios = [mine / other if more_is_better else other / mine for mine, other in known if mine and other]
            yield {
                "figure": title,
                "here": median(mine for mine, _ in known),
                "there": median(other for _, other in known),
                "ratio": round(median(ratios), 3) if ratios else None,
                "ratios": [round(ratio, 3) for ratio in ratios],
            }


def show(lines: Sequence[Numbers], left_out: dict[str, str]) -> None:
    print(f"{'':46}{'here':>12}{'there':>12}{'here / there':>14}   single pairs")
    for line in lines:
        ratio = f"{line['ratio']:.2f}×" if line["ratio"] is not None else "-"
        spread = f"{min(line['ratios']):.2f} to {max(line['ratios']):.2f}" if line["ratios"] else "-"
        print(f"{line['figure']:46}{line['here']:>12.2f}{line['there']:>12.2f}{ratio:>14}   {spread}")
    for name, reason in left_out.items():
        print(f"left out: {name}: {reason}")
    print("Ratios are medians of the pairs; above 1 is better, whatever the figure.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench-against", description=__doc__.split("\n", 1)[0])
    parser.add_argument("commit", help="what to compare with, such as HEAD~1")
    parser.add_argument("pairs", nargs="?", type=int, default=7, help="rounds of each (default: 7)")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*BENCHMARKS, "all"],
        metavar="NAME",
        help=f"what to measure; may be given several times: {', '.join(BENCHMARKS)}; or all: {', '.join(ALL)} "
        f"(default: {', '.join(BY_DEFAULT)})",
    )
    parser.add_argument("--tree", type=Path, help="a clone of COMMIT to keep and to use again, instead of a new one")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    chosen = arguments.only or BY_DEFAULT
    names = [name for name in BENCHMARKS if name in chosen or ("all" in chosen and name in ALL)]
    with tempfile.TemporaryDirectory(prefix="rmhdag-bench-") as folder:
        there = (arguments.tree or Path(folder) / "tree").resolve()
        prepare(there, arguments.commit, "geo" if any(BENCHMARKS[name].needs == "geo" for name in names) else "core")
        comparison = compare(names, there, arguments.pairs)
    lines = list(summarise(comparison))
    if arguments.json:
        print(json.dumps({"commit": arguments.commit, "figures": lines, "left_out": comparison.left_out}, indent=2))
    else:
        show(lines, comparison.left_out)
    return 1 if comparison.is_broken else 0


def prepare(there: Path, commit: str, kind: str) -> None:
    """A clone of the commit with its libraries."""
    if there.exists():
        subprocess.run(["git", "fetch", "-q", "origin"], cwd=there, check=True)
    else:
        subprocess.run(["git", "clone", "-q", "--no-checkout", str(HERE), str(there)], check=True)
    revision = ["git", "rev-parse", "--verify", f"{commit}^{{commit}}"]
    full = subprocess.run(revision, cwd=HERE, check=True, capture_output=True, text=True).stdout.strip()
    subprocess.run(["git", "checkout", "-q", full], cwd=there, check=True)
    subprocess.run([str(there / "scripts/setup"), kind], cwd=there, check=True, stdout=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
