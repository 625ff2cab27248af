"""Labels of jobs: stored with the job, changed by its operators, and read with lists of jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import orjson

from rmhdag.store.connection import Conn
from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)


def insert_labels(conn: Conn, labels: Mapping[str, Mapping[str, str]]) -> None:
    """By job; the caller has inserted the jobs in the same transaction."""
    if labels:
        conn.execute(SQL["insert_labels"], {"labels": orjson.dumps(labels).decode()})


def labels_of(conn: Conn, namespace: str, job_id: str) -> dict[str, str]:
    return dict(conn.execute(SQL["labels_of"], {"namespace": namespace, "job_id": job_id}).fetchall())


def hold_labels(conn: Conn, namespace: str, job_id: str) -> bool:
    """Nobody else changes them or deletes the job until the end of the transaction. False if there is no such job."""
    names = {"namespace": namespace, "job_id": job_id}
    conn.execute(SQL["hold_labels"], names)
    return conn.execute(SQL["hold_job"], names).fetchone() is not None


def change_labels(conn: Conn, namespace: str, job_id: str, put: Mapping[str, str], remove: Collection[str]) -> None:
    """The caller holds them."""
    names = {"namespace": namespace, "job_id": job_id}
    if remove:
        conn.execute(SQL["remove_labels"], {**names, "keys": list(remove)})
    if put:
        conn.execute(SQL["put_labels"], {**names, "labels": orjson.dumps(dict(put)).decode()})
