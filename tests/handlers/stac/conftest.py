"""Storage in a folder, and a way to run handlers as a worker does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rmhdag.handlers import HandlerContext, HandlerResult
from rmhdag.handlers.params import read_params
from rmhdag.handlers.registry import shared_registry
from rmhdag.handlers.stac import containers, metadata, registration, upkeep
from rmhdag.storage import Storage, StorageSettings, open_storage

Run = Callable[..., HandlerResult]


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(StorageSettings(root=f"file://{tmp_path / 'blobs'}"))


class Deaf:
    """A link that nobody listens to."""

    def log(self, text: str) -> None: ...

    def progress(self, current: float, total: float | None, message: str | None) -> None: ...

    def checkpoint(self, phase: str, data: Any) -> None: ...

    def stop_reason(self) -> None:
        return None


@pytest.fixture
def run(storage: Storage, tmp_path: Path) -> Run:
    """Parameters as JSON go in, a result comes out."""
    assert all((containers, metadata, registration, upkeep)), "their handlers are declared by importing them"

    def run(name: str, **params: Any) -> HandlerResult:
        spec = shared_registry.find(name)
        assert spec is not None
        assert spec.params is not None
        ctx: HandlerContext[Any] = HandlerContext(
            Deaf(), read_params(spec.params, params), scratch=tmp_path / "scratch", open_storage=lambda: storage
        )
        returned = spec.function(ctx)
        return returned if isinstance(returned, HandlerResult) else HandlerResult(output=returned)

    return run
