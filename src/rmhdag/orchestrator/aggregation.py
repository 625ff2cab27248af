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
from rmhdag.models.leases import PayloadMissingError
from rmhdag.models.limits import INLINE_BYTES, MESSAGE_CHARACTERS
from rmhdag.models.references import as_reference
from rmhdag.observability.logs import get_logger
from rmhdag.orchestrator.figures import in_short
from rmhdag.orchestrator.stored_outputs import read_output
from rmhdag.store import children, payloads

log = get_logger(__name__)
Conn = psycopg.Connection[Any]
# Of outputs of 64 KB each, as many as may well be in memory at once.
PAGE = 250
LOOKS_INTO = ("concat", "sum", "merge")


def reduce_children(
    conn: Conn, plan: Any, namespace: str, job_id: str, wanted: AggregationRequested
) -> ChildrenReduced:
    """The answer to one request. An error of the request is that fan-in's failure; only errors of the database are
    raised."""
    try:
        text = _reduced(conn, plan, namespace, job_id, wanted)
        if len(text) <= INLINE_BYTES:
            return ChildrenReduced(wanted.node_id, Output(orjson.loads(text)))
        stored = payloads.write_json(conn, namespace, job_id, text).as_json()
        return ChildrenReduced(wanted.node_id, read_output(conn, plan, namespace, wanted.node_id, stored))
    except psycopg.Error:
        raise
    except ReduceError as error:
        return ChildrenReduced(wanted.node_id, error_message=str(error)[:MESSAGE_CHARACTERS])
    except Exception as error:
        log.error("fan_in_failed", job_id=job_id, node_id=wanted.node_id, error=in_short(error))
        message = f"the outputs of {wanted.fan_out_id!r} cannot be aggregated: {type(error).__name__}: {error}"
        return ChildrenReduced(wanted.node_id, error_message=message[:MESSAGE_CHARACTERS])


def _reduced(conn: Conn, plan: Any, namespace: str, job_id: str, wanted: AggregationRequested) -> bytes:
    reducer = Reducer.for_node(plan.by_id[wanted.node_id].definition)
    pieces = [reducer.open()]
    for child in children.read_children(conn, job_id, wanted.fan_out_id, PAGE):
        if child.status != "completed":
            reducer.fail(child.node_id, child.error_message)
            continue
        value = child.output
        reference = as_reference(value) if wanted.aggregation in LOOKS_INTO else None
        if reference is not None:
            try:
                value = payloads.read_json(conn, namespace, reference.sha256)
            except PayloadMissingError as error:
                raise ReduceError(f"{child.node_id}: its output is gone: {error}") from None
        pieces.append(reducer.add(child.node_id, value))
    pieces.append(reducer.close())
    return b"".join(pieces)
