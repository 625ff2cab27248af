"""Fan-ins at work: a thread of its own streams the children's outputs through the reducer, in pages, by index.

Nothing is locked meanwhile, and nothing is lost if the process dies: whoever loads the job next asks for it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
import psycopg

from rmhdag.engine.effects import AggregationRequested
from rmhdag.engine.inputs import ChildrenReduced, Output
from rmhdag.engine.reducer import ReduceError, Reducer
from rmhdag.models.columns import INLINE_BYTES
from rmhdag.observability.logs import get_logger
from rmhdag.orchestrator.fan_in_line import FanInRequest
from rmhdag.orchestrator.figures import in_short
from rmhdag.orchestrator.local_inputs import LocalInput
from rmhdag.orchestrator.owned_jobs import as_reference, read_output
from rmhdag.store import children, payloads
from rmhdag.store.verdicts import Verdict, judge

log = get_logger(__name__)
Conn = psycopg.Connection[Any]
PAGE = 1_000


MOST_FAILURES = 3


def answer_fan_in(conn: Conn, request: FanInRequest, progressed: Callable[[], None] = lambda: None) -> LocalInput:
    """What the job is told. Only circumstances are raised: they are worth another try, and nobody's failure."""
    try:
        answer = reduce_children(
            conn, request.plan, request.namespace, request.job_id, request.wanted, progressed=progressed
        )
    except Exception as error:
        verdict = judge(error, conn)
        if verdict is Verdict.CIRCUMSTANCES or (verdict is Verdict.SLOW and request.failures + 1 < MOST_FAILURES):
            raise
        log.error("fan_in_refused", job_id=request.job_id, node_id=request.wanted.node_id, exc_info=True)
        message = f"the outputs of its children cannot be put together: {in_short(error)}"
        answer = ChildrenReduced(request.wanted.node_id, error_message=message)
    return LocalInput(request.job_id, answer)


def reduce_children(
    conn: Conn,
    plan: Any,
    namespace: str,
    job_id: str,
    wanted: AggregationRequested,
    *,
    progressed: Callable[[], None] = lambda: None,
) -> ChildrenReduced:
    """The answer to one request; an output that does not fit becomes an error message."""
    reducer = Reducer.for_node(plan.by_id[wanted.node_id].definition)
    looks_into = wanted.aggregation in ("concat", "sum", "merge")
    pieces = [reducer.open()]
    try:
        for place, child in enumerate(children.read_children(conn, job_id, wanted.fan_out_id, PAGE)):
            if place % PAGE == 0:
                progressed()
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
    reference_json = payloads.write_json(conn, namespace, text)
    return ChildrenReduced(wanted.node_id, read_output(conn, plan, namespace, wanted.node_id, reference_json))
