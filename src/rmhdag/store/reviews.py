"""The rows of reviews, open and decided. Callers hold the asset's lock; rules are in `assets.reviews`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rmhdag.models.assets import ApprovalState, Classification, ProcessingStatus
from rmhdag.store.audit import add_audit
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.connection import Conn
from rmhdag.store.identity import new_id
from rmhdag.store.queries import load_queries
from rmhdag.store.service_calls import announce_approval

SQL = load_queries(__file__)
ORCHESTRATOR = "orchestrator"
REOPENED = "its job published other content after the decision"


class ReviewLine(NamedTuple):
    """A revision under its asset's lock. `snapshot` is its row for the audit trail."""

    latest_revision: int
    is_deleted: bool
    current_revision: int | None
    status: str
    review_state: str
    clearance: str
    content_hash: str | None
    rule: str
    submitters: Sequence[str]
    job_id: str | None
    waiting_nodes: Sequence[str]
    snapshot: dict[str, Any]


class WrittenDecision(NamedTuple):
    """What becomes of a revision. Without a clearance, that of the revision stays."""

    state: ApprovalState
    decided_by: str
    reason: str | None = None
    clearance: Classification | None = None


def subject_of(key: RevisionKey) -> str:
    """As the audit trail names a revision."""
    return f"asset {key.asset_id}, revision {key.revision}"


def read_review(conn: Conn, key: RevisionKey) -> ReviewLine | None:
    row = conn.execute(SQL["read_review"], key._asdict()).fetchone()
    return None if row is None else ReviewLine(*row)


def write_decision(
    conn: Conn, key: RevisionKey, before: ReviewLine, decision: WrittenDecision, *, action: str
) -> dict[str, Any]:
    """The revision, the row that asked for the decision, and the audit trail. Returns the row as it is now."""
    parameters = key._asdict() | decision._asdict()
    row = conn.execute(SQL["write_decision"], parameters).fetchone()
    assert row is not None, "the caller has read it"
    is_closed = conn.execute(SQL["close_open_approval"], parameters).fetchone() is not None
    if not is_closed and before.content_hash is not None:
        more = {"approval_id": new_id(), "content_hash": before.content_hash}
        conn.execute(SQL["add_decided_approval"], parameters | more)
    after: dict[str, Any] = row[0]
    add_audit(
        conn,
        key.namespace,
        decision.decided_by,
        action,
        subject_of(key),
        before=before.snapshot,
        after=after,
        reason=decision.reason,
    )
    return after


def open_review(conn: Conn, key: RevisionKey, *, requested_by: str | None = None, message: str | None = None) -> None:
    """Let a revision that waits for its review stand among what waits, bound to what it has published by now."""
    more = {"approval_id": new_id(), "requested_by": requested_by, "message": message}
    conn.execute(SQL["open_review"], key._asdict() | more)


def begin_review(conn: Conn, key: RevisionKey) -> None:
    """Unless the revision is under review already, or completed."""
    conn.execute(SQL["begin_review"], key._asdict())


def follow_review(conn: Conn, key: RevisionKey, status: ProcessingStatus, state: ApprovalState) -> None:
    """After the revision has ended with its job."""
    if status is not ProcessingStatus.COMPLETED:
        conn.execute(SQL["drop_open_approvals"], key._asdict())
        return
    if state is ApprovalState.APPROVED:
        before = read_review(conn, key)
        row = conn.execute(SQL["reopen_if_moved"], key._asdict()).fetchone()
        assert before is not None
        if row is None:
            conn.execute(SQL["bind_content"], key._asdict())
            announce_approval(conn, key, before.clearance, requested_by=before.snapshot["decided_by"] or ORCHESTRATOR)
            return
        add_audit(
            conn,
            key.namespace,
            ORCHESTRATOR,
            "review.reopen",
            subject_of(key),
            before=before.snapshot,
            after=row[0],
            reason=REOPENED,
        )
        state = ApprovalState.PENDING_REVIEW
    if state is ApprovalState.PENDING_REVIEW:
        open_review(conn, key)


def pending_reviews(conn: Conn, key: RevisionKey) -> list[int]:
    """Earlier revisions that wait for a review."""
    return [row[0] for row in conn.execute(SQL["pending_reviews"], key._asdict())]


def may_review(conn: Conn, namespace: str, name: str) -> bool:
    """Whether a key of this name has the scope `reviewer` or `admin`."""
    row = conn.execute(SQL["may_review"], {"namespace": namespace, "name": name}).fetchone()
    return row is not None and bool(row[0])


def submitter_of_job(conn: Conn, job_id: str) -> tuple[str, str]:
    """Its namespace, and who submitted it."""
    row = conn.execute(SQL["submitter_of_job"], {"job_id": job_id}).fetchone()
    assert row is not None, "the caller holds the job"
    return row[0], row[1]


def reviewed_revision_of(conn: Conn, namespace: str, job_id: str) -> RevisionKey | None:
    """The revision under review that a job makes."""
    row = conn.execute(SQL["revision_of_job"], {"namespace": namespace, "job_id": job_id}).fetchone()
    return None if row is None else RevisionKey(*row)
