"""Fixtures for pytest, found by its entry point. Their imports happen only in tests that use them."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rmhdag.testing.bench import HandlerBench
    from rmhdag.testing.jobs import VirtualJob


@pytest.fixture
def handler_bench(tmp_path: Path) -> HandlerBench:
    """Runs handlers on storage in the test's own folder: `rmhdag.testing.HandlerBench`."""
    from rmhdag.testing.bench import HandlerBench

    return HandlerBench(tmp_path)


@pytest.fixture
def run_workflow(tmp_path: Path) -> partial[VirtualJob]:
    """`rmhdag.testing.run_workflow`, with storage in the test's own folder."""
    from rmhdag.testing.workflows import run_workflow

    return partial(run_workflow, folder=tmp_path)
