"""What is measured: a database with the schema in it, an orchestrator and a worker; jobs go in, times come out."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.lab.bench import workflows
from rmhdag.lab.bench.process import spawn
from rmhdag.services.submissions import job_row
from rmhdag.store import jobs, migration
from rmhdag.store.connection import Conn, connect
from rmhdag.store.identity import new_id
from rmhdag.store.workflows import StoredWorkflow
from rmhdag.workflow.definition import WorkflowDefinition

SCHEMA = "dagapp"
POLL_SECONDS = 0.01
PROCESS_SECONDS = 60.0
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
# Durability is measured on a disk; the usual folder for temporary files may be in memory.
DISK = Path("/var/tmp")


class BenchFailed(Exception):
    """The platform did not do what is to be measured."""


@dataclass
class Server:
    """Where databases are made: an embedded server of our own, with fsync on, or one that was named."""

    url: str | None
    folder: Path
    _embedded: EmbeddedPostgres | None = None
    _made: list[str] = field(default_factory=list)

    def create_database(self) -> str:
        """A fresh database with the schema in it. Notices reach a whole database, so each platform has its own."""
        name = f"rmhdag_bench_{new_id()[-12:]}"
        self._administer(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        self._made.append(name)
        dsn = self._embedded.dsn(name) if self._embedded else make_conninfo(self.url or "", dbname=name)
        migration.apply(dsn, SCHEMA)
        return dsn

    def drop_databases(self) -> None:
        for name in self._made:
            with suppress(psycopg.Error):
                self._administer(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _administer(self, statement: sql.Composed) -> None:
        with psycopg.connect(self._embedded.dsn() if self._embedded else self.url or "", autocommit=True) as conn:
            conn.execute(statement)


@contextmanager
def open_server(url: str | None) -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="rmhdag-bench-", dir=DISK if DISK.is_dir() else None))
    folder.chmod(0o711)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        embedded = stack.enter_context(EmbeddedPostgres(folder / "pg", remove_on_stop=True)) if url is None else None
        server = Server(url, folder, embedded)
        if embedded is None:
            stack.callback(server.drop_databases)
        yield server


class Rig:
    """One orchestrator and one worker on a database of their own, ready when the `with` block begins."""

    def __init__(
        self, server: Server, *, concurrency: int = 1, worker: dict[str, Any] | None = None, **settings: Any
    ) -> None:
        """`settings` are the orchestrator's; `worker` are what the worker is told beside the usual."""
        self.dsn = server.create_database()
        self.conn = open_bench_connection(self.dsn)
        self.log = server.folder / "processes.log"
        self._told_worker = {"queues": [workflows.QUEUE], "concurrency": concurrency, **(worker or {})}
        # What a worker has stored is published by the orchestrator, which has to know where.
        self._settings = settings | {"storage": self._told_worker.get("storage")}
        self.orchestrator: subprocess.Popen[bytes] | None = None
        self.worker: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.conn.close()

    def start(self) -> None:
        instructions = {"dsn": self.dsn, "schema": SCHEMA}
        self.orchestrator = spawn("orchestrator", instructions | self._settings, self.log)
        self.worker = spawn("worker", self._told_worker | instructions, self.log)
        self.wait_until("SELECT EXISTS (SELECT FROM dag_orchestrators) AND EXISTS (SELECT FROM dag_workers)", 30)

    def stop(self) -> None:
        processes = [process for process in (self.worker, self.orchestrator) if process is not None]
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            try:
                process.wait(PROCESS_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.worker = self.orchestrator = None

    def register(self, definition: WorkflowDefinition) -> StoredWorkflow:
        return workflows.register(self.conn, definition)

    def submit(
        self,
        stored: StoredWorkflow,
        count: int,
        params: dict[str, Any] | None = None,
        *,
        who: str = "bench",
        also: Sequence[str] = (),
        callback_urls: Sequence[str] = (),
    ) -> list[str]:
        """Many jobs in one transaction, as a client with much to do would; `also` are ids that are given."""
        rows = [
            job_row(job_id, stored, params or {}, namespace=workflows.NAMESPACE, submitted_by=who)
            for job_id in [*also, *(new_id() for _ in range(count))]
        ]
        for row, url in zip(rows, callback_urls, strict=False):
            row["callback_url"] = url
        with self.conn.transaction():
            jobs.insert_jobs(self.conn, rows, "bench")
        return [row["job_id"] for row in rows]

    def wait_for(self, job_ids: Sequence[str], timeout_seconds: float) -> None:
        """Until all have ended; a job that did not complete is a failure of the measurement."""
        remaining = list(job_ids)
        began = time.monotonic()
        deadline = began + timeout_seconds
        while remaining:
            # One look-up per poll: the last job that is still open is asked for until it ends.
            row = self.conn.execute(
                "SELECT completed_at IS NULL FROM dag_jobs WHERE job_id = %s", [remaining[-1]]
            ).fetchone()
            if row is not None and not row[0]:
                remaining.pop()
                continue
            now = time.monotonic()
            if now > deadline:
                raise BenchFailed(f"{self._describe_open(job_ids)} after {timeout_seconds:g} s; {self.log_tail()}")
            self._check_alive()
            # What takes long is looked at less often: looking takes from what is measured.
            time.sleep(max(POLL_SECONDS, (now - began) / 200))
        query = "SELECT job_id, error_message FROM dag_jobs WHERE job_id = ANY(%s) AND status <> 'completed' LIMIT 1"
        bad = self.conn.execute(query, [list(job_ids)]).fetchone()
        if bad is not None:
            raise BenchFailed(f"job {bad[0]} did not complete: {bad[1]}")

    def seconds_for(
        self, stored: StoredWorkflow, count: int, params: dict[str, Any] | None = None, timeout_seconds: float = 600
    ) -> float:
        """Wall seconds from the submission of that many jobs to the end of the last."""
        began = time.perf_counter()
        self.wait_for(self.submit(stored, count, params), timeout_seconds)
        return time.perf_counter() - began

    def durations(self, job_ids: Sequence[str]) -> list[float]:
        """Seconds from submission to end of each job that completed, by the database's clock."""
        query = """
            SELECT extract(epoch FROM completed_at - created_at)::float8 FROM dag_jobs
            WHERE job_id = ANY(%s) AND status = 'completed'
        """
        return [row[0] for row in self.conn.execute(query, [list(job_ids)]).fetchall()]

    def orchestrator_cpu_seconds(self) -> float:
        assert self.orchestrator is not None
        fields = Path(f"/proc/{self.orchestrator.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS

    def orchestrator_memory_mb(self, kind: str = "VmRSS") -> float:
        """`VmRSS` is what it has now, `VmHWM` the most it ever had."""
        assert self.orchestrator is not None
        status = Path(f"/proc/{self.orchestrator.pid}/status").read_text(encoding="ascii")
        return int(status.split(f"{kind}:")[1].split()[0]) / 1024

    def log_tail(self, lines: int = 5) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def wait_until(self, query: str, timeout_seconds: float) -> None:
        """Until the query says true."""
        deadline = time.monotonic() + timeout_seconds
        while self.conn.execute(query.encode()).fetchone() != (True,):
            if time.monotonic() > deadline:
                raise BenchFailed(f"waited {timeout_seconds:g} s for {' '.join(query.split())}; {self.log_tail()}")
            self._check_alive()
            time.sleep(POLL_SECONDS)

    def _check_alive(self) -> None:
        for process, name in ((self.orchestrator, "orchestrator"), (self.worker, "worker")):
            if process is not None and process.poll() is not None:
                raise BenchFailed(f"the {name} ended with status {process.returncode}; {self.log_tail(20)}")

    def _describe_open(self, job_ids: Sequence[str]) -> str:
        query = "SELECT count(*) FROM dag_jobs WHERE job_id = ANY(%s) AND completed_at IS NULL"
        row = self.conn.execute(query, [list(job_ids)]).fetchone()
        return f"{row[0] if row else '?'} of {len(job_ids)} jobs had not ended"


def open_bench_connection(dsn: str, *, reads_whole_tables: bool = True) -> Conn:
    conn = connect(
        dsn,
        "bench",
        autocommit=True,
        statement_timeout_seconds=0,
        lock_timeout_seconds=0,
        reads_whole_tables=reads_whole_tables,
    )
    conn.execute("SELECT set_config('search_path', %s, false)", [SCHEMA])
    return conn
