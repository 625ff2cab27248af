"""Tasks are sent within the window of their queue; those without room wait in a lane, and fan-outs take turns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmhdag.engine.effects import NodeChanged, TaskQueued
from rmhdag.engine.slots import DISPATCHED, FanOutState, Lane, Slot
from rmhdag.models.events import EventStatus, EventType
from rmhdag.models.states import NodeStatus

if TYPE_CHECKING:
    from rmhdag.engine.run import JobRun


def queue_task(run: JobRun, slot: Slot, lane: Lane, params: dict[str, Any] | None) -> None:
    """Send the current attempt; `params` None means that the node row has them already."""
    task = slot.task
    assert task is not None
    run.move(slot, DISPATCHED)
    slot.next_attempt_at = None
    slot.deadline_at = None if task.start_timeout_seconds is None else run.after(task.start_timeout_seconds)
    lane.unclaimed += 1
    run.in_flight += 1
    if slot.parent is not None:
        slot.parent.in_flight += 1
    task_id = run.task_id(slot)
    run.effects.append(
        NodeChanged(
            slot.node_id,
            NodeStatus.DISPATCHED,
            slot.attempt,
            task_id,
            slot.lease_losses,
            None,
            slot.deadline_at,
            params,
        )
    )
    run.effects.append(
        TaskQueued(
            task_id,
            slot.node_id,
            slot.attempt,
            task.queue,
            task.handler,
            task.timeout_seconds,
            params,
            slot.lease_losses,
        )
    )
    run.record(
        EventType.NODE_DISPATCHED,
        EventStatus.INFO,
        slot.node_id,
        {"queue": task.queue, "task_id": task_id},
        task_id,
    )


def fill_lane(run: JobRun, lane: Lane) -> None:
    """Send waiting tasks while the window has room; fan-outs take turns."""
    if run.ending is not None:
        return
    while lane.unclaimed < lane.limit:
        if lane.waiting:
            queue_task(run, lane.waiting.popleft(), lane, None)
        elif lane.fan_outs:
            queue_next_child(run, lane)
        else:
            return


def offer(run: JobRun, fan: FanOutState) -> None:
    """Put the fan-out in line for its queue, unless it is there already or has nothing to send."""
    if not fan.in_lane and run.ending is None and fan.has_work():
        assert fan.slot.plan.task is not None
        fan.in_lane = True
        run.lane(fan.slot.plan.task.queue).fan_outs.append(fan)


def queue_next_child(run: JobRun, lane: Lane) -> None:
    """Send one child of the first fan-out in line, then move that fan-out to the end."""
    fan = lane.fan_outs.popleft()
    fan.in_lane = False
    if not fan.has_work():
        return
    if fan.due:
        queue_task(run, fan.due.popleft(), lane, None)
    elif (index := fan.take_next_child()) is not None:
        slot = Slot(fan.slot.plan, fan.child_id(index), fan.slot.plan.task, fan, index)
        fan.active[index] = slot
        queue_task(run, slot, lane, None)
    offer(run, fan)
