"""Live events: of one job, and of all jobs of the caller's namespace."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Header, Path, Query, WebSocket
from psycopg import OperationalError
from psycopg_pool import PoolClosed, PoolTimeout

from rmhdag.api.context import Api, ApiContext, get_api
from rmhdag.api.identity import PROTOCOL_PREFIX, Caller, Reader
from rmhdag.api.moments import AnyMoment
from rmhdag.api.problems import Problem, not_found, respond, unavailable
from rmhdag.api.processor_time import run_in_turn
from rmhdag.api.streams.chunks import Chunk, chunk_of_all, chunk_of_job
from rmhdag.api.streams.hub import Audience
from rmhdag.api.streams.listener import Backlog, Listener, StreamLimits
from rmhdag.api.streams.responses import Entry, EventStream, talk
from rmhdag.api.strict_requests import check_query
from rmhdag.models.events import EventType
from rmhdag.models.refusals import Refusal
from rmhdag.store import streams
from rmhdag.store.streams import Place, Wanted

router = APIRouter(tags=["streams"])

# Offered beside the key by browsers, so that the answer need not repeat the key.
PROTOCOL = "rmhdag.events"
MOST_SEQ = 2**63 - 1
# A listener that does not read keeps a page of its own in memory: with 1,000 events, 400 of them kept 300 MB.
BACKLOG_ROWS = 200

JobId = Annotated[str, Path(min_length=1, max_length=64)]
LastEventId = Annotated[str | None, Header(alias="Last-Event-ID", max_length=200)]
AS_STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Server-sent events. A comment every 15 seconds shows that the stream is alive.",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    }
}


@router.get("/api/v1/jobs/{job_id}/stream", response_class=EventStream, responses=AS_STREAM)
def stream_job(
    api: ApiContext,
    caller: Reader,
    job_id: JobId,
    after: Annotated[int, Query(ge=0, le=MOST_SEQ, description="`event_id` of the last event seen")] = 0,
    last_event_id: LastEventId = None,
) -> EventStream:
    """The events of a job, from its first or behind the last one seen; `end` follows the last event of the job."""
    place = after
    if last_event_id:
        place = _read_seq(last_event_id, "/header/Last-Event-ID")
    listener, enter = _follow_job(api, caller, job_id, place)
    return EventStream(listener, enter, job_id)


@router.get("/api/v1/events/stream", response_class=EventStream, responses=AS_STREAM)
def stream_events(
    api: ApiContext,
    caller: Reader,
    after: Annotated[str | None, Query(max_length=200, description="`id` of the last event seen")] = None,
    since: Annotated[
        AnyMoment | None, Query(description="Begin at about this moment, never later; without it, now")
    ] = None,
    event_types: Annotated[
        list[EventType] | None, Query(max_length=50, description="Only these; may be repeated")
    ] = None,
    last_event_id: LastEventId = None,
) -> EventStream:
    """The events of all jobs of the namespace, as they are committed, each once."""
    place = _read_place(last_event_id, "/header/Last-Event-ID") or _read_place(after, "/query/after")
    with api.connection() as conn:
        present = streams.now(conn)
        if place is not None and place > present:
            raise _unknown_place("/header/Last-Event-ID" if last_event_id else "/query/after")
        if place is None:
            place = present if since is None else streams.find_since(conn, since)
    audience = Audience(caller.namespace, frozenset(event_types) if event_types else None)
    events = Wanted((), (caller.namespace,), audience.event_types)

    def page_after(place: Place) -> Backlog[Place]:
        with api.connection() as conn:
            page = streams.read_all(conn, place, events, BACKLOG_ROWS)
        return Backlog(chunk_of_all(place, page), page.is_last)

    read = partial(api.streams.reads.read, audience, page_after=page_after)
    listener = Listener(place, read, _limits(api, caller))
    return EventStream(listener, partial(_enter(api, caller, listener), audience=audience))


@router.websocket("/ws/jobs/{job_id}")
async def talk_about_job(websocket: WebSocket, caller: Reader, job_id: str) -> None:
    """The events of a job as JSON messages; `?after=` is the `event_id` of the last one seen.

    Browsers send the key as a protocol: `new WebSocket(url, ["rmhdag.events", "bearer." + key])`.
    """
    api = get_api(websocket)
    try:
        _check_origin(websocket, api.settings.origins)
        check_query(websocket, {"after": False})
        after = _read_seq(websocket.query_params.get("after", "0"), "/query/after")
        listener, enter = await run_in_turn(_follow_job, api, caller, job_id, after)
        await talk(websocket, listener, enter, job_id, _choose_protocol(websocket))
    except Refusal as refusal:
        await websocket.send_denial_response(respond(refusal))
    except (OperationalError, PoolTimeout, PoolClosed):
        await websocket.send_denial_response(respond(unavailable()))


def _follow_job(api: Api, caller: Caller, job_id: str, after: int) -> tuple[Listener[int], Entry]:
    def page_after(place: int) -> Backlog[int]:
        with api.connection() as conn:
            page = streams.read_job(conn, caller.namespace, job_id, place, BACKLOG_ROWS)
        if page is None:  # pruned meanwhile
            return Backlog(Chunk(place, place, (), end="pruned"), True)
        return Backlog(chunk_of_job(place, page), page.is_last)

    with api.connection() as conn:
        if "\0" in job_id or not streams.has_job(conn, caller.namespace, job_id):
            raise not_found("job with this id", remedy="`GET /api/v1/jobs` lists them.")
    read = partial(api.streams.reads.read, (caller.namespace, job_id), page_after=page_after)
    listener = Listener(after, read, _limits(api, caller))
    return listener, partial(_enter(api, caller, listener), job_id=job_id)


def _enter(api: Api, caller: Caller, listener: Listener[Any]) -> Callable[..., Any]:
    """The listener's place among all of its key and namespace; a 429 if there is none."""
    most = api.quotas.limits(caller.namespace).listeners
    return partial(api.streams.listening, listener, _key(caller), caller.namespace, most)


