"""The whole product on the embedded server works as a role that is no superuser, also in a home of an older version."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import psycopg

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.embedded.application_role import APPLICATION_ROLE, PASSWORD_FILE
from rmhdag.store.migration import apply
from tests.cli.conftest import home, start_cli  # noqa: F401 (a fixture)
from tests.cli.running import SHORT_LEASES, Up

POWERS = "SELECT rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls FROM pg_roles WHERE rolname = %s"
SESSIONS = "SELECT DISTINCT usename FROM pg_stat_activity WHERE application_name LIKE 'rmhdag:%'"


def test_the_role_of_processes_is_no_superuser_and_is_put_right(tmp_path: Path) -> None:
    with EmbeddedPostgres.temporary() as server:
        password = server.folder / PASSWORD_FILE
        assert stat.S_IMODE(password.stat().st_mode) == 0o600
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            assert conn.execute(POWERS, [APPLICATION_ROLE]).fetchone() == (False,) * 5
            conn.execute(f"ALTER ROLE {APPLICATION_ROLE} SUPERUSER".encode())
        with psycopg.connect(server.app_dsn()) as conn:
            assert conn.info.user == APPLICATION_ROLE
        attached = EmbeddedPostgres(server.folder)
        attached.start()
        assert attached.app_dsn() == server.app_dsn()
        server._ensure_defaults()
        with psycopg.connect(server.dsn()) as conn:
            assert conn.execute(POWERS, [APPLICATION_ROLE]).fetchone() == (False,) * 5


def test_a_home_of_an_older_version_is_upgraded_and_all_processes_use_the_role(home: Path) -> None:  # noqa: F811
    data = home / "data"
    with EmbeddedPostgres(data / "postgres") as server:
        apply(server.dsn())
        with psycopg.connect(server.dsn(), autocommit=True) as conn:
            conn.execute(f"DROP ROLE {APPLICATION_ROLE}".encode())
    (data / "postgres" / PASSWORD_FILE).unlink()
    up = Up(home)
    try:
        server = EmbeddedPostgres(data / "postgres")
        assert server.attach()
        done = start_cli(home, "submit", "hello_world", "name=Ada", "--wait", "--json", **SHORT_LEASES)
        assert done.returncode == 0, done.stderr
        assert start_cli(home, "prune", "--yes", **SHORT_LEASES).returncode == 0
        made = start_cli(home, "keys", "create", "ada", "--scope", "read", "--json", **SHORT_LEASES)
        assert json.loads(made.stdout)["scopes"] == ["read"]
        with psycopg.connect(server.dsn()) as conn:
            assert conn.execute(SESSIONS).fetchall() == [(APPLICATION_ROLE,)]
            trail = conn.execute("SELECT action FROM dagapp.dag_audit ORDER BY seq").fetchall()
        assert [action for (action,) in trail][-2:] == ["roles.grant", "key.create"]
    finally:
        up.end()
