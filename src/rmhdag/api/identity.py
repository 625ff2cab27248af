"""Who calls, and whether they may.

Authentication stands before all routes: what is not in OPEN answers nobody who is unknown, and reads no body of theirs.
A route then names the scope that it needs.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote, urlsplit

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
from rmhdag.api.processor_time import Turns
from rmhdag.api.request_meters import Meters
from rmhdag.models.local_callers import (
    LOCAL_PREFIX,
    NAME_CHARACTERS,
    NAME_HEADER,
    NAMESPACE_HEADER,
    SCOPES_HEADER,
)
from rmhdag.models.registry import KeyKind
from rmhdag.models.scopes import ACTED_SCOPES, Scope
from rmhdag.observability.logs import get_logger
from rmhdag.store import api_keys

OPEN = frozenset(
    {"/livez", "/readyz", "/", "/ui", "/login", "/login/oidc", "/login/oidc/done"}
    | {"/api/v1/session/ways", "/api/v1/session/key"}
)
# Pages and files of the web interface: they hold no data, and ask for it like any other caller.
OPEN_BELOW = "/ui/"
KEY_HEADER = "X-API-Key"
# A browser sends no headers with a WebSocket, but protocols that it would speak.
PROTOCOL_PREFIX = "bearer."
LOCAL_TURN = "local callers"
CHALLENGE = {"WWW-Authenticate": 'Bearer realm="rmhdag"'}
# What the administrator of a namespace does not have by that.
NOT_ADMINISTRATORS = frozenset({Scope.WORKER, Scope.PLATFORM, Scope.GATEWAY})
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
    # A command on this machine.
    is_local: bool = False
    # Of jobs that are submitted with the key.
    max_priority: int | None = None
    # Whether a gateway calls in the name of one of its clients.
    is_client: bool = False

    @property
    def rate_name(self) -> str:
        """By whom requests are counted."""
        return self.key_id or f"{self.namespace}/{self.name}"

    @property
    def source_app(self) -> str:
        """By what the jobs of the caller are submitted."""
        return "cli" if self.is_local else "gateway" if self.is_client else "api"

    @property
    def is_worker(self) -> bool:
        return self.scopes == {Scope.WORKER}

    def may(self, scope: Scope) -> bool:
        return scope in self.scopes or (Scope.ADMIN in self.scopes and scope not in NOT_ADMINISTRATORS)

    @property
    def sees(self) -> str | None:
        """The namespace whose share of the platform the caller is shown; None: all of it."""
        return None if self.may(Scope.PLATFORM) else self.namespace


def is_open(path: str) -> bool:
    return path in OPEN or path.startswith(OPEN_BELOW)


class Authentication:
    """Before everything else: a route that forgets to ask who calls is still not open."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not is_open(scope["path"]):
            connection = HTTPConnection(scope)
            try:
                api = get_api(connection)
                credentials = digest_of(api, connection)
                # Before anything else, and without a thread.
                api.quotas.refuse_flood(credentials)
                async with api.turns.turn(_turn_of(api, connection, credentials)):
                    caller = await run_in_threadpool(_authenticate, api, connection, credentials)
                api.request_rate.take(caller.rate_name)
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


def _turn_of(api: Api, connection: HTTPConnection, credentials: bytes) -> str:
    if credentials_of(connection).startswith(LOCAL_PREFIX):
        return LOCAL_TURN  # nobody asks the database who that is
    return api.quotas.account_of(credentials) or Turns.STRANGERS


def _authenticate(api: Api, connection: HTTPConnection, credentials: bytes) -> Caller:
    """Charged to the caller like the rest of the request: it is a good part of a small one."""
    began = time.thread_time()
    caller = authenticate(api, connection, credentials)
    charge, _ = api.quotas.processor_of(caller.namespace, is_worker=caller.is_worker)
    charge(time.thread_time() - began)
    return caller


