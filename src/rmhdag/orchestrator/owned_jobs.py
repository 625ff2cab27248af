"""The jobs that this orchestrator owns: aggregates in memory, loaded from rows when needed, dropped when in doubt.

The cache is bounded by bytes; whatever is evicted is loaded again with its next input. What one turn loads is bounded
too: what does not fit is postponed, so that taking over many large jobs delays the others by one of them at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import psycopg

from rmhdag.engine.inputs import Output
from rmhdag.engine.loading import ChildUnderWay, LoadedChildren, load_run
from rmhdag.engine.plan import Plan
from rmhdag.engine.run import JobFacts, JobRun
from rmhdag.models.references import as_reference
from rmhdag.models.states import NODE_TERMINAL, JobEnding, JobStatus, NodeStatus, NodeType
from rmhdag.orchestrator.handler_queues import HandlerQueues
from rmhdag.orchestrator.job_sizes import JobSize
from rmhdag.orchestrator.job_spans import announce_job
from rmhdag.orchestrator.large_values import restore_inputs
from rmhdag.orchestrator.stored_outputs import read_output
from rmhdag.services.plans import plan_of
from rmhdag.store import jobs, reruns
from rmhdag.store.batch_rows import PieceOfFanOut, RevisionKey
from rmhdag.store.connection import Conn

# What one call of `load` may read. A job that is larger by itself is loaded whole, but only one such job at a time.
NODES_PER_TURN = 20_000
CHILDREN_PER_TURN = 20_000
STORED_BYTES_PER_TURN = 4 * 1024 * 1024
# 100,000 children take some 50 ms; 500,000 stay well below any statement's time-out.
CHILDREN_PER_STATEMENT = 20_000


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
    rerun: Mapping[str, Any] | None = None  # what to do again, as `services.reruns` wrote it
    is_new: bool = False  # just loaded: `resume` has to be asked what is owed
    size: JobSize = field(init=False)

    def __post_init__(self) -> None:
        self.size = JobSize(self.run)

    @property
    def tells_end(self) -> bool:
        """Whether its end may have to be reported: requests that joined it have callbacks of their own."""
        return self.callback_url is not None or self.revision is not None

    def size_bytes(self) -> int:
        return self.size.of(self.run)


class MissingChildrenError(Exception):
    """Somebody has changed the tables by hand."""


class Unloadable(NamedTuple):
    """A job whose definition or rows make no aggregate."""

    job_id: str
    owner_epoch: int
    namespace: str
    error: Exception


class Loaded(NamedTuple):
    """What `load` could not do: jobs that make no aggregate, and jobs that did not fit into this turn."""

    unloadable: list[Unloadable]
    postponed: set[str]


@dataclass(slots=True)
class _Draft:
    """A job on its way into memory."""

    row: Any
    plan: Plan
    nodes: list[Any] = field(default_factory=list)
    children: dict[str, LoadedChildren] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)  # children of each fan-out that has begun
    has_gap: bool = False
    reusable: int = 0  # children of the job before that may still be taken over

    def take(self, node: Any) -> None:
        self.nodes.append(node._replace(status=NodeStatus(node.status)))
        if self.plan.by_id[node.node_id].type is NodeType.FAN_OUT and node.output is not None:
            self.totals[node.node_id] = node.output["total"]

    @property
    def unfinished_reuse(self) -> list[str]:
        """Fan-outs that still take over what the job before has finished, as far as nodes and children are read."""
        rerun = self.row.metadata.get("rerun")
        if self.row.rerun_of is None or rerun is None or self.row.ending is not None:
            return []
        over = {node.node_id for node in self.nodes if node.status in NODE_TERMINAL}
        over |= {name for name, children in self.children.items() if len(children.statuses) == self.totals[name]}
        return [fan_out_id for fan_out_id in rerun["keeps_children"] if fan_out_id not in over]


class OwnedJobs:
    """The cache."""

    def __init__(
        self,
        me: str,
        handler_queues: Mapping[str, str],
        max_bytes: int,
        template_env: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._me = me
        self._template_env = template_env
        self._max_bytes = max_bytes
        self._queues = HandlerQueues(handler_queues)
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

    @property
    def is_full(self) -> bool:
        return self._bytes > self._max_bytes

    def trim(self, busy: Collection[str]) -> None:
        """Measure what was touched and evict the longest untouched until the bound holds.

        Those of this turn go last, but they go too; only the last one stays, however large: it would come back at once.
        """
        for job_id in busy:
            self._measure(job_id)
        while self._bytes > self._max_bytes and len(self._cached) > 1:
            self.drop([next(iter(self._cached))])

    def _measure(self, job_id: str) -> None:
        job = self._cached.get(job_id)
        if job is not None:
            size = job.size_bytes()
            self._bytes += size - self._sizes.get(job_id, 0)
            self._sizes[job_id] = size

    def load(self, conn: Conn, job_ids: Collection[str]) -> Loaded:
        """Bring jobs into memory, in this order and within the budget; those that are not mine (any more) stay out."""
        loaded = Loaded([], set())
        missing = [job_id for job_id in job_ids if job_id not in self._cached]
        if not missing:
            return loaded
        drafts = self._begin(conn, missing, loaded)
        _load_nodes(conn, drafts, loaded.postponed)
        _count_reusable(conn, drafts)
        _load_children(conn, _within_budget(drafts, loaded.postponed))
        fitting = [draft for job_id, draft in drafts.items() if job_id not in loaded.postponed]
        numbers = jobs.last_event_numbers(conn, [draft.row.job_id for draft in fitting])
        payload_bytes = 0
        for draft in fitting:
            row = draft.row
            if payload_bytes > STORED_BYTES_PER_TURN:
                loaded.postponed.add(row.job_id)
                continue
            try:
                outputs = _outputs(conn, draft)
                payload_bytes += sum(output.reference.size_bytes for output in outputs.values() if output.reference)
                self._cached[row.job_id] = _as_job(
                    conn, draft, outputs, numbers.get(row.job_id, 0) + 1, self._template_env
                )
            except psycopg.Error:
                raise
            except Exception as error:
                loaded.unloadable.append(Unloadable(row.job_id, row.owner_epoch, row.namespace, error))
            else:
                self._measure(row.job_id)
        return loaded

    def _begin(self, conn: Conn, job_ids: list[str], loaded: Loaded) -> dict[str, _Draft]:
        drafts: dict[str, _Draft] = {}
        for row in jobs.load_jobs(conn, self._me, job_ids, STORED_BYTES_PER_TURN):
            if not row.fits:
                loaded.postponed.add(row.job_id)
                continue
            definition = (row.namespace, row.workflow_id, row.workflow_version, row.workflow_hash)
            try:
                queue_of = self._queues.of_namespace(conn, row.namespace)
                drafts[row.job_id] = _Draft(row, plan_of(conn, *definition, queue_of))
            except psycopg.Error:
                raise
            except Exception as error:  # whatever is wrong with this definition is wrong with this job alone
                loaded.unloadable.append(Unloadable(row.job_id, row.owner_epoch, row.namespace, error))
        return drafts


def _load_nodes(conn: Conn, drafts: Mapping[str, _Draft], postponed: set[str]) -> None:
    keys: list[jobs.NodeKey] = []
    for turn, (job_id, draft) in enumerate(drafts.items()):
        if draft.row.status == JobStatus.PENDING:
            continue  # its nodes are made when it begins
        if keys and len(keys) + len(draft.plan.nodes) > NODES_PER_TURN:
            postponed.add(job_id)
            continue
        keys += [
            jobs.NodeKey(turn, job_id, node.node_id, bool(node.reads) and node.type is NodeType.TASK)
            for node in draft.plan.nodes
        ]
    for node in jobs.load_nodes(conn, keys, STORED_BYTES_PER_TURN):
        if node.fits:
            drafts[node.job_id].take(node)
        else:
            postponed.add(node.job_id)


def _count_reusable(conn: Conn, drafts: Mapping[str, _Draft]) -> None:
    """How large the fan-outs are from which a rerun takes over children: the job before knows."""
    reuses = [(draft, fan_out_id) for draft in drafts.values() for fan_out_id in draft.unfinished_reuse]
    if not reuses:
        return
    totals = reruns.fan_out_totals(conn, [(draft.row.rerun_of, fan_out_id) for draft, fan_out_id in reuses])
    for draft, fan_out_id in reuses:
        draft.reusable += totals.get((draft.row.rerun_of, fan_out_id), 0)


def _within_budget(drafts: Mapping[str, _Draft], postponed: set[str]) -> list[_Draft]:
    """Small ones up to the budget, and one large one: so neither kind waits for the other."""
    fitting: list[_Draft] = []
    room, has_large = CHILDREN_PER_TURN, False
    for job_id, draft in drafts.items():
        if job_id in postponed:
            continue
        children = sum(draft.totals.values()) + draft.reusable
        is_large = children > CHILDREN_PER_TURN
        if is_large and not has_large:
            has_large = True
        elif not is_large and children <= room:
            room -= children
        else:
            postponed.add(job_id)
            continue
        fitting.append(draft)
    return fitting


def _load_children(conn: Conn, drafts: list[_Draft]) -> None:
    """In statements of bounded size; a fan-out whose expansion is under way is read up to where it has got."""
    by_id = {draft.row.job_id: draft for draft in drafts}
    waiting: list[PieceOfFanOut] = []
    for draft in drafts:
        draft.children = {fan_out_id: LoadedChildren() for fan_out_id in draft.totals}
        waiting += [PieceOfFanOut(draft.row.job_id, name, 0, total) for name, total in draft.totals.items() if total]
    while waiting:
        pieces, waiting = _next_pieces(waiting)
        for loaded in jobs.load_children(conn, pieces):
            draft = by_id[loaded.job_id]
            children = draft.children[loaded.fan_out_id]
            draft.has_gap = draft.has_gap or loaded.has_gap
            children.statuses += loaded.statuses
            children.attempts += loaded.attempts
            children.under_way += [ChildUnderWay(*child) for child in loaded.under_way]
            children.error = children.error or loaded.error
        waiting = [
            piece for piece in waiting if len(by_id[piece.job_id].children[piece.fan_out_id].statuses) == piece.start
        ]


def _next_pieces(waiting: list[PieceOfFanOut]) -> tuple[list[PieceOfFanOut], list[PieceOfFanOut]]:
    """As many as one statement may read, and what is left."""
    pieces: list[PieceOfFanOut] = []
    room = CHILDREN_PER_STATEMENT
    for position, piece in enumerate(waiting):
        size = piece.stop - piece.start
        if size > room:
            if room == 0:
                return pieces, waiting[position:]
            middle = piece.start + room
            return [*pieces, piece._replace(stop=middle)], [piece._replace(start=middle), *waiting[position + 1 :]]
        pieces.append(piece)
        room -= size
    return pieces, []


def _outputs(conn: Conn, draft: _Draft) -> dict[str, Output]:
    """What tasks have reported, and what the engine made if it is stored apart; other rows hold theirs."""
    outputs: dict[str, Output] = {}
    for node in draft.nodes:
        value = node.result
        if value is None and draft.plan.by_id[node.node_id].reads and as_reference(node.output) is not None:
            value = node.output
        if value is not None:
            outputs[node.node_id] = read_output(conn, draft.plan, draft.row.namespace, node.node_id, value)
    return outputs


def _as_job(
    conn: Conn, draft: _Draft, outputs: Mapping[str, Output], next_seq: int, env: Mapping[str, str]
) -> OwnedJob:
    row = draft.row
    if draft.has_gap:
        raise MissingChildrenError("rows of children are missing, although no process removes them while a job is open")
    # A job that is about to begin is given them with its start.
    reuses = [] if row.status == JobStatus.PENDING else draft.unfinished_reuse
    reused = reruns.finished_children(conn, row.rerun_of, reuses) if reuses else {}
    facts = _facts(row, restore_inputs(conn, row.namespace, row.input_params), env)
    run = load_run(draft.plan, facts, draft.nodes, draft.children, outputs, next_seq=next_seq, reused_children=reused)
    submitted_trace = row.metadata.get("trace_parent")
    return OwnedJob(
        row.job_id,
        row.owner_epoch,
        row.namespace,
        row.priority,
        row.fairness_key,
        row.submitted_by,
        row.root_job_id,
        run,
        announce_job(row.job_id, submitted_trace),
        submitted_trace,
        row.callback_url,
        None if row.revision is None else RevisionKey(row.namespace, row.asset_id, row.revision),
        row.rerun_of,
        row.metadata.get("rerun"),
        is_new=True,
    )


def _facts(row: Any, input_params: dict[str, Any], env: Mapping[str, str]) -> JobFacts:
    return JobFacts(
        row.job_id,
        input_params,
        JobStatus(row.status),
        None if row.ending is None else JobEnding(row.ending),
        row.error_message,
        row.parent_job_id,
        row.parent_node_id,
        row.depth,
        row.started_at,
        env,
        error=row.error,
        warnings=row.warnings or (),
    )
