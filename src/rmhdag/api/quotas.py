"""Quotas of namespaces, as one API process keeps them: read again every few seconds, and counted on in between.

No request pays for a count: jobs and bytes are known from the last look plus what this process has let in since. So n
processes may let n times as much through between two looks; whoever is above the limit then is refused for a while.
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
from typing import Any

import orjson

from rmhdag.api.problems import Problem
from rmhdag.api.rate_limits import Buckets
from rmhdag.models.api.problems import QuotaFigures
from rmhdag.models.quotas import Quotas
from rmhdag.store import quotas as store

LOOK_SECONDS = 2.0
# A refusal is sure enough if the last look is not older.
SURE_SECONDS = 0.2
MOST_NAMESPACES = 10_000
RETRY_SECONDS = 5

REMEDIES = {
    "open_jobs": "Wait for jobs to end or cancel some, then submit again.",
    "stored_bytes": "Delete finished jobs (`rmhdag prune`, or a shorter retention), or ask the operator for more.",
    "upload_bytes": "Finish the uploads that were begun; those of an hour ago are removed by themselves.",
    "listeners": "Close some streams, or follow all jobs by one stream.",
    "requests_per_second": "Send fewer requests: follow a stream instead of polling, and submit jobs in batches.",
    "handler_trials": "Wait for the end of another trial.",
    "workflows": "Reuse the ids of workflows that are no longer needed: a version more of one is not counted.",
    "handlers": "Register fewer handlers; names that no worker offers any more count too.",
    "keys": "Revoke keys that are no longer used.",
    "priority": "Submit with a lower priority.",
}
ASK = "The operator of the platform can raise it: `rmhdag quotas set`."
STATUSES = {
    "open_jobs": 409,
    "stored_bytes": 413,
    "upload_bytes": 413,
    "listeners": 429,
    "requests_per_second": 429,
    "handler_trials": 429,
}


def quota_exceeded(
    name: str, limit: int, used: int, *, retry_seconds: int = RETRY_SECONDS, detail: str | None = None
) -> Problem:
    """One refusal for all quotas: which, how much, how much is used, and what to do."""
    status = STATUSES.get(name, 403)
    problem = Problem(
        status,
        "quota_exceeded",
        detail or f"the quota `{name}` of this namespace is used up: {used:,} of {limit:,}",
        remedy=f"{REMEDIES[name]} {ASK}",
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
        # Whose a key is, as it was the last time: a flood is refused before anybody looks at its keys.
        self._namespaces: OrderedDict[str, str] = OrderedDict()

    def limits(self, namespace: str) -> Quotas:
        return self._account(namespace, LOOK_SECONDS).limits

    def refuse_flood(self, key_id: str) -> None:
        """Raises a 429 for a key of a namespace that has used up its requests."""
        namespace = self._namespaces.get(key_id)
        account = None if namespace is None else self._accounts.get(namespace)
        if namespace is not None and account is not None:
            self._take_requests(namespace, account.limits, 0)

    def take_request(self, namespace: str, key_id: str | None, *, is_worker: bool = False) -> None:
        """Raises a 429. Workers have as much again for themselves: whoever floods must not lose them."""
        if is_worker:
            self._take_requests(f"{namespace} workers", self.limits(namespace), 1)
            return
        if key_id is not None:
            with self._lock:
                self._namespaces[key_id] = namespace
                self._namespaces.move_to_end(key_id)
                if len(self._namespaces) > MOST_NAMESPACES:
                    self._namespaces.popitem(last=False)
        self._take_requests(namespace, self.limits(namespace), 1)

    def _take_requests(self, bucket: str, limits: Quotas, count: int) -> None:
        per_second = limits.requests_per_second
        missing = self._rates.take(bucket, per_second, count)
        if missing > 0:
            seconds = max(1, math.ceil(missing / per_second))
            raise quota_exceeded("requests_per_second", per_second, per_second, retry_seconds=seconds)

    def admit_jobs(self, namespace: str, params: list[Any], priorities: list[int]) -> None:
        """Raises a Problem if these jobs are too many, too large or too urgent."""
        size_bytes = sum(len(orjson.dumps(one)) for one in params)
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
        limits = account.limits
        used_jobs, used_bytes = account.open_jobs + account.added_jobs, account.stored_bytes + account.added_bytes
        if max(priorities, default=0) > limits.priority:
            detail = f"the priority {max(priorities)} is above {limits.priority}, the highest of this namespace"
            return quota_exceeded("priority", limits.priority, max(priorities), detail=detail)
        if used_jobs + jobs > limits.open_jobs:
            return quota_exceeded("open_jobs", limits.open_jobs, used_jobs)
        if used_bytes + size_bytes > limits.stored_bytes:
            return quota_exceeded("stored_bytes", limits.stored_bytes, used_bytes)
        return None

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
            found = store.find_namespace(conn, namespace)
            limits = self.defaults.with_overrides(found.quotas)
            open_jobs = store.count_open_jobs(conn, namespace, limits.open_jobs + 1)
        account.limits, account.open_jobs, account.added_jobs = limits, open_jobs, 0
        account.stored_bytes = found.used.get("stored_bytes", 0)
        if found.counted_at != account.counted_at:
            account.counted_at, account.added_bytes = found.counted_at, 0
        account.looked_at = self._clock()
