"""One campaign from start to verdict: set up, load, break things, heal, wait, check, keep the evidence if need be."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import rmhdag
from rmhdag.embedded import EmbeddedPostgres, EmbeddedPostgresError
from rmhdag.lab.bench.measures import percentile
from rmhdag.lab.bench.rig import DISK
from rmhdag.lab.bench.workflows import register
from rmhdag.lab.chaos.checker import ANSWER_SECONDS, SETTLEMENT, Checker, Violation
from rmhdag.lab.chaos.fleet import Fleet
from rmhdag.lab.chaos.growth import Sampler, growth_report
from rmhdag.lab.chaos.large_workflows import all_kinds
from rmhdag.lab.chaos.nemesis import Nemesis, port_of
from rmhdag.lab.chaos.outages import Timing, definition, run_grid
from rmhdag.lab.chaos.proxy import Proxy
from rmhdag.lab.chaos.records import campaign_record
from rmhdag.lab.chaos.workflows import QUEUE, Kind, small_kinds
from rmhdag.lab.chaos.workload import CROWDED, STEADY, Habits, Workload
from rmhdag.models.chaos_results import add_campaign, read_results
from rmhdag.store import migration
from rmhdag.store.connection import Conn, connect
from rmhdag.workflow.edges import definition_edges

SCHEMA = "dagapp"
DATABASE = "chaos"
AUDIT = Path(__file__).with_name("audit.sql").read_text(encoding="utf-8").encode()
TABLES = (
    "dag_jobs dag_node_states dag_task_results dag_queue_messages dag_inbox dag_job_events dag_dead_letters "
    "dag_job_commands"
).split()
# While everything goes wrong at once no death can be noticed in time: each watcher is killed, frozen or cut off before
# it has watched for a whole lease. This many leases bound even that; the limit itself is checked after the last fault.
PATIENCE_LEASES = 12
LEAST_PATIENCE_SECONDS = 60.0
# The longest limit of liveness: what was due before the last fault ended has had its time by then.
LATE_SECONDS = 20.0
MOST_SUBJECTS = 20
# Progress is asked for in each slice of this length while the advance connections are ended all the time.
SLICE_SECONDS = 10.0
# What was handled last is still remembered for a few rounds of the duties.
FORGET_SECONDS = 20.0
SAMPLES = 60


class Drill(StrEnum):
    """What goes wrong: everything, nothing, or one thing only."""

    FAULTS = "faults"
    NO_FAULTS = "no_faults"
    ONE_BY_ONE = "one_by_one"
    OUTAGE = "outage"
    OUTAGE_GRID = "outage_grid"
    BROKEN_ADVANCE = "broken_advance"
    SOAK = "soak"


# Nothing is injected, so nothing excuses what comes late, and a thread that had to be restarted died of a defect.
WITHOUT_FAULTS = (Drill.NO_FAULTS, Drill.SOAK)


@dataclass(frozen=True)
class CampaignOptions:
    minutes: float = 10.0
    seed: int = 1
    lease_seconds: float = 10.0
    orchestrators: int = 3
    workers: int = 4
    settle_seconds: float = 120.0
    drill: Drill = Drill.FAULTS
    # The database is away once, for so long, in the middle of the campaign.
    outage_seconds: float = 0.0
    # The grid: every timing of tasks through every outage.
    outages: tuple[float, ...] = ()
    timings: tuple[Timing, ...] = ()
    jobs_per_cell: int = 60
    # Finished jobs are kept for so long in a soak, so that tables come to a size that they keep.
    retention_seconds: float = 300.0
    # Only workflows with small values.
    small: bool = False

    @property
    def kinds(self) -> dict[str, Kind]:
        return small_kinds() if self.small or self.drill is Drill.BROKEN_ADVANCE else all_kinds()

    @property
    def command(self) -> str:
        """What repeats the campaign."""
        usual = CampaignOptions()
        words = [f"rmhdag chaos --minutes {self.minutes:g} --seed {self.seed}"]
        words += [f"--lease {self.lease_seconds:g}"] * (self.lease_seconds != usual.lease_seconds)
        words += [f"--orchestrators {self.orchestrators}"] * (self.orchestrators != usual.orchestrators)
        words += [f"--workers {self.workers}"] * (self.workers != usual.workers)
        words += [f"--{self.drill.replace('_', '-')}"] * (self.drill is not usual.drill)
        words += ["--small"] * self.small
        return " ".join(words)

    @property
    def habits(self) -> Habits:
        return {Drill.NO_FAULTS: CROWDED, Drill.SOAK: STEADY}.get(self.drill, Habits())


def run_campaign(options: CampaignOptions, say: Callable[[str], None], record: Path | None = None) -> dict[str, Any]:
    """The report. `ok` is false if anything that must hold did not; then `evidence` names a folder that is kept. Its
    figures are added to the file `record`.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"rmhdag-chaos-{os.getpid()}-", dir=DISK if DISK.is_dir() else None))
    folder.chmod(0o711)
    try:
        report = Campaign(options, folder, say).run()
    except BaseException:
        # Interrupted or broken: nothing was decided, and nothing is left behind.
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if report["ok"]:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        (folder / "report.json").write_text(json.dumps(report, indent=2, default=str), encoding="utf-8")
    if record is not None:
        today = datetime.now(UTC).date()
        add_campaign(record, campaign_record(report, command=options.command, version=rmhdag.__version__, day=today))
    return report


