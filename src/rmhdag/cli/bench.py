"""`rmhdag bench`: how fast the platform is here, and how far above the bare statements."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.output import emit, emit_json, say

if TYPE_CHECKING:
    from rmhdag.lab.bench.scenarios import Sizes


def register(app: typer.Typer) -> None:
    app.command(short_help="Measure throughput and latency.")(bench)


def bench(
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="NAME",
            help="chain, fan_out, hop, cold, crowded, poisoned; and, only by name: history, idle_jobs, pinned, "
            "retention, api, submit, idle_api, callbacks, listeners, gateway. May be repeated.",
        ),
    ] = None,
    large: Annotated[bool, typer.Option("--large", help="Use fan-outs of 100,000.")] = False,
    pairs: Annotated[int, typer.Option("--pairs", min=1, metavar="N", help="Interleaved rounds per comparison.")] = 5,
    tasks: Annotated[
        int | None,
        typer.Option("--tasks", min=2_000, metavar="N", help="Number of tasks of `pinned` (default: 200,000)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Do a tenth of the work, to check that it runs.")] = False,
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url",
            metavar="URL",
            help="A server on which the benchmark may create databases (default: an embedded one).",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure throughput and latency, with orchestrator and worker as separate processes and fsync on.

    Compared figures are medians of interleaved rounds. The floor is the same SQL from one connection.

    \b
    Examples:
      rmhdag bench --json
      rmhdag bench --only fan_out --only crowded --large
      rmhdag bench --only pinned --tasks 200000
    """
    from rmhdag.lab.bench.rig import BenchFailed
    from rmhdag.lab.bench.run import BY_DEFAULT, BY_NAME, run_bench

    # SIGTERM clears everything away, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    names = only or []
    unknown = [name for name in names if name not in BY_NAME]
    if unknown:
        raise CommandFailed(
            f"--only: there is no scenario {unknown[0]!r}",
            remedy=f"There are {', '.join(BY_NAME)}.",
            code=ExitCode.USAGE,
        )

    def show(name: str, numbers: dict[str, Any]) -> None:
        if not as_json:
            emit(describe(name, numbers))

    say(f"measuring {', '.join(names or BY_DEFAULT)}; other load on this machine makes it slower")
    try:
        results = run_bench(names, choose_sizes(quick, large, pairs, tasks), database_url, show)
    except BenchFailed as failure:
        raise CommandFailed(str(failure)) from failure
    if as_json:
        emit_json(results)


def choose_sizes(quick: bool, large: bool, pairs: int, tasks: int | None) -> Sizes:
    from rmhdag.lab.bench.scenarios import Sizes

    if not quick:
        return Sizes(large=large, pairs=pairs, pinned_tasks=tasks or Sizes.pinned_tasks)
    return Sizes(
        chain_jobs=50,
        fan_out=1_000,
        large=large,
        hop_jobs=4,
        cold_starts=1,
        small_jobs=3,
        poison_jobs=20,
        history_nodes=10_000,
        idle_jobs=1_000,
        idle_seconds=1,
        pinned_tasks=tasks or 4_000,
        pinned_slice=2_000,
        expired_jobs=1_000,
        pairs=1,
        floor_tasks=2_000,
        stored_jobs=10_000,
        api_calls=20,
        list_calls=5,
        submit_seconds=1,
        callbacks=500,
        listeners=50,
        partners=20,
        poll_seconds=2,
    )


def describe(name: str, numbers: dict[str, Any]) -> str:
    width = max(len(key) for key in numbers)
    lines = [name, *(f"  {key:<{width}}  {value}" for key, value in numbers.items())]
    return "\n".join(lines) + "\n"
