"""Deliver callbacks: record the outcomes of tries, claim due callbacks, pass them to the sender.

This duty has a thread and a connection of its own, and the network another: neither holds up a job. A claim is a lease
in the row, so several orchestrators share the work and nobody has to notice that one of them is gone. No transaction
is open while anything is sent.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from random import Random

import psycopg

from rmhdag.models.callbacks import CallbackStatus
from rmhdag.observability.logs import get_logger
from rmhdag.orchestrator.callbacks.exchange import Answer, Exchange
from rmhdag.orchestrator.callbacks.messages import NotToBeSent, message_of
from rmhdag.orchestrator.callbacks.sender import Sender
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.callbacks.signing import SecretNotSealed, SecretUnreadable, Vault, new_secret, sign
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
from rmhdag.store.connection import Conn

log = get_logger(__name__)
GONE = 410
# Answers that come within it are written in one transaction; nobody notices so short a wait.
TURN_SECONDS = 0.02
CREATED_BY = "orchestrator"
# What the owner of the callback is told; the log says more.
NOT_SEALED = "the secret of the endpoint cannot be encrypted on this platform; its operator has to set up a key"


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
        claims = self.sender.stop()
        if claims and conn is not None:
            release_claims(conn, claims)


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
    for callback in claimed:
        place = (callback.namespace, callback.endpoint_url)
        try:
            if place not in endpoints:
                endpoints[place] = _endpoint(conn, delivery.vault, *place)
            if endpoints[place].disabled_at is not None:
                lay_aside(conn, *place)
                continue
            _send(delivery, callback, endpoints[place], message_of(conn, callback, delivery.settings))
        except psycopg.Error:
            raise
        except NotToBeSent as error:
            delivery.unsettled.append(TriedCallback(callback, CallbackStatus.DEAD, error=str(error)))
        except SecretNotSealed as error:
            log.error("callback_not_sent", callback_id=callback.callback_id, error=str(error))
            delivery.unsettled.append(judge(delivery, callback, Answer(None, NOT_SEALED)))
        except Exception as error:
            # A fault of ours: never sent unsigned, and no reason to delay the others. It keeps its schedule.
            log.error("callback_not_sent", callback_id=callback.callback_id, error=type(error).__name__)
            why = str(error) if isinstance(error, SecretUnreadable) else "it could not be prepared for sending"
            delivery.unsettled.append(judge(delivery, callback, Answer(None, why)))
    return done + len(claimed)


def judge(delivery: Delivery, claimed: ClaimedCallback, answer: Answer) -> TriedCallback:
    """2xx is delivered, 410 is never again, and everything else is another try until there is none left."""
    if answer.status is not None and 200 <= answer.status < 300:
        return TriedCallback(claimed, CallbackStatus.DELIVERED, None, answer.status)
    if answer.status == GONE:
        return TriedCallback(claimed, CallbackStatus.DISABLED, None, GONE, answer.error)
    pause = delivery.settings.pause_seconds(claimed.attempts, answer.retry_after_seconds, delivery.jitter)
    if pause is None:
        return TriedCallback(claimed, CallbackStatus.DEAD, None, answer.status, answer.error)
    return TriedCallback(claimed, CallbackStatus.PENDING, pause, answer.status, answer.error)


def _settle(conn: Conn, delivery: Delivery) -> None:
    if not delivery.unsettled:
        return
    settled = settle_tries(conn, delivery.unsettled)
    tried, delivery.unsettled = delivery.unsettled, []
    for attempt in tried:
        callback = attempt.claimed
        if attempt.status is CallbackStatus.DISABLED:
            laid_aside = callback_endpoints.disable_endpoint(
                conn, callback.namespace, callback.endpoint_url, "the endpoint answered 410 Gone"
            )
            log.warning("callback_endpoint_disabled", job_id=callback.job_id, laid_aside=laid_aside)
        elif attempt.status is CallbackStatus.DEAD and callback.callback_id in settled:
            log.warning("callback_dead", callback_id=callback.callback_id, job_id=callback.job_id, error=attempt.error)


def _endpoint(conn: Conn, vault: Vault, namespace: str, url: str) -> StoredEndpoint:
    """An endpoint that nobody has set up gets a secret of its own; rotating it shows one."""
    endpoint = callback_endpoints.find_by_url(conn, namespace, url)
    if endpoint is None:
        vault.prepare(conn)
        sealed = vault.seal(new_secret(), namespace, url)
        callback_endpoints.create_endpoint(conn, namespace, url, sealed, CREATED_BY)
        endpoint = callback_endpoints.find_by_url(conn, namespace, url)
        assert endpoint is not None
    return endpoint


def _send(delivery: Delivery, claimed: ClaimedCallback, endpoint: StoredEndpoint, body: bytes) -> None:
    place = (endpoint.namespace, endpoint.url)
    stored = [endpoint.secret, *([endpoint.previous_secret] if endpoint.previous_secret else [])]
    sign_with = [delivery.vault.unseal(secret, *place) for secret in stored]
    # The database's time: receivers refuse a signature that is minutes off, as this machine's clock may be.
    timestamp = int(claimed.claimed_at.timestamp())
    headers = [
        ("webhook-id", claimed.callback_id),
        ("webhook-timestamp", str(timestamp)),
        ("webhook-signature", sign(sign_with, claimed.callback_id, timestamp, body)),
    ]
    delivery.sender.send(claimed, headers, body)
