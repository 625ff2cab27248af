"""The OpenAPI document is true: every operation is called with what it allows and with what it forbids."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from rmhdag.api.application import build, find_routers
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


def test_no_body_takes_a_number_for_a_truth_value_nor_a_text_for_a_number() -> None:
    bodies = {
        model
        for router in find_routers()
        for route in router.routes
        if isinstance(route, APIRoute) and route.body_field is not None
        for model in models_in(route.body_field.field_info.annotation)
    }
    assert len(bodies) > 20
    taken = []
    for model in bodies:
        for name, field in model.model_fields.items():
            kinds = kinds_in(field.annotation)
            if Any in kinds or object in kinds:
                continue
            wrong = [0, 1, "true"] if bool in kinds else [True, False, "1"] if kinds & {int, float} else []
            taken += [f"{model.__name__}.{name}: {value!r}" for value in wrong if not is_refused(model, name, value)]
    assert taken == []


def is_refused(model: type[BaseModel], name: str, value: object) -> bool:
    try:
        model.model_validate({name: value})
    except ValidationError as error:
        return any(found["loc"][:1] == (name,) for found in error.errors())
    return False


def kinds_in(annotation: Any) -> set[Any]:
    """The types that an annotation is put together from."""
    inner = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Annotated:
        return kinds_in(inner[0])
    if typing.get_origin(annotation) is typing.Literal or not inner:
        return {annotation}
    return set().union(*(kinds_in(one) for one in inner if one is not Ellipsis))


def models_in(annotation: Any) -> set[type[BaseModel]]:
    """Also those that are inside of others."""
    found: set[type[BaseModel]] = set()
    wanted = kinds_in(annotation)
    while wanted:
        one = wanted.pop()
        if isinstance(one, type) and issubclass(one, BaseModel) and one not in found:
            found.add(one)
            wanted |= set().union(*(kinds_in(field.annotation) for field in one.model_fields.values()))
    return found


def test_only_signs_of_life_need_no_key() -> None:
    open_to_all = {name for name, operation in operations() if not operation.get("security")}
    # How to sign in is asked by those who have not signed in yet.
    signing_in = {"get /api/v1/session/ways", "post /api/v1/session/key"}
    assert open_to_all == {"get /livez", "get /readyz"} | signing_in


def test_the_document_is_served(fuzzed: tuple[Served, dict[str, list[str]]]) -> None:
    api, _ = fuzzed
    assert api.anonymous().get("/api/v1/openapi.json").status_code == 401
    served = api.client(Scope.READ).get("/api/v1/openapi.json").json()
    assert {name for name, _ in operations()} == {
        f"{method} {path}" for path, methods in served["paths"].items() for method in methods
    }


# The pool of the API beside it takes random numbers too, at any moment.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.timeout(300)
def test_answers_are_as_described(fuzzed: tuple[Served, dict[str, list[str]]]) -> None:
    api, known = fuzzed
    findings = fuzz(api, known, examples=3, seed=SEED, every_limit=False)
    assert findings.is_clean, findings.report()
    assert findings.cases > 200
    assert {200, 401, 404, 422} <= set(findings.statuses), findings.report()
