"""Who calls, and whether they may.

Authentication stands before all routes: what is not in OPEN answers nobody who is unknown, and reads no body of theirs.
A route then names the scope that it needs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlsplit

from fastapi import Depends
from fastapi.requests import HTTPConnection
from fastapi.security import HTTPBearer
from psycopg import OperationalError
from psycopg_pool import PoolClosed, PoolTimeout
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from rmhdag.api.context import Api, get_api
from rmhdag.api.problems import Problem, respond, unavailable
from rmhdag.api.request_meters import Meters
from rmhdag.models.registry import KeyKind
from rmhdag.models.scopes import Scope
from rmhdag.observability.logs import get_logger
from rmhdag.store import api_keys

OPEN = frozenset({"/livez", "/readyz", "/login"})
KEY_HEADER = "X-API-Key"
# A browser sends no headers with a WebSocket, but protocols that it would speak.
PROTOCOL_PREFIX = "bearer."
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="rmhdag"'}
# What the administrator of a namespace does not have by that.
NOT_ADMINISTRATORS = frozenset({Scope.WORKER, Scope.PLATFORM})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

log = get_logger(__name__)


class Caller(NamedTuple):
    """`name` stands in `submitted_by`, `issued_by` and the like."""

    name: str
    namespace: str
    scopes: frozenset[Scope]
    key_id: str | None = None
    # By a token or a browser's session, which end soon.
    is_temporary: bool = False
    expires_at: float | None = None

    @property
    def rate_name(self) -> str:
        """By whom requests are counted."""
        return self.key_id or f"{self.namespace}/{self.name}"

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or (Scope.ADMIN in self.scopes and scope not in NOT_ADMINISTRATORS)

    @property
    def sees(self) -> str | None:
        """The namespace whose share of the platform the caller is shown; None: all of it."""
        return None if self.may(Scope.PLATFORM) else self.namespace


class Authentication:
    """Before everything else: a route that forgets to ask who calls is still not open."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and scope["path"] not in OPEN:
            connection = HTTPConnection(scope)
            try:
                caller = await run_in_threadpool(authenticate, get_api(connection), connection)
                get_api(connection).request_rate.take(caller.rate_name)
                connection.state.caller = caller
            except Problem as problem:
                note_refusal(problem, connection)
                await respond(problem)(scope, receive, send)
                return
            except (OperationalError, PoolTimeout, PoolClosed) as error:
                log.warning("database_unavailable", path=scope["path"], error=type(error).__name__)
                await respond(unavailable())(scope, receive, send)
                return
        await self._app(scope, receive, send)


def authenticate(api: Api, connection: HTTPConnection) -> Caller:
    """By key or token in a header; by session, for a browser that was let in by a link."""
    text = presented(connection)
    if text is not None:
        key_id = api_keys.key_id_in(text)
        if key_id is not None:
            api.quotas.refuse_flood(key_id)
        caller = by_token(api, text) if is_token(api, text) else by_key(api, text, KeyKind.KEY)
        api.quotas.take_request(caller.namespace, key_id, is_worker=caller.scopes == {Scope.WORKER})
        return caller
    session = connection.cookies.get(session_cookie(connection))
    if session is None:
        raise Problem(
            401,
            "no_key",
            "this needs a key",
            remedy="Send `Authorization: Bearer <key>`; `rmhdag keys create` makes one.",
            headers=CHALLENGE,
        )
    caller = by_key(api, session, KeyKind.SESSION)
    api.quotas.take_request(caller.namespace, None)
    if not is_known_host(connection, api.settings.hosts):
        raise Problem(
            403,
            "unknown_host",
            "a browser's cookie counts only under names that are known to be ours",
            remedy="Use the address that `rmhdag up` has printed, or name the host in RMHDAG_API_HOSTS.",
        )
    if is_changing(connection) and not is_same_origin(connection):
        raise Problem(
            403,
            "cross_site",
            "a page of another site asks for this in your name",
            remedy="Programs send a key instead of a browser's cookie.",
        )
    return caller


def by_key(api: Api, text: str, kind: KeyKind) -> Caller:
    try:
        with api.connection() as conn:
            holder = api_keys.verify_key(conn, text, kind)
    except api_keys.KeyRefused as error:
        raise Problem(401, "key_refused", str(error), headers=CHALLENGE) from None
    return Caller(holder.name, holder.namespace, holder.scopes, holder.key_id, kind is not KeyKind.KEY)


def is_token(api: Api, text: str) -> bool:
    return api.tokens is not None and not text.startswith(api_keys.PREFIX)


