"""Codes of errors and warnings: one table, what follows from it, and how warnings are added up."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rmhdag.handlers import DataWarning, HandlerError, HandlerResult, NonRetryableError
from rmhdag.models.data_warnings import KEPT_CHARACTERS, MOST_KINDS, REST, WarningSum
from rmhdag.models.error_codes import (
    CODE_PATTERN,
    ERROR_CODES,
    RETRIED,
    USER_FIXABLE,
    WARNING_CODES,
    ErrorCategory,
    render_page,
)

ROOT = Path(__file__).parents[2]


def test_the_page_is_made_from_the_table() -> None:
    """Made by `python -m rmhdag.models.error_codes > docs/error-codes.md`."""
    assert (ROOT / "docs/error-codes.md").read_text(encoding="utf-8") == render_page()


def test_every_code_is_well_formed_and_explained() -> None:
    for code, entry in ERROR_CODES.items():
        assert re.fullmatch(CODE_PATTERN, code), code
        assert entry.meaning.endswith("."), code
        assert entry.remediation.endswith("."), code
    for code, meaning in WARNING_CODES.items():
        assert re.fullmatch(CODE_PATTERN, code), code
        assert meaning.endswith("."), code


def test_all_codes_that_the_package_uses_are_in_the_table() -> None:
    used = set()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        used |= set(
            re.findall(r'(?:NonRetryableError|HandlerError|_known_error)\((?:[^()]|\([^()]*\))*?code="(\w+)"', text)
        )
    assert "STORAGE_NOT_CONFIGURED" in used
    assert used <= ERROR_CODES.keys()


@pytest.mark.parametrize("code", sorted(ERROR_CODES))
def test_what_is_not_given_follows_from_the_code(code: str) -> None:
    error = HandlerError(code=code, message="so it is")
    entry = ERROR_CODES[code]
    assert (error.category, error.remediation) == (entry.category, entry.remediation)
    assert error.user_fixable == (entry.category in USER_FIXABLE)
    assert error.retryable == (entry.category in RETRIED)


def test_what_is_given_counts() -> None:
    error = HandlerError(
        code="FILE_NOT_FOUND", message="no", remediation="wait", user_fixable=False, retryable=True, details={"n": 1}
    )
    assert (error.remediation, error.user_fixable, error.retryable, error.details) == ("wait", False, True, {"n": 1})


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"code": "CRS_MISSING", "category": "system"}, "another meaning needs another code"),
        ({"code": "MY_OWN"}, "give its category, one of data_missing"),
        ({"code": "MY_OWN", "category": "bad luck"}, "category"),
        ({"code": "lower", "category": "system"}, "pattern"),
        ({"code": "CRS_MISSING", "details": {"x": "y" * 3_000}}, "2048"),
        ({"code": "CRS_MISSING", "details": {"x": float("nan")}}, "JSON number"),
        ({"code": "CRS_MISSING", "message": ""}, "at least 1"),
        ({"code": "CRS_MISSING", "hint": "x"}, "Extra inputs"),
    ],
)
def test_errors_that_say_nothing_or_something_else_are_refused(given: dict[str, Any], refusal: str) -> None:
    with pytest.raises(ValidationError, match=refusal):
        HandlerError.model_validate({"message": "m", **given})


def test_a_code_of_ones_own_has_a_category() -> None:
    error = NonRetryableError("too wet", code="FIELD_TOO_WET", category=ErrorCategory.DATA_QUALITY).error
    assert error is not None
    assert (error.user_fixable, error.retryable, error.message) == (True, False, "too wet")
    assert NonRetryableError("never").error is None


def test_a_non_retryable_error_is_not_retried_whatever_its_code_says() -> None:
    error = NonRetryableError("gone", code="STORAGE_UNAVAILABLE").error
    assert error is not None
    assert not error.retryable


@pytest.mark.parametrize("given", [{"error": {"code": "TIMEOUT", "message": "x"}}, {"error_message": "x"}])
def test_success_has_no_error(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="success with an error_message"):
        HandlerResult.model_validate(given)
    assert not HandlerResult.model_validate({"success": False, **given}).success


Warnings = st.lists(
    st.builds(
        lambda number, message, count: {"code": f"CODE_{number}", "message": message, "count": count},
        st.integers(0, 150),
        st.text(min_size=1, max_size=3),
        st.integers(1, 5),
    ),
    max_size=300,
)


@given(Warnings, Warnings)
def test_sums_lose_no_count_and_keep_a_hundred_kinds(first: list[dict[str, Any]], then: list[dict[str, Any]]) -> None:
    total = WarningSum(first)
    loaded = WarningSum(total.as_json())  # as after a change of owner
    loaded.add(then)
    total.add(then)
    assert loaded.as_json() == total.as_json()
    found = total.as_json()
    assert sum(one["count"] for one in found) == sum(one["count"] for one in first + then)
    kinds = [one["code"] for one in found if one["code"] != REST]
    assert kinds == list(dict.fromkeys(one["code"] for one in first + then))[:MOST_KINDS]
    assert len(found) == len(kinds) + (REST in {one["code"] for one in found})


def test_the_first_message_of_a_kind_is_kept() -> None:
    total = WarningSum([{"code": "A", "message": "x" * 2_000, "count": 1}, {"code": "A", "message": "y", "count": 2}])
    assert total.as_json() == [{"code": "A", "message": "x" * KEPT_CHARACTERS, "count": 3}]


def test_a_warning_counts_once_at_least() -> None:
    assert DataWarning(code="A", message="m").count == 1
    with pytest.raises(ValidationError):
        DataWarning(code="A", message="m", count=0)
