"""The outbox of callbacks: written with the end of a job, claimed for a while, settled by the holder of the claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.models.api.callbacks import CallbackView
from rmhdag.models.callbacks import CallbackStatus
from rmhdag.store import reruns
from rmhdag.store.batch_rows import CallbackClaim, CallbackTry, HostLoad, JobCallback, RevisionKey, encode_rows
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.identity import new_id
from rmhdag.store.queries import load_queries
from rmhdag.store.reading import read_all, read_one

SQL = load_queries(__file__)


class ClaimedCallback(NamedTuple):
    callback_id: str
    lease_epoch: int
    namespace: str
    job_id: str
    request_id: str
    form: str
    url: str
    endpoint_url: str
    host: str
    attempts: int
    body: dict[str, Any]
    claimed_at: datetime


class TriedCallback(NamedTuple):
    """What became of one try; `delay_seconds` is for those that stay pending."""

    claimed: ClaimedCallback
    status: CallbackStatus
    delay_seconds: float | None = None
    http_status: int | None = None
    error: str | None = None


@commit_site
def claim_callbacks(
    conn: Conn,
    under_way: Mapping[tuple[str, str], int],
    *,
    limit: int,
    per_host: int,
    per_namespace: int,
    lease_seconds: float,
) -> list[ClaimedCallback]:
    """What is due and nobody else is sending; `under_way` counts by namespace and host what the caller has already."""
    by_namespace: Counter[str] = Counter()
    for (namespace, _), count in under_way.items():
        by_namespace[namespace] += count
    values = {
        "under_way": encode_rows(HostLoad(namespace, host, tries) for (namespace, host), tries in under_way.items()),
        "namespaces_under_way": orjson.dumps(by_namespace).decode(),
        "limit": limit,
        "per_host": per_host,
        "per_namespace": per_namespace,
        "lease_seconds": lease_seconds,
    }
    return [ClaimedCallback(*row) for row in conn.execute(SQL["claim_callbacks"], values).fetchall()]


@commit_site
def settle_tries(conn: Conn, tried: Sequence[TriedCallback]) -> set[str]:
    """Those that were still ours. A death is an event of the job, in the same transaction."""
    rows = [
        CallbackTry(
            callback_id=attempt.claimed.callback_id,
            lease_epoch=attempt.claimed.lease_epoch,
            status=attempt.status,
            delay_seconds=attempt.delay_seconds,
            last_status=attempt.http_status,
            last_error=attempt.error,
        )
        for attempt in tried
    ]
    with conn.transaction():
        settled = {row[0] for row in conn.execute(SQL["settle_tries"], {"tries": encode_rows(rows)}).fetchall()}
        # In order, so that two of us who take several locks cannot wait for each other.
        for attempt in sorted(tried, key=lambda attempt: attempt.claimed.job_id):
            if attempt.status is CallbackStatus.DEAD and attempt.claimed.callback_id in settled:
                reruns.lock_reruns(conn, attempt.claimed.job_id)
                conn.execute(
                    SQL["record_death"],
                    {
                        "job_id": attempt.claimed.job_id,
                        "namespace": attempt.claimed.namespace,
                        "callback_id": attempt.claimed.callback_id,
                        "attempts": attempt.claimed.attempts + 1,
                        "error": attempt.error,
                    },
                )
    return settled


def insert_start_callbacks(conn: Conn, job_id: str) -> None:
    """Notify those who named an address for it that the job is running, if it is."""
    conn.execute(SQL["insert_start_callbacks"], {"callbacks": encode_rows([JobCallback(job_id, new_id())])})


def insert_decision_callbacks(conn: Conn, key: RevisionKey, *, occasion: str, status: str) -> None:
    """Tell those who ordered a revision how its review was decided, in the transaction that decides."""
    values = key._asdict() | {"callback_id": new_id(), "occasion": occasion, "status": status}
    conn.execute(SQL["insert_decision_callbacks"], values)


def release_claims(conn: Conn, claimed: Sequence[ClaimedCallback]) -> None:
    text = encode_rows(CallbackClaim(claim.callback_id, claim.lease_epoch) for claim in claimed)
    conn.execute(SQL["release_claims"], {"claims": text})


def lay_aside(conn: Conn, namespace: str, endpoint_url: str) -> int:
    """Nothing more is sent to an endpoint that is disabled."""
    return conn.execute(SQL["lay_aside"], {"namespace": namespace, "url": endpoint_url}).rowcount


def take_up_again(conn: Conn, namespace: str, endpoint_url: str, by: str) -> int:
    return conn.execute(SQL["take_up_again"], {"namespace": namespace, "url": endpoint_url, "by": by}).rowcount


def redeliver(conn: Conn, namespace: str, callback_id: str, by: str) -> bool:
    """Send it again, whatever became of it. False: there is none."""
    values = {"namespace": namespace, "callback_id": callback_id, "by": by}
    return conn.execute(SQL["redeliver"], values).rowcount == 1


def find_callback(conn: Conn, namespace: str, callback_id: str) -> CallbackView | None:
    return read_one(conn, CallbackView, SQL["find"], {"namespace": namespace, "callback_id": callback_id})


def list_callbacks(
    conn: Conn,
    namespace: str,
    *,
    before: str | None = None,
    status: CallbackStatus | None = None,
    job_id: str | None = None,
    endpoint_url: str | None = None,
    limit: int = 50,
) -> list[CallbackView]:
    values = {
        "namespace": namespace,
        "before": before,
        "status": status,
        "job_id": job_id,
        "endpoint_url": endpoint_url,
        "limit": limit,
    }
    return read_all(conn, CallbackView, SQL["list"], values)
