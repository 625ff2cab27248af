"""How a settled node wakes, skips or leaves alone the nodes behind it (SPEC E3).

An edge is waiting, live or dead. The `all_of` group is met when all its edges are settled and one is live, the `any_of`
group at its first live edge; a group whose edges are all dead skips the node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmhdag.engine.effects import JobChanged, NodesCreated
from rmhdag.engine.inputs import ReusedNode, Start
from rmhdag.engine.outputs import keep_read_paths
from rmhdag.engine.settling import row_value, skip
from rmhdag.engine.slots import CODES, COMPLETED, PENDING, READY, Slot
from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.states import JobStatus

if TYPE_CHECKING:
    from rmhdag.engine.run import JobRun


def start_job(run: JobRun, start: Start) -> None:
    if run.status is not JobStatus.PENDING:
        return
    run.status = JobStatus.RUNNING
    run.started_at = run.now
    run.effects.append(JobChanged(JobStatus.RUNNING))
    run.effects.append(NodesCreated(run.plan.node_ids, run.plan.max_retries))
    first = run.plan.nodes[run.plan.roots[0]].node_id if run.plan.roots else None
    run.record(EventType.JOB_STARTED, EventStatus.INFO, None, {"first_node": first})
    run.reused_children = start.reused_children
    if start.warnings:
        run.count_warnings(start.warnings)
    for node_id, reused in start.reused.items():
        _reuse(run, run.slots[run.plan.by_id[node_id].index], reused)
    for index in run.plan.roots:
        if run.slots[index].status == PENDING:
            activate(run, run.slots[index])


def _reuse(run: JobRun, slot: Slot, reused: ReusedNode) -> None:
    """Reuse an outcome of the job that this one reruns; its edges settle as they did then."""
    value = row_value(reused.output)
    engine_made = value if slot.task is None else None
    if CODES[reused.status] == COMPLETED:
        run.move(slot, READY)
    run.move(slot, CODES[reused.status])
    slot.plan.behaviour.restore(run, slot, value)
    keep_read_paths(run, slot.plan, reused.output)
    run.write(slot, output=engine_made, reused_task_id=reused.task_id)
    run.settled.append(slot)


def spread(run: JobRun) -> None:
    """Settle the edges behind every node that has just become completed or skipped."""
    queue = run.settled
    slots = run.slots
    while queue:
        slot = queue.popleft()
        if run.ending is not None:
            continue
        completed = slot.status == COMPLETED
        for target, is_any, branches in slot.plan.out:
            behind = slots[target]
            live = completed and (branches is None or slot.taken in branches)
            behind.settle_edge(is_any, live)
            if behind.status == PENDING and run.ending is None:
                _decide(run, behind)


def _decide(run: JobRun, slot: Slot) -> None:
    plan = slot.plan
    if (plan.all_count and not slot.all_waiting and not slot.all_live) or (
        plan.any_count and not slot.any_waiting and not slot.any_live
    ):
        skip(run, slot, "conditional_branch_not_taken")
    elif not slot.all_waiting and (not plan.any_count or slot.any_live):
        activate(run, slot)


def activate(run: JobRun, slot: Slot) -> None:
    """All dependencies are met: begin the work of this type of node."""
    run.move(slot, READY)
    slot.plan.behaviour.activate(run, slot)
