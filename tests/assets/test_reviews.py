"""The table of a review and its pure rules."""

from __future__ import annotations

import pytest

from rmhdag.assets.reviews import (
    REMEDIES,
    InvalidDecision,
    ReviewConflict,
    check_previous_version,
    check_reviewed_content,
    check_words,
)
from rmhdag.models.assets import ApprovalState, Classification
from rmhdag.models.reviews import REVIEW_STEPS, REVIEW_TERMINAL, REVIEW_TRANSITIONS, ReviewStep, read_clearance


def test_every_state_is_in_the_table_and_every_step_follows_it() -> None:
    assert set(REVIEW_TRANSITIONS) == set(ApprovalState)
    assert {state for state, following in REVIEW_TRANSITIONS.items() if not following} == REVIEW_TERMINAL
    assert set(REVIEW_STEPS) == set(ReviewStep)
    for step, (needed, following) in REVIEW_STEPS.items():
        assert following in REVIEW_TRANSITIONS[needed] or step is ReviewStep.CLEAR
    assert all(state is not REVIEW_STEPS[step][0] for step, state in REMEDIES)


@pytest.mark.parametrize("word", ["ouo", "OUO", "Official Use Only", "official_use_only", " restricted ", "Restricted"])
def test_restricted_has_synonyms(word: str) -> None:
    assert read_clearance(word) is Classification.RESTRICTED


@pytest.mark.parametrize("word", ["", "cleared", "undecided", "uncleared", "internal", "pub"])
def test_other_words_are_refused_with_those_that_are_known(word: str) -> None:
    with pytest.raises(ValueError, match="write `public` or `restricted`"):
        read_clearance(word)
    assert read_clearance("PUBLIC") is Classification.PUBLIC


def test_what_has_to_be_said() -> None:
    for clearance in (None, Classification.UNDECIDED):
        with pytest.raises(InvalidDecision):
            check_words(ReviewStep.APPROVE, clearance, "fine")
    for step in (ReviewStep.REJECT, ReviewStep.REVOKE):
        with pytest.raises(InvalidDecision):
            check_words(step, None, None)
        check_words(step, None, "clouds")
    check_words(ReviewStep.APPROVE, Classification.PUBLIC, None)


def test_only_what_may_be_served_comes_back() -> None:
    for state in ApprovalState:
        if state in (ApprovalState.NONE, ApprovalState.APPROVED):
            check_reviewed_content("a", 1, state)
        else:
            with pytest.raises(ReviewConflict):
                check_reviewed_content("a", 1, state)


def test_the_version_that_an_order_builds_on() -> None:
    check_previous_version("a", None, "v2")
    check_previous_version("a", "v2", "v2")
    for served in (None, "v3"):
        with pytest.raises(ReviewConflict) as refusal:
            check_previous_version("a", "v2", served)
        assert refusal.value.expected == served
