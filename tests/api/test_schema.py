"""The OpenAPI document is true: every operation is called with what it allows and with what it forbids."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from rmhdag.api.application import build
from rmhdag.api.context import ApiSettings
from rmhdag.embedded import EmbeddedPostgres
from rmhdag.models.scopes import Scope
from rmhdag.store.migration import apply
from tests.api.fuzzing import fuzz, populated
from tests.api.serving import Served
from tests.conftest import required_binaries

SEED = 4


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[tuple[Served, dict[str, list[str]]]]:
    """One kind of server is enough: what differs between them is tested with the store."""
    with EmbeddedPostgres.temporary(binaries=required_binaries("wheel18")) as server:
        dsn = server.create_database("fuzz")
        apply(dsn)
        with populated(dsn) as made:
            yield made


def operations() -> list[tuple[str, dict[str, Any]]]:
    document = build(ApiSettings(dsn="postgresql://nowhere")).openapi()
    return [
        (f"{method} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_operation_is_described() -> None:
    for name, operation in operations():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", operation["operationId"]), name
        assert operation["summary"], name
        assert operation["tags"], name
        for status in ("4XX", "5XX"):
            assert list(operation["responses"][status]["content"]) == ["application/problem+json"], name


def test_no_two_operations_have_one_name() -> None:
    names = [operation["operationId"] for _, operation in operations()]
    assert sorted(names) == sorted(set(names))


def test_only_signs_of_life_need_no_key() -> None:
    open_to_all = {name for name, operation in operations() if not operation.get("security")}
    assert open_to_all == {"get /livez", "get /readyz"}


def test_the_document_is_served(fuzzed: tuple[Served, dict[str, list[str]]]) -> None:
    api, _ = fuzzed
    assert api.anonymous().get("/api/v1/openapi.json").status_code == 401
    served = api.client(Scope.READ).get("/api/v1/openapi.json").json()
    assert {name for name, _ in operations()} == {
        f"{method} {path}" for path, methods in served["paths"].items() for method in methods
    }


@pytest.mark.timeout(300)
def test_answers_are_as_described(fuzzed: tuple[Served, dict[str, list[str]]]) -> None:
    api, known = fuzzed
    findings = fuzz(api, known, examples=3, seed=SEED, every_limit=False)
    assert findings.is_clean, findings.report()
    assert findings.cases > 200
    assert {200, 401, 404, 422} <= set(findings.statuses), findings.report()
