"""Deliver callbacks: write down what became of tries, claim what is due, hand it to the sender.

This duty has a thread and a connection of its own, and the network another: neither holds up a job. A claim is a lease
in the row, so several orchestrators share the work and nobody has to notice that one of them is gone. No transaction
is open while anything is sent.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson
import psycopg

from rmhdag.models.callbacks import CallbackStatus
from rmhdag.observability.logs import get_logger
from rmhdag.orchestrator.callbacks.exchange import Answer, Exchange
from rmhdag.orchestrator.callbacks.sender import Sender
from rmhdag.orchestrator.callbacks.settings import CallbackSettings
from rmhdag.orchestrator.callbacks.signing import SecretUnreadable, Vault, new_secret, sign
from rmhdag.store import callback_endpoints
from rmhdag.store.callback_endpoints import StoredEndpoint
from rmhdag.store.callbacks import (
    ClaimedCallback,
    TriedCallback,
    claim_callbacks,
    lay_aside,
    release_claims,
    settle_tries,
)

log = get_logger(__name__)
Conn = psycopg.Connection[Any]
GONE = 410
# Answers that come within it are written in one transaction; nobody notices so short a wait.
TURN_SECONDS = 0.02
CREATED_BY = "orchestrator"


@dataclass
class Delivery:
    """What one orchestrator has under way. `woken` is set when there may be something to do."""

    settings: CallbackSettings
    woken: threading.Event
    exchange: Exchange | None = None
    sender: Sender = field(init=False)
    vault: Vault = field(init=False)
    jitter: Random = field(default_factory=Random)
    # Tries whose outcome is not yet committed.
    unsettled: list[TriedCallback] = field(default_factory=list)

    def __post_init__(self) -> None:
        exchange = self.exchange or Exchange(self.settings.rules, self.settings.total_seconds)
        self.sender = Sender(exchange, self.woken)
        self.vault = self.settings.vault()

    def stop(self, conn: Conn | None) -> None:
        """What has no answer yet is for the others, at once if we can still tell them."""
        left = self.sender.stop()
        if left and conn is not None:
            release_claims(conn, left)


def run_once(conn: Conn, delivery: Delivery) -> int:
    """How much there was to do."""
    delivery.unsettled += [judge(delivery, *answered) for answered in delivery.sender.take_answers()]
    done = len(delivery.unsettled)
    _settle(conn, delivery)
    under_way = delivery.sender.under_way
    free = delivery.settings.concurrency - under_way.total()
    if free <= 0:
        return done
    claimed = claim_callbacks(
        conn,
        under_way,
        limit=free,
        per_host=delivery.settings.per_host,
        per_namespace=delivery.settings.per_namespace,
        lease_seconds=delivery.settings.lease_seconds,
    )
    endpoints: dict[tuple[str, str], StoredEndpoint] = {}
    for one in claimed:
        place = (one.namespace, one.endpoint_url)
        if place not in endpoints:
            endpoints[place] = _endpoint(conn, delivery.vault, *place)
        if endpoints[place].disabled_at is not None:
            lay_aside(conn, *place)
            continue
        try:
            _send(delivery, one, endpoints[place])
        except Exception as error:
            # Ours to mend, never sent unsigned, and no reason to hold up the others; meanwhile it keeps its schedule.
            log.error("callback_not_sent", callback_id=one.callback_id, error=type(error).__name__)
            why = str(error) if isinstance(error, SecretUnreadable) else "it could not be made ready to send"
            delivery.unsettled.append(judge(delivery, one, Answer(None, why)))
    return done + len(claimed)


def judge(delivery: Delivery, claimed: ClaimedCallback, answer: Answer) -> TriedCallback:
    """2xx is delivered, 410 is never again, and everything else is another try until there is none left."""
    if answer.status is not None and 200 <= answer.status < 300:
        return TriedCallback(claimed, CallbackStatus.DELIVERED, None, answer.status)
    if answer.status == GONE:
        return TriedCallback(claimed, CallbackStatus.DISABLED, None, GONE, answer.error)
    schedule = delivery.settings.schedule_seconds
    if claimed.attempts >= len(schedule):
        return TriedCallback(claimed, CallbackStatus.DEAD, None, answer.status, answer.error)
    spread = delivery.settings.jitter
    delay = schedule[claimed.attempts] * delivery.jitter.uniform(1 - spread, 1 + spread)
    # Whoever asks for patience gets it, within bounds; nobody can make us hurry.
    asked = min(answer.retry_after_seconds or 0.0, delivery.settings.most_retry_after_seconds)
    return TriedCallback(claimed, CallbackStatus.PENDING, max(delay, asked), answer.status, answer.error)


def _settle(conn: Conn, delivery: Delivery) -> None:
    if not delivery.unsettled:
        return
    settled = settle_tries(conn, delivery.unsettled)
    tried, delivery.unsettled = delivery.unsettled, []
    for one in tried:
        callback = one.claimed
        if one.status is CallbackStatus.DISABLED:
            laid_aside = callback_endpoints.disable_endpoint(
                conn, callback.namespace, callback.endpoint_url, "the endpoint answered 410 Gone"
            )
            log.warning("callback_endpoint_disabled", job_id=callback.job_id, laid_aside=laid_aside)
        elif one.status is CallbackStatus.DEAD and callback.callback_id in settled:
            log.warning("callback_dead", callback_id=callback.callback_id, job_id=callback.job_id, error=one.error)


def _endpoint(conn: Conn, vault: Vault, namespace: str, url: str) -> StoredEndpoint:
    """An endpoint that nobody has set up gets a secret of its own; rotating it shows one."""
    found = callback_endpoints.find_by_url(conn, namespace, url)
    if found is None:
        sealed = vault.seal(new_secret(), namespace, url)
        callback_endpoints.create_endpoint(conn, namespace, url, sealed, CREATED_BY)
        found = callback_endpoints.find_by_url(conn, namespace, url)
        assert found is not None
    return found


def _send(delivery: Delivery, claimed: ClaimedCallback, endpoint: StoredEndpoint) -> None:
    place = (endpoint.namespace, endpoint.url)
    stored = [endpoint.secret, *([endpoint.previous_secret] if endpoint.previous_secret else [])]
    sign_with = [delivery.vault.unseal(secret, *place) for secret in stored]
    result_url = delivery.settings.public_url + str(claimed.body["result_url"])
    body = orjson.dumps({**claimed.body, "result_url": result_url})
    # The database's time: receivers refuse a signature that is minutes off, as this machine's clock may be.
    timestamp = int(claimed.claimed_at.timestamp())
    headers = [
        ("webhook-id", claimed.callback_id),
        ("webhook-timestamp", str(timestamp)),
        ("webhook-signature", sign(sign_with, claimed.callback_id, timestamp, body)),
    ]
    delivery.sender.send(claimed, headers, body)
