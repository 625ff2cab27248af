"""The rules of a review: which step is legal, who may take it, and when an order fits the version that is served.

The transition table is data in `models.reviews`, from which the diagram is drawn. Rules are applied while the asset's
row is locked.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rmhdag.models.assets import ApprovalState, Classification, PlatformReview, ProcessingStatus
from rmhdag.models.refusals import Kind, Refusal
from rmhdag.models.reviews import REVIEW_STEPS, ReviewStep
from rmhdag.models.reviews import REVIEW_TRANSITIONS as REVIEW_TRANSITIONS

RESUBMIT = "Order it again: the new revision gets a review of its own."
REMEDIES = {
    (ReviewStep.APPROVE, ApprovalState.APPROVED): "It needs no other approval; `revoke` takes this one back.",
    (ReviewStep.REJECT, ApprovalState.APPROVED): "Revoke it instead.",
    (ReviewStep.REVOKE, ApprovalState.PENDING_REVIEW): "Reject it instead.",
    (ReviewStep.CLEAR, ApprovalState.PENDING_REVIEW): "Approve it with the clearance `public` instead.",
}
NO_REVIEW = "Its workflow and its platform ask for no review: `rmhdag asset delete` takes it out of the catalogue."


class ReviewConflict(Refusal):
    """The step does not fit the state of the revision."""

    def __init__(self, code: str, message: str, remedy: str, expected: str | None = None) -> None:
        super().__init__(Kind.CONFLICT, code, message, remedy=remedy, expected=expected)


class NotAllowedToDecide(Refusal):
    """Somebody else has to decide."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(Kind.FORBIDDEN, code, message, remedy=remedy)


class InvalidDecision(Refusal):
    """Something is missing that the step needs."""

    def __init__(self, message: str, pointer: str) -> None:
        super().__init__(Kind.INVALID, "invalid_decision", message, pointer=pointer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedRevision:
    """A revision as its rows say, while its asset is locked. `submitters` ordered it, or made its job.

    `waiting_nodes` are the approval nodes at which its job waits.
    """

    asset_id: str
    revision: int
    latest_revision: int
    is_deleted: bool
    status: ProcessingStatus
    state: ApprovalState
    clearance: Classification
    content_hash: str | None
    rule: PlatformReview
    submitters: Collection[str]
    job_id: str | None = None
    waiting_nodes: Collection[str] = ()

    @property
    def name(self) -> str:
        return f"revision {self.revision} of asset {self.asset_id}"


def check_step(revision: ReviewedRevision, step: ReviewStep) -> ApprovalState:
    """The state after the step. Raises ReviewConflict."""
    needed, following = REVIEW_STEPS[step]
    if revision.is_deleted:
        raise ReviewConflict("asset_deleted", f"asset {revision.asset_id} is deleted", RESUBMIT)
    if revision.state is not needed:
        remedy = REMEDIES.get((step, revision.state)) or _remedy(revision)
        message = f"{revision.name} is {_in_words(revision.state)}, and `{step}` needs {_in_words(needed)}"
        raise ReviewConflict("illegal_review_step", message, remedy, needed)
    if revision.status is not ProcessingStatus.COMPLETED:
        remedy = "Wait until it is completed."
        if revision.waiting_nodes:
            node = sorted(revision.waiting_nodes)[0]
            remedy = f"Its job waits for this decision: `rmhdag decide {revision.job_id} {node} {step}`."
        elif revision.status not in (ProcessingStatus.PENDING, ProcessingStatus.PROCESSING):
            remedy = RESUBMIT
        message = f"{revision.name} is {revision.status}, so it has no content to decide about"
        raise ReviewConflict("revision_not_completed", message, remedy, ProcessingStatus.COMPLETED)
    return following


def check_content(revision: ReviewedRevision, content_hash: str) -> None:
    """A decision is about bytes: those that the reviewer has seen."""
    if revision.content_hash != content_hash:
        raise ReviewConflict(
            "content_moved",
            f"the content of {revision.name} is not {content_hash[:16]} but {(revision.content_hash or 'none')[:16]}",
            "Look at it again, and decide about the content hash that is shown now.",
        )


def check_words(step: ReviewStep, clearance: Classification | None, reason: str | None) -> None:
    """What has to be said with a step. Raises InvalidDecision."""
    if step is ReviewStep.APPROVE and clearance not in (Classification.PUBLIC, Classification.RESTRICTED):
        raise InvalidDecision("an approval says who may see the content: `public` or `restricted`", "/clearance")
    if step in (ReviewStep.REJECT, ReviewStep.REVOKE) and not (reason or "").strip():
        raise InvalidDecision(f"`{step}` needs a reason: the submitter reads it", "/reason")


def check_reviewer(revision: ReviewedRevision, step: ReviewStep, name: str) -> None:
    """Four eyes: the platform may ask for a reviewer who did not order it. To reject one's own is allowed."""
    if (
        step in (ReviewStep.APPROVE, ReviewStep.CLEAR)
        and revision.rule is PlatformReview.FOUR_EYES
        and name in revision.submitters
    ):
        raise NotAllowedToDecide(
            "four_eyes",
            f"{name} has submitted {revision.name}, and its platform asks for the approval of somebody else",
            "Let another reviewer decide.",
        )


def check_clear(revision: ReviewedRevision, clearance: Classification) -> None:
    """Clearance is only raised. To take it back, revoke the content."""
    if clearance is not Classification.PUBLIC:
        raise InvalidDecision("clearance can only be raised to `public`; `revoke` takes content back", "/clearance")
    if revision.clearance is Classification.PUBLIC:
        raise ReviewConflict(
            "illegal_review_step",
            f"{revision.name} is public already",
            "Nothing is left to do.",
            Classification.RESTRICTED,
        )


def check_reviewed_content(asset_id: str, revision: int, state: ApprovalState) -> None:
    """A rollback brings back only what may be served."""
    if state not in (ApprovalState.NONE, ApprovalState.APPROVED):
        raise ReviewConflict(
            "content_not_approved",
            f"revision {revision} of asset {asset_id} is `{state}`, so its content cannot come back",
            "Choose an approved one, or order it again.",
            ApprovalState.APPROVED,
        )


def check_previous_version(asset_id: str, previous: str | None, served: str | None) -> None:
    """Of two submitters who both build on one version, the second learns that it has been replaced."""
    if previous is not None and previous != served:
        now = "no version" if served is None else f"version {served!r}"
        raise ReviewConflict(
            "previous_version_moved",
            f"asset {asset_id} serves {now}, not {previous!r}",
            "Look at what is served now, and order again with its version as `previous_version`, or without one.",
            served,
        )


def _remedy(revision: ReviewedRevision) -> str:
    if revision.state is ApprovalState.NONE:
        return NO_REVIEW
    if revision.state is ApprovalState.SUPERSEDED:
        return f"Decide about revision {revision.latest_revision}, which has replaced it."
    return RESUBMIT


def _in_words(state: ApprovalState) -> str:
    return "not under review" if state is ApprovalState.NONE else f"`{state}`"
