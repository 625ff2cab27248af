"""`rmhdag chaos`: real processes among real faults, and a verdict."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Any

import typer

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.cli.failure import CommandFailed
from rmhdag.cli.interrupts import raise_if_interrupted
from rmhdag.cli.output import emit, emit_json, paint, say


def register(app: typer.Typer) -> None:
    app.command(short_help="Run real processes among real faults, from a seed.")(chaos)


def chaos(
    minutes: Annotated[float, typer.Option("--minutes", min=0.1, max=1440, metavar="M", help="How long.")] = 10.0,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="S", help="Which faults, in which order.")] = 1,
    lease: Annotated[
        float,
        typer.Option("--lease", min=1, max=60, metavar="SECONDS", help="Silence after which a process is called dead."),
    ] = 10.0,
    orchestrators: Annotated[int, typer.Option("--orchestrators", min=1, max=8, metavar="N", help="At once.")] = 3,
    workers: Annotated[int, typer.Option("--workers", min=1, max=16, metavar="N", help="At once.")] = 4,
    outage: Annotated[
        float | None,
        typer.Option(
            "--outage", min=1, max=3600, metavar="SECONDS", help="Only this: the database is away once, for so long."
        ),
    ] = None,
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="Only this: processes are killed or leave, each alone.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not tell each fault as it comes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Kill, freeze and cut off orchestrators, workers and their database, while jobs of every kind run.

    Every two seconds the invariants are checked; at the end everything has to come to rest. Exit code 1 if anything
    was lost, doubled or stuck; then logs and rows are kept in a folder that is named.

    \b
    Examples:
      rmhdag chaos --minutes 10 --seed 1 --json
      rmhdag chaos --minutes 1 --lease 3
      rmhdag chaos --minutes 2 --outage 60
      rmhdag chaos --minutes 5 --one-by-one
    """
    from rmhdag.chaos.campaign import Plan, run_campaign

    # Whoever ends us by SIGTERM gets everything cleared away, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def tell(line: str) -> None:
        raise_if_interrupted()
        if not quiet and not as_json:
            say(line)

    if outage is not None and one_by_one:
        raise CommandFailed("--outage and --one-by-one exclude each other", code=ExitCode.USAGE)
    if outage is not None and outage >= minutes * 60:
        raise CommandFailed("--outage is as long as all of it", remedy="Give more --minutes.", code=ExitCode.USAGE)
    plan = Plan(
        minutes=minutes,
        seed=seed,
        lease_seconds=lease,
        orchestrators=orchestrators,
        workers=workers,
        outage_seconds=outage,
        one_by_one=one_by_one,
    )
    report = run_campaign(plan, tell)
    if as_json:
        emit_json(report)
    else:
        emit(describe(report))
    if not report["ok"]:
        raise typer.Exit(ExitCode.FAILED)


def describe(report: dict[str, Any]) -> str:
    lines = [
        f"  {name:<22} {value}" for name, value in report.items() if name not in ("ok", "violations", "unexpected")
    ]
    for violation in report["violations"]:
        told = f"{violation['invariant']}: {violation['subject']}: {violation['what']}"
        lines.append(paint(told, "31", sys.stdout))
    lines += [paint(told, "31", sys.stdout) for told in report["unexpected"]]
    verdict = "every invariant held" if report["ok"] else f"FAILED; look into {report.get('evidence')}"
    return "\n".join([f"seed {report['seed']}: {verdict}", *lines]) + "\n"