def authenticate(api: Api, connection: HTTPConnection, credentials: bytes) -> Caller:
    """By key or token in a header; by session, for a browser that was let in by a link."""
    text = presented(connection)
    if text is not None and text.startswith(LOCAL_PREFIX):
        return by_local_secret(api, connection, text)
    if text is not None:
        caller = by_token(api, text) if is_token(api, text) else by_key(api, text, KeyKind.KEY)
        if Scope.GATEWAY in caller.scopes:
            api.gateways.add(hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest())
            caller = for_client(connection, caller)
        api.quotas.take_request(caller.namespace, credentials, is_worker=caller.is_worker)
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
    api.quotas.take_request(caller.namespace, credentials)
    refuse_unknown_host(connection, api.settings.hosts)
    if is_changing(connection) and not is_same_origin(connection):
        raise Problem(
            403,
            "cross_site",
            "a page of another site asks for this in your name",
            remedy="Programs send a key instead of a browser's cookie.",
        )
    return caller


def by_local_secret(api: Api, connection: HTTPConnection, text: str) -> Caller:
    """A command on this machine, which says itself where and in whose name it acts."""
    expected = api.settings.local_secret
    peer = connection.client.host if connection.client else ""
    if expected is None or not is_loopback(peer) or not hmac.compare_digest(text.encode(), expected.encode()):
        raise Problem(401, "key_refused", "this is not the local secret of this server", headers=CHALLENGE)
    namespace, name = named_caller(connection)
    return Caller(name, namespace, frozenset(Scope), is_local=True)


def for_client(connection: HTTPConnection, gateway: Caller) -> Caller:
    """Whom the gateway calls for; without a name, the gateway itself. Of any other key these headers mean nothing."""
    if NAME_HEADER not in connection.headers:
        return gateway
    namespace, name = named_caller(connection)
    scopes = frozenset(connection.headers.get(SCOPES_HEADER, "").split()) & ACTED_SCOPES
    return Caller(name, namespace, frozenset(map(Scope, scopes)), is_client=True)


def named_caller(connection: HTTPConnection) -> tuple[str, str]:
    """The namespace and the name in the headers."""
    namespace = unquote(connection.headers.get(NAMESPACE_HEADER, "default"))
    name = unquote(connection.headers.get(NAME_HEADER, ""))
    for header, value in ((NAMESPACE_HEADER, namespace), (NAME_HEADER, name)):
        if not 0 < len(value) <= NAME_CHARACTERS or not value.isprintable():
            detail = f"`{header}` has 1 to {NAME_CHARACTERS} characters, all of them visible"
            raise Problem(400, "invalid_header", detail, pointer=f"/header/{header.lower()}")
    return namespace, name


def by_key(api: Api, text: str, kind: KeyKind) -> Caller:
    try:
        with api.connection() as conn:
            holder = api_keys.verify_key(conn, text, kind)
    except api_keys.KeyRefused as error:
        raise Problem(401, "key_refused", str(error), headers=CHALLENGE) from None
    return Caller(
        holder.name,
        holder.namespace,
        holder.scopes,
        holder.key_id,
        kind is not KeyKind.KEY,
        max_priority=holder.max_priority,
    )


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
        raise issuer_unavailable(error.retry_seconds) from None
    return Caller(holder.name, holder.namespace, holder.scopes, None, True, holder.expires_at)


def token_refused(detail: str) -> Problem:
    """Of a token that a gateway has sent in a body: its own key is in order."""
    return Problem(422, "token_refused", detail, pointer="/token")


def issuer_unavailable(retry_seconds: int) -> Problem:
    return Problem(
        503,
        "issuer_unavailable",
        "the issuer of tokens does not answer, so that none can be checked",
        remedy="Try again after the time in Retry-After, or use an API key.",
        headers={"Retry-After": str(retry_seconds)},
    )


def presented(connection: HTTPConnection) -> str | None:
    header = connection.headers.get("authorization")
    if header is not None:
        kind, _, text = header.partition(" ")
        return text.strip() if kind.lower() == "bearer" and text.strip() else None
    offered = (name for name in connection.scope.get("subprotocols", ()) if name.startswith(PROTOCOL_PREFIX))
    protocol = next((name.removeprefix(PROTOCOL_PREFIX) for name in offered), None)
    return connection.headers.get(KEY_HEADER, protocol)


def credentials_of(connection: HTTPConnection) -> str:
    """Nothing, if the caller has none."""
    return presented(connection) or connection.cookies.get(session_cookie(connection)) or ""


