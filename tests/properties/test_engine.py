"""The engine against the slow reference, over random workflows, fates and orders of events."""

from __future__ import annotations

import copy

from hypothesis import given, settings

from rmhdag.engine.inputs import CancelJob, Output, TaskLost, TaskReported, TaskStarted, Timer, TimerDue
from tests.engine.driver import Job
from tests.properties.graphs import Story, stories
from tests.properties.reference import Reference

MANY = settings(max_examples=max(200, settings().max_examples))


class Pair:
    """The same events for both; after each they must agree."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.job = Job(story.definition, story.params).begin()
        self.reference = Reference(story)
        self.agree()

    def agree(self) -> None:
        assert self.job.statuses() == self.reference.status
        assert self.job.state == self.reference.job

    def step(self, choice: int) -> None:
        """Let one of the things happen that can happen now."""
        job = self.job
        if job.aggregations and (choice % 3 == 0 or not job.queued):
            wanted = job.aggregations[0].node_id
            live = job.rows[wanted].status == "ready"
            job.aggregate_one()
            if live:
                self.reference.reduced(wanted)
        elif job.queued:
            node_id = sorted(job.queued)[choice % len(job.queued)]
            attempt = job.queued[node_id].attempt
            if job.ending is not None and choice % 2:
                job.withdraw(node_id)
                self.reference.withdraw(node_id)
            else:
                success = self.story.succeeds(node_id, attempt)
                if success:
                    job.succeed(node_id)
                else:
                    job.fail(node_id)
                self.reference.report(node_id, attempt, success)
        self.agree()

    def to_the_end(self) -> None:
        for _ in range(500):
            if self.job.state != "running":
                return
            self.step(7)
        raise AssertionError(f"the job does not end: {self.job.statuses()}")


@MANY
@given(stories())
def test_engine_and_reference_agree_after_every_event(story: Story) -> None:
    pair = Pair(story)
    for choice in story.choices:
        pair.step(choice)
    pair.to_the_end()


@MANY
@given(stories())
def test_they_agree_when_the_job_is_cancelled_on_the_way(story: Story) -> None:
    pair = Pair(story)
    for choice in story.choices[: story.choices[0] % 8]:
        pair.step(choice)
    pair.job.apply(CancelJob("ann"))
    pair.reference.cancel()
    pair.agree()
    pair.to_the_end()


@MANY
@given(stories())
def test_a_crash_anywhere_changes_nothing(story: Story) -> None:
    pair = Pair(story)
    for position, choice in enumerate(story.choices):
        if choice % 2:
            pair.job.reload()
            pair.agree()
        if position == story.choices[0] % 30:
            pair.job.apply(CancelJob("ann"))
            pair.reference.cancel()
        pair.step(choice)
    pair.to_the_end()


@MANY
@given(stories())
def test_duplicates_late_and_stale_inputs_change_nothing(story: Story) -> None:
    pair = Pair(story)
    seen: list[TaskReported | TaskStarted | TaskLost | TimerDue] = []
    for choice in story.choices:
        before = dict(pair.job.queued)
        pair.step(choice)
        for node_id, task in before.items():
            if pair.job.queued.get(node_id) is not task:
                seen.append(TaskReported(node_id, task.attempt, task.task_id, 1, bool(choice % 2), Output({})))
                seen.append(TaskStarted(node_id, task.attempt, task.task_id, 1, "w"))
                seen.append(TaskLost(node_id, task.attempt, task.task_id, 1, "w", True))
                seen.append(TimerDue(node_id, task.attempt, Timer.DEADLINE))
                seen.append(TimerDue(node_id, task.attempt, Timer.RETRY))
        if seen:
            effects = pair.job.apply(seen[choice % len(seen)])
            assert effects == []
        pair.agree()
    pair.to_the_end()


@MANY
@given(stories(failures=False))
def test_independent_results_commute(story: Story) -> None:
    job = Job(story.definition, story.params).begin()
    for choice in story.choices:
        job.aggregate_all()
        if len(job.queued) < 2:
            if not job.queued:
                return
            job.succeed(sorted(job.queued)[0])
            continue
        names = sorted(job.queued)
        first, second = names[choice % len(names)], names[(choice + 1) % len(names)]
        other = copy.deepcopy(job)
        job.succeed(first)
        job.succeed(second)
        other.succeed(second)
        other.succeed(first)
        assert job.statuses() == other.statuses()
        assert job.run.counts == other.run.counts
        assert {task.task_id for task in job.queued.values()} == {task.task_id for task in other.queued.values()}
        assert job.state == other.state
