"""Decisions about content: approve, reject, revoke, clear. Each is one transaction under the asset's lock.

The revision, the row that asked for the decision, the asset, the catalogue, the audit trail and the callbacks change
together, or none of them does.
"""

from __future__ import annotations

from typing import NamedTuple

from rmhdag.assets.reviews import (
    NotAllowedToDecide,
    ReviewConflict,
    ReviewedRevision,
    check_clear,
    check_content,
    check_reviewer,
    check_step,
    check_words,
)
from rmhdag.models.assets import ApprovalState, Classification, PlatformReview, ProcessingStatus
from rmhdag.models.catalogue import CatalogueKind
from rmhdag.models.records import ApprovalDecisionRecord, ApprovalRequestRecord
from rmhdag.models.refusals import not_found
from rmhdag.models.reviews import REVIEW_STEPS, ReviewStep
from rmhdag.services.outside import announce_approval, announce_withdrawal
from rmhdag.store import assets, reviews
from rmhdag.store.asset_states import show_revision
from rmhdag.store.batch_rows import RevisionKey
from rmhdag.store.callbacks import insert_decision_callbacks
from rmhdag.store.connection import Conn
from rmhdag.store.crash_points import SITES, reach
from rmhdag.store.data_tables import TakenName, require_names_of
from rmhdag.store.reviews import ReviewLine, WrittenDecision
from rmhdag.store.revision_items import CompletedRevision, show_current, withdraw_asset

SITES.add("decide_review")
CALLBACK_STATUS = {
    ApprovalState.APPROVED: "completed",
    ApprovalState.REJECTED: "failed",
    ApprovalState.REVOKED: "failed",
    ApprovalState.SUPERSEDED: "failed",
}


class Decision(NamedTuple):
    """What somebody decides about one content of one revision."""

    step: ReviewStep
    issued_by: str
    content_hash: str
    reason: str | None = None
    clearance: Classification | None = None


class Decided(NamedTuple):
    """`served` is the revision that the asset serves now. `notices` say what external services learn of it."""

    key: RevisionKey
    state: ApprovalState
    clearance: Classification
    served: int | None
    notices: tuple[str, ...] = ()


def approve(
    conn: Conn,
    key: RevisionKey,
    *,
    content_hash: str,
    issued_by: str,
    clearance: Classification,
    reason: str | None = None,
) -> Decided:
    """Let the revision be served, to everybody or to those who may see restricted content."""
    return _commit(conn, key, Decision(ReviewStep.APPROVE, issued_by, content_hash, reason, clearance))


def reject(conn: Conn, key: RevisionKey, *, content_hash: str, issued_by: str, reason: str) -> Decided:
    """The revision will never be served."""
    return _commit(conn, key, Decision(ReviewStep.REJECT, issued_by, content_hash, reason))


def revoke(conn: Conn, key: RevisionKey, *, content_hash: str, issued_by: str, reason: str) -> Decided:
    """Take an approval back. The newest revision that is still approved is served again, or none."""
    return _commit(conn, key, Decision(ReviewStep.REVOKE, issued_by, content_hash, reason))


def clear(
    conn: Conn,
    key: RevisionKey,
    *,
    content_hash: str,
    issued_by: str,
    reason: str | None = None,
    clearance: Classification = Classification.PUBLIC,
) -> Decided:
    """Make approved content public that was restricted."""
    return _commit(conn, key, Decision(ReviewStep.CLEAR, issued_by, content_hash, reason, clearance))


def _commit(conn: Conn, key: RevisionKey, decision: Decision) -> Decided:
    with conn.transaction():
        decided = decide(conn, key, decision)
        reach("decide_review.before_commit")
    reach("decide_review.after_commit")
    return decided


def decide(
    conn: Conn, key: RevisionKey, decision: Decision, catalogue: CatalogueKind = CatalogueKind.STATIC
) -> Decided:
    """Within the caller's transaction. `catalogue` is the one that the caller can write itself, if it is pgSTAC.

    Raises ReviewConflict, NotAllowedToDecide, InvalidDecision.
    """
    step = decision.step
    check_words(step, decision.clearance, decision.reason)
    if assets.lock_asset(conn, key.namespace, key.asset_id) is None:
        raise not_found(f"asset {key.asset_id!r}", "`GET /api/v1/assets` lists them.")
    line = reviews.read_review(conn, key)
    if line is None:
        raise not_found(f"revision {key.revision} of asset {key.asset_id!r}", "`rmhdag asset ID` lists them.")
    revision = _as_reviewed(key, line)
    check_step(revision, step)
    if step is ReviewStep.CLEAR:
        check_clear(revision, decision.clearance or Classification.UNDECIDED)
    check_content(revision, decision.content_hash)
    check_reviewer(revision, step, decision.issued_by)
    if step is ReviewStep.APPROVE:
        refuse_taken_names(conn, key)
    return _write(conn, key, line, decision, catalogue)


