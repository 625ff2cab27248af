"""Real workers against a real database. The test plays the orchestrator's part: it queues rows and reads results."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.messaging.doorbell import Doorbell
from rmhdag.models.scopes import Scope
from rmhdag.store import processes, tasks
from rmhdag.store.channels import owner_channel, queue_channel
from rmhdag.store.connection import connect
from tests.api.serving import served
from tests.conftest import Servers

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]
QUEUE = "light"
JOB = "job1"
OWNER = "owner1"
RUN_WORKER = """
import json, logging, sys
from pathlib import Path
from rmhdag.storage import StorageSettings
from rmhdag.worker.settings import WorkerSettings
from rmhdag.worker.worker import Worker
logging.basicConfig(level=logging.INFO)
given = json.loads(sys.argv[1])
for name in ("queues", "handler_modules"):
    given[name] = tuple(given[name])
given["scratch_root"] = Path(given["scratch_root"])
given["storage"] = StorageSettings(given.pop("storage_root", None))
Worker(WorkerSettings(**given)).run()
"""


@pytest.fixture(scope="session")
def server(servers: Servers) -> EmbeddedPostgres:
    """One kind of server: what differs between versions is SQL, and that is tested beside the store."""
    return servers.running("wheel18")


@pytest.fixture(scope="session")
def template(servers: Servers, server: EmbeddedPostgres) -> str:
    return servers.migrated_template(server)


class Result(NamedTuple):
    status: str
    error_kind: str | None
    error_message: str | None
    output: Any
    lease_epoch: int
    progress_current: int | None
    execution_duration_ms: int | None


class Desk:
    """The orchestrator's side of the tables, for one job."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.conn = connect(dsn, "desk", autocommit=True)
        self.conn.execute("SET search_path TO dagapp")
        self.conn.execute(
            "INSERT INTO dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by,"
            " root_job_id, owner_id, owner_epoch, status, started_at)"
            " VALUES (%s, 'w', 1, 'h', 'me', 'me', %s, %s, 1, 'running', clock_timestamp())",
            [JOB, JOB, OWNER],
        )
        self._bell = Doorbell(dsn, "dagapp", [owner_channel(OWNER)])
        self._number = 0

    def close(self) -> None:
        self._bell.close()
        self.conn.close()

    def add(self, handler: str, params: Any = None, **columns: Any) -> str:
        """Queue a task and ring; returns its id."""
        self._number += 1
        row = {
            "task_id": f"t{self._number}",
            "job_id": JOB,
            "node_id": f"n{self._number}",
            "queue": QUEUE,
            "handler": handler,
            "order_key": self._number,
            "fairness_key": "me",
            "params": json.dumps(params or {}),
            "timeout_seconds": 60,
            **columns,
        }
        values = ", ".join(f"%({name})s" for name in row)
        with self.conn.transaction():
            self.conn.execute(f"INSERT INTO dag_queue_messages ({', '.join(row)}) VALUES ({values})".encode(), row)
            self.conn.execute("SELECT pg_notify(%s, '')", [queue_channel(str(row["queue"]))])
        return str(row["task_id"])

    def wait(self, observe: Callable[[], T | None], timeout_seconds: float = 30) -> T:
        """The first thing observed that is neither None nor false; looked for whenever somebody rings, or soon."""
        deadline = time.monotonic() + timeout_seconds
        while not (found := observe()):
            assert time.monotonic() < deadline, f"not observed within {timeout_seconds} s"
            self._bell.wait(0.05)
        return found

    def result(self, task_id: str) -> Result:
        """The accepted result, when it is there."""
        return self.wait(lambda: self.find_result(task_id))

    def find_result(self, task_id: str, statuses: str = "{completed,failed,cancelled}") -> Result | None:
        row = self.conn.execute(
            "SELECT status, error_kind, error_message, output, lease_epoch, progress_current, execution_duration_ms"
            " FROM dag_task_results WHERE task_id = %s AND status = ANY(%s::task_status[])",
            [task_id, statuses],
        ).fetchone()
        return None if row is None else Result(*row)

    def queued(self, task_id: str) -> dict[str, Any] | None:
        cursor = self.conn.execute("SELECT * FROM dag_queue_messages WHERE task_id = %s", [task_id])
        row = cursor.fetchone()
        assert cursor.description is not None
        return None if row is None else dict(zip([column.name for column in cursor.description], row, strict=True))

    def started(self, task_id: str) -> dict[str, Any]:
        """The queue row once its start is marked."""
        return self.wait(lambda: (row := self.queued(task_id)) and row["started_at"] and row)

    def inbox(self, task_id: str) -> list[tuple[str, dict[str, Any]]]:
        query = "SELECT kind, payload FROM dag_inbox WHERE task_id = %s ORDER BY inbox_id"
        return self.conn.execute(query, [task_id]).fetchall()

    def log(self, task_id: str) -> str:
        query = "SELECT content FROM dag_task_logs WHERE task_id = %s ORDER BY created_at, lease_epoch, chunk_index"
        return "".join(content for (content,) in self.conn.execute(query, [task_id]))

    def worker_ids(self) -> list[str]:
        return [row[0] for row in self.conn.execute("SELECT worker_id FROM dag_workers ORDER BY worker_id")]

    def stats(self, worker_id: str) -> dict[str, Any]:
        """What its last heartbeat said."""
        row = self.conn.execute("SELECT stats FROM dag_workers WHERE worker_id = %s", [worker_id]).fetchone()
        return {} if row is None else dict(row[0] or {})

    def silent_seconds(self, worker_id: str) -> float:
        query = "SELECT extract(epoch FROM clock_timestamp() - heartbeat_at) FROM dag_workers WHERE worker_id = %s"
        row = self.conn.execute(query, [worker_id]).fetchone()
        assert row is not None
        return float(row[0])

    def declare_dead(self, worker_id: str) -> int:
        """As the orchestrator's duty does it."""
        with self.conn.transaction():
            processes.remove_workers(self.conn, [worker_id])
            return tasks.report_lost_tasks(self.conn, [worker_id])

    def requeue(self, task_id: str, lease_losses: int) -> None:
        """As the orchestrator does it after a loss."""
        self.conn.execute(
            "UPDATE dag_queue_messages SET worker_id = NULL, claimed_at = NULL, started_at = NULL,"
            " lease_epoch = lease_epoch + 1, lease_losses = %s WHERE task_id = %s",
            [lease_losses, task_id],
        )
        self.conn.execute("SELECT pg_notify(%s, '')", [queue_channel(QUEUE)])


