"""Quotas of namespaces, as one API process keeps them: read again every few seconds, and counted on in between.

No request pays for a count: jobs and bytes are known from the last look plus what this process has let in since. So n
processes may let n times as much through between two looks; a namespace above the limit is then refused for a while.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from rmhdag.api.problems import Problem
from rmhdag.api.processor_time import account_name
from rmhdag.api.rate_limits import Buckets, ProcessorBudget
from rmhdag.models.admission import REMEDIES, Exceeded, exceeded_by_jobs
from rmhdag.models.api.problems import QuotaFigures
from rmhdag.models.quotas import Quotas
from rmhdag.store import quotas as store

LOOK_SECONDS = 2.0
# A refusal is sure enough if the last look is not older.
SURE_SECONDS = 0.2
MOST_NAMESPACES = 10_000
MOST_HOLDERS = 10_000
RETRY_SECONDS = 5

ASK_FOR_KEY = "An administrator can make a key with a higher one: `rmhdag keys create --max-priority`."
STATUSES = {
    "open_jobs": 409,
    "stored_bytes": 413,
    "upload_bytes": 413,
    "listeners": 429,
    "requests_per_second": 429,
    "processor_share": 429,
    "body_bytes": 429,
    "handler_trials": 429,
}


def quota_exceeded(
    name: str,
    limit: int,
    used: int,
    *,
    retry_seconds: int = RETRY_SECONDS,
    detail: str | None = None,
    ask: str | None = None,
) -> Problem:
    """One refusal for all quotas: which, how much, how much is used, and what to do."""
    status = STATUSES.get(name, 403)
    raise_it = f"The operator of the platform can raise it: `rmhdag quotas set NAMESPACE {name}=NUMBER`."
    problem = Problem(
        status,
        "quota_exceeded",
        detail or Exceeded(name, limit, used).sentence,
        remedy=f"{REMEDIES[name]} {ask or raise_it}",
        headers={"Retry-After": str(retry_seconds)} if status == 429 else None,
    )
    problem.body.quota = QuotaFigures(name=name, limit=limit, used=used)
    return problem


@dataclass(slots=True)
class _Account:
    """What is known of a namespace, and what was let in since."""

    limits: Quotas
    looked_at: float = -math.inf
    open_jobs: int = 0
    stored_bytes: int = 0
    counted_at: datetime | None = None
    added_jobs: int = 0
    added_bytes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class _Holder(NamedTuple):
    """Of a key."""

    namespace: str
    account: str


class NamespaceQuotas:
    """One per process."""

    def __init__(
        self,
        defaults: Quotas,
        connection: Callable[[], AbstractContextManager[Any]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.defaults = defaults
        self._connection = connection
        self._clock = clock
        self._lock = threading.Lock()
        self._accounts: OrderedDict[str, _Account] = OrderedDict()
        self._rates = Buckets(clock)
        self._processor = ProcessorBudget(clock)
        # Whose a key is, by its digest, as it was the last time: a flood is refused before anybody looks at its keys.
        self._holders: OrderedDict[bytes, _Holder] = OrderedDict()

    def most_priority(self, namespace: str, key_priority: int | None) -> int:
        """Of jobs that take over the priority of another one."""
        most = self.limits(namespace).priority
        return most if key_priority is None else min(most, key_priority)

    def limits(self, namespace: str) -> Quotas:
        return self._account(namespace, LOOK_SECONDS).limits

    def known_limits(self, namespace: str) -> Quotas:
        """As they were at the last look, without another one: for the event loop."""
        account = self._accounts.get(namespace)
        return self.defaults if account is None else account.limits

    def refuse_flood(self, credentials: bytes) -> None:
        """Raises a 429 for a key of a namespace that has used up its requests."""
        holder = self._holders.get(credentials)
        account = None if holder is None else self._accounts.get(holder.namespace)
        if holder is not None and account is not None:
            self._take_requests(holder, account.limits, 0)

    def account_of(self, credentials: bytes) -> str | None:
        """Who pays for requests with this key, as far as it was seen before."""
        holder = self._holders.get(credentials)
        return None if holder is None else holder.account

    def take_request(self, namespace: str, credentials: bytes, *, is_worker: bool = False) -> None:
        """Raises a 429. Workers have a limit of their own: a namespace that floods must not lose them."""
        self._processor.note_call(namespace)
        holder = _Holder(namespace, account_name(namespace, is_worker=is_worker))
        with self._lock:
            self._holders[credentials] = holder
            self._holders.move_to_end(credentials)
            if len(self._holders) > MOST_HOLDERS:
                self._holders.popitem(last=False)
        self._take_requests(holder, self.limits(namespace), 1)

    def processor_of(self, namespace: str, *, is_worker: bool) -> tuple[Callable[[float], None], Callable[[], float]]:
        """What charges seconds of processor time to the namespace, and what says how long it has to wait for more; both
        from any thread.
        """
        bucket = account_name(namespace, is_worker=is_worker)
        per_second = self.known_limits(namespace).processor_share / 100
        return (
            lambda seconds: self._processor.charge(bucket, seconds, per_second),
            lambda: self._processor.seconds_to_wait(namespace, bucket, per_second),
        )

    def _take_requests(self, holder: _Holder, limits: Quotas, count: int) -> None:
        share = limits.processor_share
        wait = self._processor.seconds_to_wait(holder.namespace, holder.account, share / 100)
        if wait > 0:
            raise quota_exceeded("processor_share", share, share, retry_seconds=max(1, math.ceil(wait)))
        per_second = limits.requests_per_second
        missing = self._rates.take(holder.account, per_second, count)
        if missing > 0:
            seconds = max(1, math.ceil(missing / per_second))
            raise quota_exceeded("requests_per_second", per_second, per_second, retry_seconds=seconds)

    def admit_jobs(
        self, namespace: str, params: list[Any], priorities: list[int], *, key_priority: int | None = None
    ) -> None:
        """Raises a Problem if these jobs are too many, too large or too urgent, for the namespace or for the key."""
        highest = max(priorities, default=0)
        if key_priority is not None and highest > key_priority:
            detail = f"the priority {highest} is above {key_priority}, the highest of this key"
            raise quota_exceeded("priority", key_priority, highest, detail=detail, ask=ASK_FOR_KEY)
        size_bytes = sum(len(orjson.dumps(values)) for values in params)
        account = self._account(namespace, LOOK_SECONDS)
        if self._refusal(account, len(params), size_bytes, priorities) is not None:
            account = self._account(namespace, SURE_SECONDS)
        refusal = self._refusal(account, len(params), size_bytes, priorities)
        if refusal is not None:
            raise refusal
        with account.lock:
            account.added_jobs += len(params)
            account.added_bytes += size_bytes

    @staticmethod
    def _refusal(account: _Account, jobs: int, size_bytes: int, priorities: list[int]) -> Problem | None:
        exceeded = exceeded_by_jobs(
            account.limits,
            account.open_jobs + account.added_jobs,
            account.stored_bytes + account.added_bytes,
            jobs=jobs,
            size_bytes=size_bytes,
            priority=max(priorities, default=0),
        )
        return None if exceeded is None else quota_exceeded(*exceeded, detail=exceeded.sentence)

    def _account(self, namespace: str, most_age_seconds: float) -> _Account:
        with self._lock:
            account = self._accounts.get(namespace)
            if account is None:
                account = self._accounts[namespace] = _Account(self.defaults)
                if len(self._accounts) > MOST_NAMESPACES:
                    self._accounts.popitem(last=False)
            self._accounts.move_to_end(namespace)
        if self._clock() - account.looked_at > most_age_seconds:
            with account.lock:
                if self._clock() - account.looked_at > most_age_seconds:
                    self._look(namespace, account)
        return account

    def _look(self, namespace: str, account: _Account) -> None:
        with self._connection() as conn:
            row = store.find_namespace(conn, namespace)
            limits = self.defaults.with_overrides(row.quotas)
            open_jobs = store.count_open_jobs(conn, namespace, limits.open_jobs + 1)
        account.limits, account.open_jobs, account.added_jobs = limits, open_jobs, 0
        account.stored_bytes = row.used.get("stored_bytes", 0)
        if row.counted_at != account.counted_at:
            account.counted_at, account.added_bytes = row.counted_at, 0
        account.looked_at = self._clock()
