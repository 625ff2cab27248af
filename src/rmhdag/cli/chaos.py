"""`rmhdag chaos`: real processes among real faults, and a verdict."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.interrupts import raise_if_interrupted
from rmhdag.cli.output import emit, emit_json, paint, say

LONG_GRID = (2.0, 5.0, 12.0, 22.0, 60.0)
TENANTS = "tenants"


def register(app: typer.Typer) -> None:
    app.command(short_help="Run real processes under real faults, from a seed.")(chaos)


def chaos(
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", min=0.1, max=1440, metavar="M", help="Duration (default: 10; with --tenants 5)."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option("--seed", min=0, metavar="S", help="Seed that decides which faults happen, and in which order."),
    ] = 1,
    lease: Annotated[
        float,
        typer.Option(
            "--lease",
            min=1,
            max=60,
            metavar="SECONDS",
            help="Time without a heartbeat before a process is considered dead.",
        ),
    ] = 10.0,
    orchestrators: Annotated[
        int, typer.Option("--orchestrators", min=1, max=8, metavar="N", help="Number of processes.")
    ] = 3,
    workers: Annotated[int, typer.Option("--workers", min=1, max=16, metavar="N", help="Number of processes.")] = 4,
    no_faults: Annotated[
        bool,
        typer.Option("--no-faults", help="Only load, without faults: bursts, cancels, large values, many moves."),
    ] = False,
    outage: Annotated[
        float | None,
        typer.Option(
            "--outage",
            min=1,
            max=3600,
            metavar="SECONDS",
            help="Only this fault: the database is away once, for this long.",
        ),
    ] = None,
    outage_grid: Annotated[
        str | None,
        typer.Option(
            "--outage-grid",
            metavar="SECONDS,…",
            help="Only this drill: tasks that end in time, through outages of these lengths ('long': 2, 5, 12, 22 "
            "and 60 s).",
        ),
    ] = None,
    task: Annotated[
        str,
        typer.Option("--task", metavar="SECONDS/TIMEOUT,…", help="With --outage-grid: duration and timeout of tasks."),
    ] = "8/10",
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="Only this drill: processes are killed or leave, one at a time.")
    ] = False,
    broken_advance: Annotated[
        bool,
        typer.Option(
            "--broken-advance",
            help="Only this drill: the connections that advance jobs are closed every 200 ms; jobs must still "
            "progress.",
        ),
    ] = False,
    soak: Annotated[
        bool,
        typer.Option(
            "--soak", help="Only this drill: a steady load with short retention; memory and tables must not grow."
        ),
    ] = False,
    tenants: Annotated[
        bool,
        typer.Option(
            "--tenants",
            help="Only this drill: one tenant attacks in every possible way; another must hardly notice it.",
        ),
    ] = False,
    small: Annotated[bool, typer.Option("--small", help="Use no large values.")] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            "--record", metavar="FILE", help="Add the campaign to this file, as the one that the page “About” shows."
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not report each fault as it happens.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Kill, freeze and disconnect orchestrators, workers and their database while jobs of every kind run.

    The invariants are checked every two seconds; at the end everything must come to rest. Exit code 1 if anything was
    lost, duplicated, late or stuck; logs and rows are then kept in a folder, and its name is printed.

    \b
    Examples:
      rmhdag chaos --minutes 10 --seed 1 --json
      rmhdag chaos --minutes 1 --lease 3
      rmhdag chaos --minutes 10 --no-faults
      rmhdag chaos --minutes 10 --seed 2 --record results.json
      rmhdag chaos --minutes 2 --outage 60
      rmhdag chaos --outage-grid long --task 8/10,2/3
      rmhdag chaos --minutes 5 --one-by-one
      rmhdag chaos --minutes 1 --broken-advance
      rmhdag chaos --minutes 60 --soak
      rmhdag chaos --tenants
    """
    from rmhdag.lab.chaos.campaign import CampaignOptions, Drill, can_take_record, run_campaign
    from rmhdag.lab.chaos.outages import Timing

    # SIGTERM clears everything away, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def tell(line: str) -> None:
        raise_if_interrupted()
        if not quiet and not as_json:
            say(line)

    minutes = minutes or (5.0 if tenants else 10.0)
    modes: dict[str, bool] = {
        TENANTS: tenants,
        Drill.NO_FAULTS: no_faults,
        Drill.OUTAGE: outage is not None,
        Drill.OUTAGE_GRID: outage_grid is not None,
        Drill.ONE_BY_ONE: one_by_one,
        Drill.BROKEN_ADVANCE: broken_advance,
        Drill.SOAK: soak,
    }
    drills = [drill for drill, is_asked in modes.items() if is_asked]
    if len(drills) > 1:
        options = " and ".join(f"--{drill.replace('_', '-')}" for drill in drills)
        raise CommandFailed(f"{options} exclude each other", code=ExitCode.USAGE)
    if record is not None and set(drills) - {Drill.NO_FAULTS}:
        raise CommandFailed(
            "--record is for campaigns with all faults or with --no-faults",
            remedy="Leave --record out.",
            code=ExitCode.USAGE,
        )
    if record is not None and not can_take_record(record):
        raise CommandFailed(
            f"{record} cannot take the figures of a campaign",
            remedy="Name a new file in a folder that there is, or one that --record has written.",
            code=ExitCode.USAGE,
        )
    if outage is not None and outage >= minutes * 60:
        raise CommandFailed("--outage is as long as all of it", remedy="Give more --minutes.", code=ExitCode.USAGE)
    if tenants:
        from rmhdag.lab.chaos.tenants import run_tenants

        show(run_tenants(minutes, tell), as_json=as_json)
        return
    timings = [Timing(int(seconds), int(timeout)) for seconds, timeout in numbers("--task", task, 2)]
    campaign = CampaignOptions(
        minutes=minutes,
        seed=seed,
        lease_seconds=lease,
        orchestrators=orchestrators,
        workers=workers,
        drill=Drill(drills[0]) if drills else Drill.FAULTS,
        outage_seconds=outage or 0.0,
        outages=() if outage_grid is None else outages_of(outage_grid),
        timings=() if outage_grid is None else tuple(timings),
        retention_seconds=max(20.0, minutes * 60 / 12),
        small=small,
    )
    show(run_campaign(campaign, tell, record), as_json=as_json)