@pytest.fixture(scope="module")
def transport(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", "database"))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Modules that say so run with workers that have the database, and again with workers that have only the API."""
    if getattr(metafunc.module, "OVER_BOTH_TRANSPORTS", False) and "transport" in metafunc.fixturenames:
        metafunc.parametrize("transport", ["database", "http"], indirect=True, scope="module")


@contextmanager
def reached(desk: Desk, transport: str) -> Iterator[dict[str, Any]]:
    """What a worker is told about where the platform is."""
    if transport == "database":
        yield {"dsn": desk.dsn}
        return
    with served(desk.dsn) as api:
        yield {"api_url": api.url, "api_key": api.key(Scope.WORKER)}


@contextmanager
def open_desk(server: EmbeddedPostgres, template: str) -> Iterator[Desk]:
    """In a database of its own."""
    name = f"test_{uuid.uuid4().hex}"
    made = Desk(server.create_database(name, template=template))
    yield made
    made.close()
    server.drop_database(name)


@pytest.fixture
def desk(server: EmbeddedPostgres, template: str) -> Iterator[Desk]:
    with open_desk(server, template) as made:
        yield made


# What a worker may know and its children must not.
BAIT = dict.fromkeys(
    "RMHDAG_DATABASE_URL RMHDAG_KEY RMHDAG_CALLBACK_SECRET_KEY SERVICE_BUS_CONNECTION_STRING".split(), "x"
)


class WorkerProcess:
    """A worker in a process of its own, with the fault handlers and with shorter times."""

    def __init__(self, desk: Desk, scratch: Path, fault: dict[str, Any] | None = None, **settings: Any) -> None:
        """`fault` says what fails in it (tests.worker.faulty)."""
        given = {
            "queues": [QUEUE],
            "concurrency": 2,
            "handler_modules": ["tests.worker.fault_handlers"],
            "scratch_root": scratch,
            "heartbeat_seconds": 0.2,
            "lease_check_seconds": 0.1,
            "grace_seconds": 0.3,
            "start_mark_seconds": 0.2,
            **settings,
        }
        self.desk = desk
        self.scratch = scratch
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-W", "error"),
                *(["-c", RUN_WORKER] if fault is None else ["-m", "tests.worker.faulty"]),
                *(json.dumps(given, default=str), json.dumps(fault)),
            ],
            env={**os.environ, **BAIT, "PYTHONPATH": path},
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_ready(self) -> str:
        """Its worker id."""
        return self.desk.wait(self.find_worker_id)

    def find_worker_id(self) -> str | None:
        assert self.process.poll() is None, self.said()
        query = "SELECT worker_id FROM dag_workers WHERE process_id = %s ORDER BY started_at DESC"
        row = self.desk.conn.execute(query, [self.process.pid]).fetchone()
        return None if row is None else str(row[0])

    def children(self) -> set[int]:
        found = set()
        for thread in Path(f"/proc/{self.process.pid}/task").iterdir():
            found |= {int(pid) for pid in (thread / "children").read_text().split()}
        return found

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM, timeout_seconds: float = 30) -> int:
        self.send(number)
        return self.process.wait(timeout_seconds)

    def said(self) -> str:
        self.process.kill()
        return self.process.communicate()[1]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        if self.process.stderr is not None and not self.process.stderr.closed:
            self.process.communicate()


StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
def start_worker(desk: Desk, tmp_path: Path, transport: str) -> Iterator[StartWorker]:
    """Start workers; those that still run at the end are killed."""
    started: list[WorkerProcess] = []
    with reached(desk, transport) as where:

        def start(**settings: Any) -> WorkerProcess:
            worker = WorkerProcess(desk, tmp_path / "scratch", **{**where, **settings})
            started.append(worker)
            worker.wait_until_ready()
            return worker

        yield start
        for worker in started:
            worker.close()


@pytest.fixture
def worker(start_worker: StartWorker) -> WorkerProcess:
    return start_worker()


@pytest.fixture(scope="module")
def shared_worker(
    server: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory, transport: str
) -> Iterator[WorkerProcess]:
    """One worker for the tests of a module that leave it as it was; it may lose a child."""
    with open_desk(server, template) as desk, reached(desk, transport) as where:
        worker = WorkerProcess(desk, tmp_path_factory.mktemp("scratch"), **where)
        worker.wait_until_ready()
        yield worker
        worker.close()


@pytest.fixture
def shared_desk(shared_worker: WorkerProcess) -> Desk:
    return shared_worker.desk


@pytest.fixture
def gate(tmp_path: Path) -> "Gate":
    return Gate(tmp_path / "gate")


class Gate:
    """Handlers that wait at a gate run until the test opens it."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = str(path)

    def open(self) -> None:
        """Blocks until a handler waits there."""
        with Path(self.path).open("w") as gate:
            gate.write("go")
