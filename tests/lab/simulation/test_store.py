"""The contract that the model store stands for; PostgreSQL has to agree with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from rmhdag.engine.effects import TaskQueued, TaskRequeued, TaskRevoked, TasksWithdrawn
from rmhdag.engine.inputs import CancelJob, Input, TaskLost, TaskReported, TaskSnoozed, TaskStarted, TaskWithdrawn
from rmhdag.lab.simulation.faults import Faults
from rmhdag.lab.simulation.rows import CommandRow, Guards, JobRow, JobWrite, NodeRow, ResultRow
from rmhdag.lab.simulation.store import Store
from rmhdag.models.states import JobStatus


class Place:
    """A store without faults that holds one job with one queued task, owned by `a`."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        faults = Faults(Random(0))
        faults.stop()
        self.store = Store(lambda: self.now, faults, Guards())
        self.store.submit(JobRow("job", "flow", {}, "key"))
        self.store.nodes["job"]["n"] = NodeRow("n", 0)
        self.store.claim_jobs("a", [], 10)
        self.store.workers["w"] = self.now
        self.write("a", 1, TaskQueued("t", "n", 1, "light", "work", 60, {"x": 1}))

    def write(self, owner_id: str, owner_epoch: int, *effects: object, consumed: tuple[int, ...] = ()) -> list[str]:
        version = self.store.jobs["job"].version
        write = JobWrite("job", owner_epoch, version, list(consumed), list(effects), [])  # type: ignore[arg-type]
        return self.store.commit(owner_id, [write])

    def claim(self, worker_id: str = "w") -> int:
        (row,) = self.store.claim_tasks(worker_id, ["light"], 5)
        return row.lease_epoch

    def report(self, lease_epoch: int) -> bool:
        return self.store.report("w", ResultRow("t", lease_epoch, "job", "n", 1, success=True, output={}))

    def news(self) -> list[type[Input]]:
        return [type(row.given) for row in self.store.inbox.values()]


def test_a_job_that_changed_hands_is_lost_to_the_owner_before() -> None:
    place = Place()
    assert place.store.claim_jobs("b", ["a"], 10) == ["job"]
    assert place.write("a", 1, TaskRevoked("t")) == ["job"]
    assert "t" in place.store.queue
    assert place.write("b", 2, TaskRevoked("t")) == []
    assert "t" not in place.store.queue


def test_the_same_owner_with_an_old_epoch_is_lost_too() -> None:
    place = Place()
    place.store.release_jobs("a")
    assert place.write("a", 1) == ["job"]
    assert place.store.claim_jobs("a", [], 10) == ["job"]
    assert place.write("a", 1) == ["job"]
    assert place.write("a", 2) == []


def test_a_batch_that_was_committed_is_not_written_again() -> None:
    place = Place()
    write = JobWrite("job", 1, place.store.jobs["job"].version, [], [TaskRevoked("t")], [])
    assert place.store.commit("a", [write]) == []
    assert place.store.commit("a", [write]) == ["job"]


def test_an_inbox_row_is_consumed_once() -> None:
    place = Place()
    place.store.issue(CommandRow("c", "job", CancelJob("ann")))
    place.store.issue(CommandRow("c", "job", CancelJob("ann")))
    (inbox_id,) = place.store.inbox
    assert place.write("a", 1, consumed=(inbox_id,)) == []
    assert place.write("a", 1, TaskRevoked("t"), consumed=(inbox_id,)) == ["job"]
    assert "t" in place.store.queue


def test_a_claim_brings_the_inbox_along() -> None:
    place = Place()
    place.store.issue(CommandRow("c", "job", CancelJob("ann")))
    place.store.claim_jobs("b", ["a"], 10)
    assert [row.owner_id for row in place.store.inbox.values()] == ["b"]


def test_a_report_is_recorded_once_and_a_repeat_succeeds_silently() -> None:
    place = Place()
    lease = place.claim()
    assert place.report(lease)
    assert place.report(lease)
    assert len(place.store.results["t"]) == 1
    assert place.news() == [TaskReported]


def test_a_report_of_a_revoked_task_changes_nothing() -> None:
    place = Place()
    lease = place.claim()
    place.write("a", 1, TaskRevoked("t"))
    assert not place.report(lease)
    assert place.store.results["t"] == []
    assert place.news() == []


