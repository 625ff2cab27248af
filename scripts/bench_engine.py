"""Measures the engine alone, in processor seconds. Each figure is the median of interleaved rounds."""

from __future__ import annotations

import argparse
import json
import platform
from collections import deque
from datetime import UTC, datetime
from statistics import median
from time import process_time

from rmhdag.engine.effects import ContinueLater, Effect, TaskQueued
from rmhdag.engine.inputs import ChildrenReduced, Continue, Output, Start, TaskReported
from rmhdag.engine.plan import Plan
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.workflow.definition import AnyNode, FanInNode, FanOutNode, TaskNode, TaskSpec, WorkflowDefinition

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CHAIN_LENGTH = 500
CHAINS = 20
SIZES = (100, 1_000, 10_000, 100_000)


def spec(params: dict[str, str]) -> TaskSpec:
    return TaskSpec(handler="echo", queue="light", params=params)


def chain_plan() -> Plan:
    nodes: dict[str, AnyNode] = {
        f"n{number}": TaskNode(
            task=spec({"x": f"{{{{ nodes.n{number - 1}.output.x }}}}" if number else "{{ inputs.x }}"}),
            next=(f"n{number + 1}",) if number + 1 < CHAIN_LENGTH else (),
        )
        for number in range(CHAIN_LENGTH)
    }
    return Plan(WorkflowDefinition(workflow_id="chain", name="Chain", nodes=nodes))


def fan_plan() -> Plan:
    nodes: dict[str, AnyNode] = {
        "split": FanOutNode(source="{{ inputs.items }}", task=spec({"value": "{{ item }}"}), next=("join",)),
        "join": FanInNode(source_node="split"),
    }
    return Plan(WorkflowDefinition(workflow_id="fan", name="Fan", nodes=nodes))


def run_job(plan: Plan, params: dict[str, object]) -> tuple[int, float]:
    """Results handled and seconds taken, from the first input to the end of the job."""
    run = JobRun(plan, JobFacts("0" * 32, params))
    queued: deque[TaskQueued] = deque()
    continues: list[str] = []
    results = 0

    def take(effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is TaskQueued:
                queued.append(effect)
            elif type(effect) is ContinueLater:
                continues.append(effect.node_id)

    began = process_time()
    take(run.apply(Start(), NOW))
    while continues:
        take(run.apply(Continue(continues.pop()), NOW))
    while queued:
        task = queued.popleft()
        output = Output({"x": results})
        take(run.apply(TaskReported(task.node_id, task.attempt, task.task_id, 1, True, output, duration_ms=3), NOW))
        results += 1
    if "join" in plan.by_id:
        run.apply(ChildrenReduced("join", Output({"count": results})), NOW)
    seconds = process_time() - began
    assert run.status == "completed", run.status
    return results, seconds


def measure(rounds: int) -> dict[str, object]:
    chain, fan = chain_plan(), fan_plan()
    chain_rates: list[float] = []
    fan_costs: dict[int, list[float]] = {size: [] for size in SIZES}
    for _ in range(rounds):
        results, seconds = map(sum, zip(*(run_job(chain, {"x": 1}) for _ in range(CHAINS)), strict=True))
        chain_rates.append(results / seconds)
        for size in SIZES:
            jobs = max(1, 10_000 // size)
            taken = [run_job(fan, {"items": list(range(size))}) for _ in range(jobs)]
            fan_costs[size].append(sum(seconds for _, seconds in taken) / sum(results for results, _ in taken) * 1e6)
    ratios = [large / small for small, large in zip(fan_costs[100], fan_costs[100_000], strict=True)]
    return {
        "python": platform.python_version(),
        "rounds": rounds,
        "chain_results_per_second": round(median(chain_rates)),
        "fan_out_microseconds_per_result": {str(size): round(median(costs), 2) for size, costs in fan_costs.items()},
        "cost_at_100000_relative_to_100": round(median(ratios), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-engine", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="interleaved rounds (default: 7)")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    figures = measure(arguments.rounds)
    if arguments.json:
        print(json.dumps(figures))
        return
    print(f"chains of {CHAIN_LENGTH}: {figures['chain_results_per_second']:,} results/s (at least 40,000 wanted)")
    for size, cost in figures["fan_out_microseconds_per_result"].items():  # type: ignore[attr-defined]
        print(f"fan-out of {int(size):>7,}: {cost:6.2f} µs per result, expansion included")
    print(f"100,000 relative to 100: {figures['cost_at_100000_relative_to_100']} (at most 1.25 wanted)")


if __name__ == "__main__":
    main()
