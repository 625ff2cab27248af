"""Who calls, and whether they may: every route names the scope that it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NamedTuple

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from rmhdag.api.context import Api, ApiContext
from rmhdag.api.problems import Problem
from rmhdag.models.scopes import Scope
from rmhdag.store import api_keys

KEY_HEADER = "X-API-Key"
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="rmhdag"'}

# Only for the OpenAPI document; the header is read below.
bearer = HTTPBearer(auto_error=False, description="An API key, or a token of the configured OIDC issuer")


class Caller(NamedTuple):
    """`name` stands in `submitted_by`, `issued_by` and the like."""

    name: str
    namespace: str
    scopes: frozenset[Scope]
    key_id: str | None = None

    @property
    def rate_name(self) -> str:
        """By whom requests are counted."""
        return self.key_id or f"{self.namespace}/{self.name}"

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or (Scope.ADMIN in self.scopes and scope is not Scope.WORKER)


def authenticate(api: Api, request: Request) -> Caller:
    text = presented(request)
    if text is None:
        raise Problem(
            401,
            "no_key",
            "this needs a key",
            remedy="Send `Authorization: Bearer <key>`; `rmhdag keys create` makes one.",
            headers=CHALLENGE,
        )
    try:
        with api.connection() as conn:
            holder = api_keys.verify_key(conn, text)
    except api_keys.KeyRefused as error:
        raise Problem(401, "key_refused", str(error), headers=CHALLENGE) from None
    return Caller(holder.name, holder.namespace, holder.scopes, holder.key_id)


def presented(request: Request) -> str | None:
    given = request.headers.get("authorization")
    if given is None:
        return request.headers.get(KEY_HEADER)
    kind, _, text = given.partition(" ")
    return text.strip() if kind.lower() == "bearer" and text.strip() else None


def needs(scope: Scope) -> Callable[..., Caller]:
    def caller(request: Request, api: ApiContext, _: Annotated[object, Depends(bearer)]) -> Caller:
        found = authenticate(api, request)
        if not found.may(scope):
            raise Problem(403, "scope_missing", f"this needs a key with the scope `{scope}`")
        return found

    return caller


Reader = Annotated[Caller, Depends(needs(Scope.READ))]
Submitter = Annotated[Caller, Depends(needs(Scope.SUBMIT))]
Operator = Annotated[Caller, Depends(needs(Scope.OPERATE))]
Administrator = Annotated[Caller, Depends(needs(Scope.ADMIN))]
WorkerCaller = Annotated[Caller, Depends(needs(Scope.WORKER))]
