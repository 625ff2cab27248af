"""An orchestrator as production has it: inbox ▸ engine ▸ one guarded commit, with aggregates cached in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from rmhdag.engine.effects import AggregationRequested, CommandAnswered, ContinueLater, Effect
from rmhdag.engine.inputs import CancelJob, Continue, Decided, Input, RetryNode, SetWindow, TaskReported, TimerDue
from rmhdag.engine.loading import resume
from rmhdag.engine.run import JobRun
from rmhdag.models.events import ErrorKind
from rmhdag.models.states import JobStatus
from rmhdag.simulation import reads
from rmhdag.simulation.actor import Actor
from rmhdag.simulation.decisions import check_decision, is_due
from rmhdag.simulation.faults import Fault
from rmhdag.simulation.rows import InboxRow, JobWrite
from rmhdag.simulation.violation import Violation
from rmhdag.simulation.workloads import QUEUES
from rmhdag.simulation.world import LEASE_SECONDS, World

COMMANDS = (CancelJob, Decided, RetryNode)


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
        self.owned: dict[str, None] = {}
        self.self_sent: list[tuple[str, Input]] = []
        self.reductions: list[tuple[str, str]] = []
        self.silent_since: dict[str, tuple[object, float]] = {}
        self.recent.clear()
        while True:
            self.store.orchestrators[self.actor_id] = self.world.now
            if self.faults.happens(Fault.ORCHESTRATOR_STOPPED):
                self._hand_over()
                yield self.moment()
                continue
            self._do_duties()
            yield self.moment()
            batch = self._decide()
            if batch:
                yield self.danger()
                yield from self._write(batch)
            elif not self.self_sent and not self.reductions:
                yield self.wait(1.0)
            if self.reductions:
                yield self.moment()
                self._reduce_one()

    def _hand_over(self) -> None:
        self.world.note(self.actor_id, "hands its jobs over and stops")
        self.store.release_jobs(self.actor_id)
        self.world.ring(lambda actor: isinstance(actor, Orchestrator))
        self.doomed = True

    def _do_duties(self) -> None:
        dead = [name for name in self.store.orchestrators if name != self.actor_id and self._is_silent(name)]
        claimed = self.store.claim_jobs(self.actor_id, dead, self.rng.randint(1, 4))
        if claimed:
            self.world.note(self.actor_id, f"claims {', '.join(claimed)}")
        if not self.faults.happens(Fault.CLAIM_UNSEEN):
            for job_id in claimed:
                self.held.pop(job_id, None)
                self.owned[job_id] = None
        silent = [name for name in self.store.workers if self._is_silent(name)]
        # One that claims after it was declared dead has no row any more.
        unknown = [row.worker_id for row in self.store.queue.values() if row.worker_id not in self.store.workers]
        for worker_id in dict.fromkeys([*silent, *(name for name in unknown if name is not None)]):
            self.world.note(self.actor_id, f"declares {worker_id} dead")
            self.store.declare_worker_dead(worker_id)
        if self.rng.random() < 0.2:
            self.store.sweep_inbox()
            # A claim whose answer was lost is ours all the same.
            self.owned.update({job.job_id: None for job in self.store.jobs.values() if job.owner_id == self.actor_id})

    def _is_silent(self, name: str) -> bool:
        """Nobody is dead before I have watched its heartbeat stand still for a whole lease."""
        beat = self.store.orchestrators.get(name) or self.store.workers.get(name)
        last, since = self.silent_since.get(name, (None, 0.0))
        if beat != last:
            self.silent_since[name] = (beat, self.world.time)
            return False
        return self.world.time - since > LEASE_SECONDS

    def _decide(self) -> list[JobWrite]:
        """Apply what waits in the inbox, then what this process owes itself, then the timers."""
        writes: dict[str, JobWrite] = {}
        for job_id in list(self.owned):
            if job_id not in self.held:
                self._load(job_id, writes)
        for row in self._read_inbox():
            if not self._writable(row.job_id, writes):
                continue
            if reads.is_overtaken(self.store, row):
                self.world.seen["outcome news overtaken"] += 1
                self._consume(writes[row.job_id], row)
            else:
                self._apply(writes[row.job_id], row.given, row)
        sent, self.self_sent = self.self_sent, []
        if self.held and self.rng.random() < 0.03:
            limit = self.rng.choice((1, 2, 5, 1_000))
            sent.append((self.rng.choice(list(self.held)), SetWindow(self.rng.choice(QUEUES), limit)))
        due = reads.due_timers(self.store, self.actor_id)
        due += [timer for timer in due if self.faults.happens(Fault.TIMER_DUPLICATED)]
        if self.faults.happens(Fault.TIMER_EARLY):
            early = reads.timers_of(self.store, self.actor_id, since=self.world.now)
            due += self.rng.sample(early, min(1, len(early)))
        for job_id, given in [*sent, *due]:
            if self._writable(job_id, writes):
                self._apply(writes[job_id], given)
        return [write for write in writes.values() if write.effects or write.consumed]

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
            self.owned.pop(job_id, None)
            return False
        run = reads.load(self.store, self.world.plans[job.workflow_id], job)
        self.owned[job_id] = None
        self.held[job_id] = Held(run, job.owner_epoch, job.version, {})
        write = writes[job_id] = JobWrite(job_id, job.owner_epoch, job.version, [], [], [])
        for queue in QUEUES:
            self._apply(write, SetWindow(queue, self.world.window))
        write.effects += resume(run, self.world.now)
        if run.status is JobStatus.PENDING and self.rng.random() < 0.5:
            self._apply(write, job.rerun)
        elif run.status is JobStatus.PENDING:
            self.self_sent.append((job_id, job.rerun))  # after the inbox, which may hold a cancel
        return True

    def _apply(self, write: JobWrite, given: Input, row: InboxRow | None = None) -> None:
        held = self.held[write.job_id]
        given = reads.complete_input(self.store, held.run.plan, given)
        if isinstance(given, SetWindow):
            held.windows[given.queue] = given.limit
        elif isinstance(given, TaskReported) and given.records and self.faults.happens(Fault.PUBLISH_FAILED):
            # What the publish lane says when the catalogue refuses the records.
            given = replace(given, success=False, error_kind=ErrorKind.PUBLISH_FAILED, records=())
        self.world.seen[f"input {type(given).__name__}"] += 1
        was_ending = held.run.ending is not None
        was_due = not isinstance(given, TimerDue) or is_due(held.run, given, self.world.now)
        try:
            effects = held.run.apply(given, self.world.now, self.rng.random())
        except Exception as error:
            raise Violation("the engine never raises", f"{type(error).__name__}: {error} at {given}") from error
        write.effects += effects
        check_decision(held.run, held.windows, given, effects, was_ending=was_ending, was_due=was_due)
        if self.world.trace is not None:
            self._note(write, given, effects)
        if row is not None:
            self._consume(write, row)
            if row.command_id is not None:
                for answer in effects:
                    if isinstance(answer, CommandAnswered):
                        write.answers.append((row.command_id, answer))
                        self.world.seen[f"{type(given).__name__} {'applied' if answer.applied else 'refused'}"] += 1

    def _consume(self, write: JobWrite, row: InboxRow) -> None:
        self.recent.append(row)
        if row.inbox_id not in write.consumed:
            write.consumed.append(row.inbox_id)

    def _note(self, write: JobWrite, given: Input, effects: list[Effect]) -> None:
        kinds = " ".join(_in_short(effect) for effect in effects)
        self.world.note(
            self.actor_id, f"{write.job_id}@{write.owner_epoch}.{write.version} {_in_short(given)} ▸ {kinds}"
        )

    def _write(self, batch: list[JobWrite]) -> Iterator[float]:
        """One transaction for all. After an error nobody knows what was written: send it again, or load anew."""
        while True:
            failed = self.faults.happens(Fault.COMMIT_FAILED)
            lost = [] if failed else self.store.commit(self.actor_id, batch)
            if not failed:
                self.world.note(self.actor_id, f"commits {_named(batch)}, lost: {' '.join(lost) or 'none'}")
                self.world.ring(lambda actor: actor is not self)
            if not failed and not self.faults.happens(Fault.COMMIT_UNSEEN):
                break
            self.world.note(self.actor_id, f"sees an error instead of its commit of {_named(batch)}")
            if not self.faults.happens(Fault.COMMIT_RETRIED):
                lost = [write.job_id for write in batch]
                break
            yield self.moment()
        for write in batch:
            if write.job_id in lost:
                self.world.seen["outcome commit lost"] += 1
                self.held.pop(write.job_id, None)
            else:
                self._after_commit(write)
        yield self.moment()

    def _after_commit(self, write: JobWrite) -> None:
        held = self.held[write.job_id]
        held.version += 1
        for effect in write.effects:
            if isinstance(effect, ContinueLater):
                self._send_self(write.job_id, Continue(effect.node_id))
            elif isinstance(effect, AggregationRequested):
                self.reductions.append((write.job_id, effect.node_id))
        self.world.checker.check_aggregate(held.run, self.rng, held.windows)
        if held.run.is_terminal:
            del self.held[write.job_id]
            self.owned.pop(write.job_id, None)
        elif self.faults.happens(Fault.AGGREGATE_DROPPED):
            del self.held[write.job_id]

    def _send_self(self, job_id: str, given: Input) -> None:
        self.self_sent.append((job_id, given))
        if self.faults.happens(Fault.SELF_SENT_DUPLICATED):
            self.self_sent.append((job_id, replace(given)))

    def _reduce_one(self) -> None:
        """Read the children's outputs outside any transaction; the answer is an input like any other."""
        job_id, node_id = self.reductions.pop(0)
        plan = self.world.plans[self.store.jobs[job_id].workflow_id]
        self._send_self(job_id, reads.reduce_children(self.store, plan, job_id, node_id))


def _named(batch: list[JobWrite]) -> str:
    return " ".join(f"{write.job_id}@{write.owner_epoch}.{write.version}" for write in batch)


def _in_short(thing: object) -> str:
    named = (
        getattr(thing, name, None) for name in ("node_id", "attempt", "lease_epoch", "status", "event_type", "seq")
    )
    return "/".join([type(thing).__name__, *(str(part) for part in named if part is not None)])
