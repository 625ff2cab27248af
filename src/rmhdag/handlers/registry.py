"""Which handlers there are: declared by a decorator, found by the modules that declare them, told as a manifest."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel

import rmhdag
from rmhdag.handlers.params import find_params_model

Function = TypeVar("Function", bound=Callable[..., Any])
NAME = re.compile(r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")
EXAMPLES = "rmhdag.handlers.examples"


class RegistrationError(Exception):
    """A handler cannot be declared so, or a module with handlers cannot be loaded."""


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """A handler and what is known about it. `light` ones are async, short, and share a process with others."""

    name: str
    function: Callable[..., Any]
    queue: str | None = None
    timeout_seconds: int | None = None
    aliases: tuple[str, ...] = ()
    params: type[BaseModel] | None = None
    light: bool = False
    is_async: bool = False
    is_checkpointable: bool = False
    version: str = ""
    description: str = ""

    def manifest(self) -> dict[str, Any]:
        """As it is registered in the database, and shown to whoever has not got its libraries."""
        return {
            "handler": self.name,
            "aliases": list(self.aliases),
            "queue": self.queue,
            "timeout_seconds": self.timeout_seconds,
            "light": self.light,
            "version": self.version,
            "description": self.description,
            "params_schema": {} if self.params is None else self.params.model_json_schema(),
        }


class Registry:
    """Handlers by name and alias; a name belongs to one function."""

    def __init__(self) -> None:
        self._specs: dict[str, HandlerSpec] = {}

    def __iter__(self) -> Iterator[HandlerSpec]:
        return iter({spec.name: spec for spec in self._specs.values()}.values())

    def find(self, name: str) -> HandlerSpec | None:
        return self._specs.get(name)

    def add(self, spec: HandlerSpec) -> None:
        for name in (spec.name, *spec.aliases):
            if not NAME.match(name) or len(name) > 64:
                raise RegistrationError(
                    f"handler name {name!r}: write it as words like raster.validate, at most 64 long"
                )
            other = self._specs.get(name)
            if other is not None:
                raise RegistrationError(
                    f"handler {name!r} is declared twice: by {_place(other.function)} and by {_place(spec.function)}; "
                    "rename one of them"
                )
        for name in (spec.name, *spec.aliases):
            self._specs[name] = spec

    def handler(
        self,
        name: str,
        *,
        queue: str | None = None,
        timeout_seconds: int | None = None,
        aliases: Iterable[str] = (),
        params: type[BaseModel] | None = None,
        light: bool = False,
        version: str = rmhdag.__version__,
    ) -> Callable[[Function], Function]:
        """Declare a plain or async function, or an async generator, as a handler."""

        def declare(function: Function) -> Function:
            is_checkpointable = inspect.isasyncgenfunction(function)
            is_async = is_checkpointable or inspect.iscoroutinefunction(function)
            if inspect.isgeneratorfunction(function):
                raise RegistrationError(f"handler {name!r}: make it an async generator, `async def` with `yield`")
            if light and not is_async:
                raise RegistrationError(
                    f"handler {name!r} is light but not async: it would hold up those it shares with"
                )
            self.add(
                HandlerSpec(
                    name,
                    function,
                    queue,
                    timeout_seconds,
                    tuple(aliases),
                    params or find_params_model(function),
                    light,
                    is_async,
                    is_checkpointable,
                    version,
                    (inspect.getdoc(function) or "").partition("\n\n")[0].replace("\n", " ")[:2000],
                )
            )
            return function

        return declare


shared_registry = Registry()
handler = shared_registry.handler


def load_handlers(modules: Iterable[str], registry: Registry = shared_registry) -> Registry:
    """Import the modules that declare handlers; those that come with rmhdag are always there."""
    for module in (EXAMPLES, *modules):
        try:
            importlib.import_module(module)
        except RegistrationError:
            raise
        except Exception as error:
            raise RegistrationError(
                f"handlers of module {module!r} cannot be loaded: {type(error).__name__}: {error}; "
                "is it installed, and is its folder on PYTHONPATH?"
            ) from error
    return registry


def split_modules(text: str) -> list[str]:
    """`a.b:c` or `a.b,c` as in RMHDAG_HANDLERS."""
    return [part for part in re.split(r"[:,\s]+", text) if part]


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{function.__module__}.{function.__qualname__}{where}"
