"""Run seeds, alone or many at once; a seed that fails is run again with a trace, and says the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

from rmhdag.lab.simulation.orchestrator import Orchestrator
from rmhdag.lab.simulation.people import People
from rmhdag.lab.simulation.rows import Guards
from rmhdag.lab.simulation.violation import Violation
from rmhdag.lab.simulation.worker import Worker
from rmhdag.lab.simulation.world import World
from rmhdag.lab.simulation.writes import StoreError

TRACE_TAIL = 60


@dataclass(slots=True)
class Failure:
    seed: int
    invariant: str
    message: str
    trace_tail: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """What one seed did; `failure` is None if every invariant held."""

    seed: int
    steps: int
    seconds: float  # virtual
    operations: Counter[str]
    failure: Failure | None = None
    trace: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    seeds: int = 0
    steps: int = 0
    failures: list[Failure] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)


def run_seed(seed: int, *, trace: bool = False, guards: Guards | None = None) -> Outcome:
    notes: list[str] | None = [] if trace else None
    world = World(seed, guards or Guards(), notes)
    failure = None
    try:
        populate(world)
        world.run()
    except Violation as violation:
        failure = Failure(seed, violation.invariant, violation.message)
    except StoreError as error:
        failure = Failure(seed, "the database accepts every write", str(error))
    if failure is not None:
        world.note("world", f"violated: {failure.invariant}: {failure.message}")
        failure.trace_tail = (notes or [])[-TRACE_TAIL:]
    operations = Counter(world.seen)
    operations.update({f"fault {fault}": count for fault, count in world.faults.counts.items()})
    return Outcome(seed, world.steps, world.time, operations, failure, notes or [])


def populate(world: World) -> None:
    world.add(People(world, 0))
    for number in range(1, world.rng.randint(2, 3) + 1):
        world.add(Orchestrator(world, number))
    for number in range(11, 10 + world.rng.randint(2, 4) + 1):
        world.add(Worker(world, number))


def replay(seed: int, *, guards: Guards | None = None) -> list[str]:
    """The whole history of a seed, one line per decision."""
    return run_seed(seed, trace=True, guards=guards).trace


def run_seeds(
    start: int,
    count: int,
    *,
    processes: int = 1,
    on_progress: Callable[[Report], None] | None = None,
    guards: Guards | None = None,
) -> Report:
    """Seeds start … start + count − 1, each in a world of its own; failures come with the end of their trace."""
    report = Report()
    for outcome in _outcomes(range(start, start + count), processes, guards):
        report.seeds += 1
        report.steps += outcome.steps
        report.operations.update(outcome.operations)
        if outcome.failure is not None:
            again = run_seed(outcome.seed, trace=True, guards=guards).failure
            report.failures.append(again or outcome.failure)
        if on_progress is not None:
            on_progress(report)
    return report


def _outcomes(seeds: range, processes: int, guards: Guards | None) -> Iterator[Outcome]:
    run = partial(run_seed, guards=guards)
    if processes <= 1:
        yield from map(run, seeds)
        return
    # Spawned, not forked: the caller may have threads, and a fresh process proves that nothing leaks between seeds.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run, seeds, chunksize=10)
