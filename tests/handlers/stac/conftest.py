"""Storage in a folder, and a way to run handlers as a worker does."""

from collections.abc import Callable
from typing import Any

import pytest

from rmhdag.handlers import HandlerResult
from rmhdag.storage import Storage
from rmhdag.testing import HandlerBench

Run = Callable[..., HandlerResult]


@pytest.fixture
def storage(handler_bench: HandlerBench) -> Storage:
    return handler_bench.storage


@pytest.fixture
def run(handler_bench: HandlerBench) -> Run:
    """Parameters as JSON go in, a result comes out."""

    def run(name: str, **params: Any) -> HandlerResult:
        return handler_bench.run(name, params).result

    return run
