"""A platform in one process: orchestrators that take a turn when told to, and a worker that is a pair of functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from rmhdag.models.events import ErrorKind
from rmhdag.models.leases import ClaimedTask, TaskReport
from rmhdag.models.states import TaskStatus
from rmhdag.orchestrator.advance import Advance
from rmhdag.orchestrator.aggregation import answer_fan_in
from rmhdag.orchestrator.context import Context, OrchestratorSettings
from rmhdag.orchestrator.duties import claim_submissions, strays, timers
from rmhdag.orchestrator.owned_jobs import OwnedJobs
from rmhdag.orchestrator.trust import SilenceWatch
from rmhdag.services.submissions import submit
from rmhdag.store import processes, tasks, workflows
from rmhdag.store.connection import Conn, connect
from rmhdag.store.identity import new_id
from rmhdag.workflow import definition_hash, definition_json
from rmhdag.workflow.definition import WorkflowDefinition

QUEUE = "light"


def open_connection(dsn: str) -> Conn:
    conn = connect(dsn, "test", autocommit=True)
    conn.execute("SET search_path TO dagapp")
    return conn


class Seat:
    """One orchestrator without threads."""

    def __init__(self, dsn: str, settings: OrchestratorSettings | None = None) -> None:
        self.me = new_id()
        self.conn = open_connection(dsn)
        self.settings = settings or OrchestratorSettings()
        processes.register_orchestrator(self.conn, self.me, "here", 1, "0")
        owned = OwnedJobs(self.me, {}, 10**8, self.settings.template_env)
        self.advance = Advance(self.conn, self.me, owned, self.settings.catalogue, self.settings.storage)
        ttl = self.settings.ttl_seconds
        watches = SilenceWatch(ttl), SilenceWatch(ttl)
        self.context = Context(self.conn, self.me, "dagapp", self.settings, self.advance, *watches)

    def work(self) -> None:
        """Claim, fire timers, advance and aggregate until nothing is left to do."""
        while True:
            busy = claim_submissions.run_once(self.context) + timers.run_once(self.context)
            strays.run_once(self.context)
            while self.advance.run_once(whole_inbox=True):
                busy += 1
            while request := self.advance.fan_ins.take():
                self.advance.give([answer_fan_in(self.conn, request)])
                self.advance.fan_ins.finish()
                busy += 1
            # A job that failed alone is tried again after a short pause.
            if not busy and not self.advance.sizes()["suspects"]:
                return

    def close(self) -> None:
        self.advance.close()
        self.conn.close()


class Platform:
    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = open_connection(dsn)
        self.seats: list[Seat] = []
        self.worker_id = new_id()
        self.conn.execute(
            "INSERT INTO dag_workers (worker_id, host, process_id, version, slots) VALUES (%s, 'here', 1, '0', 1)",
            [self.worker_id],
        )

    def seat(self, settings: OrchestratorSettings | None = None) -> Seat:
        self.seats.append(Seat(self.dsn, settings))
        return self.seats[-1]

    def close(self) -> None:
        for seat in self.seats:
            seat.close()
        self.conn.close()

    def register(self, definition: WorkflowDefinition, namespace: str = "default") -> None:
        stored = workflows.StoredWorkflow(
            definition.workflow_id, definition.version, definition_hash(definition), definition_json(definition)
        )
        workflows.register_workflow(self.conn, namespace, stored, "test", {})

    def submit(self, definition: WorkflowDefinition, params: Mapping[str, Any] | None = None, **more: Any) -> str:
        self.register(definition, more.get("namespace", "default"))
        return submit(self.conn, definition.workflow_id, params or {}, submitted_by=more.pop("by", "ann"), **more)

    # -- the worker ------------------------------------------------------------------------------------------------

    def claim(self, limit: int = 100) -> list[ClaimedTask]:
        return tasks.claim_tasks(self.conn, self.worker_id, QUEUE, limit)

    def succeed(self, *claimed: ClaimedTask, output: Any = None) -> set[str]:
        text = orjson.dumps({} if output is None else output)
        done = [TaskReport(t.task_id, t.lease_epoch, TaskStatus.COMPLETED, duration_ms=1, output=text) for t in claimed]
        return tasks.report_tasks(self.conn, self.worker_id, done)

    def fail(self, *claimed: ClaimedTask, kind: ErrorKind = ErrorKind.HANDLER_ERROR) -> set[str]:
        done = [TaskReport(t.task_id, t.lease_epoch, TaskStatus.FAILED, kind, "boom", 1) for t in claimed]
        return tasks.report_tasks(self.conn, self.worker_id, done)

    def finish(self, seat: Seat, output: Any = None) -> None:
        """Let orchestrator and worker take turns until both have nothing left to do."""
        seat.work()
        while claimed := self.claim():
            self.succeed(*claimed, output=output)
            seat.work()

    # -- what the rows say -----------------------------------------------------------------------------------------

    def job(self, job_id: str) -> dict[str, Any]:
        row = self.conn.execute(
            "SELECT status, ending, error_message, result_data, owner_id, owner_epoch FROM dag_jobs WHERE job_id = %s",
            [job_id],
        ).fetchone()
        assert row is not None
        return dict(zip(("status", "ending", "error_message", "result", "owner_id", "owner_epoch"), row, strict=True))

    def nodes(self, job_id: str) -> dict[str, str]:
        rows = self.conn.execute("SELECT node_id, status FROM dag_node_states WHERE job_id = %s", [job_id])
        return {node_id: str(status) for node_id, status in rows}

    def events(self, job_id: str) -> list[str]:
        query = "SELECT event_type FROM dag_job_events WHERE job_id = %s ORDER BY seq"
        return [str(row[0]) for row in self.conn.execute(query, [job_id])]

    def count(self, table: str) -> int:
        row = self.conn.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
        assert row is not None
        return int(row[0])
