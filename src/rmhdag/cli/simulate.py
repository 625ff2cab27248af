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
from rmhdag.cli.output import emit, emit_json, has_colour, paint, say

REDRAW_SECONDS = 0.1

if TYPE_CHECKING:
    from rmhdag.simulation.simulate import Failure, Report


def register(app: typer.Typer) -> None:
    app.command(short_help="Run the engine among faults, from seeds.")(simulate)


def simulate(
    seeds: Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="How many seeds to run.")] = 500,
    start: Annotated[int, typer.Option("--start", min=0, metavar="S", help="The first seed.")] = 0,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="X", help="Run this seed alone and show all it does.")
    ] = None,
    processes: Annotated[int, typer.Option("--processes", min=1, max=256, metavar="P", help="At once.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Run orchestrators and workers among lost, doubled and late messages, crashes and frozen owners.

    Each seed is a whole history on a virtual clock, checked against every invariant. Exit code 1 on a violation.

    \b
    Examples:
      rmhdag simulate --seeds 2000 --processes 2
      rmhdag simulate --seed 1234        the same history again, step by step
    """
    if seed is not None:
        replay(seed, as_json=as_json)
        return
    from rmhdag.simulation.simulate import run_seeds

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
    from rmhdag.simulation.simulate import run_seed

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
        f"  again, step by step: rmhdag simulate --seed {failure.seed}",
    ]
    return "\n".join(lines) + "\n"


@contextmanager
def progress(seeds: int) -> Iterator[Callable[[Report], None]]:
    """A bar for people who watch; programs and logs get none."""
    if not has_colour(sys.stderr):
        yield lambda report: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("seeds, {task.fields[failures]} failures"))
    bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True, auto_refresh=False)
    drawn_at = 0.0

    def show(report: Report) -> None:
        nonlocal drawn_at
        due = monotonic() - drawn_at >= REDRAW_SECONDS
        bar.update(task, completed=report.seeds, failures=len(report.failures), refresh=due)
        if due:
            drawn_at = monotonic()

    with bar:
        task = bar.add_task("seeds", total=seeds, failures=0)
        yield show