def can_take_record(file: Path) -> bool:
    """Asked before a campaign rather than after it."""
    try:
        return bool(read_results(file).campaigns) if file.exists() else file.absolute().parent.is_dir()
    except (OSError, ValueError):
        return False


class DsnOfTheMoment:
    """Where the database is. A restarted server may have another port; while it is away, it is where it was."""

    def __init__(self, postgres: EmbeddedPostgres) -> None:
        self._postgres = postgres
        self._last = postgres.dsn(DATABASE)

    def __call__(self) -> str:
        with suppress(EmbeddedPostgresError):
            self._last = self._postgres.dsn(DATABASE)
        return self._last


class Campaign:
    def __init__(self, options: CampaignOptions, folder: Path, say: Callable[[str], None]) -> None:
        self._options = options
        self._folder = folder
        self._say = say
        self._began = time.monotonic()
        self._stack = ExitStack()

    def _log(self, text: str) -> None:
        line = f"{time.monotonic() - self._began:8.1f} s  {text}"
        with (self._folder / "nemesis.log").open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        self._say(line)

    def run(self) -> dict[str, Any]:
        options = self._options
        with self._stack:
            postgres = self._stack.enter_context(EmbeddedPostgres(self._folder / "pg"))
            dsn = postgres.create_database(DATABASE)
            self._prepare(dsn)
            proxy = Proxy(port_of(dsn))
            self._stack.callback(proxy.stop)
            proxy.start()
            through = dsn.replace(f":{port_of(dsn)}/", f":{proxy.port}/")
            sizes = (options.orchestrators, options.workers)
            fleet = Fleet(through, SCHEMA, self._folder, QUEUE, options.lease_seconds, sizes, self._settings())
            self._stack.callback(fleet.kill)
            fleet.start()
            now_at = DsnOfTheMoment(postgres)
            nemesis = Nemesis(fleet, proxy, postgres, DATABASE, SCHEMA, options.seed, options.lease_seconds, self._log)
            if options.drill is Drill.OUTAGE_GRID:
                report = self._run_grid(now_at, nemesis)
            else:
                report = self._run_load(now_at, nemesis, fleet)
            if not report["ok"]:
                postgres_log = self._folder / "pg" / "server.log"
                if postgres_log.exists():
                    shutil.copy(postgres_log, self._folder / "postgresql.log")
            fleet.kill()
        shutil.rmtree(self._folder / "pg", ignore_errors=True)
        return report

    def _settings(self) -> dict[str, Any]:
        if self._options.drill is not Drill.SOAK:
            return {}
        days = self._options.retention_seconds / 86_400
        return {"retention_days": days, "retention_history_days": days, "retention_payload_days": days}

    def _run_grid(self, now_at: DsnOfTheMoment, nemesis: Nemesis) -> dict[str, Any]:
        options = self._options
        cells = run_grid(now_at, SCHEMA, nemesis, options.timings, options.outages, options.jobs_per_cell)
        unwell = [cell for cell in cells if cell.completed != cell.jobs]
        report: dict[str, Any] = {
            "ok": not unwell and not nemesis.unexpected,
            "seed": options.seed,
            "drill": options.drill,
            "lease_seconds": options.lease_seconds,
            "cells": [cell._asdict() for cell in cells],
            "failed": sum(cell.failed for cell in cells),
            "stuck": sum(cell.open for cell in cells),
            "unexpected": nemesis.unexpected,
            "violations": [],
        }
        if not report["ok"]:
            report["evidence"] = str(self._folder)
        return report

    def _run_load(self, now_at: DsnOfTheMoment, nemesis: Nemesis, fleet: Fleet) -> dict[str, Any]:
        options = self._options
        workload = Workload(now_at, SCHEMA, options.kinds, options.seed, options.habits)
        self._stack.callback(workload.close)
        self._stack.callback(workload.stop)
        patience = max(LEAST_PATIENCE_SECONDS, PATIENCE_LEASES * options.lease_seconds) + options.outage_seconds

        def grace() -> float:
            """A fault holds up what is due for some leases; long after the last one nothing does."""
            calm = options.drill in WITHOUT_FAULTS or nemesis.calm_seconds() > 2 * options.lease_seconds + LATE_SECONDS
            return 0.0 if calm else patience

        checker = Checker(
            now_at,
            SCHEMA,
            options.kinds,
            patience,
            lease_seconds=options.lease_seconds,
            faults=options.drill not in WITHOUT_FAULTS,
            grace=grace,
        )
        self._stack.callback(checker.stop)
        sampler = Sampler(now_at, SCHEMA, fleet, max(1.0, options.minutes * 60 / SAMPLES))
        self._stack.callback(sampler.stop)
        for part in (workload, checker, sampler):
            part.start()
        self._let_go_wrong(nemesis, lambda: bool(checker.violations or checker.error or workload.error))
        self._log("no more faults")
        sampler.stop()
        nemesis.heal()
        workload.stop()
        healed = time.monotonic()
        stuck = self._wait_until_quiet(now_at(), nemesis, checker, workload)
        checker.stop()
        for error in (workload.error, checker.error):
            if error is not None:
                raise error
        settled_seconds = time.monotonic() - healed
        with checker.connect() as conn:
            if not stuck:
                checker.wait_until_memory_is_free(conn, FORGET_SECONDS + 2 * options.lease_seconds)
            if options.drill is Drill.SOAK:
                # What is older may be half pruned, and what was accepted is gone by now.
                checker.check(conn, datetime.now(UTC) - timedelta(seconds=options.retention_seconds / 2), patience)
                checker.check_payloads(conn, 3 * options.retention_seconds + patience)
            else:
                checker.check_all(conn, list(workload.accepted), options.lease_seconds + 5)
            report = self._report(conn, workload, checker, nemesis, stuck, settled_seconds)
            self._add_of_drill(conn, report, sampler)
        if not report["ok"]:
            report["evidence"] = str(self._folder)
            self._keep_evidence(now_at(), list(checker.violations), stuck)
        return report

    def _add_of_drill(self, conn: Conn, report: dict[str, Any], sampler: Sampler) -> None:
        if self._options.drill is Drill.SOAK:
            report["growth"] = growth_report(sampler.samples)
            report["ok"] = report["ok"] and not report["growth"]["grew"] and bool(report["growth"]["figures"])
        if self._options.drill is Drill.BROKEN_ADVANCE:
            slices = [row[0] for row in conn.execute(SETTLEMENT["progress"], self._broken).fetchall()]
            report["nodes_completed_meanwhile"] = slices
            report["ok"] = report["ok"] and bool(slices) and all(slices)

    def _let_go_wrong(self, nemesis: Nemesis, should_stop: Callable[[], bool]) -> None:
        options = self._options
        seconds = options.minutes * 60
        match options.drill:
            case Drill.ONE_BY_ONE:
                nemesis.kill_one_by_one(seconds, should_stop)
            case Drill.OUTAGE:
                nemesis.idle((seconds - options.outage_seconds) / 2, should_stop)
                nemesis.take_database_away(options.outage_seconds)
                nemesis.idle((seconds - options.outage_seconds) / 2, should_stop)
            case Drill.NO_FAULTS:
                # Who takes a job over looks at its rows again, which heals what was forgotten: so also without moves.
                for part in (nemesis.idle, nemesis.move_jobs, nemesis.idle):
                    part(seconds / 3, should_stop)
            case Drill.BROKEN_ADVANCE:
                nemesis.idle(SLICE_SECONDS, should_stop)
                began = datetime.now(UTC)
                nemesis.break_advance(seconds, should_stop)
                self._broken = {"began": began, "ended": datetime.now(UTC), "slice": SLICE_SECONDS}
            case Drill.SOAK:
                nemesis.idle(seconds, should_stop)
            case _:
                nemesis.run(seconds, should_stop)

    def _prepare(self, dsn: str) -> None:
        migration.apply(dsn, SCHEMA)
        with connect(dsn, "chaos:setup", autocommit=True) as conn:
            conn.execute("SELECT set_config('search_path', %s, false)", [SCHEMA])
            conn.execute(AUDIT)
            for timing in self._options.timings:
                register(conn, definition(timing))
            for kind in self._options.kinds.values():
                describe_kind(conn, kind)

    def _wait_until_quiet(self, dsn: str, nemesis: Nemesis, checker: Checker, workload: Workload) -> list[str]:
        """The jobs that are still open when the time is over; none if all is well."""
        deadline = time.monotonic() + self._options.settle_seconds
        with connect(dsn, "chaos:settle", autocommit=True, statement_timeout_seconds=ANSWER_SECONDS) as conn:
            conn.execute("SELECT set_config('search_path', %s, false)", [SCHEMA])
            while True:
                nemesis.look_after()
                workload.finish()
                open_jobs = [row[0] for row in conn.execute(SETTLEMENT["open_jobs"]).fetchall()]
                remainder = conn.execute(SETTLEMENT["left_over"]).fetchone()
                if not open_jobs and remainder == (0, 0):
                    return []
                if time.monotonic() > deadline or checker.violations:
                    self._log(f"{len(open_jobs)} jobs are open, {remainder} rows in queue and inbox")
                    return open_jobs
                time.sleep(0.1)

    def _report(
        self,
        conn: Conn,
        workload: Workload,
        checker: Checker,
        nemesis: Nemesis,
        stuck: list[str],
        settled_seconds: float,
    ) -> dict[str, Any]:
        row = conn.execute(SETTLEMENT["counts"]).fetchone()
        assert row is not None
        names = "jobs completed failed cancelled tasks leases_lost jobs_reclaimed nodes_lost dead_letters".split()
        violations = list(checker.violations)
        lost = [
            violation
            for violation in violations
            if violation.invariant in ("i1_none_vanishes", "i6_completed_means_a_result")
        ]
        twice = [
            violation
            for violation in violations
            if violation.invariant in ("i6_one_result_per_node", "i9_nothing_completes_twice")
        ]
        report: dict[str, Any] = {
            "ok": not violations and not stuck and not nemesis.unexpected,
            "seed": self._options.seed,
            "drill": self._options.drill,
            "minutes": self._options.minutes,
            "lease_seconds": self._options.lease_seconds,
            "accepted": len(workload.accepted),
            "asked": {name: workload.asked[name] for name in ("cancel", "decide", "retry_node", "rerun")},
            **dict(zip(names, row, strict=True)),
            **{name: nemesis.done[name] for name in COUNTERS},
            "lost": len(lost),
            "duplicated": len(twice),
            "stuck": len(stuck),
            "checks": checker.checks,
            "settled_seconds": round(settled_seconds, 1),
            "reclaim_seconds": {
                "orchestrator_noticed": _spread(conn, "jobs_noticed"),
                "worker_noticed": _spread(conn, "tasks_noticed"),
                "task_running_again": _spread(conn, "tasks_running_again"),
                "silent": _spread(conn, "silent_seconds"),
                "handed_over": _spread(conn, "jobs_handed_over"),
            },
            "unexpected": nemesis.unexpected,
            "violated": dict(Counter(violation.invariant for violation in violations)),
            "violations": [violation._asdict() for violation in violations[:MOST_SUBJECTS]],
        }
        if nemesis.work_again_seconds is not None:
            report["work_again_after_outage_seconds"] = round(nemesis.work_again_seconds, 2)
        return report

    def _keep_evidence(self, dsn: str, violations: list[Violation], stuck: list[str]) -> None:
        """All rows of the jobs concerned, beside the logs."""
        jobs = list(dict.fromkeys([*(violation.subject for violation in violations), *stuck]))[:MOST_SUBJECTS]
        dump: dict[str, Any] = {}
        with connect(dsn, "chaos:evidence", autocommit=True, statement_timeout_seconds=ANSWER_SECONDS) as conn:
            conn.execute("SELECT set_config('search_path', %s, false)", [SCHEMA])
            for table in TABLES:
                query = f"SELECT to_jsonb(t) FROM {table} AS t WHERE job_id = ANY(%s)".encode()
                dump[table] = [row[0] for row in conn.execute(query, [jobs]).fetchall()]
            for table in ("dag_orchestrators", "dag_workers", "chaos_seen", "chaos_lives"):
                dump[table] = [row[0] for row in conn.execute(f"SELECT to_jsonb(t) FROM {table} AS t".encode())]
        (self._folder / "rows.json").write_text(json.dumps(dump, indent=1, default=str), encoding="utf-8")


