"""Parameters and outputs against the models that handlers declare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated, Any

import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from rmhdag.handlers import HandlerContext, HandlerResult, Registry
from rmhdag.handlers.params import ParamsRefused, params_schema, read_params
from rmhdag.handlers.running import Outcome, run_async, run_plain
from rmhdag.models.events import ErrorKind
from tests.handlers.test_running import Paper, at_once


class Area(BaseModel):
    west: float = 0.0


class Loose(BaseModel):
    model_config = ConfigDict(extra="ignore")

    name: str = ""


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str = ""
    area: Area | None = None


class Tile(BaseModel):
    """As people write them: nothing is said about unknown names."""

    tile: Annotated[str, Field(validation_alias=AliasChoices("tile", "tile_name"))] = "t"
    areas: list[Area] = []
    loose: Loose | None = None
    within: Tile | None = None

    @model_validator(mode="after")
    def _check(self) -> Tile:
        return self


@pytest.mark.parametrize(
    ("model", "params", "said"),
    [
        (Tile, {"tlie": "a"}, "params /tlie: there is no such parameter; did you mean 'tile'?"),
        (Tile, {"areas": [{}, {"wset": 1}]}, "params /areas/1/wset: there is no such parameter"),
        (Tile, {"within": {"within": {"x": 1}}}, "params /within/within/x: there is no such parameter"),
        (Open, {"area": {"x": 1}}, "params /area/x: there is no such parameter"),
    ],
)
def test_unknown_names_are_refused(model: type[BaseModel], params: dict[str, Any], said: str) -> None:
    with pytest.raises(ParamsRefused) as caught:
        read_params(model, params)
    assert str(caught.value) == said


def test_a_model_may_allow_them_by_name() -> None:
    assert read_params(Open, {"other": 1}).model_dump()["other"] == 1
    assert read_params(Tile, {"loose": {"name": "a", "other": 1}, "tile_name": "b"}).model_dump() == {
        "tile": "b",
        "areas": [],
        "loose": {"name": "a"},
        "within": None,
    }


def test_the_schema_says_the_same() -> None:
    schema = params_schema(Tile)["$defs"]
    assert (schema["Tile"]["additionalProperties"], schema["Area"]["additionalProperties"]) == (False, False)
    assert "additionalProperties" not in schema["Loose"]
    assert schema["Tile"]["x-other-names"] == {"tile": ["tile_name"]}
    assert params_schema(Open)["additionalProperties"] is True


class Size(BaseModel):
    size_mb: float
    parts: list[Area] = []


def outcome(registry: Registry, name: str) -> Outcome:
    spec = registry.find(name)
    assert spec is not None
    return run_plain(spec, HandlerContext(Paper(), {}))


def test_an_output_is_held_against_its_model() -> None:
    registry = Registry()

    @registry.handler("one")
    def one(ctx: HandlerContext[Any]) -> Size:
        return Size(size_mb=3, parts=[Area(west=1)])

    @registry.handler("two", output=Size)
    def two(ctx: HandlerContext[Any]) -> dict[str, Any]:
        return {"size_mb": 3, "more": True}

    @registry.handler("three", output=Size)
    def three(ctx: HandlerContext[Any]) -> HandlerResult:
        return HandlerResult(output={"size": 3})

    @registry.handler("four", output=Size)
    def four(ctx: HandlerContext[Any]) -> HandlerResult:
        return HandlerResult(success=False, error_message="no size")

    assert outcome(registry, "one").output == b'{"size_mb":3.0,"parts":[{"west":1.0}]}'
    assert outcome(registry, "two").output == b'{"size_mb":3,"more":true}'
    refused = outcome(registry, "three")
    assert (refused.error_kind, refused.error_message) == (ErrorKind.OUTPUT_REFUSED, "output /size_mb: Field required")
    assert outcome(registry, "four").error_message == "no size"
    for name in ("one", "two", "three", "four"):
        spec = registry.find(name)
        assert spec is not None
        assert spec.manifest()["output_schema"]["required"][0] == "size_mb"


def test_the_result_of_a_generator_too() -> None:
    registry = Registry()

    @registry.handler("phases", output=Size)
    async def phases(ctx: HandlerContext[Any]) -> AsyncGenerator[dict[str, Any], None]:
        yield {"type": "result", "output": {"size_mb": "large"}}

    spec = registry.find("phases")
    assert spec is not None

    refused = asyncio.run(run_async(spec, HandlerContext(Paper(), {}), at_once))
    assert refused.error_kind is ErrorKind.OUTPUT_REFUSED
    assert "output /size_mb: Input should be a valid number" in str(refused.error_message)
