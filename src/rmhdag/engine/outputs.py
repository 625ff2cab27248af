"""What expressions can read: the job's inputs, and of finished nodes only the paths that the workflow reads."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rmhdag.engine.inputs import Output, Path
from rmhdag.engine.slots import COMPLETED, STATUSES
from rmhdag.models.limits import INLINE_BYTES, PARAMS_BYTES, RESULT_BYTES
from rmhdag.models.references import HIDDEN, is_secret
from rmhdag.workflow.expressions import Missing, measured, resolve_path

if TYPE_CHECKING:
    from rmhdag.engine.plan import NodePlan
    from rmhdag.engine.run import JobRun
    from rmhdag.workflow.expressions import CompiledTemplate
    from rmhdag.workflow.expressions.budget import Shared
    from rmhdag.workflow.expressions.sizes import Resolved


class LargeObject(dict[str, Any]):
    """Parameters or a result that are too large for a row: the orchestrator stores their large members separately."""


def resolve_params(run: JobRun, template: CompiledTemplate, scope: JobScope) -> dict[str, Any]:
    """The parameters of a node. Raises ExpressionError if they become too large, naming the parameter."""
    resolved = template.resolve(scope, PARAMS_BYTES)
    run.resolved_bytes += min(resolved.size_bytes, INLINE_BYTES) + resolved.fresh_bytes
    return _marked(run, resolved, INLINE_BYTES)


def resolve_result(run: JobRun) -> dict[str, Any]:
    """The result of a job: the outputs that its workflow declares, or those of its last nodes."""
    if run.plan.result is not None:
        return _marked(run, run.plan.result.resolve(run.scope, PARAMS_BYTES), RESULT_BYTES)
    paths = ((node_id, (node_id, "output")) for node_id in run.plan.final_nodes)
    result = {node_id: run.outputs[path] for node_id, path in paths if path in run.outputs}
    return _marked(run, measured(run.scope, result, PARAMS_BYTES), RESULT_BYTES)


def _marked(run: JobRun, resolved: Resolved, inline_bytes: int) -> dict[str, Any]:
    if resolved.size_bytes <= inline_bytes:
        return resolved.value
    run.has_large_objects = True
    return LargeObject(resolved.value)


SUMMARY_KEYS = 20
SUMMARY_TEXT = 80
_SECRET_WORDS = ("password", "passwd", "secret", "token", "credential", "connection_string", "api_key", "apikey", "sas")


def keep_read_paths(run: JobRun, plan: NodePlan, output: Output | None) -> None:
    """Keep only the parts of an output that the definition reads; the rest stays in the store."""
    if not plan.reads or output is None:
        return
    values = run.outputs
    for path in plan.reads:
        inside = path[2:]
        if output.reference is None:
            try:
                values[path] = resolve_path(output.value, inside)
            except Missing:
                continue
        elif not inside:
            values[path] = output.reference.as_json()
        elif inside in output.excerpts:
            values[path] = output.excerpts[inside]


def _dotted(path: Path) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")


class JobScope:
    """Names that mean the same for every node of a job.

    It holds parts of the run, never the run itself: in a reference cycle, a dropped job would keep its values in memory
    until the next garbage collection, which is configured to be rare.
    """

    __slots__ = ("_env", "_input_params", "_nodes", "_outputs", "_slots", "shared", "sizes", "work")

    def __init__(self, run: JobRun, sizes: dict[int, tuple[Any, int]] | None = None) -> None:
        self._input_params = run.input_params
        self._env = run.env
        self._outputs = run.outputs
        self._nodes = run.plan.by_id
        self._slots = run.slots
        self.sizes = {} if sizes is None else sizes
        self.shared: Shared | None = None
        self.work = 0  # cost of expressions since the counter was reset

    def lookup(self, root: str, path: Path) -> Any:
        if root == "nodes":
            if path in self._outputs:
                return self._outputs[path]
            return self._other(path)
        if root == "inputs":
            return resolve_path(self._input_params, path)
        if root == "env":
            return resolve_path(self._env, path)
        raise Missing(f"{root!r} has a meaning only inside a fan-out")

    def _other(self, path: Path) -> Any:
        plan = self._nodes.get(str(path[0]))
        if plan is None:
            raise Missing(f"there is no node {path[0]!r}")
        slot = self._slots[plan.index]
        if path[1:] == ("status",):
            return str(STATUSES[slot.status])
        if slot.status != COMPLETED:
            raise Missing(f"node {path[0]!r} is {STATUSES[slot.status]} and has no output")
        raise Missing(f"the output of node {path[0]!r} has no {_dotted(path[2:])!r}, or it is too large to look into")


class ChildScope(JobScope):
    """Adds the names of one child of a fan-out: its item, its index and the total."""

    __slots__ = ("index", "item", "total")

    def __init__(self, run: JobRun, total: int, shared: Shared | None = None) -> None:
        super().__init__(run, run.scope.sizes)
        self.shared = shared
        self.item: Any = None
        self.index = 0
        self.total = total

    def lookup(self, root: str, path: Path) -> Any:
        if root == "item":
            return resolve_path(self.item, path)
        if root == "index":
            return self.index
        if root == "fan_out":
            if path[0] == "item":
                return resolve_path(self.item, path[1:])
            return self.index if path[0] == "index" else self.total
        return super().lookup(root, path)


def summarise(value: Any) -> dict[str, Any]:
    """A few words about an output for the audit trail: small values as they are, large ones by size, secrets never."""
    if not isinstance(value, dict):
        return {"type": type(value).__name__}
    summary: dict[str, Any] = {}
    for key, part in value.items():
        if len(summary) == SUMMARY_KEYS:
            summary["…"] = f"{len(value) - SUMMARY_KEYS} more"
            break
        summary[key if len(key) <= SUMMARY_TEXT else key[:SUMMARY_TEXT]] = _in_short(key, part)
    return summary


@lru_cache(maxsize=4096)
def _is_secret(key: str) -> bool:
    lowered = key.lower()
    return any(word in lowered for word in _SECRET_WORDS)


def _in_short(key: str, part: Any) -> Any:
    if _is_secret(key):
        return HIDDEN
    if part is None or isinstance(part, int | float):
        return part
    if isinstance(part, str):
        return part if len(part) <= SUMMARY_TEXT else part[:SUMMARY_TEXT] + "…"
    if is_secret(part):
        return HIDDEN
    return f"{len(part)} items" if isinstance(part, list) else f"{len(part)} keys"
