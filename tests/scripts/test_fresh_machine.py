"""scripts/fresh-machine: what its machines are given of this one, and that nothing outlives a command."""

import os
import subprocess
from pathlib import Path

import pytest

from scripts import fresh_machine
from tests.conftest import require

ROOT = Path(__file__).resolve().parents[2]


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([ROOT / "scripts/fresh-machine", *arguments], capture_output=True, text=True, timeout=60)


def test_help_names_the_machines() -> None:
    done = call("--help")
    assert done.returncode == 0
    for machine in fresh_machine.MACHINES:
        assert machine.name in done.stdout


def test_an_unknown_machine_is_refused() -> None:
    done = call("--only", "mainframe")
    assert done.returncode == 2
    assert "root-bare" in done.stderr


def test_machines_differ_in_their_user_and_in_systemctl() -> None:
    kinds = {(machine.as_root, "systemd" in machine.packages) for machine in fresh_machine.MACHINES}
    assert kinds == {(True, False), (True, True), (False, False), (False, True)}


def test_only_what_an_administrator_sets_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    passed_on = {"HTTPS_PROXY": "http://127.0.0.1:1", "no_proxy": "x", "SSL_CERT_FILE": "/x.pem", "PIP_INDEX_URL": "y"}
    kept_here = {
        "LANG": "de_DE.UTF-8",
        "PYTHONPATH": "/x",
        "VIRTUAL_ENV": "/x",
        "RMHDAG_HOME": "/x",
        "SECRET_TOKEN": "z",
    }
    for name, value in (passed_on | kept_here).items():
        monkeypatch.setenv(name, value)
    variables = fresh_machine.environment_of(fresh_machine.MACHINES[0])
    assert variables.items() >= passed_on.items()
    assert not variables.keys() & kept_here.keys()


def test_what_is_missing_is_taken_from_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    parts = [
        "setup: no PgBouncer (only root can install pgbouncer): skipped",
        "skipped: 2",
        "  strace is not installed",
    ]
    log.write_text("\n".join(["setup: installing x", parts[0], "  ...", *parts[1:], "== all good", "  ..."]))
    assert fresh_machine.missing_parts(log) == parts


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    isolation = [*fresh_machine.NAMESPACES, "true"]
    require(
        os.geteuid() == 0 and subprocess.run(isolation, capture_output=True).returncode == 0,
        "namespaces cannot be made here: only root can",
    )
    return path


def test_a_command_that_takes_too_long_is_ended_with_all_it_started(log: Path, tmp_path: Path) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    # The pipe has an end when the last process that can write to it is gone.
    reader = os.open(started, os.O_RDONLY | os.O_NONBLOCK)
    script = f'exec 3>"{started}"; setsid sleep 1000 & echo here >&3; wait'
    assert fresh_machine.run_isolated(["sh", "-c", script], log, limit_seconds=3) == fresh_machine.TOO_LATE
    os.set_blocking(reader, True)
    with os.fdopen(reader) as pipe:
        assert pipe.read() == "here\n"
    assert "ended after 3 s" in log.read_text()


@pytest.mark.parametrize(
    ("command", "status", "text"),
    [
        ("true", 0, ""),
        ("exit 5", 5, ""),
        (" ".join([*fresh_machine.NAMESPACES, "true"]), 0, ""),
        ("setsid sleep 1000 & true", 99, "fresh-machine: left running:  1 sleep \n"),
    ],
)
def test_what_a_command_leaves_running_is_a_failure(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, status: int, text: str
) -> None:
    root = tmp_path / "root"
    for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "root"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    # This machine's own programs serve, read-only: mounted in the namespace and nowhere else.
    mounts = "".join(f'mount -o bind,ro "/{name}" "{root}/{name}"\n' for name in ("usr", "etc"))
    monkeypatch.setattr(fresh_machine, "ENTER", mounts + fresh_machine.ENTER)
    assert fresh_machine.run_on(fresh_machine.MACHINES[0], root, command, log) == status
    assert log.read_text() == text
