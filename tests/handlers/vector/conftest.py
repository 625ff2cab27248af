"""A bench per test, with and without a data database."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmhdag.testing.bench import HandlerBench


@pytest.fixture
def bench(tmp_path: Path) -> HandlerBench:
    """Files only."""
    return HandlerBench(tmp_path)


@pytest.fixture
def loading(tmp_path: Path, postgis_dsn: str) -> HandlerBench:
    return HandlerBench(tmp_path, postgis_url=postgis_dsn)
