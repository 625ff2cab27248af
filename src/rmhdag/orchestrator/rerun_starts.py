"""What a rerun brings along when it begins: the outcomes of the job before that it reuses (SPEC E8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg

from rmhdag.engine.inputs import Output, ReusedNode, Start
from rmhdag.engine.plan import Plan
from rmhdag.engine.waiting import child_job_id
from rmhdag.models.data_warnings import WarningSum
from rmhdag.models.states import NodeStatus, NodeType
from rmhdag.orchestrator.stored_outputs import read_output
from rmhdag.store import jobs, reruns

Conn = psycopg.Connection[Any]


def start_of(conn: Conn, namespace: str, rerun_of: str, rerun: Mapping[str, Any], plan: Plan) -> Start:
    """What a rerun begins with. If the old job is gone by now, nothing can be taken over and everything runs."""
    outcomes = reruns.node_outcomes(conn, rerun_of)
    again = set(rerun["again"])
    finished = {
        node.node_id: outcomes[node.node_id]
        for node in plan.nodes
        if node.node_id not in again and node.node_id in outcomes
    }
    requests = [
        outcome.task_id
        for node_id, outcome in finished.items()
        if outcome.task_id is not None and plan.by_id[node_id].type is NodeType.TASK and plan.by_id[node_id].reads
    ]
    results = jobs.load_outputs(conn, requests)
    reused = {}
    for node_id, outcome in finished.items():
        value = results.get(outcome.task_id or "") if plan.by_id[node_id].type is NodeType.TASK else outcome.output
        output: Output | None = None
        if value is not None and outcome.status is NodeStatus.COMPLETED:
            output = read_output(conn, plan, namespace, node_id, value)
        reused[node_id] = ReusedNode(outcome.status, outcome.task_id, output)
    children = reruns.finished_children(conn, rerun_of, rerun["keeps_children"])
    return Start(reused, children, _reused_warnings(conn, rerun_of, finished, children, plan))


def _reused_warnings(
    conn: Conn,
    rerun_of: str,
    outcomes: Mapping[str, reruns.NodeOutcome],
    children: Mapping[str, Mapping[int, str]],
    plan: Plan,
) -> list[dict[str, Any]]:
    """Of all that is taken over; looked for only if the old job had any."""
    if not jobs.load_warnings(conn, rerun_of):
        return []
    by_type: dict[NodeType, list[reruns.NodeOutcome]] = {}
    for outcome in outcomes.values():
        if outcome.status is NodeStatus.COMPLETED:
            by_type.setdefault(plan.by_id[outcome.node_id].type, []).append(outcome)
    whole = [outcome.node_id for outcome in by_type.get(NodeType.FAN_OUT, ())]
    task_ids = [outcome.task_id for outcome in by_type.get(NodeType.TASK, ()) if outcome.task_id is not None]
    for children_of in (children, reruns.finished_children(conn, rerun_of, whole)):
        task_ids += [task_id for tasks in children_of.values() for task_id in tasks.values()]
    total = WarningSum(reruns.warnings_of_tasks(conn, task_ids))
    for outcome in by_type.get(NodeType.WORKFLOW, ()):
        if outcome.task_id is not None:
            total.add(jobs.load_warnings(conn, child_job_id(outcome.task_id)))
    return total.as_json()
