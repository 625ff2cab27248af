"""`rmhdag simulate`: the engine among faults, on a virtual clock, from seeds; a failing seed replays exactly."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.interrupts import raise_if_interrupted
from rmhdag.cli.output import ESCAPE, emit, emit_json, has_colour, paint, say, write

REDRAW_SECONDS = 0.1
CLEAR_LINE = f"{ESCAPE}[G{ESCAPE}[K"

if TYPE_CHECKING:
    from rmhdag.lab.simulation.simulate import Failure, Report


def register(app: typer.Typer) -> None:
    app.command(short_help="Simulate the engine under faults, from seeds.")(simulate)


def simulate(
    seeds: Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="Number of seeds to run.")] = 500,
    start: Annotated[int, typer.Option("--start", min=0, metavar="S", help="First seed.")] = 0,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="X", help="Run only this seed and show every step.")
    ] = None,
    processes: Annotated[
        int, typer.Option("--processes", min=1, max=256, metavar="P", help="Number of processes.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate orchestrators and workers with lost, duplicate and late messages, crashes and frozen owners.

    Each seed is a complete history on a virtual clock, checked against every invariant. Exit code 1 if one is violated.

    \b
    Examples:
      rmhdag simulate --seeds 2000 --processes 2
      rmhdag simulate --seed 1234        the same history again, step by step
    """
    if seed is not None:
        replay(seed, as_json=as_json)
        return
    from rmhdag.lab.simulation.simulate import run_seeds

    with progress(seeds) as show:

        def after_each_seed(report: Report) -> None:
            raise_if_interrupted()
            show(report)

        report = run_seeds(start, seeds, processes=processes, on_progress=after_each_seed)
    if as_json:
        emit_json(
            {
                "ok": not report.failures,
                "start": start,
                "seeds": report.seeds,
                "steps": report.steps,
                "failures": [asdict(failure) for failure in report.failures],
                "operations": dict(sorted(report.operations.items())),
            }
        )
    else:
        for failure in report.failures:
            emit(describe(failure))
        say(f"{report.seeds} seeds, {report.steps} steps, {len(report.failures)} failures")
    if report.failures:
        raise typer.Exit(ExitCode.FAILED)


def replay(seed: int, *, as_json: bool) -> None:
    from rmhdag.lab.simulation.simulate import run_seed

    outcome = run_seed(seed, trace=True)
    if as_json:
        emit_json(
            {
                "ok": outcome.failure is None,
                "seed": seed,
                "steps": outcome.steps,
                "virtual_seconds": outcome.seconds,
                "failure": asdict(outcome.failure) if outcome.failure else None,
                "operations": dict(sorted(outcome.operations.items())),
                "trace": outcome.trace,
            }
        )
    else:
        emit("".join(f"{line}\n" for line in outcome.trace))
        verdict = f"violated: {outcome.failure.invariant}" if outcome.failure else "every invariant held"
        say(f"seed {seed}: {outcome.steps} steps, {outcome.seconds:.1f} virtual seconds, {verdict}")
    if outcome.failure:
        raise typer.Exit(ExitCode.FAILED)


def describe(failure: Failure) -> str:
    lines = [
        f"seed {failure.seed}: {paint(failure.invariant, '31', sys.stdout)}",
        f"  {failure.message}",
        *(f"  | {line}" for line in failure.trace_tail[-20:]),
        f"  replay it step by step: rmhdag simulate --seed {failure.seed}",
    ]
    return "\n".join(lines) + "\n"


@contextmanager
def progress(seeds: int) -> Iterator[Callable[[Report], None]]:
    """One line for people who watch, drawn again and again; programs and logs get none."""
    if not has_colour(sys.stderr):
        yield lambda report: None
        return
    drawn_at = 0.0

    def show(report: Report) -> None:
        nonlocal drawn_at
        if monotonic() - drawn_at >= REDRAW_SECONDS:
            drawn_at = monotonic()
            write(sys.stderr, f"{CLEAR_LINE}{report.seeds:,} of {seeds:,} seeds, {len(report.failures)} failures")

    try:
        yield show
    finally:
        write(sys.stderr, CLEAR_LINE)
