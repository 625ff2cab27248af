"""Which handlers there are: declared by a decorator, found by the modules that declare them, told as a manifest.

Those that need heavy libraries are known from a manifest and imported when the first task asks for one of them.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

import rmhdag
from rmhdag.handlers.params import find_params_model

if TYPE_CHECKING:
    from rmhdag.handlers.manifest import ManifestEntry

Function = TypeVar("Function", bound=Callable[..., Any])
NAME = re.compile(r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")
EXAMPLES = "rmhdag.handlers.examples"
OURS = "rmhdag.handlers."
GEOSPATIAL = "rasterio"


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
        self._promised: dict[str, ManifestEntry] = {}
        # Two threads that import parts of one library at once may each see half of it.
        self._importing = threading.Lock()

    def __iter__(self) -> Iterator[HandlerSpec]:
        """Those that are declared."""
        return iter({spec.name: spec for spec in self._specs.values()}.values())

    def manifests(self) -> list[dict[str, Any]]:
        """Those that are declared, and those that will be when somebody asks for them."""
        promised = {entry["handler"]: entry for entry in self._promised.values()}
        return [spec.manifest() for spec in self] + [
            {**told(entry), "version": rmhdag.__version__} for entry in promised.values()
        ]

    def find(self, name: str) -> HandlerSpec | None:
        """A promised one is imported now; where that fails, its tasks fail with the reason."""
        entry = self._promised.get(name)
        if entry is not None:
            try:
                with self._importing:
                    import_handlers(entry["module"])
            except RegistrationError as error:
                return HandlerSpec(entry["handler"], failing(error))
        return self._specs.get(name)

    def keep_promises(self) -> None:
        """Import all that is promised, before anybody asks. One that fails says so when its first task comes."""
        for module in sorted({entry["module"] for entry in self._promised.values()}):
            with suppress(RegistrationError), self._importing:
                import_handlers(module)

    def promise(self, entry: ManifestEntry) -> None:
        """A handler that its module will declare."""
        if entry["handler"] not in self._specs:
            self._promised.update(dict.fromkeys((entry["handler"], *entry["aliases"]), entry))

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
            promised = self._promised.get(name)
            if promised is not None and promised["module"] != spec.function.__module__:
                raise RegistrationError(
                    f"handler {name!r} is declared twice: by {promised['module']} of rmhdag and by "
                    f"{_place(spec.function)}; rename yours"
                )
        for name in (spec.name, *spec.aliases):
            self._specs[name] = spec
            self._promised.pop(name, None)

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
    """Import the modules that declare handlers; those that come with rmhdag are always there.

    Geospatial ones are only promised, because importing their libraries takes seconds; to have them at hand when the
    first task comes, name their package (`rmhdag.handlers.raster`).
    """
    for module in (EXAMPLES, *modules):
        import_handlers(module)
    if importlib.util.find_spec(GEOSPATIAL) is not None:
        from rmhdag.handlers.manifest import shipped_manifest

        for entry in shipped_manifest():
            registry.promise(entry)
    return registry


def import_handlers(name: str) -> None:
    """A package of rmhdag stands for all modules in it."""
    try:
        module = importlib.import_module(name)
        if name.startswith(OURS):
            for inside in modules_in(module):
                importlib.import_module(inside)
    except RegistrationError:
        raise
    except Exception as error:
        raise RegistrationError(
            f"handlers of module {name!r} cannot be loaded: {type(error).__name__}: {error}; "
            "is it installed, and is its folder on PYTHONPATH?"
        ) from error


def modules_in(package: ModuleType) -> list[str]:
    """Without those that are run, not imported."""
    found = pkgutil.iter_modules(getattr(package, "__path__", ()), f"{package.__name__}.")
    return [one.name for one in found if not one.name.endswith("__main__")]


def failing(error: RegistrationError) -> Callable[..., Any]:
    def fail(ctx: Any) -> None:
        raise error

    return fail


def told(entry: ManifestEntry) -> dict[str, Any]:
    """What the platform is told; where the code lies is nobody's business."""
    return {key: value for key, value in entry.items() if key != "module"}


def split_modules(text: str) -> list[str]:
    """`a.b:c` or `a.b,c` as in RMHDAG_HANDLERS."""
    return [part for part in re.split(r"[:,\s]+", text) if part]


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{function.__module__}.{function.__qualname__}{where}"
