"""An aggregate that is loaded from compact facts equals the one that lived through the inputs, at every moment."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from rmhdag.engine.effects import AggregationRequested, ContinueLater
from rmhdag.engine.inputs import CancelJob, Output, RetryNode, SetWindow, Start
from rmhdag.engine.loading import resume
from rmhdag.engine.plan import Plan
from rmhdag.lab.simulation.aggregates import differences
from rmhdag.models.states import NodeStatus
from rmhdag.workflow.definition import RetryRule, Tolerance
from tests.engine.definitions import fan
from tests.engine.driver import Job

MANY = settings(max_examples=max(150, settings().max_examples))
ACTIONS = ("succeed", "fail", "fail", "start", "lose", "due", "continue", "window", "retry", "aggregate", "cancel")
SEEN = Counter[str]()
SLOW = RetryRule(max_attempts=2, backoff="linear", initial_delay_seconds=30, jitter=0)


class Compared(Job):
    """A fan-out in small chunks; after every step a second aggregate is loaded."""

    def __init__(self, items: int, max_parallel: int | None, window: int, reused: dict[int, str]) -> None:
        definition = fan(tolerate=Tolerance(percent=100), retry=SLOW, max_parallel=max_parallel)
        super().__init__(definition, {"items": list(range(items))})
        self.plan = self.run.plan = Plan(definition, expansion_chunk=4, cancel_chunk=3)
        self.window = window
        self.outputs = {f"split__{index}": Output({"n": 1}) for index in reused}
        self.apply(SetWindow("light", window))
        self.begin(Start(reused_children={"split": reused}))

    def compare(self) -> None:
        outputs = {node_id: output for node_id, output in self.outputs.items() if node_id in self.plan.by_id}
        loaded = self.loaded(outputs)
        assert loaded.apply(SetWindow("light", self.window), self.now) == []
        owed = resume(loaded, self.now)
        assert [one for one in owed if not isinstance(one, ContinueLater | AggregationRequested)] == []
        assert differences(self.run, loaded) == []
        for mine, fresh in zip(self.run.slots, loaded.slots, strict=True):
            if mine.fan is not None and fresh.fan is not None and len(mine.fan.failed) < 100:
                assert sorted(mine.fan.failed) == fresh.fan.failed

    def act(self, action: str, choice: int) -> None:
        """Whatever of this kind can happen now."""
        queued = sorted(self.queued)
        node_id = queued[choice % len(queued)] if queued else ""
        failed = [row.node_id for row in self.children("split") if row.status is NodeStatus.FAILED]
        waiting = [row.node_id for row in self.rows.values() if row.next_attempt_at is not None]
        if action == "succeed" and queued:
            self.succeed(node_id, {"n": 1})
        elif action == "fail" and queued:
            self.fail(node_id)
        elif action == "start" and queued:
            self.start_task(node_id)
        elif action == "lose" and queued:
            self.lose(node_id, lease_epoch=len(self.effects))
        elif action == "due" and waiting:
            self.wait(60)
            self.due(waiting[choice % len(waiting)])
        elif action == "continue" and self.continues:
            self.apply_continue()
        elif action == "window":
            self.window = choice % 5
            self.apply(SetWindow("light", self.window))
        elif action == "retry" and failed:
            self.apply(RetryNode(failed[choice % len(failed)], "ann"))
        elif action == "aggregate" and self.aggregations:
            self.aggregate_one()
        elif action == "cancel" and choice % 8 == 0:
            self.apply(CancelJob("ann"))
        else:
            return
        SEEN[action] += 1
        self.compare()


@MANY
@given(
    items=st.integers(0, 15),
    max_parallel=st.sampled_from([None, 1, 3]),
    window=st.integers(0, 6),
    reused=st.dictionaries(st.integers(0, 14), st.just("old"), max_size=4),
    steps=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 1_000)), min_size=5, max_size=60),
)
@example(
    items=1, max_parallel=None, window=6, reused={}, steps=[("succeed", 0), ("aggregate", 0)]
)  # chance finds this too rarely
def _live_and_load(
    items: int, max_parallel: int | None, window: int, reused: dict[int, str], steps: list[tuple[str, int]]
) -> None:
    job = Compared(items, max_parallel, window, {index: task for index, task in reused.items() if index < items})
    job.compare()
    for action, choice in steps:
        job.act(action, choice)


def test_a_loaded_aggregate_equals_the_one_that_lived() -> None:
    SEEN.clear()
    _live_and_load()
    assert set(SEEN) == set(ACTIONS), "the stories show too little"
