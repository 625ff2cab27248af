"""The jobs that this orchestrator owns: aggregates in memory, loaded from rows when needed, dropped when in doubt.

The cache is bounded by an estimate of bytes; whatever is evicted is loaded again with its next input.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg

from rmhdag.engine.inputs import Output, Path, Reference
from rmhdag.engine.loading import load_run
from rmhdag.engine.plan import Plan
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.models.states import JobEnding, JobStatus, NodeStatus, NodeType
from rmhdag.orchestrator.job_spans import announce_job
from rmhdag.store import jobs, payloads, reruns
from rmhdag.store.asset_states import RevisionKey
from rmhdag.workflow.definition import WorkflowDefinition
from rmhdag.workflow.expressions import Missing, resolve_path

Conn = psycopg.Connection[Any]
MAX_LOOKED_INTO = 1024 * 1024
MAX_PLANS = 200


@dataclass(slots=True)
class OwnedJob:
    """An aggregate with what its rows need beside it."""

    job_id: str
    owner_epoch: int
    namespace: str
    priority: int
    fairness_key: str
    submitted_by: str
    root_job_id: str
    run: JobRun
    trace_parent: str | None
    submitted_trace: str | None = None
    callback_url: str | None = None
    revision: RevisionKey | None = None  # of the asset that the job makes
    rerun_of: str | None = None
    rerun: Mapping[str, Any] | None = None  # what to do again, as `orchestrator.reruns` wrote it
    is_new: bool = False  # just loaded: `resume` has to be asked what is owed

    @property
    def tells_end(self) -> bool:
        """Whether somebody may want to be told of its end: requests that joined it have callbacks of their own."""
        return self.callback_url is not None or self.revision is not None

    def size_bytes(self) -> int:
        fans = [slot.fan for slot in self.run.slots if slot.fan is not None]
        children = sum(2 * fan.total + 400 * len(fan.active) for fan in fans)
        return 4_000 + 400 * len(self.run.slots) + 300 * len(self.run.outputs) + children


class Unloadable(NamedTuple):
    """A job whose definition or rows make no aggregate."""

    job_id: str
    owner_epoch: int
    namespace: str
    error: Exception


class OwnedJobs:
    """The cache. `epochs` says which jobs are owned at all, in memory or not."""

    def __init__(self, me: str, handler_queues: Mapping[str, str], max_bytes: int) -> None:
        self._me = me
        self._handler_queues = handler_queues
        self._max_bytes = max_bytes
        self._plans: OrderedDict[tuple[str, str, int, str], Plan] = OrderedDict()
        self._cached: OrderedDict[str, OwnedJob] = OrderedDict()
        self._bytes = 0
        self._sizes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._cached)

    def cached_ids(self) -> list[str]:
        return list(self._cached)

    def get(self, job_id: str) -> OwnedJob | None:
        job = self._cached.get(job_id)
        if job is not None:
            self._cached.move_to_end(job_id)
        return job

    def drop(self, job_ids: Collection[str]) -> None:
        for job_id in job_ids:
            if self._cached.pop(job_id, None) is not None:
                self._bytes -= self._sizes.pop(job_id, 0)

    def clear(self) -> None:
        self.drop(list(self._cached))

    def trim(self, busy: Collection[str]) -> None:
        """Measure what was touched and evict the longest untouched until the bound holds."""
        for job_id in busy:
            job = self._cached.get(job_id)
            if job is not None:
                size = job.size_bytes()
                self._bytes += size - self._sizes.get(job_id, 0)
                self._sizes[job_id] = size
        while self._bytes > self._max_bytes and len(self._cached) > len(busy):
            self.drop([next(iter(self._cached))])

    def load(self, conn: Conn, job_ids: Collection[str]) -> list[Unloadable]:
        """Bring jobs into memory; those that are not mine (any more) stay out. Returns what makes no aggregate."""
        missing = [job_id for job_id in job_ids if job_id not in self._cached]
        if not missing:
            return []
        rows = {row.job_id: row for row in jobs.load_jobs(conn, self._me, missing)}
        nodes: dict[str, list[Any]] = defaultdict(list)
        for node in jobs.load_nodes(conn, list(rows)):
            nodes[node.job_id].append(_as_row(node))
        numbers = jobs.last_event_numbers(conn, list(rows))
        unloadable: list[Unloadable] = []
        plans: dict[str, Plan] = {}
        for job_id, row in rows.items():
            try:
                plans[job_id] = self.plan_of(conn, row)
            except psycopg.Error:
                raise
            except Exception as error:  # whatever is wrong with this definition is wrong with this job alone
                unloadable.append(Unloadable(job_id, row.owner_epoch, row.namespace, error))
        outputs = self._outputs(conn, plans, nodes, rows)
        for job_id, plan in plans.items():
            row = rows[job_id]
            submitted_trace = row.metadata.get("trace_parent")
            try:
                run = load_run(
                    plan,
                    _facts(row),
                    nodes[job_id],
                    outputs[job_id],
                    next_seq=numbers.get(job_id, 0) + 1,
                    reused_children=_reused_children(conn, row),
                )
            except psycopg.Error:
                raise
            except Exception as error:
                unloadable.append(Unloadable(job_id, row.owner_epoch, row.namespace, error))
                continue
            self._cached[job_id] = OwnedJob(
                job_id,
                row.owner_epoch,
                row.namespace,
                row.priority,
                row.fairness_key,
                row.submitted_by,
                row.root_job_id,
                run,
                announce_job(job_id, submitted_trace),
                submitted_trace,
                row.callback_url,
                None if row.revision is None else RevisionKey(row.namespace, row.asset_id, row.revision),
                row.rerun_of,
                row.metadata.get("rerun"),
                is_new=True,
            )
        return unloadable

    def plan_of(self, conn: Conn, row: Any) -> Plan:
        return self.plan_for(conn, row.namespace, row.workflow_id, row.workflow_version, row.workflow_hash)

    def plan_for(self, conn: Conn, namespace: str, workflow_id: str, version: int, content_hash: str) -> Plan:
        """The compiled definition that a job was created with, whatever is registered by now."""
        key = (namespace, workflow_id, version, content_hash)
        plan = self._plans.get(key)
        if plan is None:
            definition = jobs.load_definition(conn, *key)
            plan = Plan(WorkflowDefinition.model_validate(definition), self._handler_queues)
            self._plans[key] = plan
            if len(self._plans) > MAX_PLANS:
                self._plans.popitem(last=False)
        return plan

    def _outputs(
        self, conn: Conn, plans: Mapping[str, Plan], nodes: Mapping[str, list[Any]], rows: Mapping[str, Any]
    ) -> dict[str, dict[str, Output]]:
        wanted: dict[str, tuple[str, str]] = {}
        for job_id, plan in plans.items():
            for node in nodes[job_id]:
                compiled = plan.by_id.get(node.node_id)
                if compiled is None or not compiled.reads or node.status is not NodeStatus.COMPLETED:
                    continue
                task_id = node.reused_task_id or node.task_id
                if task_id is not None and compiled.type is NodeType.TASK:
                    wanted[task_id] = (job_id, node.node_id)
        found: dict[str, dict[str, Output]] = {job_id: {} for job_id in plans}
        for task_id, value in jobs.load_outputs(conn, list(wanted)).items():
            job_id, node_id = wanted[task_id]
            found[job_id][node_id] = read_output(conn, plans[job_id], rows[job_id].namespace, node_id, value)
        return found


def read_output(conn: Conn, plan: Plan, namespace: str, node_id: str, value: Any) -> Output:
    """A stored output as the engine wants it: of a large one, only what expressions read is cut out."""
    reference = as_reference(value)
    if reference is None:
        return Output(value)
    compiled = plan.by_id.get(node_id)
    paths = [] if compiled is None else [path for path in plan.read_paths(node_id) if path]
    if not paths or not _may_look_into(plan, node_id, reference):
        return Output(reference=reference)
    whole = payloads.read_json(conn, namespace, reference.sha256)
    excerpts: dict[Path, Any] = {}
    for path in paths:
        try:
            excerpts[path] = resolve_path(whole, path)
        except Missing:
            continue
    return Output(reference=reference, excerpts=excerpts)


def _may_look_into(plan: Plan, node_id: str, reference: Reference) -> bool:
    """The items of a fan-out may come from any output; everything else looks into small ones only."""
    if reference.size_bytes <= MAX_LOOKED_INTO:
        return True
    sources = (node.source for node in plan.nodes if node.source is not None)
    return any(ref.root == "nodes" and ref.path[0] == node_id for source in sources for ref in source.references)


def _reused_children(conn: Conn, row: Any) -> dict[str, dict[int, str]]:
    """An expansion that goes on after a change of owner still takes over what the job that is rerun has finished."""
    rerun = row.metadata.get("rerun")
    return reruns.finished_children(conn, row.rerun_of, rerun["keeps_children"]) if row.rerun_of and rerun else {}


def as_reference(value: Any) -> Reference | None:
    if isinstance(value, dict) and value.keys() == {"sha256", "size_bytes", "media_type"}:
        return Reference(value["sha256"], value["size_bytes"], value["media_type"])
    return None


def _as_row(node: Any) -> Any:
    return node._replace(status=NodeStatus(node.status))


def _facts(row: Any) -> JobFacts:
    return JobFacts(
        row.job_id,
        row.input_params,
        JobStatus(row.status),
        None if row.ending is None else JobEnding(row.ending),
        row.error_message,
        row.parent_job_id,
        row.parent_node_id,
        row.depth,
        row.started_at,
    )
