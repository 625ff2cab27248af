"""What may go wrong, how often in this seed, and how often it did."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    ORCHESTRATOR_CRASHED = "orchestrator_crashed"  # before or after a commit: wherever it pauses
    ORCHESTRATOR_FROZEN = "orchestrator_frozen"  # it wakes after its jobs have new owners
    ORCHESTRATOR_FROZEN_DECIDED = "orchestrator_frozen_decided"  # the same, between deciding and writing
    ORCHESTRATOR_STOPPED = "orchestrator_stopped"  # hands its jobs over
    WORKER_CRASHED = "worker_crashed"
    WORKER_FROZEN = "worker_frozen"  # it wakes after its tasks were given to others
    WORKER_FROZEN_DONE = "worker_frozen_done"  # the same, with a result that it has not reported
    COMMIT_FAILED = "commit_failed"  # nothing was written, the caller saw an error
    COMMIT_UNSEEN = "commit_unseen"  # all was written, the caller saw an error
    COMMIT_RETRIED = "commit_retried"  # after an error the same batch is sent again
    CLAIM_UNSEEN = "claim_unseen"  # the claim happened, the answer was lost
    REPORT_FAILED = "report_failed"
    REPORT_UNSEEN = "report_unseen"
    REPORT_DUPLICATED = "report_duplicated"
    SUBMIT_UNSEEN = "submit_unseen"
    INBOX_LATE = "inbox_late"  # rows become visible in another order than their ids
    INBOX_STRAY = "inbox_stray"  # a row is addressed to the owner before
    INPUT_DUPLICATED = "input_duplicated"
    INPUT_REPLAYED = "input_replayed"  # a row that was consumed is read again
    TIMER_DUPLICATED = "timer_duplicated"
    TIMER_EARLY = "timer_early"
    SELF_SENT_DUPLICATED = "self_sent_duplicated"
    AGGREGATE_DROPPED = "aggregate_dropped"  # evicted from the cache
    PUBLISH_FAILED = "publish_failed"
    DOORBELL_LOST = "doorbell_lost"
    DOORBELL_LATE = "doorbell_late"
    DOORBELL_DUPLICATED = "doorbell_duplicated"


_ALWAYS: dict[Fault, float] = {
    Fault.COMMIT_RETRIED: 0.5,
    Fault.ORCHESTRATOR_STOPPED: 0.01,
    Fault.SUBMIT_UNSEEN: 0.1,
    Fault.AGGREGATE_DROPPED: 0.03,
    Fault.PUBLISH_FAILED: 0.1,
}
_CRASHING: dict[Fault, float] = {Fault.ORCHESTRATOR_CRASHED: 0.02, Fault.WORKER_CRASHED: 0.01}
_FREEZING: dict[Fault, float] = {
    Fault.ORCHESTRATOR_FROZEN: 0.01,
    Fault.ORCHESTRATOR_FROZEN_DECIDED: 0.05,
    Fault.WORKER_FROZEN: 0.01,
    Fault.WORKER_FROZEN_DONE: 0.03,
}
_UNSEEN: dict[Fault, float] = {
    Fault.COMMIT_FAILED: 0.05,
    Fault.COMMIT_UNSEEN: 0.08,
    Fault.CLAIM_UNSEEN: 0.05,
    Fault.REPORT_FAILED: 0.05,
    Fault.REPORT_UNSEEN: 0.08,
}
_REPEATING: dict[Fault, float] = {
    Fault.REPORT_DUPLICATED: 0.08,
    Fault.INPUT_DUPLICATED: 0.1,
    Fault.INPUT_REPLAYED: 0.06,
    Fault.TIMER_DUPLICATED: 0.2,
    Fault.TIMER_EARLY: 0.03,
    Fault.SELF_SENT_DUPLICATED: 0.2,
    Fault.DOORBELL_DUPLICATED: 0.1,
}
_LATE: dict[Fault, float] = {
    Fault.INBOX_LATE: 0.15,
    Fault.INBOX_STRAY: 0.3,
    Fault.DOORBELL_LOST: 0.3,
    Fault.DOORBELL_LATE: 0.3,
}
CALM_SHARE = 0.3
_GROUPS = (_CRASHING, _FREEZING, _UNSEEN, _REPEATING, _LATE)


class Faults:
    """The dice. Each seed has its own mixture: some kinds often, some seldom, some not at all; in some seeds nothing
    ever goes wrong, because a fault also heals: who loads anew finds what was forgotten."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.counts: Counter[Fault] = Counter()
        self.are_over = False
        self.chances: dict[Fault, float] = {}
        self.is_calm = rng.random() < CALM_SHARE
        if self.is_calm:
            return
        self.chances = dict(_ALWAYS)
        for group in _GROUPS:
            strength = rng.choice((0.0, 0.3, 1.0, 1.0, 2.0))
            for fault, chance in group.items():
                self.chances[fault] = min(chance * strength, 0.5)

    def happens(self, fault: Fault) -> bool:
        chance = self.chances.get(fault, 0.0)
        if not chance or self._rng.random() >= chance:
            return False
        self.counts[fault] += 1
        return True

    def stop(self) -> None:
        """From here on the world is kind, and everything has to come to its end."""
        self.chances = {}
        self.are_over = True

    def inbox_delay_seconds(self) -> float:
        return self._rng.uniform(0.05, 3.0) if self.happens(Fault.INBOX_LATE) else 0.0
