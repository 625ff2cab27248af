"""Settings of a worker process, as values. The defaults are those of production; tests use shorter times."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rmhdag.handlers.raster_limits import RasterLimits
from rmhdag.handlers.vector_limits import VectorLimits
from rmhdag.observability.traces import TraceSettings
from rmhdag.storage.settings import StorageSettings

STUCK_SECONDS = 20.0
# How children get the address of the data database.
POSTGIS_VARIABLE = "RMHDAG_POSTGIS_URL"
EXAMPLES = "rmhdag.handlers.examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    queues: tuple[str, ...]
    # Either the database, or the HTTP API with a key and without a database.
    dsn: str = ""
    api_url: str | None = None
    api_key: str = field(default="", repr=False)
    schema: str = "dagapp"
    # Number of children that run one task at a time; light handlers share one more.
    concurrency: int = 2
    light_concurrency: int = 50
    handler_modules: tuple[str, ...] = ()
    # Whether the worker has the example handlers: with them, every submitter of jobs can occupy a slot for a day.
    examples: bool = True
    # Children import the libraries of geospatial handlers when they start, and not for the first task that needs them.
    warm: bool = False
    # A private folder; without it, a new folder in the temporary folder.
    scratch_root: Path | None = None
    # Environment variables that children see in addition to those of the system, and the umask of their files.
    task_variables: tuple[str, ...] = ()
    task_umask: int = 0o077
    memory_limit_mb: int | None = None
    heartbeat_seconds: float = 2.0
    poll_seconds: float = 1.0
    # Whether NOTIFY works; not behind a transaction pooler, where statements are not prepared either.
    notify: bool = True
    pooled: bool = False
    start_mark_seconds: float = 0.5
    # How long a task may wait behind another one in a child before it is taken back.
    patience_seconds: float = 0.2
    # How long a suspect waits for this worker to finish its other tasks before an idle worker may have it.
    reserve_seconds: float = 5.0
    # Shorter than patience_seconds: a child has its next task at hand while the end of the last one is reported.
    prefetch_seconds: float = 0.15
    prefetch_tasks: int = 32
    # A task that was asked to stop is interrupted after this time, and killed after the same time again.
    grace_seconds: float = 3.0
    # Time limit for a worker to stop, whatever its tasks do (RMHDAG_WORKER_STOP_SECONDS).
    stop_seconds: float = 30.0
    lease_check_seconds: float = 1.0
    # A claimed task is released if its stored parameters cannot be read for this long.
    unread_seconds: float = 5.0
    # If the worker is frozen, so that leases may be lost, a child ends its own task after this time.
    abandoned_seconds: float = 8.0
    # The worker restarts if a loop makes no turn for this long: two TTLs, and longer than any call may take.
    stuck_seconds: float = STUCK_SECONDS
    # Address of the health port; port 0 chooses a free one, None disables it.
    health_host: str = "127.0.0.1"
    health_port: int | None = None
    # Where children send the spans that handlers open.
    traces: TraceSettings = field(default_factory=TraceSettings)
    # Storage for handlers; the parent itself does not open it.
    storage: StorageSettings = field(default_factory=StorageSettings)
    # Limits for GDAL and for rasters in children.
    rasters: RasterLimits = field(default_factory=RasterLimits)
    vectors: VectorLimits = field(default_factory=VectorLimits)
    # The data database of handlers; the parent itself does not open it.
    postgis_dsn: str | None = field(default=None, repr=False)
    # A folder shared by several machines, to which files are copied for programs that need a path.
    mount_folder: Path | None = None

    def __post_init__(self) -> None:
        if not self.queues:
            raise ValueError("a worker needs at least one queue: name it by --queue or DAG_WORKER_QUEUE")
        if self.concurrency < 1:
            raise ValueError(f"concurrency is {self.concurrency}: a worker needs at least one slot")
        if bool(self.dsn) == (self.api_url is not None):
            raise ValueError("a worker reaches either a database or an API: give one of them")
