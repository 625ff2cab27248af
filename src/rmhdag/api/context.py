"""What every route works with: the database, and how this installation is set up."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import psycopg
from fastapi import Depends
from fastapi.requests import HTTPConnection
from psycopg.types.json import set_json_loads
from psycopg_pool import ConnectionPool

from rmhdag.api.bells import Bells
from rmhdag.api.blob_looks import BlobLooks
from rmhdag.api.body_room import BodyRoom, swells_connections
from rmhdag.api.check_pool import CheckPool
from rmhdag.api.claims import Claims
from rmhdag.api.processor_time import Turns
from rmhdag.api.quotas import NamespaceQuotas
from rmhdag.api.rate_limits import REQUESTS, SUBMISSIONS, RateLimit
from rmhdag.api.stored_files import StoredFiles
from rmhdag.api.streams.hub import Hub
from rmhdag.api.streams.listener import StreamLimits
from rmhdag.api.trial_pool import TrialPool
from rmhdag.assets.identity import Platforms
from rmhdag.models.clients import ClientQuotas
from rmhdag.models.limits import BODY_BYTES
from rmhdag.models.quotas import Quotas
from rmhdag.services.callbacks.settings import CallbackSettings
from rmhdag.services.platforms import PlatformCache
from rmhdag.storage.settings import StorageSettings
from rmhdag.store.connection import Conn, connect, enter_schema
from rmhdag.store.retention import RetentionDays
from rmhdag.views.queue_rates import QueueRates
from rmhdag.workflow.known_handlers import HandlerEntry

if TYPE_CHECKING:
    from rmhdag.api.oidc import OidcSettings, TokenVerifier
    from rmhdag.api.oidc_sign_in import OidcSignIn
    from rmhdag.api.partner_tokens import PartnerTokens

# A connection that nobody has used for so long is looked at before it is used.
RESTED_SECONDS = 1.0
# By then it has answered, or another one is taken.
CHECK_SECONDS = 0.5
# The database ends a statement by itself, unless it is stopped.
GRACE_SECONDS = 1.0
# Reading is work for the processor: more at once would only take it from those who answer.
READERS = 2


@dataclass(frozen=True, kw_only=True)
class ApiSettings:
    """Values only; who reads them from where is not our business."""

    dsn: str
    # As the role that owns the schema, for migrations; else `dsn` is the owner's.
    owner_dsn: str | None = None
    schema_name: str = "dagapp"
    pooled: bool = False
    notify: bool = True
    connections: int = 8
    orphan_seconds: float = 10.0
    development: bool = False
    queues: frozenset[str] = frozenset()
    # The queue of tasks that name none, and the variables that templates may read.
    fallback_queue: str | None = None
    template_names: frozenset[str] = frozenset()
    job_queue_name: str | None = None
    statement_seconds: float = 3.0
    # A request that has no connection by then gets a 503 that says when to retry: within two seconds.
    patience_seconds: float = 1.5
    max_body_bytes: int = BODY_BYTES
    body_seconds: float = 30.0
    submits_per_second: float = 2_000.0
    requests_per_second: float = 1_000.0
    # None: workflows and parameters are checked in this process, because the caller wrote them.
    check_processes: int | None = 2
    # A server that nobody has called yet need not have them.
    checks_ready: bool = False
    header_seconds: float = 10.0
    # What commands on this machine present; see `models.local_callers`.
    local_secret: str | None = field(default=None, repr=False)
    # Handlers that no worker has registered yet, and will.
    own_handlers: Callable[[], Iterable[HandlerEntry]] = tuple
    oidc: OidcSettings | None = None
    # The issuers whose tokens gateways accept.
    partner_issuers: tuple[OidcSettings, ...] = ()
    callbacks: CallbackSettings = field(default_factory=CallbackSettings)
    # Those of the settings; rows of the registry replace them.
    platforms: Platforms = field(default_factory=Platforms)
    # Where the checks of workflows look for files; without it they do not.
    storage: StorageSettings = field(default_factory=StorageSettings)
    # Whether there is a data database for vector tables; None: this process does not know, and nobody is refused.
    has_postgis: bool | None = None
    quotas: Quotas = field(default_factory=Quotas)
    client_quotas: ClientQuotas = field(default_factory=ClientQuotas)
    retention: RetentionDays = field(default_factory=RetentionDays)
    max_listeners: int = 1_000
    max_listeners_per_key: int = 100
    stream_limits: StreamLimits = field(default_factory=StreamLimits)
    # When a handler is tried: for what is not the handler, being taken up, reported and decided.
    trial_grace_seconds: float = 5.0
    # Pages of other sites that may call with a key, as in `https://ops.example.org`; our own always may.
    origins: frozenset[str] = frozenset()
    # Hosts, or host:port, that a browser with a cookie may name besides loopback.
    hosts: frozenset[str] = frozenset()
    # Under which browsers reach us, behind a proxy.
    public_url: str | None = None
    # The name of this installation, on every page of the web interface.
    environment: str = ""


@dataclass
class Api:
    """One per process. The pool opens when the application starts and closes when it ends."""

    settings: ApiSettings
    pool: ConnectionPool[Conn] = field(init=False)
    submit_rate: RateLimit = field(init=False)
    request_rate: RateLimit = field(init=False)
    checks: CheckPool = field(init=False)
    quotas: NamespaceQuotas = field(init=False)
    platforms: PlatformCache = field(init=False)
    blobs: BlobLooks = field(init=False)
    files: StoredFiles = field(init=False)
    turns: Turns = field(init=False)
    body_room: BodyRoom = field(default_factory=BodyRoom)
    trials: TrialPool = field(default_factory=TrialPool)
    queue_rates: QueueRates = field(default_factory=QueueRates)
    tokens: TokenVerifier | None = field(init=False, default=None)
    # How browsers sign in at the issuer; None if they cannot.
    sign_in: OidcSignIn | None = field(init=False, default=None)
    # None if gateways accept no tokens.
    partner_tokens: PartnerTokens | None = field(init=False, default=None)
    streams: Hub = field(init=False)
    # Workers over HTTP have connections of their own: neither they nor people can keep the others waiting.
    worker_pool: ConnectionPool[Conn] = field(init=False)
    bells: Bells = field(init=False)
    claims: Claims = field(default_factory=Claims)
    # Digests of the keys by which gateways call: as many as the operators of the platform have made.
    gateways: set[bytes] = field(default_factory=set)
    # Large bodies are read here, so that nobody else waits for them.
    readers: ThreadPoolExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.readers = ThreadPoolExecutor(READERS, thread_name_prefix="reader")
        self.pool = self._pool("api", least=1)
        self.worker_pool = self._pool("workers", least=0)
        self.bells = Bells(self.settings.dsn, self.settings.schema_name, self.worker_pool, notify=self._notify)
        self.streams = Hub(
            self.settings.dsn,
            self.settings.schema_name,
            pooled=self.settings.pooled,
            notify=self.settings.notify,
            max_listeners=self.settings.max_listeners,
            max_listeners_per_key=self.settings.max_listeners_per_key,
        )
        self.submit_rate = RateLimit(self.settings.submits_per_second, SUBMISSIONS)
        self.request_rate = RateLimit(self.settings.requests_per_second, REQUESTS)
        self.checks = CheckPool(self.settings.check_processes)
        # Some connections are always left to others: of eight, a namespace has six, and unknown keys have one.
        self.turns = Turns(max(1, self.settings.connections * 3 // 4), max(1, self.settings.connections // 8))
        self.quotas = NamespaceQuotas(self.settings.quotas, self.connection)
        self.platforms = PlatformCache(self.settings.platforms)
        self.blobs = BlobLooks(self.settings.storage)
        self.files = StoredFiles(self.blobs)
        if self.settings.oidc is not None or self.settings.partner_issuers:
            from rmhdag.api.issuers import open_issuers

            issuers = open_issuers(self.settings.oidc, self.settings.partner_issuers)
            self.tokens, self.sign_in, self.partner_tokens = issuers

    @property
    def _notify(self) -> bool:
        return self.settings.notify and not self.settings.pooled

    def open(self) -> None:
        """Without waiting: a server that starts before its database answers 503 until that is there."""
        self.pool.open()
        self.worker_pool.open()
        if self.settings.checks_ready:
            self.checks.warm()

    def close(self) -> None:
        self.streams.close()
        self.bells.close()
        self.worker_pool.close()
        self.pool.close()
        self.readers.shutdown()
        self.blobs.close()
        self.checks.close()

    def _pool(self, name: str, least: int) -> ConnectionPool[Conn]:
        settings = self.settings
        for_workers = name == "workers"

        class Connection(psycopg.Connection[Any]):
            """A connection that notices a dead peer, in our schema."""

            @classmethod
            def connect(cls, conninfo: str = "", **options: Any) -> Any:
                conn = connect(
                    settings.dsn,
                    f"rmhdag:api:{name}",
                    autocommit=True,
                    statement_timeout_seconds=settings.statement_seconds,
                    # As with workers that have the database: what is prepared on small tables must do for large ones.
                    reads_whole_tables=not for_workers,
                    pooled=settings.pooled,
                    answer_seconds=settings.statement_seconds + GRACE_SECONDS,
                )
                try:
                    enter_schema(conn, settings.schema_name, pooled=settings.pooled)
                    if for_workers:
                        set_json_loads(orjson.loads, conn)
                except BaseException:
                    conn.close()
                    raise
                return conn

        return ConnectionPool(
            connection_class=Connection,
            min_size=least,
            max_size=settings.connections,
            timeout=settings.patience_seconds,
            max_waiting=settings.connections * 32,
            reset=_note_use,
            check=_check_if_rested,
            open=False,
            name=name,
        )

    @contextmanager
    def connection(self) -> Iterator[Conn]:
        """In autocommit mode; `with conn.transaction()` where several statements belong together."""
        with self.pool.connection() as conn:
            try:
                yield conn
            finally:
                if swells_connections():
                    # Eight connections that had sent 7 MB each kept 16 MB each; the pool opens another one.
                    conn.close()


def _note_use(conn: Any) -> None:
    conn.used_at = time.monotonic()


def _check_if_rested(conn: Any) -> None:
    """A round trip before each use would cost more than most answers. What broke a moment ago is a 503 once."""
    if time.monotonic() - conn.used_at > RESTED_SECONDS:
        with conn.answering_within(CHECK_SECONDS):
            ConnectionPool.check_connection(conn)


def get_api(connection: HTTPConnection) -> Api:
    api: Api = connection.app.state.api
    return api


async def _api(connection: HTTPConnection) -> Api:
    return get_api(connection)


ApiContext = Annotated[Api, Depends(_api)]