def describe_kind(conn: Conn, kind: Kind) -> None:
    """Registers the workflow, and leaves for the invariants what they must know of it."""
    register(conn, kind.definition)
    for edge in definition_edges(kind.definition):
        row = [kind.definition.workflow_id, edge.source, edge.target, edge.group]
        conn.execute("INSERT INTO chaos_edges VALUES (%s, %s, %s, %s)", row)
    for node_id, node in kind.definition.nodes.items():
        conn.execute("INSERT INTO chaos_nodes VALUES (%s, %s, %s)", [kind.definition.workflow_id, node_id, node.type])


COUNTERS = (
    "kills freezes freezes_in_transaction wake_ups_after_lease database_restarts terminated_backends cuts half_open "
    "delays hand_overs"
).split()


def _spread(conn: Conn, query: str) -> dict[str, Any]:
    """Over all, and over those during which nothing else went wrong."""
    rows = [(row[0], row[1]) for row in conn.execute(SETTLEMENT[query]).fetchall() if row[0] is not None]
    return _percentiles([seconds for seconds, _ in rows]) | {
        "undisturbed": _percentiles([seconds for seconds, disturbed in rows if not disturbed])
    }


def _percentiles(samples: list[float]) -> dict[str, Any]:
    if not samples:
        return {"count": 0}
    return {
        "count": len(samples),
        "p50": round(percentile(samples, 0.5), 2),
        "p99": round(percentile(samples, 0.99), 2),
        "max": round(max(samples), 2),
    }
