"""People who submit, cancel, decide, retry and rerun without a break. What was accepted is remembered here, apart from
the database."""

from __future__ import annotations

import heapq
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import psycopg

from rmhdag.lab.chaos.workflows import Kind
from rmhdag.models.jobs import CommandKind
from rmhdag.services.reruns import JobNotFinishedError, NothingToRerunError, plan_rerun_of, rerun_job
from rmhdag.services.submissions import Submission, Submitted, submit_many
from rmhdag.store import commands
from rmhdag.store.commands import Command
from rmhdag.store.connection import Conn, connect
from rmhdag.store.identity import new_id

NAMESPACE = "default"
# As a client would that sees the database come and go.
RETRY_SECONDS = 0.3
LOOK_SECONDS = 0.1
SUBMITTERS = ("chaos", "chaos-2", "chaos-3")

WAITING_APPROVALS = b"""
    SELECT job_id, node_id FROM dag_waiting_approvals WHERE node_id = 'gate'
"""
WAITING_RETRIES = b"""
    SELECT n.job_id, n.node_id FROM dag_node_states AS n
    JOIN dag_jobs AS j ON j.job_id = n.job_id AND j.completed_at IS NULL
    WHERE n.next_attempt_at IS NOT NULL AND n.parent_node_id IS NULL LIMIT 20
"""
# Children are their parents' to cancel.
OPEN_JOBS = b"""
    SELECT job_id, workflow_id = 'chaos_brief' FROM dag_jobs WHERE completed_at IS NULL AND parent_job_id IS NULL
"""
FINISHED_JOBS = b"""
    SELECT job_id FROM dag_jobs
    WHERE completed_at > clock_timestamp() - interval '10 s' AND parent_job_id IS NULL AND rerun_of IS NULL
        AND workflow_id NOT IN ('chaos_cancel', 'chaos_timeout', 'chaos_parent_too_large') LIMIT 50
"""


@dataclass(frozen=True)
class Habits:
    """How much is asked for at each look, of which there are ten a second."""

    open_jobs: int = 40
    batch: int = 5
    # So many times `batch` a second, counted by the clock; 0: at each look, as fast as the platform allows.
    per_second: float = 0.0
    # Brief jobs come in waves: so many at each look until so many are open, and none until nearly all have ended.
    brief: int = 0
    wave: int = 0
    # The share of open jobs that somebody cancels, and of brief ones that are cancelled about when they end.
    cancelled: float = 0.002
    cancelled_brief: float = 0.05
    reruns: float = 0.05
    retries: float = 0.1


# More than orchestrators have time for: what waits in memory is what a mistake loses.
CROWDED = Habits(open_jobs=60, brief=100, wave=1_500, cancelled=0.01, cancelled_brief=0.3, reruns=0.2, retries=0.2)

# An hour of what the platform has time for, four jobs of forty tasks a second. By the clock: a load that followed the
# speed of the machine would let tables grow and shrink with what else the machine does.
STEADY = Habits(batch=1, per_second=4.0, open_jobs=400)


class Client:
    """A connection as people have it who see the database come and go."""

    def __init__(self, dsn: Callable[[], str], schema: str) -> None:
        self._dsn = dsn
        self._schema = schema
        self._conn: Conn | None = None

    def patiently(self, action: Any) -> Any:
        while True:
            try:
                if self._conn is None:
                    self._conn = connect(self._dsn(), "chaos:workload", autocommit=True)
                    self._conn.execute("SELECT set_config('search_path', %s, false)", [self._schema])
                return action(self._conn)
            except psycopg.OperationalError:
                self.close()
                time.sleep(RETRY_SECONDS)

    def rows(self, query: bytes) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self.patiently(lambda conn: conn.execute(query).fetchall())
        return rows

    def ask(self, job_id: str, kind: CommandKind, body: dict[str, Any]) -> None:
        command = Command(
            command_id=new_id(), namespace=NAMESPACE, job_id=job_id, kind=kind, issued_by="chaos", body=body
        )
        self.patiently(lambda conn: _issue_once(conn, command))

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
        self._conn = None


