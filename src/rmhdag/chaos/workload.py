"""People who submit and cancel without a break. What was accepted is remembered here, apart from the database."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import psycopg

from rmhdag.chaos.workflows import Kind
from rmhdag.models.jobs import CommandKind
from rmhdag.orchestrator.submissions import submit
from rmhdag.store import commands
from rmhdag.store.commands import Command
from rmhdag.store.connection import connect
from rmhdag.store.identity import new_id

NAMESPACE = "default"
# As a client would that sees the database come and go.
RETRY_SECONDS = 0.3


class Workload:
    """Keeps about `open_jobs` jobs going until it is stopped."""

    def __init__(self, dsn: Callable[[], str], schema: str, kinds: dict[str, Kind], seed: int, open_jobs: int) -> None:
        self._dsn = dsn
        self._schema = schema
        self._kinds = kinds
        self._random = Random(f"workload {seed}")
        self._open_jobs = open_jobs
        self._stopping = threading.Event()
        self._conn: psycopg.Connection[Any] | None = None
        self._cancels: list[tuple[float, str]] = []
        self.accepted: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="workload", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """No more submissions; cancellations that were planned are still made."""
        self._stopping.set()
        self._thread.join(60)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                if self._count_open() < self._open_jobs:
                    for _ in range(5):
                        self._submit_one()
                self._cancel_due(time.monotonic())
                self._stopping.wait(0.1)
            self._cancel_due(float("inf"))
        except BaseException as error:
            self.error = error
        finally:
            if self._conn is not None:
                self._conn.close()

    def _count_open(self) -> int:
        row = self._patiently(
            lambda conn: conn.execute("SELECT count(*) FROM dag_jobs WHERE completed_at IS NULL").fetchone()
        )
        return int(row[0])

    def _submit_one(self) -> None:
        names = list(self._kinds)
        (workflow_id,) = self._random.choices(names, [self._kinds[name].share for name in names])
        key = f"chaos-{sum(self.asked.values())}"
        self.asked[workflow_id] += 1
        params = {"x": self._random.randrange(1000)}
        # The same key again, until there is an answer: a commit of which nobody knows must not make two jobs.
        job_id = self._patiently(
            lambda conn: submit(
                conn, workflow_id, params, submitted_by="chaos", idempotency_key=key, source_app="chaos"
            )
        )
        self.accepted[job_id] = workflow_id
        if self._kinds[workflow_id].cancel:
            self._cancels.append((time.monotonic() + self._random.uniform(0, 6), job_id))

    def _cancel_due(self, now: float) -> None:
        due = [job_id for at, job_id in self._cancels if at <= now]
        self._cancels = [(at, job_id) for at, job_id in self._cancels if at > now]
        for job_id in due:
            command = Command(
                command_id=new_id(),
                namespace=NAMESPACE,
                job_id=job_id,
                kind=CommandKind.CANCEL,
                issued_by="chaos",
                body={"reason": "chaos"},
            )
            self._patiently(lambda conn, command=command: _issue_once(conn, command))

    def _patiently(self, action: Any) -> Any:
        while True:
            try:
                if self._conn is None:
                    self._conn = connect(self._dsn(), "chaos:workload", autocommit=True)
                    self._conn.execute("SELECT set_config('search_path', %s, false)", [self._schema])
                return action(self._conn)
            except psycopg.OperationalError:
                if self._conn is not None:
                    self._conn.close()
                self._conn = None
                time.sleep(RETRY_SECONDS)


def _issue_once(conn: psycopg.Connection[Any], command: Command) -> None:
    try:
        commands.issue_command(conn, command)
    except psycopg.errors.UniqueViolation:
        return  # an earlier try went through although it seemed to fail
