"""Stored outputs as the engine wants them: of a large one, only what expressions read."""

from __future__ import annotations

from typing import Any

from rmhdag.engine.inputs import Output, Path
from rmhdag.engine.plan import Plan
from rmhdag.models.leases import PayloadMissingError
from rmhdag.models.limits import LOOKED_INTO_BYTES
from rmhdag.models.references import Reference, as_reference
from rmhdag.store import payloads
from rmhdag.store.connection import Conn
from rmhdag.workflow.expressions import Missing, resolve_path


def read_output(conn: Conn, plan: Plan, namespace: str, node_id: str, value: Any) -> Output:
    """A stored output as the engine wants it: of a large one, only what expressions read is cut out."""
    reference = as_reference(value)
    if reference is None:
        return Output(value)
    compiled = plan.by_id.get(node_id)
    paths = [] if compiled is None else [path for path in plan.read_paths(node_id) if path]
    if not paths or not _may_look_into(plan, node_id, reference):
        return Output(reference=reference)
    try:
        whole = payloads.read_json(conn, namespace, reference.sha256)
    except PayloadMissingError:  # the nodes that read it find nothing there
        return Output(reference=reference)
    excerpts: dict[Path, Any] = {}
    for path in paths:
        try:
            excerpts[path] = resolve_path(whole, path)
        except Missing:
            continue
    return Output(reference=reference, excerpts=excerpts)


def _may_look_into(plan: Plan, node_id: str, reference: Reference) -> bool:
    """The items of a fan-out may come from any output; everything else looks into small ones only."""
    if reference.size_bytes <= LOOKED_INTO_BYTES:
        return True
    sources = (node.source for node in plan.nodes if node.source is not None)
    return any(ref.root == "nodes" and ref.path[0] == node_id for source in sources for ref in source.references)
