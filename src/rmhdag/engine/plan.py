"""A workflow definition made ready to run: numbered nodes, merged edges, compiled templates, read sets.

Compiled once per definition and shared by all its jobs; nothing in it ever changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rmhdag.engine.inputs import Path
from rmhdag.engine.node_types import BEHAVIOURS
from rmhdag.models.states import NodeType
from rmhdag.workflow.definition import (
    ConditionalNode,
    FanInNode,
    RetryRule,
    TaskNode,
    TaskSpec,
    WorkflowDefinition,
)
from rmhdag.workflow.edges import definition_edges
from rmhdag.workflow.expressions import CompiledTemplate, compile_value

NO_RETRY = RetryRule(max_attempts=1)

# One transaction for 100,000 children takes longer than an orchestrator may work without a heartbeat. Other jobs wait
# for each chunk: with 1,000 children a small job took 10 × its idle time, with 250 6.6 ×, at the same throughput.
EXPANSION_CHUNK = 250
# Cancelling is an UPDATE without templates, so its chunks may be larger than those of an expansion.
CANCEL_CHUNK = 5_000


class PlanError(Exception):
    """The definition cannot run here, for example because no queue is known for a handler."""


class TaskPlan:
    """A task for a worker, with compiled parameters."""

    __slots__ = ("handler", "params", "queue", "retry", "start_timeout_seconds", "timeout_seconds")

    def __init__(self, spec: TaskSpec, queue: str) -> None:
        self.handler = spec.handler
        self.queue = queue
        self.params = compile_value(spec.params)
        self.timeout_seconds = spec.timeout_seconds
        self.start_timeout_seconds = spec.start_timeout_seconds
        self.retry = spec.retry


# target, whether the edge is in the target's any_of group, branches that make it live (None: always)
OutEdge = tuple[int, bool, frozenset[int] | None]


MakeTask = Callable[["NodePlan", TaskSpec], TaskPlan]


class NodePlan:
    """One static node. Which of the optional fields are set follows from `type`."""

    __slots__ = (
        "all_count",
        "any_count",
        "behaviour",
        "branches",
        "definition",
        "fan_in_index",
        "index",
        "inputs_of",
        "item_key",
        "max_parallel",
        "message",
        "node_id",
        "out",
        "params",
        "reads",
        "references",
        "retry",
        "source",
        "source_index",
        "task",
        "type",
    )

    def __init__(self, index: int, node_id: str, node_type: NodeType, definition: Any) -> None:
        self.index = index
        self.node_id = node_id
        self.type = node_type
        self.behaviour = BEHAVIOURS[node_type]
        self.definition = definition
        self.out: tuple[OutEdge, ...] = ()
        self.inputs_of: list[tuple[int, bool]] = []  # sources with their group, for `explain`
        self.all_count = 0
        self.any_count = 0
        self.task: TaskPlan | None = None
        self.params: CompiledTemplate | None = None
        self.message: CompiledTemplate | None = None
        self.source: CompiledTemplate | None = None
        self.item_key: CompiledTemplate | None = None
        self.max_parallel: int | None = None
        self.branches: tuple[CompiledTemplate | None, ...] = ()  # None: the default branch
        self.source_index = -1  # fan-in: its fan-out
        self.fan_in_index = -1  # fan-out: its fan-in, -1 if none
        self.retry = NO_RETRY
        self.reads: tuple[Path, ...] = ()  # full paths ("node", "output", …) of this node that expressions read
        self.references: frozenset[Any] = frozenset()

    @property
    def max_attempts(self) -> int:
        return self.retry.max_attempts


class Plan:
    """The whole definition, compiled. The chunks say how many children one input may create or cancel."""

    def __init__(
        self,
        definition: WorkflowDefinition,
        handler_queues: Mapping[str, str] | None = None,
        *,
        expansion_chunk: int = EXPANSION_CHUNK,
        cancel_chunk: int = CANCEL_CHUNK,
    ) -> None:
        self.definition = definition
        self.expansion_chunk = expansion_chunk
        self.cancel_chunk = cancel_chunk
        self.nodes: list[NodePlan] = []
        self.by_id: dict[str, NodePlan] = {}
        for node_id, node in definition.nodes.items():
            if isinstance(node, TaskNode) and node.template_of is not None:
                continue
            compiled = NodePlan(len(self.nodes), node_id, node.type, node)
            self.nodes.append(compiled)
            self.by_id[node_id] = compiled
        queues = handler_queues or {}
        for compiled in self.nodes:
            templates = compiled.behaviour.compile(
                compiled, compiled.definition, lambda node, spec: self._task(node, spec, queues)
            )
            references = (template.references for template in templates if template is not None)
            compiled.references = frozenset().union(*references)
        self._connect()
        self._compile_result()
        self._collect_reads()
        self.node_ids = [node.node_id for node in self.nodes]
        self.fan_outs = [node.index for node in self.nodes if node.type is NodeType.FAN_OUT]
        self.max_retries = [node.retry.max_attempts - 1 for node in self.nodes]
        self.roots = [node.index for node in self.nodes if not node.all_count and not node.any_count]

    def read_paths(self, node_id: str) -> list[Path]:
        """The paths inside a node's output that expressions read: what to cut out of a large output."""
        return [path[2:] for path in self.by_id[node_id].reads]

    def _task(self, node: NodePlan, spec: TaskSpec, handler_queues: Mapping[str, str]) -> TaskPlan:
        queue = spec.queue or handler_queues.get(spec.handler)
        if queue is None:
            raise PlanError(
                f"no queue for node {node.node_id!r}: neither the workflow nor handler {spec.handler!r} names one; "
                f"add `queue:` to the node or to `defaults`"
            )
        return TaskPlan(spec, queue)

    def _connect(self) -> None:
        merged: dict[tuple[int, int], tuple[bool, set[int] | None]] = {}
        for edge in definition_edges(self.definition):
            if edge.source not in self.by_id or edge.target not in self.by_id:
                continue
            key = (self.by_id[edge.source].index, self.by_id[edge.target].index)
            is_any, branches = merged.get(key, (False, set()))
            # An edge that does not depend on a branch is live whatever the conditional decides.
            branches = None if edge.branch_index is None or branches is None else branches | {edge.branch_index}
            merged[key] = (is_any or edge.group == "any_of", branches)
        out: dict[int, list[OutEdge]] = {}
        for (source, target), (is_any, branches) in merged.items():
            out.setdefault(source, []).append((target, is_any, None if branches is None else frozenset(branches)))
            node = self.nodes[target]
            node.inputs_of.append((source, is_any))
            if is_any:
                node.any_count += 1
            else:
                node.all_count += 1
        for source, edges in out.items():
            self.nodes[source].out = tuple(edges)
        for node in self.nodes:
            if isinstance(node.definition, FanInNode):
                fan_out = self.by_id[node.definition.source_node]
                node.source_index = fan_out.index
                fan_out.fan_in_index = node.index

    def _compile_result(self) -> None:
        """The job's result: the declared outputs, or those of the nodes that lead to END or nowhere."""
        if self.definition.outputs is not None:
            self.result: CompiledTemplate | None = compile_value(self.definition.outputs)
            self.final_nodes: tuple[str, ...] = ()
            return
        self.result = None
        ends = {node.index for node in self.nodes if node.type is NodeType.END}
        final = [
            node
            for node in self.nodes
            if node.definition.ends
            or not node.out
            or any(target in ends for target, _, _ in node.out)
            or (isinstance(node.definition, ConditionalNode) and any(not b.next for b in node.definition.branches))
        ]
        self.final_nodes = tuple(node.node_id for node in final if node.type not in (NodeType.START, NodeType.END))

    def _collect_reads(self) -> None:
        paths_by_node: dict[str, set[Path]] = {node_id: {(node_id, "output")} for node_id in self.final_nodes}
        references = set().union(*(node.references for node in self.nodes))
        if self.result is not None:
            references |= self.result.references
        for reference in references:
            if reference.root == "nodes" and len(reference.path) >= 2 and reference.path[1] == "output":
                paths_by_node.setdefault(str(reference.path[0]), set()).add(reference.path)
        for node_id, paths in paths_by_node.items():
            if node_id in self.by_id:
                self.by_id[node_id].reads = tuple(sorted(paths, key=repr))
