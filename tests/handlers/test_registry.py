"""Handlers are declared, found and told."""

import sys
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from rmhdag.handlers import HandlerContext, Registry, load_handlers
from rmhdag.handlers.registry import RegistrationError, split_modules
from rmhdag.workflow.known_handlers import shipped_handlers


class Bands(BaseModel):
    bands: list[int]


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_a_handler_is_found_by_its_name_and_its_aliases(registry: Registry) -> None:
    @registry.handler("raster.validate", queue="light", timeout_seconds=60, aliases=["raster_validate"])
    def validate(ctx: HandlerContext[Bands]) -> None:
        """Looks at a raster.

        And more about it.
        """

    spec = registry.find("raster_validate")
    assert spec is registry.find("raster.validate")
    assert spec is not None
    assert (spec.params, spec.is_async, spec.is_checkpointable) == (Bands, False, False)
    manifest = spec.manifest()
    assert manifest["description"] == "Looks at a raster."
    assert manifest["params_schema"]["required"] == ["bands"]
    assert [one.name for one in registry] == ["raster.validate"]


def test_kinds_of_functions_are_told_apart(registry: Registry) -> None:
    @registry.handler("one", light=True)
    async def one(ctx: HandlerContext[Any]) -> None: ...

    @registry.handler("two")
    async def two(ctx: HandlerContext[Any]) -> AsyncGenerator[dict[str, Any], None]:
        yield {}

    kinds = [(spec.name, spec.light, spec.is_async, spec.is_checkpointable) for spec in registry]
    assert kinds == [("one", True, True, False), ("two", False, True, True)]


def test_a_name_belongs_to_one_function(registry: Registry) -> None:
    @registry.handler("a.one", aliases=["a_one"])
    def one(ctx: HandlerContext[Any]) -> None: ...

    with pytest.raises(RegistrationError, match=r"'a_one' is declared twice: by .*one.* and by .*two"):

        @registry.handler("b.two", aliases=["a_one"])
        def two(ctx: HandlerContext[Any]) -> None: ...

    assert registry.find("b.two") is None


@pytest.mark.parametrize("name", ["", "Raster", "a b", "a..b", "a" * 65, "../x", "a.", "9a"])
def test_odd_names_are_refused(registry: Registry, name: str) -> None:
    with pytest.raises(RegistrationError, match="handler name"):

        @registry.handler(name)
        def odd(ctx: HandlerContext[Any]) -> None: ...


def test_what_cannot_be_a_handler_is_refused_with_a_remedy(registry: Registry) -> None:
    def generator(ctx: HandlerContext[Any]) -> Iterator[int]:
        yield 1

    def plain(ctx: HandlerContext[Any]) -> None: ...

    def two_arguments(ctx: HandlerContext[Any], other: int) -> None: ...

    with pytest.raises(RegistrationError, match="async generator"):
        registry.handler("one")(generator)
    with pytest.raises(RegistrationError, match="light but not async"):
        registry.handler("two", light=True)(plain)
    with pytest.raises(TypeError, match="exactly one argument"):
        registry.handler("three")(two_arguments)


def test_modules_are_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_own_handlers.py").write_text(
        "from rmhdag.handlers import handler\n@handler('my.own')\ndef own(ctx):\n    return {}\n"
    )
    (tmp_path / "my_broken_handlers.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_handlers(["my_own_handlers"]).find("my.own") is not None
    sys.modules.pop("my_own_handlers")


OWN = "from rmhdag.handlers import handler\n@handler('{name}')\ndef own(ctx):\n    return {{}}\n"
BROKEN = {
    "my_failing": ("x = 1\n1 / 0\n", r"my_failing.py:2: ZeroDivisionError: division by zero. Correct the module"),
    "my_unwritten": ("def f(:\n    pass\n", r"my_unwritten.py:1: SyntaxError: invalid syntax. Correct the module"),
    "my_needy": ("import sys\nimport no_such_library.part\n", r"my_needy.py:2: it imports 'no_such_library', which is"),
    "my_leaving": ("raise SystemExit(4)\n", r"my_leaving.py:1: it calls sys.exit\(4\)"),
    "my_thief": (
        OWN.format(name="raster.validate"),
        # Other words if somebody has imported the module before.
        r"declared twice: by rmhdag.handlers.raster.validate.*rename (yours|one of them)",
    ),
    "my_echo": (OWN.format(name="echo"), r"declared twice: by rmhdag.handlers.examples.echo .*my_echo.py:2\)"),
    "my_shouting": (OWN.format(name="SHOUT"), r"handler name 'SHOUT' of my_shouting.own \(.*my_shouting.py:2\)"),
}


@pytest.mark.parametrize("module", BROKEN)
def test_a_mistake_in_a_module_is_told_with_its_place(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, said = BROKEN[module]
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RegistrationError, match=f"(?i)handlers of module '{module}' cannot be loaded: .*{said}"):
        load_handlers([module])


@pytest.mark.parametrize("module", ["my_missing_handlers", "my_missing_package.handlers"])
def test_a_module_that_is_not_there(module: str) -> None:
    with pytest.raises(RegistrationError, match=r"there is no module 'my_missing_\w+'.*is its folder on PYTHONPATH"):
        load_handlers([module])


def test_the_setting_may_name_several_modules() -> None:
    assert split_modules("a.b:c, d\ne") == ["a.b", "c", "d", "e"]
    assert split_modules("") == []


def test_the_examples_are_the_ones_that_workflows_may_name() -> None:
    """The list that validation ships and what a worker really has."""
    names = {"echo", "flaky_echo", "hello_world", "sleep", "fail", "multi_phase", "size_check", "chunk_processor"}
    registry = load_handlers([])
    assert all(registry.find(name) for name in names)
    assert names <= set(shipped_handlers().names())
