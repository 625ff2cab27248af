"""A worker: claims tasks, runs them for a while, reports. It may die or freeze between any two of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rmhdag.engine.inputs import TaskCheckpointed, TaskSnoozed, TaskStarted
from rmhdag.lab.simulation.actor import Actor
from rmhdag.lab.simulation.faults import Fault
from rmhdag.lab.simulation.orchestrator import Orchestrator
from rmhdag.lab.simulation.outcomes import Fate, Outcome, outcome_of
from rmhdag.lab.simulation.rows import QueueRow
from rmhdag.lab.simulation.workloads import QUEUES
from rmhdag.lab.simulation.world import HEARTBEAT_SECONDS, World


@dataclass(slots=True)
class Work:
    """A lease as the worker remembers it: a copy of the row at its claim, and how far the handler has come."""

    row: QueueRow
    outcome: Outcome
    next_at: float
    is_started: bool = False
    cancel_requested: bool = False


class Worker(Actor):
    crash = Fault.WORKER_CRASHED
    freeze = Fault.WORKER_FROZEN
    freeze_in_danger = Fault.WORKER_FROZEN_DONE
    letter = "w"

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, number)
        self.queues = QUEUES if number % 2 else QUEUES[:1]
        self.slots = self.rng.choice((1, 2, 4, 10))

    def live(self) -> Iterator[float]:
        self.works: dict[str, Work] = {}
        self.store.workers[self.actor_id] = self.world.now
        next_beat = self.world.time
        while True:
            # The heart is another thread: after a pause either it or the work comes first.
            if self.world.time >= next_beat and self.rng.random() < 0.6:
                if not self._beat():
                    # Declared dead: whatever ran here is somebody else's now. A new process has a new name.
                    self.doomed = True
                    yield self.moment()
                next_beat = self.world.time + HEARTBEAT_SECONDS
            self._claim()
            work = min(self.works.values(), key=lambda work: work.next_at, default=None)
            if work is None:
                yield self.wait(1.0)
            elif work.next_at > self.world.time:
                yield min(work.next_at - self.world.time, 1.0)
            else:
                yield from self._advance(work)

    def _beat(self) -> bool:
        """Say that we live; learn which leases are still ours and which are to stop."""
        if self.actor_id not in self.store.workers:
            return False
        self.store.workers[self.actor_id] = self.world.now
        leased = {row.task_id: row for row in self.store.queue.values() if row.worker_id == self.actor_id}
        for task_id, work in list(self.works.items()):
            row = leased.pop(task_id, None)
            if row is None or row.lease_epoch != work.row.lease_epoch:
                del self.works[task_id]
            elif row.cancel_requested:
                work.cancel_requested = True
                work.next_at = self.world.time
        for row in leased.values():
            # Ours by a claim whose answer was lost: nothing runs, so give it back.
            self.store.release(self.actor_id, row.task_id, row.lease_epoch)
        return True

    def _claim(self) -> None:
        room = self.slots - len(self.works)
        if room <= 0:
            return
        rows = self.store.claim_tasks(self.actor_id, self.queues, self.rng.randint(1, room))
        if not rows or self.faults.happens(Fault.CLAIM_UNSEEN):
            return
        for row in rows:
            self.world.note(self.actor_id, f"claims {row.job_id}/{row.node_id}/{row.attempt} lease {row.lease_epoch}")
            copy = replace(row)
            self.works[row.task_id] = Work(copy, outcome_of(self.world.seed, copy), self.world.time + self.moment())

    def _advance(self, work: Work) -> Iterator[float]:
        """One step of a handler. Everything that is said to the store carries the lease."""
        row, outcome = work.row, work.outcome
        about = (row.node_id, row.attempt, row.task_id, row.lease_epoch)
        if work.cancel_requested and self.rng.random() < 0.8:
            self.works.pop(row.task_id, None)
            self.store.release(self.actor_id, row.task_id, row.lease_epoch)
            self._tell_owner("stops, as it is told", row)
        elif not work.is_started and self.rng.random() < 0.03:
            self.works.pop(row.task_id, None)
            self.store.release(self.actor_id, row.task_id, row.lease_epoch)
            self._tell_owner("gives back", row)
        elif not work.is_started:
            work.is_started = True
            work.next_at = self.world.time + outcome.seconds
            if outcome.marks_start and not self.store.tell(self.actor_id, TaskStarted(*about, self.actor_id)):
                self.works.pop(row.task_id, None)
        elif outcome.checkpoints > 0:
            outcome.checkpoints -= 1
            self.store.tell(self.actor_id, TaskCheckpointed(*about, f"phase-{outcome.checkpoints}", {}))
        elif outcome.fate is Fate.KILLS_WORKER:
            self.doomed = True
        elif outcome.fate is Fate.SNOOZES:
            self.works.pop(row.task_id, None)
            self.store.tell(self.actor_id, TaskSnoozed(*about, self.rng.uniform(0.2, 5.0)))
            self._tell_owner("snoozes", row)
        elif outcome.fate is Fate.HANGS_UNNOTICED:
            work.next_at = self.world.time + 5.0
        else:
            yield from self._report(work)
            return
        yield self.moment()

    def _report(self, work: Work) -> Iterator[float]:
        """Until it is answered; a report that was heard but not answered is sent again."""
        yield self.danger()
        is_known = False
        while True:
            if not self.faults.happens(Fault.REPORT_FAILED):
                is_heard = self.store.report(self.actor_id, work.outcome.result)
                self._count_report(is_heard, again=is_known)
                is_known = is_known or is_heard
                self._tell_owner(f"reports {work.outcome.fate}, {'accepted' if is_heard else 'stale'}", work.row)
                if self.faults.happens(Fault.REPORT_DUPLICATED):
                    yield self.moment()
                    self._count_report(self.store.report(self.actor_id, work.outcome.result), again=True)
                if not self.faults.happens(Fault.REPORT_UNSEEN):
                    break
            yield self.moment()
        self.works.pop(work.row.task_id, None)
        yield self.moment()

    def _count_report(self, is_heard: bool, *, again: bool) -> None:
        kind = "stale" if not is_heard else "repeated" if again else "accepted"
        self.world.seen[f"outcome report {kind}"] += 1

    def _tell_owner(self, what: str, row: QueueRow) -> None:
        self.world.note(self.actor_id, f"{what}: {row.job_id}/{row.node_id}/{row.attempt} lease {row.lease_epoch}")
        owner_id = self.store.jobs[row.job_id].owner_id
        self.world.ring(lambda actor: isinstance(actor, Orchestrator) and actor.actor_id == owner_id)
