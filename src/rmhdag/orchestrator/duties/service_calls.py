"""Notify external services: claim due calls, make them, record the outcomes.

This duty has a thread and a connection of its own. A claim is a lease in the row, so several orchestrators share the
work and nobody has to notice that one of them is gone. A pipeline that runs is looked at again later: nobody waits for
it. Destinations, signatures and pauses follow the rules of callbacks.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import NamedTuple

import orjson

from rmhdag.models.service_calls import CallStatus, ServiceAction, ServiceKind
from rmhdag.models.service_settings import PipelineSettings
from rmhdag.observability.logs import get_logger
from rmhdag.observability.secrets import mask_and_cut
from rmhdag.orchestrator.callbacks.exchange import Answer, Exchange, Question
from rmhdag.orchestrator.outside.pipelines import (
    FAILED,
    SUCCEEDED,
    UNDER_WAY,
    CallFailed,
    Factory,
    Token,
    fetch_token,
)
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.callbacks.signing import SecretUnreadable, Vault, sign
from rmhdag.services.outside import secret_place
from rmhdag.store.connection import Conn
from rmhdag.store.service_calls import ClaimedCall, TriedCall, claim_calls, has_due, settle_calls

log = get_logger(__name__)
BITE = 16
PER_SERVICE = 4
WATCH_SECONDS = 0.2
MESSAGE_LETTERS = 2_000
EVENTS = {ServiceAction.APPROVAL: "revision.approved", ServiceAction.WITHDRAWAL: "revision.withdrawn"}


class _KnownToken(NamedTuple):
    token: Token
    ends_at: float
    made_for: tuple[str, str]


@dataclass
class Announcer:
    """What one orchestrator needs to call services, until it is `over`. Tokens are kept in memory only."""

    settings: CallbackSettings
    exchange: Exchange | None = None
    over: threading.Event = field(default_factory=threading.Event)
    jitter: Random = field(default_factory=Random)
    vault: Vault = field(init=False)
    tokens: dict[str, _KnownToken] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.exchange = self.exchange or Exchange(self.settings.rules, self.settings.total_seconds)
        self.vault = self.settings.vault()

    @property
    def try_seconds(self) -> float:
        """One try may have to get a token, to look for a run and to start one."""
        return 3 * self.settings.total_seconds

    @property
    def lease_seconds(self) -> float:
        """Long enough for a factory to list what was started under it, before the next holder looks for that."""
        return self.try_seconds + 30


def run_once(conn: Conn, announcer: Announcer) -> int:
    """How many calls were tried."""
    if not has_due(conn):
        return 0
    claimed = claim_calls(conn, limit=BITE, per_service=PER_SERVICE, lease_seconds=announcer.lease_seconds)
    if claimed:
        asyncio.run(_try_all(conn, announcer, claimed))
    return len(claimed)


async def _try_all(conn: Conn, announcer: Announcer, claimed: Sequence[ClaimedCall]) -> None:
    """Each is written down when it is done: what a slow one knows is not the others' business."""
    tries = [asyncio.ensure_future(_try(announcer, call)) for call in claimed]
    watch = asyncio.ensure_future(_cancel_when_over(announcer.over, tries))
    for done in asyncio.as_completed(tries):
        tried = await done
        settled = settle_calls(conn, [tried])
        if tried.status is CallStatus.DEAD and tried.claimed.call_id in settled:
            log.warning("service_call_dead", call_id=tried.claimed.call_id, error=tried.error)
    watch.cancel()


async def _cancel_when_over(over: threading.Event, tries: Sequence[asyncio.Future[TriedCall]]) -> None:
    """An orchestrator that leaves does not wait for others."""
    while not over.is_set():
        await asyncio.sleep(WATCH_SECONDS)
    for attempt in tries:
        attempt.cancel()


async def _try(announcer: Announcer, call: ClaimedCall) -> TriedCall:
    try:
        async with asyncio.timeout(announcer.try_seconds):
            if call.kind == ServiceKind.ADF:
                return await _advance_run(announcer, call)
            return await _send_message(announcer, call)
    except asyncio.CancelledError:
        # For the others, at once; what may have been started they will look for.
        return TriedCall(call, CallStatus.PENDING, False, call.run_id, 0.0)
    except CallFailed as error:
        return _failed(announcer, call, error.answer, str(error), call.run_id)
    except TimeoutError:
        return _failed(announcer, call, Answer(None), f"not done within {announcer.try_seconds:g} s", call.run_id)
    except SecretUnreadable as error:
        return _failed(announcer, call, Answer(None), str(error), call.run_id)
    except Exception as error:  # ours to fix; the call must not wait for the end of its lease meanwhile
        log.error("service_call_broke", call_id=call.call_id, exc_info=error)
        return _failed(announcer, call, Answer(None), "it could not be prepared for sending", call.run_id)


