"""The percentage of a job never goes back, whatever happens to it, and nothing is at 100 but what has completed."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from hypothesis import given, settings

from rmhdag.engine.inputs import CancelJob, RetryNode
from rmhdag.models.states import NODE_TERMINAL, NodeStatus
from rmhdag.views.progress import count_nodes, percent_done
from tests.engine.driver import Job
from tests.properties.graphs import Story, stories

MANY = settings(max_examples=max(150, settings().max_examples))


class Line(NamedTuple):
    node_id: str
    status: NodeStatus
    total: int | None
    completed_at: datetime | None
    duration_seconds: float | None = None


class Watched:
    """A job as its rows show it after every commit."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.job = Job(story.definition, story.params)
        self.ended_at: dict[str, datetime] = {}
        self.percent = 0.0
        self.job.begin()
        self.look()

    def look(self) -> None:
        children: dict[str, Counter[str]] = {}
        lines = []
        for row in self.job.rows.values():
            if row.status in NODE_TERMINAL:
                self.ended_at.setdefault(row.node_id, self.job.now)
            else:
                self.ended_at.pop(row.node_id, None)
            if row.parent_node_id is not None:
                children.setdefault(row.parent_node_id, Counter())[row.status] += 1
            else:
                lines.append(self.line(row.node_id, row.status, row.output))
        now = percent_done(lines, children)
        assert self.percent <= now < 100
        self.percent = now
        counts = count_nodes(lines, children)
        assert counts.total == sum(value for name, value in counts if name != "total") >= len(self.job.rows)
        if self.job.state == "completed":
            assert counts.pending == counts.running == counts.dispatched == 0
            assert now == 99.9
        self.job.wait(1)

    def line(self, node_id: str, status: NodeStatus, output: object) -> Line:
        total = output["total"] if isinstance(output, dict) and "dynamic_nodes" in output else None
        return Line(node_id, status, total, self.ended_at.get(node_id))

    def step(self, choice: int) -> None:
        job = self.job
        failed = [row.node_id for row in job.rows.values() if row.parent_node_id and row.status == "failed"]
        if failed and choice % 5 == 0:
            job.apply(RetryNode(failed[choice % len(failed)], "ann"))
        elif job.aggregations and (choice % 3 == 0 or not job.queued):
            job.aggregate_one()
        elif job.queued:
            node_id = sorted(job.queued)[choice % len(job.queued)]
            if job.ending is not None and choice % 2:
                job.withdraw(node_id)
            elif self.story.succeeds(node_id, job.queued[node_id].attempt):
                job.succeed(node_id)
            else:
                job.fail(node_id)
        self.look()


@MANY
@given(stories())
def test_progress_never_goes_back(story: Story) -> None:
    watched = Watched(story)
    for choice in (*story.choices, *[7] * 100):
        if watched.job.state == "running":
            watched.step(choice)


@MANY
@given(stories())
def test_nor_when_the_job_is_cancelled(story: Story) -> None:
    watched = Watched(story)
    for position, choice in enumerate((*story.choices, *[7] * 100)):
        if position == story.choices[0] % 8:
            watched.job.apply(CancelJob("ann"))
            watched.look()
        if watched.job.state == "running":
            watched.step(choice)
