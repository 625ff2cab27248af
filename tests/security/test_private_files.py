"""Other users of the machine read nothing of ours; logs stay small, whoever knocks."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog import DropEvent

from rmhdag.machine.log_files import OLD_LOGS, LogKeeper, open_log, rotate_if_long
from rmhdag.machine.private_files import make_home, tighten_home
from rmhdag.observability.logs import SHARED, get_logger, logging_as
from rmhdag.observability.repeated_lines import RepeatedLines
from tests.cli.running import Up
from tests.store.waiting import wait_until

AsNobody = Callable[[Callable[[], object]], int]


def open_to_others(folder: Path) -> list[str]:
    """Whatever others could list, read or write; folders that they may only pass through are no harm."""
    found = []
    for place, folders, names in os.walk(folder):
        # Copied programs, which the server's account runs, are no secret.
        folders[:] = [name for name in folders if name != "install"]
        for name in (*folders, *names):
            mode = (Path(place) / name).lstat().st_mode
            allowed = 0o011 if stat.S_ISDIR(mode) else 0
            if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) & 0o077 & ~allowed:
                found.append(f"{Path(place, name).relative_to(folder)} {stat.S_IMODE(mode):o}")
    return found


@pytest.fixture
def up(home: Path) -> Iterator[Up]:
    started = Up(home, "--run", "hello_world")
    yield started
    started.end()


def test_everything_that_up_makes_is_private(up: Up, home: Path, as_nobody: AsNobody) -> None:
    data = home / "data"
    up.wait_until_told("completed")
    storage = data / "storage"
    assert {"development.toml", "logs", "postgres", "scratch", "up.lock"} <= set(os.listdir(data))
    assert open_to_others(data) == []
    assert as_nobody(lambda: os.listdir(data)) == 1
    assert as_nobody(lambda: (data / "logs" / "worker.log").read_bytes()) == 1
    assert as_nobody(lambda: (data / "development.toml").read_bytes()) == 1
    assert as_nobody(lambda: os.listdir(storage)) == 1
    for name in ("orchestrator", "worker", "api"):
        status = Path(f"/proc/{up.facts['processes'][name]}/status").read_text()
        assert "Umask:\t0077" in status
    # Without a key, as often as one likes.
    port = up.facts["url"].rsplit(":", 1)[1]
    log = data / "logs" / "api.log"
    before = log.stat().st_size
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(300):
            assert client.get("/api/v1/jobs").status_code == 401
    text = wait_until(lambda: text if "repeated=" in (text := log.read_text()[before:]) else None, 60)
    lines = [line for line in text.splitlines() if "caller_refused" in line]
    assert len(lines) <= 10, "one at once, then one per interval"
    assert sum(int(line.split("repeated=")[1].split()[0]) if "repeated=" in line else 1 for line in lines) <= 300


def test_an_open_home_of_an_earlier_version_is_closed(tmp_path: Path) -> None:
    for folder in ("logs", "storage/bronze"):
        (tmp_path / "data" / folder).mkdir(parents=True)
    for file in ("development.toml", "logs/api.log", "logs/api.log.1"):
        (tmp_path / "data" / file).write_text("x")
    victim = tmp_path / "victim"
    victim.write_text("x")
    victim.chmod(0o644)
    (tmp_path / "data" / "link").symlink_to(victim)
    for place, folders, names in os.walk(tmp_path / "data"):
        for name in folders:
            Path(place, name).chmod(0o755)
        for name in set(names) - {"link"}:
            Path(place, name).chmod(0o644)
    make_home(tmp_path / "data")
    tighten_home(tmp_path / "data")
    # Nobody gets into storage, so what is inside stays as it is.
    assert open_to_others(tmp_path / "data") == ["storage/bronze 755"]
    assert stat.S_IMODE((tmp_path / "data" / "storage").stat().st_mode) == 0o700
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644


def test_a_log_is_rotated_while_a_process_writes_it(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    keeper = LogKeeper(lambda: [log], most_bytes=100_000)
    program = "import sys\nfor number in range(10**9):\n    print(number, 'x' * 90, flush=True)"
    with open_log(log) as output:
        writer = subprocess.Popen([sys.executable, "-c", program], stdout=output)
    try:
        wait_until(lambda: (tmp_path / f"x.log.{OLD_LOGS}").exists() or None, 60)
    finally:
        writer.kill()
        writer.wait()
        keeper.close()
    assert len(os.listdir(tmp_path)) <= OLD_LOGS + 1
    assert open_to_others(tmp_path) == []
    assert b"\0" not in log.read_bytes(), "what is written next goes to the beginning"


def test_rotation_keeps_a_bounded_number(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    for number in range(OLD_LOGS + 3):
        log.write_text(f"{number}" * 11)
        assert rotate_if_long(log, 10)
        assert log.read_text() == ""
    assert not rotate_if_long(log, 10)
    kept = [(tmp_path / f"x.log.{number}").read_text()[0] for number in range(1, OLD_LOGS + 1)]
    assert kept == [f"{number}" for number in range(OLD_LOGS + 2, 2, -1)]
    assert len(os.listdir(tmp_path)) == OLD_LOGS + 1


def test_logs_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "x.log").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"):
        open_log(tmp_path / "x.log")


def test_lines_that_anybody_can_cause_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[Any, ...]] = []
    limit = RepeatedLines(lambda *what: told.append(what), interval_seconds=0.05)
    assert any(isinstance(one, RepeatedLines) for one in SHARED)
    passed = 0
    for number in range(1_000):
        with suppress(DropEvent):
            limit(None, "warning", {"event": "caller_refused", "code": "no_key", "number": number})
            passed += 1
    wait_until(lambda: passed + sum(count for _, _, count in told) == 1_000 or None, 20)
    assert limit(None, "warning", {"event": "job_finished"}) == {"event": "job_finished"}
    with logging_as("logfmt", "info"):
        for _ in range(100):
            get_logger("x").warning("caller_refused", code="a_code_of_this_test")
    assert capsys.readouterr().err.count("a_code_of_this_test") == 1


def test_counts_of_left_out_lines_are_written_when_the_process_ends(tmp_path: Path) -> None:
    program = "from rmhdag.observability.logs import get_logger\n"
    program += "for _ in range(3): get_logger().warning('caller_refused', code='no_key')\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    first, counted = done.stderr.splitlines()
    assert "repeated" not in first
    assert "repeated=2" in counted
