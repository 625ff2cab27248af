"""The simulator's store with PostgreSQL beside it: every operation of a seed happens on both, and they must agree.

Where the contract leaves the choice to the store (which of the free rows a claim gets, whom an inbox row is addressed
to while its job changes hands), PostgreSQL chooses, the choice is checked, and the model follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from random import Random
from typing import Any, TypeVar

import orjson

from rmhdag.engine import effects as fx
from rmhdag.engine import inputs
from rmhdag.lab.simulation import reads, rows
from rmhdag.lab.simulation.actor import Actor
from rmhdag.lab.simulation.faults import Fault, Faults
from rmhdag.lab.simulation.invariants import Checker
from rmhdag.lab.simulation.simulate import populate
from rmhdag.lab.simulation.store import Store
from rmhdag.lab.simulation.world import World
from rmhdag.models.jobs import CommandKind
from rmhdag.models.leases import ClaimedTask, TaskReport
from rmhdag.models.records import encode_records
from rmhdag.models.states import JOB_TERMINAL, TaskStatus
from rmhdag.orchestrator.batch import Batch
from rmhdag.orchestrator.owned_jobs import OwnedJob
from rmhdag.orchestrator.turns import Turns
from rmhdag.services.submissions import job_row
from rmhdag.store import commands, inbox, jobs, processes, suspects, tasks, workers
from rmhdag.store.batch_rows import HeldJob
from rmhdag.store.connection import Conn
from rmhdag.store.settle import Settled, settle
from rmhdag.store.workflows import StoredWorkflow
from tests.lab.simulation.differences import differences, has_ended
from tests.lab.simulation.lanes import Disagreement, Lanes
from tests.lab.simulation.latecomers import (
    INTRUDER,
    Attempt,
    claim_of_jobs,
    claim_of_tasks,
    loss_of_tasks,
    stale_checkpoint,
    stale_commit,
    stale_release,
    stale_report,
    stale_requeue,
    stale_start,
)

T = TypeVar("T")
LEFT_OPEN = 0.4  # of all operations
PROVOKED = 0.8  # of those
AFTERWARDS = 0.4  # of these
SENT_AGAIN = 0.1  # of all commits
PEOPLE = "people"
KINDS: dict[type, str] = {
    inputs.TaskStarted: "task_started",
    inputs.TaskReported: "task_reported",
    inputs.TaskSnoozed: "task_snoozed",
    inputs.TaskLost: "task_lost",
    inputs.TaskCheckpointed: "task_checkpointed",
    inputs.TaskWithdrawn: "task_withdrawn",
    inputs.ChildJobEnded: "child_job_ended",
    inputs.CancelJob: "command",
    inputs.Decided: "command",
    inputs.RetryNode: "command",
}
COMMANDS: dict[type, CommandKind] = {
    inputs.CancelJob: CommandKind.CANCEL,
    inputs.Decided: CommandKind.DECIDE,
    inputs.RetryNode: CommandKind.RETRY_NODE,
}


class MirroredStore(Store):
    def __init__(self, clock: Callable[[], datetime], faults: Faults, lanes: Lanes, world: World, seed: int) -> None:
        super().__init__(clock, faults, rows.Guards())
        self.acting = ""
        self._lanes = lanes
        self._world = world
        self._rng = Random(f"lanes {seed}")
        self._turns = Turns(lambda queue, after: None)
        self._owned: dict[str, OwnedJob] = {}
        self._ids: dict[int, int] = {}  # inbox ids, the model's to PostgreSQL's
        self._epochs: dict[str, int] = {}  # as PostgreSQL minted them
        self._touched: set[str] = set()
        self._chosen_jobs: list[str] = []
        self._chosen_tasks: list[str] = []
        self._is_writing = False
        self._is_leaving = False

    # -- how an operation happens on PostgreSQL --------------------------------------------------------------------

    def _perform(self, act: Callable[[Conn], T], jobs_of: Callable[[T], set[str]], *, may_wait: bool = True) -> T:
        """Alone, beside an open transaction, or as one that stays open."""
        self._go_on()
        if self._lanes.open is None and self._rng.random() < LEFT_OPEN:
            answer = self._lanes.run_and_stay(act, self.clock(), self.acting, jobs_of, self._rng.randint(1, 8))
        else:
            answer = self._lanes.run(act, self.clock(), may_wait=may_wait)
        self._touched |= jobs_of(answer)
        return answer

    def _provoke(self, attempts: Sequence[Attempt]) -> None:
        """While the last operation is not committed, or right after, somebody comes too late."""
        opened = self._lanes.open
        if opened is None or opened.actor != self.acting or not attempts or self._rng.random() >= PROVOKED:
            return
        if self._rng.random() < AFTERWARDS:
            self._lanes.commit_open()
            tried = [attempt for attempt in attempts if attempt.may_wait]
        else:
            tried = [self._rng.choice([attempt for attempt in attempts if not attempt.is_after])]
        for attempt in tried:
            self._lanes.seen[attempt.what] += 1
            got_through = self._lanes.run(attempt.act, self.clock(), may_wait=attempt.may_wait)
            if got_through:
                raise Disagreement(f"{attempt.what} got through: {got_through}")

    def _go_on(self) -> None:
        """Nobody acts twice in one transaction, and none stays open for ever."""
        if self._lanes.open is not None:
            self._lanes.open.steps_left -= 1
            if self._lanes.open.actor == self.acting or self._lanes.open.steps_left < 0:
                self._lanes.commit_open()

    def _hidden_jobs(self) -> set[str]:
        """What an open transaction has done to these is not seen by the others."""
        return set() if self._lanes.open is None else self._lanes.open.jobs

    def compare(self) -> None:
        """As soon as everything is committed."""
        if self._lanes.open is not None:
            return
        found = differences(self._lanes.reader, self, self._touched, self.clock()) if self._touched else []
        self._touched = set()
        found += self._follow_inbox()
        if found:
            raise Disagreement("\n".join(found[:10]))

    def finish(self) -> None:
        self._lanes.commit_open()
        self._touched |= self.jobs.keys()
        self.compare()

    # -- the inbox -------------------------------------------------------------------------------------------------

    def _follow_inbox(self) -> list[str]:
        """Find the rows of both sides, and let those of the model have the address that they have."""
        query = "SELECT inbox_id, owner_id, job_id, kind, task_id, lease_epoch FROM dagapp.dag_inbox ORDER BY inbox_id"
        there = {row[0]: row for row in self._lanes.reader.execute(query)}
        fresh: dict[tuple[Any, ...], list[int]] = {}
        known = set(self._ids.values())
        for number, row in there.items():
            if number not in known:
                fresh.setdefault(_key(*row[2:]), []).append(number)
        different = []
        for model_id, mine in self.inbox.items():
            if model_id not in self._ids:
                lease = getattr(mine.given, "lease_epoch", None)
                waiting = fresh.get(_key(mine.job_id, KINDS[type(mine.given)], mine.task_id, lease))
                if waiting:
                    self._ids[model_id] = waiting.pop(0)
            found = there.get(self._ids.get(model_id, -1))
            if found is not None:
                mine.owner_id = found[1]
            elif self._has_ended(mine.job_id):
                mine.owner_id = self.jobs[mine.job_id].owner_id
            else:
                different.append(f"only in the model: {mine}")
        expected = {self._ids[number] for number in self.inbox if number in self._ids}
        for number, row in there.items():
            if number not in expected and not self._has_ended(row[2]):
                different.append(f"only in PostgreSQL: {row}")
        return different

    def _has_ended(self, job_id: str) -> bool:
        """What is told to a job that has ended is told to nobody: there may be a row or none."""
        return has_ended(self, job_id)

    def sweep_inbox(self) -> None:
        me = self.acting
        self._go_on()
        # What a transaction that is open now writes is found by the next sweep.
        sees_all = self._lanes.open is None
        self._perform(lambda conn: jobs.adopt_strays(conn, me), lambda _: set())
        self._perform(lambda conn: jobs.discard_inbox_of_ended_jobs(conn, me), lambda _: set())
        self.compare()
        if sees_all and any(
            row.owner_id != me
            for row in self.inbox.values()
            if self.jobs[row.job_id].owner_id == me and not self._has_ended(row.job_id)
        ):
            raise Disagreement("a row is astray after the sweep")

    # -- jobs ------------------------------------------------------------------------------------------------------

    def submit(self, job: rows.JobRow) -> str:
        stored = StoredWorkflow(job.workflow_id, 1, "hash", {})
        row = job_row(job.job_id, stored, job.input_params, namespace="default", submitted_by=PEOPLE)
        row["idempotency_key"] = job.idempotency_key

        def insert(conn: Conn) -> str:
            with conn.transaction():
                if jobs.insert_jobs(conn, [row], "test"):
                    return job.job_id
            key = (PEOPLE, job.idempotency_key or "")
            there = jobs.find_by_idempotency_keys(conn, "default", [key]).get(key)
            return "" if there is None else there.job_id

        given = super().submit(job)
        _agree("submit", given, self._perform(insert, lambda job_id: {job_id}))
        self.compare()
        return given

    def claimable_jobs(self, dead: Sequence[str]) -> list[rows.JobRow]:
        """Those that PostgreSQL chose; it leaves ended jobs alone."""
        chosen = [self.jobs[job_id] for job_id in self._chosen_jobs]
        return chosen + [job for job in super().claimable_jobs(dead) if job.status in JOB_TERMINAL]

    def claim_jobs(self, owner_id: str, dead: Sequence[str], limit: int) -> list[str]:
        self._go_on()
        free = {job.job_id for job in super().claimable_jobs(dead) if job.status not in JOB_TERMINAL}

        def claim(conn: Conn) -> list[jobs.ClaimedJob]:
            claimed = jobs.claim_unowned_jobs(conn, owner_id, limit)
            return claimed + jobs.claim_orphaned_jobs(conn, owner_id, dead, limit - len(claimed))

        hidden = self._hidden_jobs()
        claimed = self._perform(claim, lambda answer: {job.job_id for job in answer}, may_wait=False)
        self._chosen_jobs = [job.job_id for job in claimed]
        _check_claim("job", set(self._chosen_jobs), free, hidden & free, limit)
        for job in claimed:
            _agree("owner_epoch", self.jobs[job.job_id].owner_epoch + 1, job.owner_epoch)
            self._epochs[job.job_id] = job.owner_epoch
        answer = super().claim_jobs(owner_id, dead, limit)
        now = self.clock()
        for job in claimed:
            late = [
                stale_commit(who, job.job_id, job.owner_epoch - 1, now) for who in (owner_id, job.from_owner) if who
            ]
            late.append(stale_commit(INTRUDER, job.job_id, job.owner_epoch, now))
            self._provoke([*late, claim_of_jobs(owner_id, self._chosen_jobs)])
        self.compare()
        return answer

    def release_jobs(self, owner_id: str) -> None:
        mine = {
            job.job_id for job in self.jobs.values() if job.owner_id == owner_id and not self._has_ended(job.job_id)
        }
        self._is_leaving = True
        super().release_jobs(owner_id)
        self._is_leaving = False
        _agree("released", len(mine), self._perform(lambda conn: jobs.release_jobs(conn, owner_id), lambda _: mine))
        now = self.clock()
        self._provoke([stale_commit(owner_id, job_id, self._epochs[job_id], now) for job_id in sorted(mine)])
        self.compare()

    def issue(self, command: rows.CommandRow) -> None:
        if self._is_writing:  # a child job is cancelled by the commit of its parent
            super().issue(command)
            return
        kind = COMMANDS[type(command.given)]
        wanted = commands.Command(
            command_id=command.command_id,
            namespace="default",
            job_id=command.job_id,
            kind=kind,
            issued_by=PEOPLE,
            body={},
        )
        if command.job_id in self._hidden_jobs():
            self._lanes.commit_open()
        self._perform(lambda conn: commands.issue_command(conn, wanted), lambda _: {command.job_id})
        super().issue(command)
        self.compare()

    def discard_inbox_of_ended_jobs(self, owner_id: str) -> None:
        """PostgreSQL does so only with rows that are old by its own clock. Rows of ended jobs are not compared."""

    def release_some_jobs(self, owner_id: str, limit: int) -> None:
        """All of them, when their owner leaves. Of balance PostgreSQL chooses which, so that is left out."""
        if self._is_leaving:
            super().release_some_jobs(owner_id, limit)

    # -- the commit ------------------------------------------------------------------------------------------------

    def commit(self, owner_id: str, batch: Sequence[rows.JobWrite]) -> list[str]:
        self._go_on()
        self._see_what_is_consumed(batch)
        if self._is_astray(owner_id, batch):
            return [write.job_id for write in batch]
        ended = {write.job_id for write in batch if self._has_ended(write.job_id)}
        ours = [write for write in batch if self._is_owner(self.jobs[write.job_id], owner_id, write)]
        torn = {write.job_id for write in ours if not self._is_first_time(self.jobs[write.job_id], write)}
        leases = {row.task_id: (row.worker_id, row.lease_epoch) for row in self.queue.values() if row.worker_id}
        self._is_writing = True
        lost = super().commit(owner_id, batch)
        self._is_writing = False
        self._forget_revoked(batch)
        fenced = {write.job_id for write in batch} - {write.job_id for write in ours}
        # What is said to a job that has ended changes nothing, so PostgreSQL need not hear it; who is fenced must be.
        sent = [
            write
            for write in batch
            if write.job_id not in ended
            or (write.job_id in fenced and write.owner_epoch != self._epochs.get(write.job_id))
        ]
        if sent:
            self._settle(owner_id, sent, fenced & {write.job_id for write in sent}, torn - ended, ended)
            written = sorted({write.job_id for write in sent} - fenced - torn)
            self._provoke(
                [
                    claim_of_jobs(owner_id, written),
                    *(
                        stale_report(worker_id, task_id, lease)
                        for task_id, (worker_id, lease) in leases.items()
                        if task_id not in self.queue
                    ),
                ]
            )
        self.compare()
        return lost

    def _forget_revoked(self, batch: Sequence[rows.JobWrite]) -> None:
        """A task that the same batch revokes and withdraws is gone; PostgreSQL need not tell its owner so."""
        gone = {effect.task_id for write in batch for effect in write.effects if isinstance(effect, fx.TaskRevoked)}
        for number, row in list(self.inbox.items()):
            if number not in self._ids and isinstance(row.given, inputs.TaskWithdrawn) and row.task_id in gone:
                del self.inbox[number]

    def _see_what_is_consumed(self, batch: Sequence[rows.JobWrite]) -> None:
        if any(number not in self._ids for write in batch for number in write.consumed):
            self._lanes.commit_open()
            self.compare()

    def _is_astray(self, owner_id: str, batch: Sequence[rows.JobWrite]) -> bool:
        """In PostgreSQL a row is still addressed to the owner before, who cannot have read it: begin again."""
        consumed = [self.inbox[number] for write in batch for number in write.consumed if number in self.inbox]
        astray = any(row.owner_id != owner_id and not self._has_ended(row.job_id) for row in consumed)
        self._lanes.seen["astray"] += astray
        return astray

    def _settle(
        self, owner_id: str, sent: list[rows.JobWrite], fenced: set[str], torn: set[str], ended: set[str]
    ) -> None:
        batch = Batch(self._turns)
        for write in sent:
            job = self._owned_job(write)
            batch.take(job, [effect for effect in write.effects if not isinstance(effect, fx.CommandAnswered)])
            for command_id, answer in write.answers:
                batch.take(job, [answer], command_id)
        children = set()
        for write in sent:
            for wanted in batch.take_child_requests(write.job_id):
                children.add(wanted.child_job_id)
                batch.add_child_job(write.job_id, _child_row(self._owned[write.job_id], wanted))
        held = [HeldJob(write.job_id, write.owner_epoch, write.job_id in ended) for write in sent]
        consumed = [
            (self._ids[number], write.job_id) for write in sent for number in write.consumed if number in self._ids
        ]
        now, names = self.clock(), {write.job_id for write in sent}
        touched = names | children

        def act(conn: Conn) -> Settled:
            return settle(conn, owner_id, held, consumed, now, batch.merged)

        def check(settled: Settled) -> None:
            _agree("lost", fenced, settled.lost)
            _agree("torn", torn, settled.torn)
            _agree("written", names - fenced - torn, settled.written)

        self._touched |= touched & self.jobs.keys()
        if self._lanes.open is None and self._rng.random() < LEFT_OPEN:
            self._lanes.settle_and_stay(act, now, self.acting, touched, self._rng.randint(1, 8), check)
            return
        check(self._lanes.run(act, now))
        # What came without an inbox row has nothing by which a second time is known; production never sends again.
        if all(write.consumed for write in sent) and names != fenced and self._rng.random() < SENT_AGAIN:
            again = self._lanes.run(act, now)
            _agree("committed again", False, bool(again.written))

    def _owned_job(self, write: rows.JobWrite) -> OwnedJob:
        job = self._owned.get(write.job_id)
        if job is None:
            row = self.jobs[write.job_id]
            run = reads.load(self, self._world.plans[row.workflow_id], row)
            job = OwnedJob(row.job_id, 0, "default", 0, PEOPLE, PEOPLE, row.job_id, run, None)
            self._owned[write.job_id] = job
        return job

    # -- tasks -----------------------------------------------------------------------------------------------------

    def claimable_tasks(self, queues: Sequence[str]) -> list[rows.QueueRow]:
        return [self.queue[task_id] for task_id in self._chosen_tasks]

    def claim_tasks(self, worker_id: str, queues: Sequence[str], limit: int) -> list[rows.QueueRow]:
        self._go_on()
        free = {row.task_id: row.job_id for row in super().claimable_tasks(queues)}
        if any(row.available_at is not None for row in self.queue.values()):
            self._lanes.run(tasks.offer_due_tasks, self.clock())
        hidden = self._hidden_jobs()

        def claim(conn: Conn) -> tuple[list[ClaimedTask], list[ClaimedTask]]:
            claimed: list[ClaimedTask] = []
            for queue in queues:
                claimed += tasks.claim_tasks(conn, worker_id, queue, limit - len(claimed))
            suspect = suspects.claim_suspect(conn, worker_id, queues) if len(claimed) < limit else None
            return claimed, [] if suspect is None else [suspect]

        plain, suspect = self._perform(claim, lambda two: {task.job_id for task in [*two[0], *two[1]]}, may_wait=False)
        claimed = plain + suspect
        self._chosen_tasks = [task.task_id for task in claimed]
        concealed = {task_id for task_id, job_id in free.items() if job_id in hidden}
        suspected = {task_id for task_id in free if self.queue[task_id].lease_losses > 1}
        _check_claim("task", {task.task_id for task in plain}, free.keys() - suspected, concealed, limit)
        _check_claim("suspect", {task.task_id for task in suspect}, suspected, concealed, min(1, limit - len(plain)))
        answer = super().claim_tasks(worker_id, queues, limit)
        _agree("leases", [row.lease_epoch for row in answer], [task.lease_epoch for task in claimed])
        for task in claimed:
            self._provoke(self._late_about(worker_id, task, queues))
        self.compare()
        return answer

    def _late_about(self, worker_id: str, task: ClaimedTask, queues: Sequence[str]) -> list[Attempt]:
        """The lease before, or somebody who does not hold this one."""
        job, last = self.jobs[task.job_id], task.lease_epoch - 1
        late: list[Attempt] = [claim_of_tasks(queues, self._chosen_tasks)]
        for attempt in (stale_report, stale_start, stale_checkpoint, stale_release):
            late.append(attempt(worker_id, task.task_id, last))
            late.append(attempt(INTRUDER, task.task_id, task.lease_epoch))
        if job.owner_id and not self._has_ended(job.job_id):
            late.append(stale_requeue(job.owner_id, job.job_id, job.owner_epoch, task.task_id, last, self.clock()))
        return late

    def _job_of(self, task_id: str) -> set[str]:
        return {self.queue[task_id].job_id} if task_id in self.queue else set()

    def tell(self, worker_id: str, given: inputs.TaskStarted | inputs.TaskCheckpointed | inputs.TaskSnoozed) -> bool:
        touched = self._job_of(given.task_id)
        lease = (given.task_id, given.lease_epoch)
        if isinstance(given, inputs.TaskSnoozed):
            self._give_back(worker_id, given.task_id, given.lease_epoch, given.delay_seconds)
            heard = super().tell(worker_id, given)
        else:
            heard = super().tell(worker_id, given)
            if isinstance(given, inputs.TaskStarted):
                there = bool(self._perform(lambda conn: tasks.start_tasks(conn, worker_id, [lease]), lambda _: touched))
            else:
                phase = given.phase
                there = self._perform(
                    lambda conn: workers.save_checkpoint_if_held(conn, worker_id, *lease, phase, b"{}", None),
                    lambda _: touched,
                )
            _agree("heard", heard, there)
        self.compare()
        return heard

    def release(self, worker_id: str, task_id: str, lease_epoch: int) -> None:
        self._give_back(worker_id, task_id, lease_epoch, None)
        super().release(worker_id, task_id, lease_epoch)
        self.compare()

    def _give_back(self, worker_id: str, task_id: str, lease_epoch: int, delay: float | None) -> None:
        touched = self._job_of(task_id)
        given = [(task_id, lease_epoch, delay)]
        self._perform(lambda conn: tasks.release_tasks(conn, worker_id, given), lambda _: touched)
        self._provoke([stale_report(worker_id, task_id, lease_epoch), stale_start(worker_id, task_id, lease_epoch)])

    def report(self, worker_id: str, result: rows.ResultRow) -> bool:
        touched = self._job_of(result.task_id) | {result.job_id}
        expected = self._held(worker_id, result.task_id, result.lease_epoch) is not None
        status = TaskStatus.COMPLETED if result.success else TaskStatus.FAILED
        output = None if result.output is None else orjson.dumps(result.output)
        records = encode_records(result.records) if result.records else None
        done = TaskReport(result.task_id, result.lease_epoch, status, result.error_kind, output=output, records=records)
        heard = super().report(worker_id, result)
        there = self._perform(lambda conn: tasks.report_tasks(conn, worker_id, [done]), lambda _: touched)
        _agree("reported", expected, bool(there))
        lease = (worker_id, result.task_id, result.lease_epoch)
        late = [stale_report(*lease), stale_start(*lease)]
        self._provoke([*late, loss_of_tasks(*lease)] if expected else late)
        self.compare()
        return heard

    def declare_worker_dead(self, worker_id: str) -> None:
        if self._lanes.open is not None and self._lanes.open.actor == worker_id:
            self._lanes.commit_open()
        held = {row.task_id: row.job_id for row in self.queue.values() if row.worker_id == worker_id}
        leases = [(worker_id, task_id, self.queue[task_id].lease_epoch) for task_id in held]
        super().declare_worker_dead(worker_id)

        def declare(conn: Conn) -> int:
            processes.remove_workers(conn, [worker_id])
            return tasks.report_lost_tasks(conn, [worker_id])

        _agree("lost tasks", len(held), self._perform(declare, lambda _: set(held.values())))
        self._provoke([late(*lease) for lease in leases for late in (stale_report, stale_start)])
        self.compare()

    def check_timers(self, owner_id: str) -> None:
        """What is due now is due for both."""
        if self._lanes.open is None:
            act = partial(inbox.due_timers, me=owner_id, limit=10_000, deadlines=True)
            there = self._lanes.run(act, self.clock())
            due = reads.due_timers(self, owner_id)
            expected = sorted((job_id, timer.node_id, timer.attempt, str(timer.timer)) for job_id, timer in due)
            _agree("timers", expected, sorted(there))


class Enough(Exception):
    """The seed goes on, but has shown what it can."""


class MirroredWorld(World):
    """A world like the others, except that rows go astray by interleaving only, and no commit is sent again blindly."""

    store: MirroredStore

    def __init__(self, seed: int, lanes: Lanes, max_steps: int) -> None:
        super().__init__(seed, rows.Guards(), None)
        self._max_steps = max_steps
        for fault in (Fault.INBOX_STRAY, Fault.COMMIT_RETRIED):
            self.faults.chances.pop(fault, None)
        self.store = MirroredStore(lambda: self.now, self.faults, lanes, self, seed)
        self.checker = Checker(self.store, self.plans, self.seen)

    def _step(self, actor: Actor) -> None:
        if self.steps > self._max_steps:
            raise Enough
        self.store.acting = actor.actor_id
        super()._step(actor)
        if actor.letter == "o" and self.steps % 5 == 0:
            self.store.check_timers(actor.actor_id)


def run_mirrored(seed: int, lanes: Lanes, max_steps: int) -> None:
    """One seed on both; raises `Disagreement`."""
    lanes.clear()
    world = MirroredWorld(seed, lanes, max_steps)
    populate(world)
    with suppress(Enough):
        world.run()
    world.store.finish()


def _key(job_id: str, kind: str, task_id: str | None, lease_epoch: int | None) -> tuple[Any, ...]:
    return (job_id, kind, task_id, None if kind == "task_withdrawn" else lease_epoch)


def _agree(what: str, expected: object, there: object) -> None:
    if expected != there:
        raise Disagreement(f"{what}: the model says {expected}, PostgreSQL {there}")


def _check_claim(what: str, claimed: set[str], free: set[str], hidden: set[str], limit: int) -> None:
    """Only what is free, all of it up to the limit; what an open transaction has touched may be passed over."""
    if claimed - free:
        raise Disagreement(f"{what} claimed that is not free: {claimed - free}")
    if len(claimed) < min(limit, len(free - hidden)):
        raise Disagreement(f"{what} passed over: {free - claimed - hidden}")


def _child_row(parent: OwnedJob, wanted: fx.ChildJobRequested) -> dict[str, Any]:
    return job_row(
        wanted.child_job_id,
        StoredWorkflow(wanted.workflow_id, 1, "hash", {}),
        wanted.input_params,
        namespace="default",
        submitted_by=PEOPLE,
        depth=wanted.depth,
        parent=(parent.job_id, wanted.node_id),
    )
