"""Runs a handler in a test as a worker runs it, with storage in a folder, and records its messages."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from rmhdag.handlers import (
    Checkpoint,
    HandlerContext,
    HandlerResult,
    HandlerSpec,
    Registry,
    StopReason,
    load_handlers,
)
from rmhdag.handlers.params import read_params
from rmhdag.models.blobs import BlobAddress, BlobRef
from rmhdag.models.events import ErrorKind
from rmhdag.models.namespaces import DEFAULT
from rmhdag.models.records import Zone
from rmhdag.storage import Storage, StorageSettings, open_storage
from rmhdag.testing.recording import Executed, Progress, Recording, as_function, execute

if TYPE_CHECKING:
    from rmhdag.postgis.database import DataDatabase

Handler = str | Callable[..., Any]


class RunFailed(AssertionError):
    """The platform would fail this run although the handler raised nothing, for example because of a bad output."""

    def __init__(self, error_kind: ErrorKind, message: str) -> None:
        super().__init__(message)
        self.error_kind = error_kind


class HandlerRun:
    """A run that ended without an error. `stopped`: it followed a request to stop and has no output."""

    def __init__(self, executed: Executed, recording: Recording) -> None:
        outcome = executed.outcome
        result = executed.result or HandlerResult()
        self.result = result
        self.stopped: bool = outcome.stopped
        # As the platform stores it, not the handler's own objects.
        self.output: Any = None if outcome.output is None else orjson.loads(outcome.output)
        self.metrics = result.metrics
        self.records = () if outcome.records is None else result.records
        self.warnings = result.warnings
        self.progress: list[Progress] = recording.progress_calls
        self.checkpoints: list[Checkpoint] = recording.checkpoints
        self.logs: str = recording.logs

    def __repr__(self) -> str:
        return f"<HandlerRun {'stopped' if self.stopped else self.output!r}>"


class HandlerBench:
    """Runs handlers below one folder: `storage` has bronze, silver and gold, each run has a scratch folder."""

    def __init__(self, folder: Path, modules: tuple[str, ...] = (), postgis_url: str | None = None) -> None:
        """`postgis_url` is the data database that handlers get as `ctx.postgis`."""
        self.folder = folder
        self.postgis_url = postgis_url
        self.storage: Storage = self.storage_of(DEFAULT)
        self._modules = modules
        self._runs = 0

    def storage_of(self, namespace: str) -> Storage:
        """The storage that a task of this namespace sees."""
        return open_storage(StorageSettings(root=str(self.folder / "storage")), namespace)

    def _postgis(self, namespace: str) -> DataDatabase:
        from rmhdag.postgis.database import DataDatabase

        return DataDatabase(str(self.postgis_url), namespace)

    # -- files -------------------------------------------------------------------------------------------------

    def put(
        self, content: Path | bytes | str, path: str | None = None, *, zone: Zone = Zone.BRONZE, container: str = "in"
    ) -> BlobRef:
        """Put a file or some content into storage, to be passed to a handler as a parameter."""
        if isinstance(content, Path):
            return self.storage.upload(content, BlobAddress(zone, container, path or content.name))
        if path is None:
            raise TypeError("put(content, path): name the path under which the content is stored")
        data = content.encode() if isinstance(content, str) else content
        return self.storage.write(BlobAddress(zone, container, path), data)

    def path(self, blob: BlobRef | Mapping[str, Any]) -> Path:
        """The local file behind a reference in an output of a handler."""
        ref = BlobRef.model_validate(blob)
        return self.folder / "storage" / ref.zone / ref.container / ref.path

    def files(self, zone: Zone) -> list[str]:
        """All files of a zone as `container/path`, including those that storage would not list."""
        root = self.folder / "storage" / zone
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())

    # -- runs --------------------------------------------------------------------------------------------------

    def context(
        self,
        params: Any = None,
        recording: Recording | None = None,
        *,
        resume: Checkpoint | None = None,
        attempt: int = 1,
        **facts: Any,
    ) -> HandlerContext[Any]:
        """A context to call a handler's function with directly. `facts` are its other fields, such as `job_id`."""
        self._runs += 1
        return HandlerContext(
            recording or Recording(),
            {} if params is None else params,
            scratch=self.folder / f"scratch-{self._runs}",
            open_storage=lambda: self.storage_of(facts.get("namespace", DEFAULT)),
            open_postgis=None if self.postgis_url is None else partial(self._postgis, facts.get("namespace", DEFAULT)),
            resume=resume,
            attempt=attempt,
            **facts,
        )

    def run(
        self,
        handler: Handler,
        params: Mapping[str, Any] | None = None,
        *,
        resume: Checkpoint | None = None,
        stop_when: Callable[[Recording], object] | None = None,
        stop_reason: StopReason = StopReason.CANCELLED,
        recording: Recording | None = None,
        attempt: int = 1,
        **facts: Any,
    ) -> HandlerRun:
        """Run a handler, by its function or its name, with parameters as a workflow would pass them.

        Raises the handler's exception, or RunFailed if the platform would refuse its result.
        """
        spec = self.find(handler)
        if spec.params is not None:
            read_params(spec.params, dict(params or {}))
        recording = recording or Recording(stop_when, stop_reason)
        ctx = self.context(dict(params or {}), recording, resume=resume, attempt=attempt, **facts)
        executed = execute(spec, ctx)
        outcome = executed.outcome
        if executed.error is not None and not outcome.stopped:
            raise executed.error
        if outcome.error_kind is not None:
            raise RunFailed(outcome.error_kind, outcome.error_message or str(outcome.error_kind))
        return HandlerRun(executed, recording)

    def find(self, handler: Handler) -> HandlerSpec:
        registry = load_handlers(self._modules)
        if isinstance(handler, str):
            spec = registry.find(handler)
            if spec is None:
                raise LookupError(f"there is no handler {handler!r}: import the module that declares it")
            return spec
        declared = next((spec for spec in registry if spec.function is handler), None)
        return declared or spec_of("handler.under_test", handler)


def spec_of(name: str, function: Callable[..., Any], declared: HandlerSpec | None = None) -> HandlerSpec:
    """A function as a handler of that name; without its own model it has the parameters of the declared one."""
    registry = Registry()
    plain = function if inspect.isroutine(function) else as_function(function)
    registry.handler(name, params=None if declared is None else declared.params)(plain)
    spec = registry.find(name)
    assert spec is not None
    return spec
