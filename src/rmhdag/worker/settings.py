"""What a worker is told when it is started. The defaults are those of production; tests make times shorter."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rmhdag.handlers.raster_limits import RasterLimits
from rmhdag.observability.traces import TraceSettings
from rmhdag.storage.settings import StorageSettings

STUCK_SECONDS = 20.0
EXAMPLES = "rmhdag.handlers.examples"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    queues: tuple[str, ...]
    # The database; or the HTTP API, with a key, and then no database at all.
    dsn: str = ""
    api_url: str | None = None
    api_key: str = field(default="", repr=False)
    schema: str = "dagapp"
    # Children that run one task at a time; light handlers share one more.
    concurrency: int = 2
    light_concurrency: int = 50
    handler_modules: tuple[str, ...] = ()
    # Whether it has the example handlers: with them anybody who submits jobs can hold a slot for a day.
    examples: bool = True
    # Children import the libraries of geospatial handlers at once, and not when the first task asks for one.
    warm: bool = False
    # A folder of our own; without it, a new one in the temporary folder.
    scratch_root: Path | None = None
    # Variables of our environment that children see beside those of the system, and the umask of what they write.
    task_variables: tuple[str, ...] = ()
    task_umask: int = 0o077
    memory_limit_mb: int | None = None
    heartbeat_seconds: float = 2.0
    poll_seconds: float = 1.0
    # NOTIFY reaches us; false behind a transaction pooler, where statements are not prepared either.
    notify: bool = True
    pooled: bool = False
    start_mark_seconds: float = 0.5
    # How long a task may sit behind another one in a child before it is taken back.
    patience_seconds: float = 0.2
    # How long a suspect waits for the worker to have nothing else, before an idle worker may have it.
    reserve_seconds: float = 5.0
    # Less than that: a child that has ended one task has the next one at hand, while the end of the first is reported.
    prefetch_seconds: float = 0.15
    prefetch_tasks: int = 32
    # A task that was told to stop is interrupted after this, and killed after as much again.
    grace_seconds: float = 3.0
    # A worker that is asked to stop has ended after this, whatever its tasks do (RMHDAG_WORKER_STOP_SECONDS).
    stop_seconds: float = 30.0
    lease_check_seconds: float = 1.0
    # A claimed task whose stored parameters cannot be read for so long is given back.
    unread_seconds: float = 5.0
    # A task whose worker is frozen, so that its lease may be lost, is ended by its own process after so long.
    abandoned_seconds: float = 8.0
    # A loop that has not come round for so long ends the worker's life: two TTLs, and longer than any call may take.
    stuck_seconds: float = STUCK_SECONDS
    # Where it tells whether it is well; 0 takes a free port, None is none.
    health_host: str = "127.0.0.1"
    health_port: int | None = None
    # Where children send the spans that handlers open.
    traces: TraceSettings = field(default_factory=TraceSettings)
    # What handlers read and write; the parent itself opens none of it.
    storage: StorageSettings = field(default_factory=StorageSettings)
    # What GDAL may do in children, and what a raster may be.
    rasters: RasterLimits = field(default_factory=RasterLimits)
    # A folder that several machines share, into which files are copied for programs that want a path.
    mount_folder: Path | None = None

    def __post_init__(self) -> None:
        if not self.queues:
            raise ValueError("a worker needs at least one queue: name it by --queue or DAG_WORKER_QUEUE")
        if self.concurrency < 1:
            raise ValueError(f"concurrency is {self.concurrency}: a worker needs at least one slot")
        if bool(self.dsn) == (self.api_url is not None):
            raise ValueError("a worker reaches either a database or an API: give one of them")
