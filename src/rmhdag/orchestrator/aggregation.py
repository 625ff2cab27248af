"""Fan-ins at work: a thread of its own streams the children's outputs through the reducer, in pages, by index.

Nothing is locked meanwhile, and nothing is lost if the process dies: the next orchestrator that loads the job requests
it again.
"""

from __future__ import annotations

from collections.abc import Callable
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
from rmhdag.orchestrator.fan_in_line import FanInRequest
from rmhdag.orchestrator.figures import in_short
from rmhdag.orchestrator.local_inputs import LocalInput
from rmhdag.orchestrator.stored_outputs import read_output
from rmhdag.store import children, payloads
from rmhdag.store.connection import Conn
from rmhdag.store.verdicts import Verdict, judge

log = get_logger(__name__)
# Of outputs of 64 KB each, as many as may well be in memory at once.
PAGE = 250
LOOKS_INTO = ("concat", "sum", "merge")


MOST_FAILURES = 3


def answer_fan_in(conn: Conn, request: FanInRequest, progressed: Callable[[], None] = lambda: None) -> LocalInput:
    """What the job is told. Raised is only what is worth another try, because it is nobody's fault."""
    try:
        answer = reduce_children(
            conn, request.plan, request.namespace, request.job_id, request.wanted, progressed=progressed
        )
    except psycopg.Error as error:
        verdict = judge(error, conn)
        if verdict is Verdict.CIRCUMSTANCES or (verdict is Verdict.SLOW and request.failures + 1 < MOST_FAILURES):
            raise
        answer = _failed(request.job_id, request.wanted, error)
    return LocalInput(request.job_id, answer)


def _failed(job_id: str, request: AggregationRequested, error: Exception) -> ChildrenReduced:
    log.error("fan_in_refused", job_id=job_id, node_id=request.node_id, error=in_short(error))
    message = f"the outputs of {request.fan_out_id!r} cannot be aggregated: {in_short(error)}"
    return ChildrenReduced(request.node_id, error_message=message[:MESSAGE_CHARACTERS])


def reduce_children(
    conn: Conn,
    plan: Any,
    namespace: str,
    job_id: str,
    request: AggregationRequested,
    *,
    progressed: Callable[[], None] = lambda: None,
) -> ChildrenReduced:
    """The answer to one request. An error of the request is that fan-in's failure; only errors of the database are
    raised."""
    try:
        text = _reduced(conn, plan, namespace, job_id, request, progressed)
        if len(text) <= INLINE_BYTES:
            return ChildrenReduced(request.node_id, Output(orjson.loads(text)))
        stored = payloads.write_json(conn, namespace, job_id, text).as_json()
        return ChildrenReduced(request.node_id, read_output(conn, plan, namespace, request.node_id, stored))
    except psycopg.Error:
        raise
    except ReduceError as error:
        return ChildrenReduced(request.node_id, error_message=str(error)[:MESSAGE_CHARACTERS])
    except Exception as error:
        return _failed(job_id, request, error)


def _reduced(
    conn: Conn,
    plan: Any,
    namespace: str,
    job_id: str,
    request: AggregationRequested,
    progressed: Callable[[], None],
) -> bytes:
    reducer = Reducer.for_node(plan.by_id[request.node_id].definition)
    pieces = [reducer.open()]
    for place, child in enumerate(children.read_children(conn, job_id, request.fan_out_id, PAGE)):
        if place % PAGE == 0:
            progressed()
        if child.status != "completed":
            reducer.fail(child.node_id, child.error_message)
            continue
        value = child.output
        reference = as_reference(value) if request.aggregation in LOOKS_INTO else None
        if reference is not None:
            try:
                value = payloads.read_json(conn, namespace, reference.sha256)
            except PayloadMissingError as error:
                raise ReduceError(f"{child.node_id}: its output is gone: {error}") from None
        pieces.append(reducer.add(child.node_id, value))
    pieces.append(reducer.close())
    return b"".join(pieces)
