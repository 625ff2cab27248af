"""Who calls the gateway: a key, looked up in its view and remembered for a few seconds.

So a poll costs one statement, and a revoked key or a changed quota counts within `REMEMBER_SECONDS`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from rmhdag.gateway.database import Database
from rmhdag.gateway.problems import Problem
from rmhdag.gateway.rate_limits import RateLimits
from rmhdag.models.clients import ClientQuotas
from rmhdag.models.scopes import Scope

SHAPE = re.compile(r"rmhdag_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
REMEMBER_SECONDS = 5.0
MOST_REMEMBERED = 10_000
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="rmhdag gateway"'}


class Holder(NamedTuple):
    """Of a key. `client_id` is its name, which stays when the key is rotated."""

    key_id: str
    namespace: str
    client_id: str
    scopes: frozenset[str]
    quotas: ClientQuotas
    is_active: bool
    expires_at: datetime | None

    def may(self, *scopes: Scope) -> bool:
        """One of them; an administrator of the namespace may do all that the gateway offers."""
        return not self.scopes.isdisjoint(scopes) or Scope.ADMIN in self.scopes

    @property
    def sees_all(self) -> bool:
        """Of its namespace; clients see what is their own."""
        return self.may(Scope.OPS, Scope.REVIEWER)

    @property
    def is_sandbox(self) -> bool:
        return Scope.SANDBOX in self.scopes


class Keys:
    def __init__(
        self,
        database: Database,
        defaults: ClientQuotas,
        limits: RateLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._defaults = defaults
        self._limits = limits
        self._clock = clock
        self._query = (
            "SELECT key_id, secret_hash, namespace, client_id, scopes, expires_at, is_active, quotas,"
            " revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp()) AS is_valid"
            f" FROM {database.schema}.dag_gateway_keys WHERE key_id = %(key_id)s"
        )
        self._remembered: OrderedDict[str, tuple[float, Holder]] = OrderedDict()

    async def holder_of(self, text: str | None, address: str) -> Holder:
        """Raises a 401, with the same words whatever is wrong with the key."""
        if text is None:
            raise Problem(
                401, "no_key", "this needs a key", remedy="Send `Authorization: Bearer <key>`.", headers=CHALLENGE
            )
        holder = self._recall(text) or await self._look_up(text, address)
        if not holder.is_active:
            remedy = "Ask the operator of the platform."
            raise Problem(403, "client_disabled", "this client is disabled", remedy=remedy)
        return holder

    def _recall(self, text: str) -> Holder | None:
        until, holder = self._remembered.get(_digest(text), (0.0, None))
        return holder if self._clock() < until else None

    async def _look_up(self, text: str, address: str) -> Holder:
        self._limits.refuse_guesses(address)
        shape = SHAPE.fullmatch(text)
        rows = [] if shape is None else await self._database.read(self._query, {"key_id": shape[1]})
        row = rows[0] if rows else None
        secret_hash = hashlib.sha256((shape[2] if shape else "").encode()).hexdigest()
        if row is None or not hmac.compare_digest(row["secret_hash"], secret_hash) or not row["is_valid"]:
            self._limits.note_guess(address)
            raise Problem(401, "key_refused", "the key is not known, or it has expired", headers=CHALLENGE)
        holder = Holder(
            row["key_id"],
            row["namespace"],
            row["client_id"],
            frozenset(row["scopes"]),
            self._defaults.with_overrides(row["quotas"]),
            row["is_active"],
            row["expires_at"],
        )
        digest = _digest(text)
        self._remembered[digest] = (self._clock() + REMEMBER_SECONDS, holder)
        self._remembered.move_to_end(digest)
        if len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return holder


def _digest(text: str) -> str:
    """What is remembered opens nothing if somebody reads our memory."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