def test_a_lost_lease_is_not_heard_any_more() -> None:
    place = Place()
    lease = place.claim()
    place.store.declare_worker_dead("w")
    place.store.declare_worker_dead("w")
    assert place.news() == [TaskLost]
    assert not place.store.tell("w", TaskStarted("n", 1, "t", lease, "w"))
    assert not place.report(lease)
    place.store.workers["v"] = place.now
    assert place.store.claim_tasks("v", ["light"], 5) == []
    place.write("a", 1, TaskRequeued("t", lease, 1))
    assert not place.report(lease)
    assert place.claim("v") > lease
    assert place.store.queue["t"].lease_losses == 1


def test_what_a_dead_worker_claims_is_lost_when_it_is_found() -> None:
    place = Place()
    place.store.declare_worker_dead("w")
    lease = place.claim()
    place.store.declare_worker_dead("w")
    assert place.news() == [TaskLost]
    assert not place.report(lease)


def test_a_task_that_was_given_back_is_not_reported() -> None:
    place = Place()
    lease = place.claim()
    place.store.release("w", "t", lease)
    assert not place.report(lease)


def test_a_torn_job_drops_out_and_the_others_are_written() -> None:
    place = Place()
    place.store.submit(JobRow("other", "flow", {}, "other"))
    place.store.claim_jobs("a", [], 10)
    version = place.store.jobs["job"].version
    torn = JobWrite("other", 1, 0, [99], [], [])
    assert place.store.commit("a", [JobWrite("job", 1, version, [], [TaskRevoked("t")], []), torn]) == ["other"]
    assert "t" not in place.store.queue


def test_a_task_that_has_reported_is_not_given_up() -> None:
    place = Place()
    assert place.report(place.claim())
    assert place.write("a", 1, TaskRevoked("t")) == ["job"]


def test_what_is_said_to_an_ended_job_is_discarded_and_refused() -> None:
    place = Place()
    place.store.issue(CommandRow("c", "job", CancelJob("ann")))
    place.store.discard_inbox_of_ended_jobs("a")
    assert place.news() == [CancelJob]
    place.store.jobs["job"].status = JobStatus.CANCELLED
    place.store.discard_inbox_of_ended_jobs("b")
    assert place.news() == [CancelJob]
    place.store.discard_inbox_of_ended_jobs("a")
    assert place.news() == []
    assert place.store.commands["c"].applied is False


def test_a_requeue_of_another_lease_changes_nothing() -> None:
    place = Place()
    lease = place.claim()
    place.write("a", 1, TaskRequeued("t", lease, 1))
    assert place.store.queue["t"].worker_id == "w"
    place.store.declare_worker_dead("w")
    place.write("a", 1, TaskRequeued("t", lease - 1, 1))
    assert place.store.queue["t"].lost


def test_a_snoozed_task_comes_back_when_its_time_has_come() -> None:
    place = Place()
    lease = place.claim()
    assert place.store.tell("w", TaskSnoozed("n", 1, "t", lease, 5.0))
    assert place.store.claim_tasks("w", ["light"], 5) == []
    place.now += timedelta(seconds=5)
    assert place.claim() == lease + 1


def test_withdrawing_deletes_what_nobody_holds_and_asks_the_holder_to_stop() -> None:
    place = Place()
    place.write("a", 1, TasksWithdrawn())
    assert place.news() == [TaskWithdrawn]
    assert place.store.queue == {}
    held = Place()
    lease = held.claim()
    held.write("a", 1, TasksWithdrawn())
    assert held.store.queue["t"].cancel_requested
    assert held.news() == []
    held.store.release("w", "t", lease)
    assert held.news() == [TaskWithdrawn]
    assert held.store.queue == {}


def test_a_task_that_was_told_to_stop_does_not_snooze() -> None:
    place = Place()
    lease = place.claim()
    place.write("a", 1, TasksWithdrawn())
    assert place.store.tell("w", TaskSnoozed("n", 1, "t", lease, 5.0))
    assert place.news() == [TaskWithdrawn]
    assert place.store.queue == {}


def test_the_same_idempotency_key_is_the_same_job() -> None:
    place = Place()
    assert place.store.submit(JobRow("other", "flow", {}, "key")) == "job"
    assert list(place.store.jobs) == ["job"]
