"""Behind PgBouncer in transaction mode: sessions belong to nobody, notices never arrive, and everything works."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from psycopg.conninfo import conninfo_to_dict

from rmhdag.cli.exit_codes import ExitCode
from rmhdag.embedded.account import choose_account
from tests.conftest import require
from tests.faults.processes import Cluster
from tests.faults.test_crash_points import mixed
from tests.store.waiting import wait_until

SERVER_CONNECTIONS = 3  # fewer than the processes have, so that they must share
PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
BROUGHT_BY_THE_ROLE = (
    "search_path = dagapp",
    "statement_timeout = '10s'",
    "idle_in_transaction_session_timeout = '5s'",
    "jit = off",
)


@pytest.fixture
def pooled(cluster: Cluster) -> Iterator[str]:
    """The DSN of a pooler before the cluster's database."""
    require(PROGRAM, "Debian's pgbouncer is not installed")
    assert PROGRAM is not None
    with TemporaryDirectory(prefix="rmhdag-pooler-") as name, socket.socket() as probe:
        folder = Path(name)
        account = choose_account(folder / "none")  # PgBouncer refuses to be root too
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        config = folder / "pgbouncer.ini"
        config.write_text(configuration(cluster.dsn, port))
        account.own(folder)
        account.own(config)
        pooler = subprocess.Popen(
            [PROGRAM, "-q", config],
            stdin=subprocess.DEVNULL,
            user=account.uid if account.steps_down else None,
            group=account.gid if account.steps_down else None,
            extra_groups=[] if account.steps_down else None,
        )
        try:
            database = conninfo_to_dict(cluster.dsn)["dbname"]
            dsn = f"postgresql://anybody@127.0.0.1:{port}/{database}"
            wait_until(lambda: answers(port))
            yield dsn
        finally:
            pooler.kill()
            pooler.wait()


def configuration(dsn: str, port: int) -> str:
    server = conninfo_to_dict(dsn)
    behind = " ".join(f"{name}={server[name]}" for name in ("host", "port", "dbname", "user", "password"))
    return f"""
[databases]
{server["dbname"]} = {behind}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {SERVER_CONNECTIONS}
"""


def answers(port: int) -> bool:
    """Without a word: what the pooler has connected for us would keep the settings that the role has now."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def let_the_role_bring_the_settings(cluster: Cluster) -> None:
    server = conninfo_to_dict(cluster.dsn)
    for setting in BROUGHT_BY_THE_ROLE:
        cluster.conn.execute(f'ALTER ROLE "{server["user"]}" IN DATABASE "{server["dbname"]}" SET {setting}'.encode())


def test_a_workflow_runs_to_its_end_behind_a_transaction_pooler(cluster: Cluster, pooled: str) -> None:
    let_the_role_bring_the_settings(cluster)
    given = {"RMHDAG_DATABASE_URL": pooled, "RMHDAG_DATABASE_POOLED": "1"}
    cluster.orchestrator(**given)
    cluster.orchestrator(**given)
    cluster.worker(**given)
    ours = [cluster.submit(mixed()) for _ in range(5)]
    assert cluster.wait_for_end(*ours) == ["completed"] * len(ours)
    cluster.check_rows()
    behind = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name <> 'test'"
    assert 0 < cluster.one(behind) <= SERVER_CONNECTIONS, "somebody went past the pooler"
    listing = cluster.start("jobs", **given)
    assert listing.wait(30) == 0, cluster.logs()
    assert ours[0][:8] in cluster.logs()


def test_a_role_that_does_not_bring_the_schema_is_told_how(cluster: Cluster, pooled: str) -> None:
    worker = cluster.worker(RMHDAG_DATABASE_URL=pooled, RMHDAG_DATABASE_POOLED="1")
    assert worker.wait(30) == ExitCode.CONFLICT, cluster.logs()
    assert "SET search_path" in cluster.logs()
