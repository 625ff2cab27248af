"""An orchestrator as production has it: inbox ▸ engine ▸ one guarded commit, with aggregates cached in between.

Its other threads, duties and fan-ins, act between any two steps of the loop: also after a batch was read, and after it
was decided and before it is written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from rmhdag.engine.effects import AggregationRequested, CommandAnswered, ContinueLater, Effect
from rmhdag.engine.inputs import (
    CancelJob,
    Continue,
    Decided,
    Input,
    RetryNode,
    SetWindow,
    Start,
    TaskReported,
    TimerDue,
)
from rmhdag.engine.loading import resume
from rmhdag.engine.run import JobRun
from rmhdag.lab.simulation import reads
from rmhdag.lab.simulation.actor import Actor
from rmhdag.lab.simulation.decisions import check_decision, is_due
from rmhdag.lab.simulation.faults import Fault
from rmhdag.lab.simulation.rows import InboxRow, JobWrite
from rmhdag.lab.simulation.violation import Violation
from rmhdag.lab.simulation.workloads import QUEUES
from rmhdag.lab.simulation.world import LEASE_SECONDS, World
from rmhdag.models.events import ErrorKind
from rmhdag.models.states import JOB_TERMINAL, JobStatus

COMMANDS = (CancelJob, Decided, RetryNode)
Local = tuple[str, Input]
# How often another thread acts before the loop takes its next step.
INTERLEAVED = 0.4


@dataclass(slots=True)
class Held:
    """A cached aggregate, with what its row said when it was loaded or last written."""

    run: JobRun
    owner_epoch: int
    version: int
    windows: dict[str, int]


class Orchestrator(Actor):
    crash = Fault.ORCHESTRATOR_CRASHED
    freeze = Fault.ORCHESTRATOR_FROZEN
    freeze_in_danger = Fault.ORCHESTRATOR_FROZEN_DECIDED
    letter = "o"

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.recent: deque[InboxRow] = deque(maxlen=20)

    def live(self) -> Iterator[float]:
        self.held: dict[str, Held] = {}
        # What has no inbox row. It is lost with the process, and with a batch that fails unless it is given back.
        self.local: list[Local] = []
        self.reductions: list[tuple[str, str]] = []
        self.reduced: list[Local] = []
        self.silent_since: dict[str, tuple[object, float]] = {}
        self.recent.clear()
        while True:
            self.store.orchestrators[self.actor_id] = self.world.now
            if self.faults.happens(Fault.ORCHESTRATOR_STOPPED):
                self._hand_over()
                yield self.moment()
                continue
            for duty in self._duties():
                duty()
            yield self.moment()
            rows, local = self._read_inbox(), self._take_local()
            yield from self._meanwhile(self.moment())
            batch = self._decide(rows, local)
            if batch:
                yield from self._meanwhile(self.danger())
                yield from self._write(batch, local)
            elif not self.local and not self.reductions and not self.reduced:
                yield self.wait(1.0)
            if self.reductions or self.reduced:
                yield self.moment()
                self._reduce_one()

    def _hand_over(self) -> None:
        self.world.note(self.actor_id, "hands its jobs over and stops")
        self.store.release_jobs(self.actor_id)
        self.world.ring(lambda actor: isinstance(actor, Orchestrator))
        self.doomed = True

    # -- the other threads -----------------------------------------------------------------------------------------

    def _meanwhile(self, pause: float) -> Iterator[float]:
        """After a pause of the loop some of the others have had their turn."""
        yield pause
        while self.rng.random() < INTERLEAVED:
            self.world.seen["outcome duty between read and commit"] += 1
            self.rng.choice([*self._duties(), self._reduce_one])()
            yield self.moment()

    def _duties(self) -> tuple[Callable[[], None], ...]:
        return (self._claim, self._bury_workers, self._look_for_strays, self._look_for_timers, self._balance)

    def take_over(self, job_ids: Iterable[str]) -> None:
        """Those that never began begin, the others go on where their rows say."""
        self._give([(job_id, Start()) for job_id in job_ids])

    def _give(self, items: list[Local]) -> None:
        """Each once, however often it is given."""
        self.local += [item for item in items if item not in self.local]

    def _claim(self) -> None:
        dead = [name for name in self.store.orchestrators if name != self.actor_id and self._is_silent(name)]
        claimed = self.store.claim_jobs(self.actor_id, dead, self.rng.randint(1, 4))
        if claimed:
            self.world.note(self.actor_id, f"claims {', '.join(claimed)}")
        if claimed and self.faults.happens(Fault.CLAIM_UNSEEN):
            # The connection is gone. Who has a new one looks at all that is its own.
            claimed = self._open_jobs()
        self.take_over(claimed)

    def _open_jobs(self) -> list[str]:
        jobs = self.store.jobs.values()
        return [job.job_id for job in jobs if job.owner_id == self.actor_id and job.status not in JOB_TERMINAL]

    def _bury_workers(self) -> None:
        silent = [name for name in self.store.workers if self._is_silent(name)]
        # One that claims after it was declared dead has no row any more.
        unknown = [row.worker_id for row in self.store.queue.values() if row.worker_id not in self.store.workers]
        for worker_id in dict.fromkeys([*silent, *(name for name in unknown if name is not None)]):
            self.world.note(self.actor_id, f"declares {worker_id} dead")
            self.store.declare_worker_dead(worker_id)

    def _look_for_strays(self) -> None:
        if self.rng.random() < 0.4:
            self.store.sweep_inbox()
            self.store.discard_inbox_of_ended_jobs(self.actor_id)

    def _look_for_timers(self) -> None:
        due = reads.due_timers(self.store, self.actor_id)
        if self.faults.happens(Fault.TIMER_EARLY):
            early = reads.timers_of(self.store, self.actor_id, since=self.world.now)
            due += self.rng.sample(early, min(1, len(early)))
        self._give(list(due))
        self.local += [timer for timer in due if self.faults.happens(Fault.TIMER_DUPLICATED)]

    def _balance(self) -> None:
        """Release some jobs for the next claimer; not for ever, because loading a job again hides forgotten work."""
        if not self.faults.are_over and self.rng.random() < 0.02:
            self.store.release_some_jobs(self.actor_id, self.rng.randint(1, 2))
            self.world.ring(lambda actor: isinstance(actor, Orchestrator) and actor is not self)

    def _is_silent(self, name: str) -> bool:
        """Nobody is dead before I have watched its heartbeat stand still for a whole lease."""
        beat = self.store.orchestrators.get(name) or self.store.workers.get(name)
        last, since = self.silent_since.get(name, (None, 0.0))
        if beat != last:
            self.silent_since[name] = (beat, self.world.time)
            return False
        return self.world.time - since > LEASE_SECONDS

    # -- the loop --------------------------------------------------------------------------------------------------

    def _take_local(self) -> list[Local]:
        count = self.rng.choice((1, 5, 100))
        batch, self.local = self.local[:count], self.local[count:]
        if self.held and self.rng.random() < 0.03:
            limit = self.rng.choice((1, 2, 5, 1_000))
            batch.append((self.rng.choice(list(self.held)), SetWindow(self.rng.choice(QUEUES), limit)))
        return batch

    def _decide(self, rows: list[InboxRow], local: list[Local]) -> list[JobWrite]:
        """Apply what was in the inbox, then what came without a row."""
        writes: dict[str, JobWrite] = {}
        for row in rows:
            if not self._writable(row.job_id, writes):
                continue
            if reads.is_overtaken(self.store, row):
                self.world.seen["outcome news overtaken"] += 1
                self._consume(writes[row.job_id], row)
            else:
                self._apply(writes[row.job_id], row.given, row)
        for job_id, job_input in local:
            if self._writable(job_id, writes):
                is_new = self.held[job_id].run.status is JobStatus.PENDING
                begins = isinstance(job_input, Start) and is_new
                self._apply(writes[job_id], self.store.jobs[job_id].rerun if begins else job_input)
        # Also those without effects: the fence finds out that an aggregate is of an earlier time of ownership.
        return list(writes.values())

    def _read_inbox(self) -> list[InboxRow]:
        limit = self.rng.choice((1, 5, 50))
        rows = []
        for row in self.store.inbox.values():
            if row.owner_id == self.actor_id and row.visible_at <= self.world.now:
                rows.append(row)
                if not isinstance(row.given, COMMANDS) and self.faults.happens(Fault.INPUT_DUPLICATED):
                    rows.append(row)
                if len(rows) >= limit:
                    break
        gone = [row for row in self.recent if row.inbox_id not in self.store.inbox]
        if gone and self.faults.happens(Fault.INPUT_REPLAYED):
            rows.append(self.rng.choice(gone))
        return rows

    def _writable(self, job_id: str, writes: dict[str, JobWrite]) -> bool:
        """Is the job ours as far as we know? Its aggregate is loaded if need be."""
        if job_id in writes:
            return True
        held = self.held.get(job_id)
        if held is None:
            return self._load(job_id, writes)
        writes[job_id] = JobWrite(job_id, held.owner_epoch, held.version, [], [], [])
        return True

    def _load(self, job_id: str, writes: dict[str, JobWrite]) -> bool:
        job = self.store.jobs[job_id]
        if job.owner_id != self.actor_id:
            return False
        run = reads.load(self.store, self.world.plans[job.workflow_id], job)
        self.held[job_id] = Held(run, job.owner_epoch, job.version, {})
        write = writes[job_id] = JobWrite(job_id, job.owner_epoch, job.version, [], [], [])
        for queue in QUEUES:
            self._apply(write, SetWindow(queue, self.world.window))
        write.effects += resume(run, self.world.now)
        return True

    def _apply(self, write: JobWrite, job_input: Input, row: InboxRow | None = None) -> None:
        held = self.held[write.job_id]
        job_input = reads.complete_input(self.store, held.run.plan, job_input)
        if isinstance(job_input, SetWindow):
            held.windows[job_input.queue] = job_input.limit
        elif isinstance(job_input, TaskReported) and job_input.records and self.faults.happens(Fault.PUBLISH_FAILED):
            # What the publish lane says when the catalogue refuses the records.
            job_input = replace(job_input, success=False, error_kind=ErrorKind.PUBLISH_FAILED, records=())
        self.world.seen[f"input {type(job_input).__name__}"] += 1
        was_ending = held.run.ending is not None
        was_due = not isinstance(job_input, TimerDue) or is_due(held.run, job_input, self.world.now)
        try:
            effects = held.run.apply(job_input, self.world.now, self.rng.random())
        except Exception as error:
            raise Violation("the engine never raises", f"{type(error).__name__}: {error} at {job_input}") from error
        write.effects += effects
        check_decision(held.run, held.windows, job_input, effects, was_ending=was_ending, was_due=was_due)
        if self.world.trace is not None:
            self._note(write, job_input, effects)
        if row is not None:
            self._consume(write, row)
            if row.command_id is not None:
                for answer in effects:
                    if isinstance(answer, CommandAnswered):
                        write.answers.append((row.command_id, answer))
                        self.world.seen[f"{type(job_input).__name__} {'applied' if answer.applied else 'refused'}"] += 1

    def _consume(self, write: JobWrite, row: InboxRow) -> None:
        self.recent.append(row)
        if row.inbox_id not in write.consumed:
            write.consumed.append(row.inbox_id)

    def _note(self, write: JobWrite, job_input: Input, effects: list[Effect]) -> None:
        kinds = " ".join(_in_short(effect) for effect in effects)
        self.world.note(
            self.actor_id, f"{write.job_id}@{write.owner_epoch}.{write.version} {_in_short(job_input)} ▸ {kinds}"
        )

    def _write(self, batch: list[JobWrite], local: list[Local]) -> Iterator[float]:
        """One transaction for all. After an error nobody knows what was written: send it again, or load anew."""
        while True:
            failed = self.faults.happens(Fault.COMMIT_FAILED)
            dropped = [] if failed else self.store.commit(self.actor_id, batch)
            if not failed:
                self.world.note(self.actor_id, f"commits {_named(batch)}, dropped: {' '.join(dropped) or 'none'}")
                self.world.ring(lambda actor: actor is not self)
            if not failed and not self.faults.happens(Fault.COMMIT_UNSEEN):
                break
            self.world.note(self.actor_id, f"sees an error instead of its commit of {_named(batch)}")
            if not self.faults.happens(Fault.COMMIT_RETRIED):
                self._reconnect(local)
                yield self.moment()
                return
            yield from self._meanwhile(self.moment())
        for write in batch:
            if write.job_id in dropped:
                self.world.seen["outcome commit lost"] += 1
                self.held.pop(write.job_id, None)
            else:
                self._after_commit(write)
        self._give_back(dropped, local)
        yield self.moment()

    def _reconnect(self, local: list[Local]) -> None:
        """Memory is in doubt: everything is loaded again, and what has no inbox row is not lost."""
        self.held.clear()
        self._give(local)
        self.take_over(self._open_jobs())

    def _give_back(self, dropped: list[str], local: list[Local]) -> None:
        """A job that drops out of a batch and is still ours has lost what it was owed, unless that is given again."""
        mine = {job_id: None for job_id in dropped if self.store.jobs[job_id].owner_id == self.actor_id}
        if self.store.guards.gives_back:
            self._give([item for item in local if item[0] in mine])
            self.take_over(mine)

    def _after_commit(self, write: JobWrite) -> None:
        held = self.held[write.job_id]
        held.version += 1
        for effect in write.effects:
            if isinstance(effect, ContinueLater):
                self._send_self(write.job_id, Continue(effect.node_id))
            elif isinstance(effect, AggregationRequested):
                self.reductions.append((write.job_id, effect.node_id))
        self.world.checker.check_aggregate(held.run, self.rng, held.windows)
        if held.run.is_terminal or self.faults.happens(Fault.AGGREGATE_DROPPED):
            del self.held[write.job_id]

    def _send_self(self, job_id: str, job_input: Input) -> None:
        self.local.append((job_id, job_input))
        if self.faults.happens(Fault.SELF_SENT_DUPLICATED):
            self.local.append((job_id, replace(job_input)))

    def _reduce_one(self) -> None:
        """Read the children's outputs outside any transaction; the answer, an input like any other, comes later."""
        for job_id, answer in self.reduced:
            self._send_self(job_id, answer)
        self.reduced.clear()
        if self.reductions:
            job_id, node_id = self.reductions.pop(0)
            plan = self.world.plans[self.store.jobs[job_id].workflow_id]
            self.reduced.append((job_id, reads.reduce_children(self.store, plan, job_id, node_id)))


def _named(batch: list[JobWrite]) -> str:
    return " ".join(f"{write.job_id}@{write.owner_epoch}.{write.version}" for write in batch)


def _in_short(thing: object) -> str:
    named = (
        getattr(thing, name, None) for name in ("node_id", "attempt", "lease_epoch", "status", "event_type", "seq")
    )
    return "/".join([type(thing).__name__, *(str(part) for part in named if part is not None)])