class Canceller:
    """Cancels at the moment that was planned, in a thread of its own: who submits is not that punctual."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._planned: list[tuple[float, str]] = []
        self.count = 0

    def plan(self, job_id: str, seconds: float) -> None:
        with self._lock:
            heapq.heappush(self._planned, (time.monotonic() + seconds, job_id))

    def cancel_due(self, now: float) -> None:
        while True:
            with self._lock:
                if not self._planned or self._planned[0][0] > now:
                    return
                _, job_id = heapq.heappop(self._planned)
            self._client.ask(job_id, CommandKind.CANCEL, {"reason": "chaos"})
            self.count += 1

    def close(self) -> None:
        self._client.close()


class Workload:
    """Keeps about `open_jobs` jobs going until it is stopped."""

    def __init__(
        self, dsn: Callable[[], str], schema: str, kinds: dict[str, Kind], seed: int, habits: Habits | None = None
    ) -> None:
        self._client = Client(dsn, schema)
        self._kinds = kinds
        self._random = Random(f"workload {seed}")
        self._habits = habits or Habits()
        self._stopping = threading.Event()
        self._canceller = Canceller(Client(dsn, schema))
        self._submissions = 0
        self._began = time.monotonic()
        self._times = 0
        self._is_rising = True
        self.accepted: dict[str, str] = {}
        self.asked: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._run, name="workload", args=[self._submit_and_decide], daemon=True),
            threading.Thread(target=self._run, name="canceller", args=[self._cancel], daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """No more submissions; cancellations that were planned are still made."""
        self._stopping.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(60)
        self.asked["cancel"] = self._canceller.count

    def finish(self) -> None:
        """After `stop`, from the caller's thread: decide what has come to wait for a decision since."""
        if self.error is None:
            self._canceller.cancel_due(float("inf"))
            self._decide(everything=True)

    def close(self) -> None:
        self._client.close()
        self._canceller.close()

    def _run(self, live: Callable[[], None]) -> None:
        try:
            live()
        except BaseException as error:
            self.error = error

    def _submit_and_decide(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            open_jobs = self._client.rows(OPEN_JOBS)
            brief = sum(is_brief for _, is_brief in open_jobs)
            self._submit(len(open_jobs) - brief, brief)
            self._cancel_some([job_id for job_id, _ in open_jobs])
            self._decide()
            self._retry_and_rerun()

    def _cancel(self) -> None:
        while not self._stopping.wait(0.01):
            self._canceller.cancel_due(time.monotonic())

    # -- submissions -----------------------------------------------------------------------------------------------

    def _submit(self, open_jobs: int, open_brief: int) -> None:
        habits = self._habits
        self._is_rising = open_brief < (habits.wave if self._is_rising else habits.wave / 10)
        if self._is_rising:
            self._submit_all(["chaos_brief"] * habits.brief)
        if open_jobs + (0 if habits.brief else open_brief) >= habits.open_jobs:
            return
        names = list(self._kinds)
        count = habits.batch * self._due_times()
        for name in self._random.choices(names, [self._kinds[name].share for name in names], k=count):
            self._submit_all([name] * self._kinds[name].burst)

    def _due_times(self) -> int:
        """How many submissions are due at this look."""
        if not self._habits.per_second:
            return 1
        due = int((time.monotonic() - self._began) * self._habits.per_second) - self._times
        self._times += due
        return due

    def _submit_all(self, workflow_ids: list[str]) -> None:
        """The same keys again, until there is an answer: a commit of which nobody knows must not make two jobs."""
        submissions = []
        submitter = self._random.choice(SUBMITTERS)
        for workflow_id in workflow_ids:
            self._submissions += 1
            self.asked[workflow_id] += 1
            x = self._random.randrange(1000)
            params = {"x": x, **self._kinds[workflow_id].inputs(x)}
            key = f"chaos-{self._submissions}"
            submissions.append(
                Submission(workflow_id=workflow_id, input_params=params, submitted_by=submitter, idempotency_key=key)
            )
        answers = self._client.patiently(lambda conn: submit_many(conn, submissions, source_app="chaos"))
        for submission, answer in zip(submissions, answers, strict=True):
            if not isinstance(answer, Submitted):
                raise answer
            self.accepted[answer.job_id] = submission.workflow_id
            if self._kinds[submission.workflow_id].cancel:
                self._canceller.plan(answer.job_id, self._random.uniform(0, 6))
            elif submission.workflow_id == "chaos_brief" and self._random.random() < self._habits.cancelled_brief:
                # About when it ends, and again while that is being written.
                self._cancel_twice(answer.job_id, self._random.uniform(0, 3))

    # -- what is asked of jobs -------------------------------------------------------------------------------------

    def _cancel_twice(self, job_id: str, seconds: float) -> None:
        self._canceller.plan(job_id, seconds)
        self._canceller.plan(job_id, seconds + self._random.uniform(0, 0.2))

    def _cancel_some(self, open_jobs: list[str]) -> None:
        """Jobs at any moment of their lives."""
        for job_id in open_jobs:
            if self._random.random() < self._habits.cancelled:
                self._cancel_twice(job_id, self._random.uniform(0, LOOK_SECONDS))

    def _ask(self, job_id: str, kind: CommandKind, body: dict[str, Any]) -> None:
        self.asked[kind] += 1
        self._client.ask(job_id, kind, body)

    def _decide(self, *, everything: bool = False) -> None:
        for job_id, node_id in self._client.rows(WAITING_APPROVALS):
            if everything or self._random.random() < 0.1:
                body = {"node_id": node_id, "approved": self._random.random() < 0.8, "reason": None}
                for _ in range(self._random.choice((1, 1, 2))):
                    self._ask(job_id, CommandKind.DECIDE, body)

    def _retry_and_rerun(self) -> None:
        if self._random.random() < self._habits.retries:
            for job_id, node_id in self._client.rows(WAITING_RETRIES)[:3]:
                self._ask(job_id, CommandKind.RETRY_NODE, {"node_id": node_id})
        if self._random.random() < self._habits.reruns:
            finished = self._client.rows(FINISHED_JOBS)
            if finished:
                self._rerun(self._random.choice(finished)[0])

    def _rerun(self, job_id: str) -> None:
        # The same of the same job, however often it is asked for: the key stands for what is asked.
        everything = job_id[-1] in "02468ace"

        def rerun(conn: Conn) -> str:
            planned = plan_rerun_of(conn, job_id, everything=everything)
            return rerun_job(conn, planned, issued_by="chaos", idempotency_key=f"rerun-{job_id}").job_id

        try:
            self.accepted[self._client.patiently(rerun)] = "rerun"
            self.asked["rerun"] += 1
        except (JobNotFinishedError, NothingToRerunError):
            return


def _issue_once(conn: Conn, command: Command) -> None:
    try:
        commands.issue_command(conn, command)
    except psycopg.errors.UniqueViolation:
        return  # an earlier try went through although it seemed to fail
