"""Real orchestrator and worker processes for fault tests, with leases of a second instead of ten."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psycopg

from rmhdag.models.scopes import Scope
from rmhdag.services.submissions import submit
from rmhdag.store import workflows
from rmhdag.store.api_keys import create_key
from rmhdag.store.connection import connect
from rmhdag.workflow import definition_hash, definition_json
from rmhdag.workflow.definition import RetryRule, TaskNode, TaskSpec, WorkflowDefinition
from tests.store.waiting import wait_until

PATIENCE_SECONDS = 45.0
SHORT_LEASES = {
    "HEARTBEAT_INTERVAL_SEC": "0.3",
    "ORPHAN_THRESHOLD_SEC": "1.5",
    "ORPHAN_SCAN_INTERVAL_SEC": "0.3",
    "POLL_INTERVAL_SEC": "0.3",
    "JOB_QUEUE_NAME": "jobs",
    "DAG_WORKER_QUEUE": "light",
    "WORKER_QUEUE": "light",
}


class Cluster:
    """Processes on one database. Whatever happens, none of them outlives the test."""

    def __init__(self, dsn: str, folder: Path) -> None:
        self.dsn = dsn
        self._folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.conn = self.connect()
        self._api_url: str | None = None
        self._key = ""

    def connect(self) -> psycopg.Connection[Any]:
        conn = connect(self.dsn, "test", autocommit=True)
        conn.execute("SET search_path TO dagapp")
        return conn

    def start(self, role: str, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RMHDAG_")},
            **SHORT_LEASES,
            "RMHDAG_DATABASE_URL": self.dsn,
            "RMHDAG_EXAMPLES": "1",
            "RMHDAG_HOME": str(self._folder / "home"),
            **variables,
        }
        log = (self._folder / f"{role}-{len(self.processes)}.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "rmhdag.cli", role, *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        log.close()
        self.processes.append(process)
        return process

    def orchestrator(self, **variables: str) -> subprocess.Popen[bytes]:
        return self.start("orchestrator", **variables)

    def worker(self, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        """With the database; or, once `over_http` was said, with nothing but the API and a key."""
        given = ("--concurrency", "2", "--handlers", "tests.worker.fault_handlers", *options)
        if self._api_url is None:
            return self.start("worker", *given, **variables)
        only = {"RMHDAG_DATABASE_URL": "", "RMHDAG_API_KEY": self._key, **variables}
        return self.start("worker", "--via-http", self._api_url, *given, **only)

    def over_http(self) -> subprocess.Popen[bytes]:
        """From now on workers have no database. Returns the API that they use."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._api_url = f"http://127.0.0.1:{port}"
        _, self._key = create_key(self.conn, "workers", [Scope.WORKER], created_by="test")
        return self.api()

    @property
    def api_address(self) -> str:
        assert self._api_url is not None
        return self._api_url

    def api(self) -> subprocess.Popen[bytes]:
        """The same one again, if there was one."""
        assert self._api_url is not None
        process = self.start("api", "--port", self._api_url.rpartition(":")[2])
        self.wait_for(self.api_answers, "the API answers")
        return process

    def api_answers(self) -> bool:
        try:
            return httpx.get(f"{self._api_url}/readyz", trust_env=False, verify=False).is_success
        except httpx.TransportError:
            return False

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """The whole group: a worker's children are its own to lose."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)

    def close(self) -> None:
        for process in self.processes:
            self.kill(process)
        self.conn.close()

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}"
            for path in sorted(self._folder.glob("*.log"))
        )

    @property
    def released(self) -> Path:
        """The tasks of held jobs run until this file exists."""
        return self._folder / "released"

    def submit_held(self) -> str:
        """
        A job whose task runs until `release`, and has one attempt only: what happens to its worker is not its failure.

        A task that naps for a second or two is over before a busy machine has started the process that it waits for.
        """
        hold = TaskSpec(
            handler="test.hold", queue="light", params={"until": str(self.released)}, retry=RetryRule(max_attempts=1)
        )
        after = TaskSpec(handler="echo", queue="light", params={})
        nodes = {"nap": TaskNode(task=hold, next=("after",)), "after": TaskNode(task=after)}
        return self.submit(WorkflowDefinition(workflow_id="held", name="Held", nodes=dict(nodes)))

    def release(self) -> None:
        self.released.touch()

    # -- jobs ------------------------------------------------------------------------------------------------------

    def submit(self, definition: WorkflowDefinition, params: Mapping[str, Any] | None = None) -> str:
        stored = workflows.StoredWorkflow(
            definition.workflow_id, definition.version, definition_hash(definition), definition_json(definition)
        )
        workflows.register_workflow(self.conn, "default", stored, "test", {}, development=True)
        return submit(self.conn, definition.workflow_id, params or {}, submitted_by="test")

    def one(self, query: str, *values: Any) -> Any:
        row = self.conn.execute(query.encode(), values).fetchone()
        return None if row is None else row[0]

    def status(self, job_id: str) -> str:
        return str(self.one("SELECT status FROM dag_jobs WHERE job_id = %s", job_id))

    def wait_for(self, condition: Callable[[], object], what: str, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Look at the rows until it is so; if it never is, show what the processes said."""
        try:
            wait_until(lambda: condition() or None, seconds)
        except AssertionError:
            raise AssertionError(f"never came true: {what}\n{self.logs()}") from None

    def wait_for_end(self, *job_ids: str, seconds: float = PATIENCE_SECONDS) -> list[str]:
        self.wait_for(
            lambda: all(self.status(job_id) in ("completed", "failed", "cancelled") for job_id in job_ids),
            "the end of the jobs",
            seconds=seconds,
        )
        return [self.status(job_id) for job_id in job_ids]

    def check_rows(self) -> None:
        """The invariants that hold when everything is at rest."""
        assert self.one("SELECT count(*) FROM dag_queue_messages") == 0, "queue rows are left"
        twice = "SELECT count(*) FROM (SELECT task_id FROM dag_task_results WHERE status IN ('completed', 'failed')"
        assert self.one(f"{twice} GROUP BY task_id HAVING count(*) > 1) AS t") == 0, "a task has two results"
        gaps = (
            "SELECT count(*) FROM (SELECT job_id, max(seq) - count(*) AS gap FROM dag_job_events GROUP BY job_id) AS e"
        )
        assert self.one(f"{gaps} WHERE gap <> 0") == 0, "event numbers have gaps"
        open_nodes = "SELECT count(*) FROM dag_node_states n JOIN dag_jobs j USING (job_id)"
        assert self.one(f"{open_nodes} WHERE j.completed_at IS NOT NULL AND n.completed_at IS NULL") == 0
