"""The review of a revision: its states, what people may do in each, and the words for a clearance."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from rmhdag.models.assets import ApprovalState, Classification

REVIEW_TERMINAL = frozenset({ApprovalState.REJECTED, ApprovalState.REVOKED, ApprovalState.SUPERSEDED})

# from → {to: why it happens}. Content that was rejected, revoked or superseded comes back only as a new revision.
REVIEW_TRANSITIONS: dict[ApprovalState, dict[ApprovalState, str]] = {
    ApprovalState.NONE: {ApprovalState.PENDING_REVIEW: "its job asks for a review while it is being processed"},
    ApprovalState.PENDING_REVIEW: {
        ApprovalState.APPROVED: "approve, with a clearance",
        ApprovalState.REJECTED: "reject, with a reason",
        ApprovalState.SUPERSEDED: "a newer revision is made",
    },
    ApprovalState.APPROVED: {
        ApprovalState.REVOKED: "revoke, with a reason",
        ApprovalState.PENDING_REVIEW: "its job published other content after the decision",
    },
    ApprovalState.REJECTED: {},
    ApprovalState.REVOKED: {},
    ApprovalState.SUPERSEDED: {},
}


class ReviewStep(StrEnum):
    """What a person does. `clear` makes approved content public that was restricted."""

    APPROVE = "approve"
    REJECT = "reject"
    REVOKE = "revoke"
    CLEAR = "clear"


# step → (the state that it needs, the state that it leads to)
REVIEW_STEPS: dict[ReviewStep, tuple[ApprovalState, ApprovalState]] = {
    ReviewStep.APPROVE: (ApprovalState.PENDING_REVIEW, ApprovalState.APPROVED),
    ReviewStep.REJECT: (ApprovalState.PENDING_REVIEW, ApprovalState.REJECTED),
    ReviewStep.REVOKE: (ApprovalState.APPROVED, ApprovalState.REVOKED),
    ReviewStep.CLEAR: (ApprovalState.APPROVED, ApprovalState.APPROVED),
}

CLEARANCES = (Classification.PUBLIC, Classification.RESTRICTED)
_SYNONYMS = {"ouo": Classification.RESTRICTED, "official use only": Classification.RESTRICTED}


def read_clearance(text: str) -> Classification:
    """`public` or `restricted` in any case; `OUO` and `Official Use Only` mean `restricted`. Raises ValueError."""
    word = " ".join(text.replace("_", " ").lower().split())
    clearance = _SYNONYMS.get(word) or next((level for level in CLEARANCES if level == word), None)
    if clearance is None:
        raise ValueError(
            f"{text[:40]!r} is not a clearance: write `public` or `restricted` (or `OUO`, which means that)"
        )
    return clearance


def _read(value: Any) -> Any:
    return read_clearance(value) if isinstance(value, str) else value


Clearance = Annotated[
    Classification,
    BeforeValidator(_read),
    Field(description="`public`, or `restricted`; `ouo` and `Official Use Only` mean `restricted`, in any case"),
    WithJsonSchema({"type": "string", "examples": ["public", "restricted", "OUO"]}),
]
