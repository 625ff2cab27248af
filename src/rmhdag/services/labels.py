"""How the labels of a job are changed: all changes of one call, or none, with a row of the audit trail."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from rmhdag.models.limits import LABELS_OF_A_JOB
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.services.reruns import UnknownJobError
from rmhdag.store import job_labels
from rmhdag.store.audit import add_audit
from rmhdag.store.connection import Conn


class TooManyLabelsError(Refusal):
    """Together with those that the job has already."""

    def __init__(self, count: int) -> None:
        message = f"the job would have {count} labels, and the most is {LABELS_OF_A_JOB}"
        remedy = "Remove some in the same call."
        super().__init__(Kind.INVALID, "too_many_labels", message, remedy=remedy, pointer="/put")


class Labelled(NamedTuple):
    labels: dict[str, str]
    is_changed: bool


def change_labels(
    conn: Conn,
    job_id: str,
    *,
    put: Mapping[str, str],
    remove: Collection[str],
    issued_by: str,
    namespace: str = "default",
) -> Labelled:
    """Of a job in any state. What changes nothing is not recorded. Raises UnknownJobError, TooManyLabelsError."""
    with conn.transaction():
        if not job_labels.hold_labels(conn, namespace, job_id):
            raise UnknownJobError(job_id)
        before = job_labels.labels_of(conn, namespace, job_id)
        after = {key: value for key, value in before.items() if key not in remove} | dict(put)
        if after == before:
            return Labelled(before, False)
        if len(after) > max(LABELS_OF_A_JOB, len(before)):
            raise TooManyLabelsError(len(after))
        job_labels.change_labels(conn, namespace, job_id, put, remove)
        changed = before.keys() ^ after.keys() | {key for key in before.keys() & after if before[key] != after[key]}
        add_audit(
            conn,
            namespace,
            issued_by,
            "job.label",
            f"job {job_id}",
            before={key: before[key] for key in sorted(changed & before.keys())},
            after={key: after[key] for key in sorted(changed & after.keys())},
        )
    return Labelled(after, True)