def _limits(api: Api, caller: Caller) -> StreamLimits:
    """A token is checked once, when the stream begins; so the stream ends with it."""
    limits = api.settings.stream_limits
    if caller.expires_at is None:
        return limits
    return replace(limits, token_seconds=max(0.0, caller.expires_at - time.time()))


def _key(caller: Caller) -> str:
    return caller.key_id or f"{caller.namespace}/{caller.name}"


def _read_place(text: str | None, pointer: str) -> Place | None:
    if not text:
        return None
    try:
        return Place.parse(text)
    except ValueError:
        raise _unknown_place(pointer) from None


def _read_seq(text: str, pointer: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MOST_SEQ):
        raise _unknown_place(pointer)
    return int(text)


def _unknown_place(pointer: str) -> Problem:
    return Problem(
        400,
        "unknown_place",
        "this is not the id of an event of this stream",
        remedy="Connect without it, and read what was before from the timeline.",
        pointer=pointer,
    )


def _check_origin(websocket: WebSocket, allowed: frozenset[str]) -> None:
    """A browser would open a WebSocket for any page; programs that are no browsers send no origin."""
    origin = websocket.headers.get("origin")
    if origin is None or origin in allowed:
        return
    if urlsplit(origin).netloc != websocket.headers.get("host"):
        raise Problem(
            403,
            "origin_refused",
            "pages of other sites may not open this",
            remedy="Name the site in RMHDAG_API_ORIGINS.",
        )


def _choose_protocol(websocket: WebSocket) -> str | None:
    """Browsers close a connection that takes none of the protocols that they offered."""
    offered = websocket.scope.get("subprotocols", [])
    if PROTOCOL in offered:
        return PROTOCOL
    return next((protocol for protocol in offered if protocol.startswith(PROTOCOL_PREFIX)), None)
