"""The virtual clock and the scheduler: one random number generator decides who acts next and what goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from random import Random

from rmhdag.engine.plan import Plan
from rmhdag.lab.simulation.actor import Actor
from rmhdag.lab.simulation.faults import Fault, Faults
from rmhdag.lab.simulation.invariants import Checker
from rmhdag.lab.simulation.rows import Guards
from rmhdag.lab.simulation.store import Store
from rmhdag.lab.simulation.violation import Violation
from rmhdag.models.states import JOB_TERMINAL

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HEARTBEAT_SECONDS = 2.0
LEASE_SECONDS = 10.0
# The longest freeze, the lease of who was frozen, and a poll.
QUIET_SECONDS = 60.0
# Once nothing goes wrong any more, everything must be done within this time: attempts × time-outs of the longest chain.
PATIENCE_SECONDS = 4_000.0


class World:
    """Everything of one seed. `note` writes the trace if there is one."""

    def __init__(self, seed: int, guards: Guards, trace: list[str] | None) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.trace = trace
        self.time = 0.0
        self.now = EPOCH
        self.faults = Faults(self.rng)
        self.store = Store(lambda: self.now, self.faults, guards)
        self.plans: dict[str, Plan] = {}
        self.window = self.rng.choice((1, 3, 10, 1_000))  # unclaimed tasks per job and queue
        self.seen: Counter[str] = Counter()  # kinds of inputs, effects and outcomes
        self.checker = Checker(self.store, self.plans, self.seen)
        self.actors: list[Actor] = []
        self.steps = 0
        self._lives: dict[int, Iterator[float]] = {}
        self._agenda: list[tuple[float, int, int, int]] = []
        self._order = 0
        self._faults_end = self.rng.uniform(15.0, 90.0)
        self._limit = self._faults_end + PATIENCE_SECONDS

    def note(self, who: str, text: str) -> None:
        if self.trace is not None:
            self.trace.append(f"{self.time:10.4f} {who:<6} {text}")

    def add(self, actor: Actor) -> None:
        self.actors.append(actor)
        self._begin(actor, self.rng.uniform(0.0, 1.0))

    def _begin(self, actor: Actor, delay: float) -> None:
        self._lives[actor.number] = actor.begin_life()
        self._schedule(actor, delay)

    def _schedule(self, actor: Actor, delay: float) -> None:
        actor.token += 1
        self._order += 1
        heappush(self._agenda, (self.time + delay, self._order, self.actors.index(actor), actor.token))

    def ring(self, is_meant: Callable[[Actor], bool]) -> None:
        """A doorbell: only a hint, so it may be lost, late or rung twice."""
        for actor in self.actors:
            if not actor.listening or not is_meant(actor) or self.faults.happens(Fault.DOORBELL_LOST):
                continue
            late = self.faults.happens(Fault.DOORBELL_LATE)
            self._schedule(actor, self.rng.uniform(0.1, 0.8) if late else self.rng.uniform(0.001, 0.01))
            # Rung twice: the actor will come round once more for nothing.
            actor.listening = self.faults.happens(Fault.DOORBELL_DUPLICATED)

    def run(self) -> None:
        """Until all is done. Raises `Violation` when an invariant breaks, or when nothing more gets done."""
        while not self._is_quiet():
            time, _, index, token = heappop(self._agenda)
            actor = self.actors[index]
            if token != actor.token:
                continue
            self.time = time
            self.now = EPOCH + timedelta(seconds=time)
            self.steps += 1
            if time > self._faults_end and not self.faults.are_over:
                self.note("world", "nothing goes wrong from here on")
                self.faults.stop()
            if time > self._limit:
                raise Violation("I1 every job ends", self.checker.what_is_stuck())
            is_quiet = self.faults.is_calm or time > self._faults_end + 2 * QUIET_SECONDS
            if is_quiet and self.steps % 100 == 0:
                self.checker.check_overdue(self.now - timedelta(seconds=QUIET_SECONDS))
                self.checker.check_owed(self.now, QUIET_SECONDS)
            self._step(actor)
            if self.store.audit:
                self.checker.check_audit()
        self.checker.check_end()

    def _step(self, actor: Actor) -> None:
        actor.listening = False
        pause = next(self._lives[actor.number])
        if actor.doomed or (actor.crash is not None and self.faults.happens(actor.crash)):
            self.note(actor.actor_id, "crashes")
            self._begin(actor, self.rng.uniform(0.1, 5.0))
        elif actor.freeze is not None and self.faults.happens(actor.freeze):
            pause = self.rng.uniform(LEASE_SECONDS / 2, 4 * LEASE_SECONDS)
            self.note(actor.actor_id, f"freezes for {pause:.1f} s")
            actor.listening = False
            self._schedule(actor, pause)
        else:
            self._schedule(actor, pause)

    def _is_quiet(self) -> bool:
        store = self.store
        if store.inbox or store.queue or any(actor.has_plans for actor in self.actors):
            return False
        return all(job.status in JOB_TERMINAL for job in store.jobs.values())
