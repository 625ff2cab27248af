"""Who calls the gateway: a key or the identity of a token, looked up in its view and remembered for a few seconds.

So a poll costs one statement, and a revoked key or a changed quota counts within `REMEMBER_SECONDS`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from rmhdag.gateway.database import Database
from rmhdag.gateway.problems import Problem
from rmhdag.gateway.rate_limits import RateLimits
from rmhdag.gateway.tokens import Tokens, is_token
from rmhdag.models.clients import ClientQuotas
from rmhdag.models.scopes import Scope

SHAPE = re.compile(r"rmhdag_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
REMEMBER_SECONDS = 5.0
MOST_REMEMBERED = 10_000
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="rmhdag gateway"'}


class Holder(NamedTuple):
    """Of a key, or of a token by its identity. `client_id` is the name of its keys, which stays when one is rotated."""

    key_id: str | None
    namespace: str
    client_id: str
    scopes: frozenset[str]
    quotas: ClientQuotas
    is_active: bool
    expires_at: datetime | None
    identity_id: str | None = None

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
        tokens: Tokens,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._defaults = defaults
        self._limits = limits
        self._tokens = tokens
        self._clock = clock
        self._query = (
            "SELECT key_id, secret_hash, namespace, client_id, scopes, expires_at, is_active, quotas,"
            " revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp()) AS is_valid"
            f" FROM {database.schema}.dag_gateway_keys WHERE key_id = %(key_id)s"
        )
        self._identity_query = (
            "SELECT identity_id, namespace, client_id, scopes, expires_at, is_active, quotas"
            f" FROM {database.schema}.dag_gateway_identities WHERE issuer = %(issuer)s"
            " AND (kind, value) IN (('subject', %(subject)s), ('application', %(application)s))"
            " AND (expires_at IS NULL OR expires_at > clock_timestamp()) ORDER BY kind::text DESC LIMIT 1"
        )
        self._remembered: OrderedDict[str, tuple[float, Holder]] = OrderedDict()

    async def holder_of(self, text: str | None, address: str) -> Holder:
        """Raises a 401, with the same words whatever is wrong with the key."""
        if text is None:
            raise Problem(
                401,
                "no_key",
                "this needs a key",
                remedy="Send `Authorization: Bearer <key>`, or a token of your organisation if that was agreed.",
                headers=CHALLENGE,
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
        holder = await (self._by_token(text, address) if is_token(text) else self._by_key(text, address))
        digest = _digest(text)
        self._remembered[digest] = (self._clock() + REMEMBER_SECONDS, holder)
        self._remembered.move_to_end(digest)
        if len(self._remembered) > MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return holder

    async def _by_key(self, text: str, address: str) -> Holder:
        shape = SHAPE.fullmatch(text)
        rows = [] if shape is None else await self._database.read(self._query, {"key_id": shape[1]})
        row = rows[0] if rows else None
        secret_hash = hashlib.sha256((shape[2] if shape else "").encode()).hexdigest()
        if row is None or not hmac.compare_digest(row["secret_hash"], secret_hash) or not row["is_valid"]:
            self._limits.note_guess(address)
            raise Problem(401, "key_refused", "the key is not known, or it has expired", headers=CHALLENGE)
        return self._holder(row, key_id=row["key_id"], expires_at=row["expires_at"])

    async def _by_token(self, text: str, address: str) -> Holder:
        try:
            identity = await self._tokens.identity_of(text)
        except Problem as problem:
            if problem.status == 401:
                self._limits.note_guess(address)
            raise
        names = identity.model_dump(include={"issuer", "subject", "application"})
        rows = await self._database.read(self._identity_query, names)
        if not rows:
            # The token is genuine, so its holder may learn what the operator has to write down.
            self._limits.note_guess(address)
            facts = ", ".join(f"{name} {value}" for name, value in names.items() if value is not None)
            raise Problem(
                403,
                "client_unknown",
                "the token is valid, but it is bound to no client here",
                remedy=f"Ask the operator of the platform to bind it: {facts}."[:1000],
            )
        ends = [datetime.fromtimestamp(identity.expires_at, UTC), rows[0]["expires_at"]]
        return self._holder(
            rows[0], identity_id=rows[0]["identity_id"], expires_at=min(end for end in ends if end is not None)
        )

    def _holder(
        self,
        row: dict[str, Any],
        *,
        key_id: str | None = None,
        identity_id: str | None = None,
        expires_at: datetime | None,
    ) -> Holder:
        return Holder(
            key_id,
            row["namespace"],
            row["client_id"],
            frozenset(row["scopes"]),
            self._defaults.with_overrides(row["quotas"]),
            row["is_active"],
            expires_at,
            identity_id,
        )


def _digest(text: str) -> str:
    """What is remembered opens nothing if somebody reads our memory."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