def refuse_taken_names(conn: Conn, key: RevisionKey) -> None:
    """Nothing is served whose tables would have no name: another asset has taken it since. Raises ReviewConflict."""
    try:
        require_names_of(conn, key)
    except TakenName as error:
        raise ReviewConflict(
            "table_name_taken", str(error), "Order it again with another table_name, or unpublish the other asset."
        ) from None


def _write(conn: Conn, key: RevisionKey, line: ReviewLine, decision: Decision, catalogue: CatalogueKind) -> Decided:
    """What follows from a decision that was checked."""
    _, state = REVIEW_STEPS[decision.step]
    written = WrittenDecision(state, decision.issued_by, decision.reason, decision.clearance)
    row = reviews.write_decision(conn, key, line, written, action=f"review.{decision.step}")
    show_revision(conn, key)
    served = _show(conn, key, line.current_revision, catalogue)
    if decision.step is not ReviewStep.CLEAR and line.status == ProcessingStatus.COMPLETED:
        insert_decision_callbacks(conn, key, occasion=state, status=CALLBACK_STATUS[state])
    clearance = Classification(row["clearance"])
    # Content that its job has not completed is announced when it has.
    notices = _announce(conn, key, decision, clearance) if line.status == ProcessingStatus.COMPLETED else []
    return Decided(key, state, clearance, served, tuple(notices))


def _announce(conn: Conn, key: RevisionKey, decision: Decision, clearance: Classification) -> list[str]:
    """External services learn of public content and of its end: the calls are rows of the same transaction."""
    if decision.step in (ReviewStep.APPROVE, ReviewStep.CLEAR):
        return announce_approval(conn, key, clearance, requested_by=decision.issued_by)
    if decision.step is ReviewStep.REVOKE:
        return announce_withdrawal(conn, key, requested_by=decision.issued_by)
    return []


def _show(conn: Conn, key: RevisionKey, before: int | None, catalogue: CatalogueKind) -> int | None:
    """Let the catalogue follow what is served. Nothing is touched if that is the same revision as before."""
    asset = assets.find_asset(conn, key.namespace, key.asset_id)
    assert asset is not None, "the caller holds it"
    served = asset.current_revision
    if served is None and before is not None:
        withdraw_asset(conn, key.namespace, key.asset_id, catalogue)
    elif served is not None and served != before:
        show_current(conn, [CompletedRevision(key._replace(revision=served), catalogue)])
    return served


def supersede_reviews(conn: Conn, key: RevisionKey, *, issued_by: str) -> None:
    """A new revision of a locked asset closes the reviews of those before it that nobody has decided about."""
    for number in reviews.pending_reviews(conn, key):
        earlier = key._replace(revision=number)
        line = reviews.read_review(conn, earlier)
        assert line is not None
        reason = f"revision {key.revision} has replaced it"
        written = WrittenDecision(ApprovalState.SUPERSEDED, issued_by, reason)
        reviews.write_decision(conn, earlier, line, written, action="review.supersede")
        if line.status == ProcessingStatus.COMPLETED:
            state = ApprovalState.SUPERSEDED
            insert_decision_callbacks(conn, earlier, occasion=state, status=CALLBACK_STATUS[state])


