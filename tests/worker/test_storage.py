"""Handlers reach blob storage through their worker's settings, whichever way the worker reaches the platform."""

from pathlib import Path

import pytest

from tests.worker.conftest import Desk, StartWorker

OVER_BOTH_TRANSPORTS = True


def test_a_handler_writes_where_its_worker_says(
    desk: Desk, start_worker: StartWorker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the worker was told counts, not what lies about in its environment.
    monkeypatch.setenv("RMHDAG_STORAGE", str(tmp_path / "elsewhere"))
    start_worker(storage_root=str(tmp_path / "blobs"))
    task = desk.add("test.store", {"text": "hello"})
    result = desk.result(task)
    assert result.error_message is None
    assert result.output["read"] == "hello"
    assert result.output["ref"]["path"] == task
    assert (tmp_path / "blobs" / "silver" / "made" / task).read_text() == "hello"
    assert not (tmp_path / "elsewhere").exists()


def test_without_storage_the_handler_is_told_so(desk: Desk, start_worker: StartWorker) -> None:
    start_worker()
    result = desk.result(desk.add("test.store", {"text": "hello"}))
    assert result.error_kind == "non_retryable"
    assert "set RMHDAG_STORAGE where the worker is started" in str(result.error_message)


def test_storage_is_bound_to_the_namespace_of_the_task(
    desk: Desk, start_worker: StartWorker, transport: str, tmp_path: Path
) -> None:
    """It comes with the task's row; what its parameters say of a namespace changes nothing."""
    if transport == "http":
        desk.conn.execute("UPDATE dag_api_keys SET namespace = 'alpha'")
    start_worker(storage_root=str(tmp_path / "blobs"))
    task = desk.add("test.store", {"text": "hello", "namespace": "beta"}, namespace="alpha")
    result = desk.result(task)
    assert result.error_message is None
    assert result.output["ref"]["container"] == "made"
    assert (tmp_path / "blobs" / "silver" / "namespace-alpha" / "made" / task).read_text() == "hello"
    assert not (tmp_path / "blobs" / "silver" / "made").exists()
