"""The way out for a job that cannot be handled: it fails alone, in a transaction that needs nothing of the engine."""

from __future__ import annotations

import orjson

from rmhdag.store import callbacks, settle
from rmhdag.store.asset_states import follow_job_if_asset
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import commit_site
from rmhdag.store.identity import new_id
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
CALLBACKS_SQL = load_queries(callbacks.__file__)
SETTLE_SQL = load_queries(settle.__file__)
MAX_MESSAGE = 1_900  # and a little before it, where it is quoted
# What others are owed by a job that ends, whatever state it was in.
OWED = (
    "bury_inbox",
    "close_nodes",
    "close_approvals",
    "record_failure",
    "refuse_commands",
    "cancel_child_jobs",
    "notify_parent",
)


@commit_site
def bury_job(conn: Conn, me: str, job_id: str, owner_epoch: int, namespace: str, message: str) -> bool:
    """Fail the job, keep its inbox as dead letters, leave nothing queued. False: it is not mine any more."""
    parameters = {
        "me": me,
        "job_id": job_id,
        "owner_epoch": owner_epoch,
        "namespace": namespace,
        "message": message[:MAX_MESSAGE],
    }
    with conn.transaction():
        if conn.execute(SQL["fail_poisoned_job"], parameters).rowcount == 0:
            return False
        dropped = [row[0] for row in conn.execute(SQL["drop_tasks"], parameters).fetchall()]
        conn.execute(SETTLE_SQL["end_revoked_leases"], {"tasks": dropped})
        for name in OWED:
            conn.execute(SQL[name], parameters)
        follow_job_if_asset(conn, job_id)
        callbacks = orjson.dumps([[job_id, new_id()]]).decode()
        conn.execute(CALLBACKS_SQL["insert_callbacks"], {"callbacks": callbacks})
    return True
