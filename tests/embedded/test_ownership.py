"""Several starters, killed starters, killed servers: never two servers on one folder, never one left behind."""

import os
import signal
import subprocess
from pathlib import Path

import psycopg
import pytest

from rmhdag.embedded import EmbeddedPostgres, EmbeddedPostgresError, ServerBinaries
from rmhdag.embedded.account import choose_account
from tests.embedded.conftest import Starter, processes_naming, wait_until_gone


def make_table(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")


def has_table(dsn: str) -> bool:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT number FROM kept").fetchone() == (7,)


def test_a_second_starter_attaches_and_leaves_it_running(server: EmbeddedPostgres, binaries: ServerBinaries) -> None:
    server.start()
    second = EmbeddedPostgres(server.folder, binaries=binaries)
    second.start()
    assert (server.attached, second.attached) == (False, True)
    assert second.dsn() == server.dsn()
    second.stop()
    assert server.running


def test_attaching_starts_nothing(server: EmbeddedPostgres, binaries: ServerBinaries) -> None:
    visitor = EmbeddedPostgres(server.folder, binaries=binaries)
    assert not visitor.attach()
    server.start()
    assert visitor.attach()
    assert visitor.dsn() == server.dsn()
    visitor.stop()
    assert server.running


def test_attaching_is_possible_from_another_process(server: EmbeddedPostgres, binaries: ServerBinaries) -> None:
    server.start()
    other = Starter(binaries, server.folder)
    other.wait_until_ready()
    assert (other.server_process, other.dsn) == (None, server.dsn())
    assert other.finish() == 0
    assert server.running


def test_starters_at_the_same_moment_share_one_server(binaries: ServerBinaries, place: Path) -> None:
    starters = [Starter(binaries, place / "pg") for _ in range(4)]
    for starter in starters:
        starter.wait_until_ready()
    assert len([starter for starter in starters if starter.server_process is not None]) == 1
    assert len({starter.dsn for starter in starters}) == 1
    assert [starter.finish() for starter in starters] == [0, 0, 0, 0]


def test_an_owner_whose_server_died_is_named(server: EmbeddedPostgres, binaries: ServerBinaries) -> None:
    server.start()
    assert server.process_id is not None
    os.kill(server.process_id, signal.SIGKILL)
    second = EmbeddedPostgres(server.folder, binaries=binaries, start_timeout_seconds=0.2)
    with pytest.raises(
        EmbeddedPostgresError, match=f"in use by process {os.getpid()}, but its server has not answered"
    ):
        second.start()
    # Its next start also clears the shared memory that the kill left behind.
    server.stop()
    server.start()


def test_a_killed_server_recovers_at_the_next_start(binaries: ServerBinaries, folder: Path) -> None:
    with EmbeddedPostgres(folder, binaries=binaries) as server:
        make_table(server.dsn())
        assert server.process_id is not None
        os.kill(server.process_id, signal.SIGKILL)
    assert (server.folder / "data" / "postmaster.pid").exists()
    with server:
        assert has_table(server.dsn())


def test_a_killed_starter_takes_its_server_along(binaries: ServerBinaries, folder: Path) -> None:
    starter = Starter(binaries, folder)
    starter.wait_until_ready()
    make_table(starter.dsn)
    assert starter.server_process is not None
    starter.kill()
    wait_until_gone(starter.server_process)
    with EmbeddedPostgres(folder, binaries=binaries) as server:
        assert has_table(server.dsn())


def test_a_start_right_after_a_kill_waits_for_the_old_server(binaries: ServerBinaries, folder: Path) -> None:
    starter = Starter(binaries, folder)
    starter.wait_until_ready()
    make_table(starter.dsn)
    starter.kill()
    with EmbeddedPostgres(folder, binaries=binaries) as server:
        assert server.process_id not in (None, starter.server_process)
        assert not server.attached
        assert has_table(server.dsn())


def test_a_killed_starter_of_a_temporary_server_leaves_no_files(binaries: ServerBinaries) -> None:
    starter = Starter(binaries, None)
    starter.wait_until_ready()
    processes = processes_naming(starter.folder)
    assert starter.server_process in processes
    assert len(processes) >= 2
    starter.kill()
    for process in processes:
        wait_until_gone(process)
    assert not starter.folder.exists()


def test_a_server_without_starter_and_guard_is_replaced(binaries: ServerBinaries, folder: Path) -> None:
    starter = Starter(binaries, folder)
    starter.wait_until_ready()
    make_table(starter.dsn)
    assert starter.server_process is not None
    for process in processes_naming(folder):
        if process not in (starter.server_process, starter.process.pid) and _is_shell(process):
            os.kill(process, signal.SIGKILL)
    starter.kill()
    assert has_table(starter.dsn)
    with EmbeddedPostgres(folder, binaries=binaries) as server:
        wait_until_gone(starter.server_process, seconds=0)
        assert server.process_id not in (None, starter.server_process)
        assert has_table(server.dsn())


def test_everything_killed_at_once_recovers(binaries: ServerBinaries, folder: Path) -> None:
    starter = Starter(binaries, folder)
    starter.wait_until_ready()
    make_table(starter.dsn)
    for process in processes_naming(folder):
        os.kill(process, signal.SIGKILL)
    starter.kill()
    with EmbeddedPostgres(folder, binaries=binaries) as server:
        assert has_table(server.dsn())


def test_a_pid_file_that_names_a_stranger_is_not_believed(server: EmbeddedPostgres) -> None:
    server.start()
    server.stop()
    account = choose_account(server.folder / "data")
    with subprocess.Popen(
        ["/bin/cat"],
        stdin=subprocess.PIPE,
        user=account.uid if account.steps_down else None,
        group=account.gid if account.steps_down else None,
    ) as stranger:
        (server.folder / "data" / "postmaster.pid").write_text(
            f"{stranger.pid}\n{server.folder / 'data'}\n1\n1\n\n\n\n"
        )
        server.start()
        assert server.running
        assert stranger.poll() is None
        server.stop()
        stranger.communicate()


def _is_shell(process: int) -> bool:
    return Path(f"/proc/{process}/cmdline").read_bytes().startswith(b"/bin/sh\0")