def show(report: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        emit_json(report)
    else:
        emit(describe(report))
    if not report["ok"]:
        raise typer.Exit(ExitCode.FAILED)


def outages_of(text: str) -> tuple[float, ...]:
    if text == "long":
        return LONG_GRID
    return tuple(seconds for (seconds,) in numbers("--outage-grid", text, 1))


def numbers(option: str, text: str, count: int) -> list[tuple[float, ...]]:
    """Positive numbers, `count` of them in each part, as in 8/10,2/3."""
    try:
        parts = [tuple(float(number) for number in part.split("/")) for part in text.split(",")]
    except ValueError:
        parts = []
    if not parts or any(len(part) != count or min(part) < 1 or max(part) > 3600 for part in parts):
        example = "2,5,12" if count == 1 else "8/10,2/3"
        raise CommandFailed(
            f"{option} {text!r} is not a list of numbers of seconds between 1 and 3600",
            remedy=f"Write it like {example}.",
            code=ExitCode.USAGE,
        )
    return parts


def describe(report: dict[str, Any]) -> str:
    lines = [
        f"  {name:<22} {value}" for name, value in report.items() if name not in ("ok", "violations", "unexpected")
    ]
    for violation in report["violations"]:
        text = f"{violation['invariant']}: {violation['subject']}: {violation['what']}"
        lines.append(paint(text, "31", sys.stdout))
    lines += [paint(text, "31", sys.stdout) for text in report["unexpected"]]
    verdict = "every invariant held" if report["ok"] else f"FAILED; look into {report.get('evidence')}"
    return "\n".join([f"seed {report['seed']}: {verdict}", *lines]) + "\n"
