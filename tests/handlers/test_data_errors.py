"""Errors with codes and warnings, from what a handler returns or raises to what the worker reports."""

from __future__ import annotations

import errno
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from rmhdag.handlers import DataWarning, HandlerContext, HandlerError, HandlerResult, NonRetryableError
from rmhdag.handlers.running import Outcome
from rmhdag.models.data_warnings import MOST_KINDS, REST
from tests.handlers.test_running import run

Context = HandlerContext[Any]


class Params(BaseModel):
    size: int


def error_of(outcome: Outcome) -> dict[str, Any]:
    assert outcome.error is not None
    found: dict[str, Any] = orjson.loads(outcome.error)
    return found


def test_an_exception_with_a_code_fails_at_once_and_says_what_to_do() -> None:
    def handler(ctx: Context) -> None:
        raise NonRetryableError("a.tif names no CRS", code="CRS_MISSING", details={"file": "a.tif"})

    outcome = run(handler)
    assert (outcome.error_kind, outcome.error_message) == ("non_retryable", "a.tif names no CRS")
    assert error_of(outcome) == {
        "code": "CRS_MISSING",
        "category": "data_quality",
        "message": "a.tif names no CRS",
        "remediation": "Add it to the file (gdal_edit.py -a_srs EPSG:…, ogr2ogr -a_srs EPSG:…) and order again.",
        "user_fixable": True,
        "retryable": False,
        "details": {"file": "a.tif"},
    }


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"code": "FILE_NOT_FOUND"}, "non_retryable"),
        ({"code": "FILE_NOT_FOUND", "retryable": True}, "handler_error"),
        ({"code": "STORAGE_UNAVAILABLE"}, "handler_error"),
        ({"code": "STORAGE_NOT_CONFIGURED"}, "non_retryable"),
        ({"code": "MINE", "category": "system"}, "handler_error"),
    ],
)
def test_the_category_says_whether_it_is_tried_again(given: dict[str, Any], kind: str) -> None:
    outcome = run(lambda ctx: HandlerResult(success=False, error=HandlerError(message="no", **given)))
    assert (outcome.error_kind, outcome.error_message) == (kind, "no")
    assert error_of(outcome)["retryable"] == (kind == "handler_error")


def test_texts_of_an_error_are_masked() -> None:
    dsn = "postgresql://ann:hunter2@db/x"

    def handler(ctx: Context) -> None:
        raise NonRetryableError(f"cannot open {dsn}", code="DATABASE_ERROR", details={"url": dsn, "password": "p"})

    outcome = run(handler)
    assert "hunter2" not in str(outcome)
    assert error_of(outcome)["details"]["password"] != "p"


def test_what_anybody_runs_into_has_its_code() -> None:
    def full(ctx: Context) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def greedy(ctx: Context) -> None:
        raise MemoryError

    def typed(ctx: HandlerContext[Params]) -> None:
        """Never runs."""

    assert error_of(run(full))["code"] == "DISK_FULL"
    assert error_of(run(greedy))["code"] == "MEMORY_ERROR"
    refused = run(typed, {"size": "x"})
    assert (error_of(refused)["code"], error_of(refused)["category"]) == ("INVALID_PARAMETER", "parameter")
    assert refused.error_kind == "non_retryable"


def test_what_nobody_classified_has_no_error() -> None:
    def broken(ctx: Context) -> None:
        raise ValueError("x")

    assert run(broken).error is None
    assert run(lambda ctx: HandlerResult(success=False, error_message="no")).error is None


def test_equal_warnings_are_counted() -> None:
    warnings = [DataWarning(code="CRS_OVERRIDE", message="a.tif"), DataWarning(code="CRS_OVERRIDE", message="b.tif")]
    outcome = run(lambda ctx: HandlerResult(output={"n": 1}, warnings=(*warnings, warnings[0])))
    assert outcome.output == b'{"n":1}'
    assert orjson.loads(outcome.warnings or b"") == [
        {"code": "CRS_OVERRIDE", "message": "a.tif", "count": 2},
        {"code": "CRS_OVERRIDE", "message": "b.tif", "count": 1},
    ]


def test_a_thousand_warnings_fail_nothing() -> None:
    warnings = tuple(DataWarning(code=f"W{number}", message="m" * 2_000, count=2) for number in range(1_000))
    outcome = run(lambda ctx: HandlerResult(warnings=warnings))
    assert outcome.error_kind is None
    found = orjson.loads(outcome.warnings or b"")
    assert len(found) == MOST_KINDS + 1
    assert found[-1] == {"code": REST, "message": found[-1]["message"], "count": 2 * (1_000 - MOST_KINDS)}
    assert len(outcome.warnings or b"") < 64 * 1024


def test_a_failure_keeps_its_warnings() -> None:
    warning = DataWarning(code="RASTER_EMPTY", message="token=abcdef0123456789abcdef")
    outcome = run(lambda ctx: HandlerResult(success=False, error_message="no", warnings=(warning,)))
    assert orjson.loads(outcome.warnings or b"")[0]["code"] == "RASTER_EMPTY"
    assert b"abcdef0123456789abcdef" not in (outcome.warnings or b"")


def test_a_generator_may_warn() -> None:
    async def handler(ctx: Context) -> Any:
        yield {"type": "result", "output": {}, "warnings": [{"code": "RASTER_EMPTY", "message": "m"}]}

    assert orjson.loads(run(handler).warnings or b"") == [{"code": "RASTER_EMPTY", "message": "m", "count": 1}]


def test_nothing_is_said_where_there_is_nothing() -> None:
    outcome = run(lambda ctx: {"n": 1})
    assert (outcome.warnings, outcome.error) == (None, None)
