"""Fan-out and fan-in: expansion in chunks, children as counters, and the end of the last child."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rmhdag.engine import endings
from rmhdag.engine.dispatch import fill_lane, offer
from rmhdag.engine.effects import AggregationRequested, ChildrenCreated, ContinueLater, NewChild
from rmhdag.engine.inputs import ChildrenReduced, Continue, Output
from rmhdag.engine.outputs import ChildScope, keep_read_paths, resolve_params
from rmhdag.engine.reasons import Reason, ReasonCode
from rmhdag.engine.reducer import empty_output
from rmhdag.engine.settling import complete_node
from rmhdag.engine.slots import COMPLETED, FAILED, PENDING, READY, RUNNING, FanOutState, Slot
from rmhdag.models.events import ErrorKind, EventStatus, EventType
from rmhdag.models.limits import EXPANSION_BYTES, MAX_CHILDREN, MESSAGE_CHARACTERS, NAMED_FAILURES
from rmhdag.models.states import NodeType
from rmhdag.workflow.expressions import CompiledTemplate, ExpressionError, Missing, compile_template, compile_value
from rmhdag.workflow.expressions.budget import MAX_WORK

if TYPE_CHECKING:
    from rmhdag.engine.plan import MakeTask, NodePlan
    from rmhdag.engine.run import JobRun
    from rmhdag.workflow.definition import FanOutNode


def compile_fan_out(node: NodePlan, definition: FanOutNode, make_task: MakeTask) -> list[CompiledTemplate | None]:
    node.task = make_task(node, definition.task)
    node.max_parallel = definition.max_parallel
    source = definition.source
    node.source = compile_template(source) if isinstance(source, str) else compile_value(list(source))
    node.item_key = compile_template(definition.item_key) if definition.item_key is not None else None
    return [node.task.params, node.source, node.item_key]


def begin_fan_out(run: JobRun, slot: Slot) -> None:
    run.record_ready(slot)
    try:
        items = source_items(run, slot)
    except (ExpressionError, Missing) as error:
        endings.fail_node(run, slot, ErrorKind.FAN_OUT_SOURCE, f"the source cannot be resolved: {error}")
        return
    total = len(items)
    if total > MAX_CHILDREN:
        message = (
            f"the source has {total:,} items, at most {MAX_CHILDREN:,} are possible; hand out batches of items instead"
        )
        endings.fail_node(run, slot, ErrorKind.FAN_OUT_SOURCE, message)
        return
    run.move(slot, RUNNING)
    fan = slot.fan = FanOutState(slot, items, total)
    fan.reused = run.reused_children.get(slot.node_id, {})
    run.counts[PENDING] += total
    run.write(slot, output=_output_of(fan))
    expand(run, fan)


def source_items(run: JobRun, slot: Slot) -> list[Any]:
    """The array to expand; the same each time, because inputs and finished outputs do not change."""
    assert slot.plan.source is not None
    items = slot.plan.source.evaluate(run.scope)
    if not isinstance(items, list):
        kind = (
            "null"
            if items is None
            else {"str": "text", "dict": "an object"}.get(type(items).__name__, "a single value")
        )
        raise ExpressionError(f"a fan-out needs a list, the source is {kind}")
    return items


def expand(run: JobRun, fan: FanOutState) -> None:
    """Create the next chunk of children and ask to be continued if there are more."""
    assert fan.items is not None
    start, stop = fan.expanded, min(fan.expanded + run.plan.expansion_chunk, fan.total)
    scope = ChildScope(run, fan.total, fan.shared)
    run.resolved_bytes = 0
    children = []
    for index in range(start, stop):
        children.append(_new_child(run, fan, scope, index, fan.items[index]))
        if run.resolved_bytes > EXPANSION_BYTES or scope.work > MAX_WORK:
            break
    run.scope.work += scope.work
    stop = fan.expanded = start + len(children)
    if children:
        retry = fan.slot.plan.task.retry if fan.slot.plan.task is not None else None
        max_retries = 0 if retry is None else retry.max_attempts - 1
        run.effects.append(ChildrenCreated(fan.slot.node_id, children, max_retries))
        _count_new_children(run, fan, children)
    if stop < fan.total:
        run.effects.append(ContinueLater(fan.slot.node_id))
    else:
        endings.forget_source(run, fan)
    offer(run, fan)
    if fan.slot.plan.task is not None:
        fill_lane(run, run.lane(fan.slot.plan.task.queue))
    child_settled(run, fan)


def _new_child(run: JobRun, fan: FanOutState, scope: ChildScope, index: int, item: Any) -> NewChild:
    assert fan.slot.plan.task is not None
    scope.item = item
    scope.index = index
    child = NewChild(index, fan.child_id(index), {})
    try:
        child.input_params = resolve_params(run, fan.slot.plan.task.params, scope)
        if fan.slot.plan.item_key is not None:
            child.item_key = str(fan.slot.plan.item_key.evaluate(scope))[:64]
    except (ExpressionError, Missing) as error:
        child.error_message = f"the parameters cannot be resolved: {error}"[:MESSAGE_CHARACTERS]
        return child
    child.reused_task_id = fan.reused.get(index)
    return child


def _count_new_children(run: JobRun, fan: FanOutState, children: list[NewChild]) -> None:
    born = [0, 0, 0]
    for child in children:
        if child.error_message is not None:
            status = FAILED
            fan.attempts[child.index] = 1
            if len(fan.failed) < NAMED_FAILURES:
                fan.failed.append(child.index)
            data = {"error_kind": str(ErrorKind.TEMPLATE_ERROR), "will_retry": False}
            run.record(EventType.NODE_FAILED, EventStatus.FAILURE, child.node_id, data, None, child.error_message)
        else:
            status = READY if child.reused_task_id is None else COMPLETED
        fan.statuses[child.index] = status
        born[0 if status == READY else 1 if status == COMPLETED else 2] += 1
    for counts in (run.counts, fan.counts):
        counts[PENDING] -= len(children)
        counts[READY] += born[0]
        counts[COMPLETED] += born[1]
        counts[FAILED] += born[2]


def continue_fan_out(run: JobRun, step: Continue) -> None:
    slot = run.find(step.node_id)
    if slot is None or slot.fan is None or slot.status != RUNNING:
        return
    if run.ending is not None:
        endings.cancel_next_children(run, slot.fan)
    elif slot.fan.expanded < slot.fan.total:
        expand(run, slot.fan)


def child_failed(run: JobRun, fan: FanOutState, child: Slot, error: dict[str, Any] | None = None) -> None:
    fan.attempts[child.index] = child.attempt
    if error is not None and (fan.error is None or child.index < fan.error[0]):
        fan.error = (child.index, error)
    if len(fan.failed) < NAMED_FAILURES:
        fan.failed.append(child.index)
    child_settled(run, fan)


def child_settled(run: JobRun, fan: FanOutState) -> None:
    """Close the fan-out once its last child is settled; the fan-in decides whether failures matter."""
    slot = fan.slot
    if slot.status != RUNNING:
        return
    if run.ending is not None:
        endings.close_cancelled_fan_out(run, fan)
    elif fan.expanded == fan.total == fan.settled:
        if fan.counts[FAILED] and slot.plan.fan_in_index < 0:
            endings.fail_node(run, slot, ErrorKind.CHILDREN_FAILED, name_failures(fan), _error_of(fan))
        else:
            complete_node(run, slot, None, {"children_created": fan.total})
            keep_read_paths(run, slot.plan, Output(_output_of(fan)))


def _output_of(fan: FanOutState) -> dict[str, Any]:
    ends = [fan.child_id(0), fan.child_id(fan.total - 1)] if fan.total else []
    return {"dynamic_nodes": ends, "total": fan.total}


def name_failures(fan: FanOutState) -> str:
    count = fan.counts[FAILED]
    named = ", ".join(fan.child_id(index) for index in sorted(fan.failed))
    more = f" and {count - len(fan.failed)} more" if count > len(fan.failed) else ""
    return f"{count} of {fan.total} children failed: {named}{more}"


def _error_of(fan: FanOutState) -> dict[str, Any] | None:
    """The error of the first failed child that has one: the cause of the whole failure."""
    return None if fan.error is None else fan.error[1]


def resolve_params_again(run: JobRun, fan: FanOutState, index: int) -> dict[str, Any]:
    """The parameters of one child: its row has none if they could not be resolved when it was created."""
    assert fan.slot.plan.task is not None
    scope = ChildScope(run, fan.total)
    items = source_items(run, fan.slot) if fan.items is None else fan.items
    scope.item, scope.index = items[index], index
    params: dict[str, Any] = fan.slot.plan.task.params.evaluate(scope)
    return params


def revive_child(run: JobRun, fan: FanOutState, index: int) -> Slot:
    """Give a failed child a slot again, still failed, so that it can be retried."""
    slot = Slot(fan.slot.plan, fan.child_id(index), fan.slot.plan.task, fan, index)
    slot.status = FAILED
    slot.attempt = fan.attempts[index] or 1
    if index in fan.failed:
        fan.failed.remove(index)
    if fan.error is not None and fan.error[0] == index:
        fan.error = None
    return slot


def begin_fan_in(run: JobRun, slot: Slot) -> None:
    """All children are settled: judge the failures, then have the outputs reduced outside the transaction."""
    run.record_ready(slot)
    fan = run.slots[slot.plan.source_index].fan
    failed = 0 if fan is None else fan.counts[FAILED]
    total = 0 if fan is None else fan.total
    if fan is not None and failed > _tolerated(slot, total):
        endings.fail_node(run, slot, ErrorKind.CHILDREN_FAILED, name_failures(fan), _error_of(fan))
        return
    if total == 0:
        empty = empty_output(slot.plan.definition)
        complete_node(run, slot, Output(empty), {"aggregated_count": 0})
        return
    run.write(slot)
    request_aggregation(run, slot)


def resume_fan_in(run: JobRun, slot: Slot) -> None:
    if slot.status == READY:
        request_aggregation(run, slot)


def request_aggregation(run: JobRun, slot: Slot) -> None:
    fan = run.slots[slot.plan.source_index].fan
    assert fan is not None
    node = slot.plan.definition
    run.effects.append(
        AggregationRequested(
            slot.node_id, fan.slot.node_id, node.aggregation, node.field, fan.total, fan.counts[FAILED]
        )
    )


def _tolerated(slot: Slot, total: int) -> int:
    tolerance = slot.plan.definition.tolerate
    if tolerance is None:
        return 0
    if tolerance.count is not None:
        return int(tolerance.count)
    return int(total * tolerance.percent / 100)


def children_reduced(run: JobRun, reduction: ChildrenReduced) -> None:
    slot = run.find(reduction.node_id)
    if slot is None or slot.plan.type is not NodeType.FAN_IN or slot.status != READY or run.ending is not None:
        return
    if reduction.error_message is not None:
        endings.fail_node(run, slot, ErrorKind.AGGREGATION_FAILED, reduction.error_message)
        return
    fan = run.slots[slot.plan.source_index].fan
    complete_node(run, slot, reduction.output, {"aggregated_count": 0 if fan is None else fan.counts[COMPLETED]})


def explain_fan_in(run: JobRun, slot: Slot) -> Reason:
    return ReasonCode.AGGREGATING, "All children are settled; their outputs are being aggregated.", None


def explain_fan_out(run: JobRun, slot: Slot) -> Reason:
    fan = slot.fan
    if fan is None:
        return ReasonCode.RUNS, "A worker runs it.", None  # one of its children
    if fan.expanded < fan.total:
        return ReasonCode.EXPANDING, f"{fan.expanded} of {fan.total} children created so far.", None
    text = f"{fan.settled} of {fan.total} children settled, {fan.in_flight} under way."
    return ReasonCode.WAITS_FOR_CHILDREN, text, None