async def _send_message(announcer: Announcer, call: ClaimedCall) -> TriedCall:
    secret = _secret_of(announcer, call)
    facts = {name: value for name, value in call.body.items() if name != "parameters"}
    body = orjson.dumps({"type": EVENTS[ServiceAction(call.action)], "occurred_at": call.created_at, **facts})
    # The database's time: receivers refuse a signature that is minutes off, as this machine's clock may be.
    timestamp = int(call.claimed_at.timestamp())
    headers = [
        ("webhook-id", call.call_id),
        ("webhook-timestamp", str(timestamp)),
        ("webhook-signature", sign([secret], call.call_id, timestamp, body)),
    ]
    assert announcer.exchange is not None
    answer = await announcer.exchange.post(call.url, headers, body, call.namespace)
    if answer.status is None or not 200 <= answer.status < 300:
        raise CallFailed(answer)
    return TriedCall(call, CallStatus.DELIVERED, http_status=answer.status)


async def _advance_run(announcer: Announcer, call: ClaimedCall) -> TriedCall:
    settings = PipelineSettings.model_validate(call.settings)
    factory = Factory(call, settings, partial(_ask_factory, announcer, call, settings))
    if call.run_id is None:
        # The previous holder of the call may have started a run and died.
        run = await factory.find_run() if call.lease_epoch > 1 else None
        run_id = await factory.start_run() if run is None else run.run_id
        return TriedCall(call, CallStatus.PENDING, False, run_id, settings.poll_seconds)
    run = await factory.see_run(call.run_id)
    if run.status == SUCCEEDED:
        where = factory.public_url(call.run_id)
        return TriedCall(call, CallStatus.DELIVERED, run_id=call.run_id, promoted_url=where)
    if run.status in FAILED:
        message = f"pipeline run {call.run_id} is {run.status}: {run.message}"
        return _failed(announcer, call, Answer(None), message, None)
    if run.status not in UNDER_WAY:
        log.warning("unknown_run_status", call_id=call.call_id, status=run.status[:64])
    return TriedCall(call, CallStatus.PENDING, False, call.run_id, settings.poll_seconds)


async def _ask_factory(
    announcer: Announcer, call: ClaimedCall, settings: PipelineSettings, url: str, question: Question
) -> Answer:
    token = await _token_for(announcer, call, settings)
    answer = await _ask(announcer, call, [("Authorization", f"Bearer {token}")], url, question)
    if answer.status == 401:
        announcer.tokens.pop(call.service_id, None)
    return answer


async def _token_for(announcer: Announcer, call: ClaimedCall, settings: PipelineSettings) -> str:
    secret = _secret_of(announcer, call)
    if settings.auth == "token":
        return secret
    made_for = (secret, settings.model_dump_json())
    cached = announcer.tokens.get(call.service_id)
    if cached is None or cached.made_for != made_for or time.monotonic() >= cached.ends_at:
        token = await fetch_token(partial(_ask, announcer, call, []), settings, secret)
        cached = _KnownToken(token, time.monotonic() + token.lives_seconds, made_for)
        announcer.tokens[call.service_id] = cached
    return cached.token.value


async def _ask(
    announcer: Announcer, call: ClaimedCall, headers: Sequence[tuple[str, str]], url: str, question: Question
) -> Answer:
    assert announcer.exchange is not None
    return await announcer.exchange.ask(url, headers, question, call.namespace)


def _secret_of(announcer: Announcer, call: ClaimedCall) -> str:
    if call.secret is None:
        raise CallFailed(Answer(None), "the service has no secret: set one with `rmhdag services set`")
    return announcer.vault.unseal(call.secret, *secret_place(call.namespace, call.service_id))


def _failed(announcer: Announcer, call: ClaimedCall, answer: Answer, message: str, run_id: str | None) -> TriedCall:
    pause = announcer.settings.pause_seconds(call.attempts, answer.retry_after_seconds, announcer.jitter)
    status = CallStatus.DEAD if pause is None else CallStatus.PENDING
    error = mask_and_cut(message, MESSAGE_LETTERS)
    return TriedCall(call, status, True, run_id, pause, answer.status, error)
