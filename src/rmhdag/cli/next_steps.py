"""What to do about a failed job: retry it, or first correct what a retry would meet again."""

from __future__ import annotations

from typing import NamedTuple

from rmhdag.models.api.data_errors import ErrorView

PARAMETER = "parameter"


class NextStep(NamedTuple):
    command: str
    meaning: str


def steps_after_failure(job_id: str, error: ErrorView | None) -> list[NextStep]:
    """`error` is None if the failed node named no code: then nobody knows whether a retry helps."""
    retry = f"rmhdag retry {job_id}"
    if error is None or error.retryable:
        return [NextStep(retry, "a new job that runs the failed parts again and reuses finished results")]
    if not error.user_fixable:
        return [NextStep(retry, "once an operator has corrected the cause; until then it fails the same way")]
    changed = NextStep(f"{retry} NAME=VALUE", "a new job with a corrected parameter")
    if error.category == PARAMETER:
        return [changed]
    # Results that were made of the old data must not be reused.
    again = NextStep(f"{retry} --everything", "once you have corrected the data: a new job that reads it again")
    return [again, changed]