def decide_by_node(
    conn: Conn,
    key: RevisionKey,
    *,
    approved: bool,
    decided_by: str,
    reason: str | None,
    clearance: str | None,
) -> None:
    """What a decision on an approval node means for the revision that its job makes.

    The job has taken the decision already, so nothing is refused: a review that is closed stays closed. The clearance
    of an approval that names none is the safe one. To reject what an earlier node approved takes the approval back.
    """
    line = reviews.read_review(conn, key)
    if line is None or line.is_deleted:
        return
    steps = {
        (ApprovalState.PENDING_REVIEW, True): ReviewStep.APPROVE,
        (ApprovalState.PENDING_REVIEW, False): ReviewStep.REJECT,
        (ApprovalState.APPROVED, False): ReviewStep.REVOKE,
    }
    step = steps.get((ApprovalState(line.review_state), approved))
    if step is not None:
        level = Classification(clearance or Classification.RESTRICTED) if step is ReviewStep.APPROVE else None
        # While its job runs, the revision is not served: the catalogue follows when it is completed.
        _write(conn, key, line, Decision(step, decided_by, "", reason, level), CatalogueKind.STATIC)


def makes_reviewed_revision(conn: Conn, namespace: str, job_id: str) -> bool:
    """Whether a decision in this job is one about content."""
    return reviews.reviewed_revision_of(conn, namespace, job_id) is not None


def check_node_decision(
    conn: Conn,
    namespace: str,
    job_id: str,
    *,
    approved: bool,
    issued_by: str,
    reason: str | None,
    clearance: Classification | None,
) -> None:
    """Refuse what would be refused of the revision that the job makes; the job's owner could not refuse it later."""
    key = reviews.reviewed_revision_of(conn, namespace, job_id)
    line = None if key is None else reviews.read_review(conn, key)
    if key is not None and line is not None:
        step = ReviewStep.APPROVE if approved else ReviewStep.REJECT
        check_words(step, clearance, reason)
        check_reviewer(_as_reviewed(key, line), step, issued_by)


def request_by_record(conn: Conn, job_id: str, own: RevisionKey | None, record: ApprovalRequestRecord) -> None:
    """A task asks for a review: of the revision that its job makes, or of another one that waits for its review."""
    namespace, submitted_by = reviews.submitter_of_job(conn, job_id)
    key = _named(namespace, own, record.asset_id, record.revision)
    if assets.lock_asset(conn, key.namespace, key.asset_id) is None:
        raise not_found(f"asset {key.asset_id!r}")
    if key == own:
        reviews.begin_review(conn, key)
    line = reviews.read_review(conn, key)
    if line is None:
        raise not_found(f"revision {key.revision} of asset {key.asset_id!r}")
    revision = _as_reviewed(key, line)
    if key != own:
        check_step(revision, ReviewStep.APPROVE)
    if record.content_hash is not None:
        check_content(revision, record.content_hash)
    reviews.open_review(conn, key, requested_by=record.requested_by or submitted_by, message=record.message)
    show_revision(conn, key)


def decide_by_record(conn: Conn, job_id: str, record: ApprovalDecisionRecord, catalogue: CatalogueKind) -> None:
    """A task decides on behalf of its job's submitter, who must be a reviewer."""
    namespace, submitted_by = reviews.submitter_of_job(conn, job_id)
    if not reviews.may_review(conn, namespace, submitted_by):
        raise NotAllowedToDecide(
            "scope_missing",
            f"{submitted_by} has submitted the job and has no key with the scope `reviewer`, so it cannot decide",
            "Let a reviewer submit it.",
        )
    clearance = None if record.clearance is None else Classification(record.clearance)
    decision = Decision(ReviewStep(record.decision), submitted_by, record.content_hash, record.reason, clearance)
    decide(conn, RevisionKey(namespace, record.asset_id, record.revision), decision, catalogue)


def _named(namespace: str, own: RevisionKey | None, asset_id: str | None, revision: int | None) -> RevisionKey:
    if asset_id is not None and revision is not None:
        return RevisionKey(namespace, asset_id, revision)
    if own is None:
        raise ReviewConflict(
            "no_revision",
            "the job makes no revision, and the task names none",
            "Give asset_id and revision, or order a workflow that says `produces`.",
        )
    return own


def _as_reviewed(key: RevisionKey, line: ReviewLine) -> ReviewedRevision:
    return ReviewedRevision(
        asset_id=key.asset_id,
        revision=key.revision,
        latest_revision=line.latest_revision,
        is_deleted=line.is_deleted,
        status=ProcessingStatus(line.status),
        state=ApprovalState(line.review_state),
        clearance=Classification(line.clearance),
        content_hash=line.content_hash,
        rule=PlatformReview(line.rule),
        submitters=line.submitters,
        job_id=line.job_id,
        waiting_nodes=line.waiting_nodes,
    )