def by_token(api: Api, text: str) -> Caller:
    # Only where an issuer is configured: its libraries take a while to load.
    from rmhdag.api.oidc import IssuerUnavailable, TokenRefused

    assert api.tokens is not None
    try:
        holder = api.tokens.verify(text)
    except TokenRefused as error:
        raise Problem(401, "token_refused", str(error), headers=CHALLENGE) from None
    except IssuerUnavailable as error:
        raise Problem(
            503,
            "issuer_unavailable",
            "the issuer of tokens does not answer, so that none can be checked",
            remedy="Try again after the time in Retry-After, or use an API key.",
            headers={"Retry-After": str(error.retry_seconds)},
        ) from None
    return Caller(holder.name, holder.namespace, holder.scopes, None, True, holder.expires_at)


def presented(connection: HTTPConnection) -> str | None:
    given = connection.headers.get("authorization")
    if given is not None:
        kind, _, text = given.partition(" ")
        return text.strip() if kind.lower() == "bearer" and text.strip() else None
    offered = (one for one in connection.scope.get("subprotocols", ()) if one.startswith(PROTOCOL_PREFIX))
    protocol = next((one.removeprefix(PROTOCOL_PREFIX) for one in offered), None)
    return connection.headers.get(KEY_HEADER, protocol)


def session_cookie(connection: HTTPConnection) -> str:
    """Browsers share cookies between the ports of a host, and several servers may run on one."""
    server = connection.scope.get("server")
    return f"rmhdag_session_{server[1] if server else 0}"


def is_known_host(connection: HTTPConnection, hosts: frozenset[str]) -> bool:
    """Else a name that somebody points at us would be a page of ours to the browser."""
    named = connection.headers.get("host", "").lower()
    try:
        host = urlsplit(f"//{named}").hostname or ""
    except ValueError:
        return False
    return is_loopback(host) or named in hosts or host in hosts


def is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_changing(connection: HTTPConnection) -> bool:
    return connection.scope["type"] == "websocket" or connection.scope["method"] not in SAFE_METHODS


def is_same_origin(connection: HTTPConnection) -> bool:
    """A cookie alone proves nothing: the browser sends it for other ports of this host too. It must say whose page asks
    in at least one of two ways, and in neither that it is another's.
    """
    site, origin = connection.headers.get("sec-fetch-site"), connection.headers.get("origin")
    scheme = {"ws": "http", "wss": "https"}.get(connection.url.scheme, connection.url.scheme)
    ours = f"{scheme}://{connection.headers.get('host', '')}"
    return (site is not None or origin is not None) and site in (None, "same-origin") and origin in (None, ours)


def note_refusal(problem: Problem, connection: HTTPConnection) -> None:
    """Of a key only its id is ever written down."""
    text = presented(connection) or connection.cookies.get(session_cookie(connection)) or ""
    meters: Meters = connection.app.state.meters
    meters.refusals.labels(problem.body.code).inc()
    peer = connection.client.host if connection.client else None
    log.warning("caller_refused", code=problem.body.code, key_id=api_keys.key_id_in(text), peer=peer)


class Bearer(HTTPBearer):
    """Only for the OpenAPI document: whoever gets here has been let in."""

    async def __call__(self, connection: HTTPConnection) -> None:
        return None


bearer = Bearer(auto_error=False, description="An API key, or a token of the configured OIDC issuer")


def needs(scope: Scope, *others: Scope) -> Callable[..., Awaitable[Caller]]:
    """A caller with the scope, or with one of the others."""

    async def caller(connection: HTTPConnection, _: Annotated[object, Depends(bearer)]) -> Caller:
        found: Caller = connection.state.caller
        try:
            check_scope(found, next((one for one in others if found.may(one)), scope))
        except Problem as problem:
            note_refusal(problem, connection)
            raise
        return found

    caller.needed_scopes = (scope, *others)  # type: ignore[attr-defined]
    return caller


def check_scope(caller: Caller, scope: Scope) -> None:
    if not caller.may(scope):
        raise Problem(403, "scope_missing", f"this needs a key with the scope `{scope}`")


def needed_scopes(dependency: Any) -> tuple[Scope, ...]:
    """Of which a dependency made by `needs` asks for one; none for any other."""
    found: tuple[Scope, ...] = getattr(dependency, "needed_scopes", ())
    return found


Reader = Annotated[Caller, Depends(needs(Scope.READ))]
Submitter = Annotated[Caller, Depends(needs(Scope.SUBMIT))]
Operator = Annotated[Caller, Depends(needs(Scope.OPERATE))]
Administrator = Annotated[Caller, Depends(needs(Scope.ADMIN))]
# One of the two is enough: `admin` for the own namespace, `platform` for all.
NamespaceOrPlatform = Annotated[Caller, Depends(needs(Scope.ADMIN, Scope.PLATFORM))]
PlatformOperator = Annotated[Caller, Depends(needs(Scope.PLATFORM))]
WorkerCaller = Annotated[Caller, Depends(needs(Scope.WORKER))]