def digest_of(api: Api, connection: HTTPConnection) -> bytes:
    """Recognises credentials that were accepted before. It covers all of them: the id of a key is no secret, and a
    caller that knows only the id must not pass for the holder of the key.

    The clients of a gateway, which share its key, are told apart: a flood of one is none of the others'.
    """
    digest = hashlib.sha256(credentials_of(connection).encode("utf-8", "surrogateescape")).digest()
    if digest not in api.gateways:
        return digest
    names = "\0".join(connection.headers.get(name, "") for name in (NAMESPACE_HEADER, NAME_HEADER))
    return hashlib.sha256(digest + names.encode("utf-8", "surrogateescape")).digest()


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


def refuse_unknown_host(connection: HTTPConnection, hosts: frozenset[str]) -> None:
    if not is_known_host(connection, hosts):
        raise Problem(
            403,
            "unknown_host",
            "a browser's cookie counts only under names that are known to be ours",
            remedy="Use the address that `rmhdag up` has printed, or name the host in RMHDAG_API_HOSTS.",
        )


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
    meters: Meters = connection.app.state.meters
    meters.refusals.labels(problem.body.code).inc()
    peer = connection.client.host if connection.client else None
    log.warning(
        "caller_refused", code=problem.body.code, key_id=api_keys.key_id_in(credentials_of(connection)), peer=peer
    )


class Bearer(HTTPBearer):
    """Only for the OpenAPI document: callers that get here are authenticated."""

    async def __call__(self, connection: HTTPConnection) -> None:
        return None


bearer = Bearer(auto_error=False, description="An API key, or a token of the configured OIDC issuer")


def needs(scope: Scope, *others: Scope) -> Callable[..., Awaitable[Caller]]:
    """A caller with the scope, or with one of the others."""

    async def caller(connection: HTTPConnection, _: Annotated[object, Depends(bearer)]) -> Caller:
        user: Caller = connection.state.caller
        try:
            check_scope(user, next((other for other in others if user.may(other)), scope))
        except Problem as problem:
            note_refusal(problem, connection)
            raise
        return user

    caller.needed_scopes = (scope, *others)  # type: ignore[attr-defined]
    return caller


def check_scope(caller: Caller, scope: Scope) -> None:
    if not caller.may(scope):
        raise Problem(403, "scope_missing", f"this needs a key with the scope `{scope}`")


def needed_scopes(dependency: Any) -> tuple[Scope, ...]:
    """Of which a dependency made by `needs` asks for one; none for any other."""
    scopes: tuple[Scope, ...] = getattr(dependency, "needed_scopes", ())
    return scopes


Reader = Annotated[Caller, Depends(needs(Scope.READ))]
Submitter = Annotated[Caller, Depends(needs(Scope.SUBMIT))]
Operator = Annotated[Caller, Depends(needs(Scope.OPERATE))]
Reviewer = Annotated[Caller, Depends(needs(Scope.REVIEWER))]
# A node that waits is decided by those who operate jobs; if content hangs on it, by reviewers only.
OperatorOrReviewer = Annotated[Caller, Depends(needs(Scope.OPERATE, Scope.REVIEWER))]
ReaderOrReviewer = Annotated[Caller, Depends(needs(Scope.READ, Scope.REVIEWER))]
Administrator = Annotated[Caller, Depends(needs(Scope.ADMIN))]
# One of the two is enough: `admin` for the own namespace, `platform` for all.
NamespaceOrPlatform = Annotated[Caller, Depends(needs(Scope.ADMIN, Scope.PLATFORM))]
PlatformOperator = Annotated[Caller, Depends(needs(Scope.PLATFORM))]
# A key that is for the gateway may ask who it is, and take its own place by the next one.
Partner = Annotated[Caller, Depends(needs(Scope.B2B, Scope.OPS, Scope.REVIEWER))]
Holder = Annotated[Caller, Depends(needs(Scope.READ, Scope.B2B, Scope.OPS, Scope.REVIEWER, Scope.GATEWAY))]
GatewayCaller = Annotated[Caller, Depends(needs(Scope.GATEWAY))]
WorkerCaller = Annotated[Caller, Depends(needs(Scope.WORKER))]
