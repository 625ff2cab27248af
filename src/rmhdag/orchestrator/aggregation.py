"""Fan-ins at work: a thread of its own streams the children's outputs through the reducer, in pages, by index.

Nothing is locked meanwhile, and nothing is lost if the process dies: whoever loads the job next asks for it again.
"""

from __future__ import annotations

from typing import Any

import orjson
import psycopg

from rmhdag.engine.effects import AggregationRequested
from rmhdag.engine.inputs import ChildrenReduced, Output
from rmhdag.engine.reducer import ReduceError, Reducer
from rmhdag.models.columns import INLINE_BYTES
from rmhdag.models.references import as_reference
from rmhdag.orchestrator.owned_jobs import read_output
from rmhdag.store import children, payloads

Conn = psycopg.Connection[Any]
PAGE = 1_000


def reduce_children(
    conn: Conn, plan: Any, namespace: str, job_id: str, wanted: AggregationRequested
) -> ChildrenReduced:
    """The answer to one request; an output that does not fit becomes an error message."""
    reducer = Reducer.for_node(plan.by_id[wanted.node_id].definition)
    looks_into = wanted.aggregation in ("concat", "sum", "merge")
    pieces = [reducer.open()]
    try:
        for child in children.read_children(conn, job_id, wanted.fan_out_id, PAGE):
            if child.status != "completed":
                reducer.fail(child.node_id, child.error_message)
                continue
            value = child.output
            reference = as_reference(value) if looks_into else None
            if reference is not None:
                value = payloads.read_json(conn, namespace, reference.sha256)
            pieces.append(reducer.add(child.node_id, value))
        pieces.append(reducer.close())
    except ReduceError as error:
        return ChildrenReduced(wanted.node_id, error_message=str(error))
    text = b"".join(pieces)
    if len(text) <= INLINE_BYTES:
        return ChildrenReduced(wanted.node_id, Output(orjson.loads(text)))
    reference_json = payloads.write_json(conn, namespace, job_id, text).as_json()
    return ChildrenReduced(wanted.node_id, read_output(conn, plan, namespace, wanted.node_id, reference_json))
