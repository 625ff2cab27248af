"""The registry of handlers: declared by a decorator, found through the modules that declare them.

Handlers that need heavy libraries are known from a manifest and imported for the first task that needs them.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import re
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

import rmhdag
from rmhdag.handlers.params import find_output_model, find_params_model, output_schema, params_schema
from rmhdag.machine.python import search_current_folder

if TYPE_CHECKING:
    from rmhdag.handlers.manifest import ManifestEntry

Function = TypeVar("Function", bound=Callable[..., Any])
NAME = re.compile(r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")
EXAMPLES = "rmhdag.handlers.examples"
OURS = "rmhdag.handlers."
GEOSPATIAL = "rasterio"
NEED_GEOSPATIAL = ("rmhdag.handlers.raster", "rmhdag.handlers.stac", "rmhdag.handlers.vector")


class RegistrationError(Exception):
    """A handler is declared wrongly, or its module cannot be loaded: the mistake is in that module."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}" if self.remedy else self.message


@dataclass(frozen=True, slots=True)
class HandlerSpec:
    """A handler and its properties. `light` handlers are async, short, and share a process with others."""

    name: str
    function: Callable[..., Any]
    queue: str | None = None
    timeout_seconds: int | None = None
    aliases: tuple[str, ...] = ()
    params: type[BaseModel] | None = None
    output: type[BaseModel] | None = None
    light: bool = False
    is_async: bool = False
    is_checkpointable: bool = False
    version: str = ""
    description: str = ""

    def manifest(self) -> dict[str, Any]:
        """The entry for the database, readable without the handler's libraries."""
        return {
            "handler": self.name,
            "aliases": list(self.aliases),
            "queue": self.queue,
            "timeout_seconds": self.timeout_seconds,
            "light": self.light,
            "version": self.version,
            "description": self.description,
            "params_schema": params_schema(self.params),
            "output_schema": output_schema(self.output),
        }


class Registry:
    """Handlers by name and alias; a name belongs to one function."""

    def __init__(self) -> None:
        self._specs: dict[str, HandlerSpec] = {}
        self._promised: dict[str, ManifestEntry] = {}
        # Two threads that import parts of one library at once may each see half of it.
        self._importing = threading.Lock()

    def __iter__(self) -> Iterator[HandlerSpec]:
        """Handlers that are declared."""
        return iter({spec.name: spec for spec in self._specs.values()}.values())

    def manifests(self) -> list[dict[str, Any]]:
        """Handlers that are declared, and those that are imported on demand."""
        promised = {entry["handler"]: entry for entry in self._promised.values()}
        return [spec.manifest() for spec in self] + [
            {**told(entry), "version": rmhdag.__version__} for entry in promised.values()
        ]

    def find(self, name: str) -> HandlerSpec | None:
        """Import a promised handler now; if that fails, its tasks fail with the reason."""
        entry = self._promised.get(name)
        if entry is not None:
            try:
                with self._importing:
                    import_handlers(entry["module"])
            except RegistrationError as error:
                return HandlerSpec(entry["handler"], failing(error))
        return self._specs.get(name)

    def keep_promises(self) -> None:
        """Import all promised handlers in advance. An error is reported by the first task that needs the handler."""
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
                    f"handler name {name!r} of {_place(spec.function)} is not allowed",
                    "Write it as words like raster.validate, at most 64 characters.",
                )
            other = self._specs.get(name)
            if other is not None:
                raise RegistrationError(
                    f"handler {name!r} is declared twice: by {_place(other.function)} and by {_place(spec.function)}",
                    "Rename one of them.",
                )
            promised = self._promised.get(name)
            if promised is not None and promised["module"] != spec.function.__module__:
                raise RegistrationError(
                    f"handler {name!r} is declared twice: by {promised['module']} of rmhdag and by "
                    f"{_place(spec.function)}",
                    "Rename yours.",
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
        output: type[BaseModel] | None = None,
        light: bool = False,
        version: str = rmhdag.__version__,
    ) -> Callable[[Function], Function]:
        """Declare a plain or async function, or an async generator, as a handler.

        `params` and `output` are models; they need not be named where the function's annotations do it.
        """

        def declare(function: Function) -> Function:
            is_checkpointable = inspect.isasyncgenfunction(function)
            is_async = is_checkpointable or inspect.iscoroutinefunction(function)
            if inspect.isgeneratorfunction(function):
                raise RegistrationError(
                    f"handler {name!r}, {_place(function)}, is a plain generator",
                    "Make it an async generator: `async def` with `yield`.",
                )
            if light and not is_async:
                raise RegistrationError(
                    f"handler {name!r}, {_place(function)}, is light but not async",
                    "Make it `async def`, or leave out `light=True`: it would hold up those it shares a process with.",
                )
            self.add(
                HandlerSpec(
                    name,
                    function,
                    queue,
                    timeout_seconds,
                    tuple(aliases),
                    params or find_params_model(function),
                    output or find_output_model(function),
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


def load_handlers(modules: Iterable[str], registry: Registry = shared_registry, *, examples: bool = True) -> Registry:
    """Import the modules that declare handlers; those that come with rmhdag are always there, but for the examples.

    Geospatial ones are only promised, because importing their libraries takes seconds; to have them at hand when the
    first task comes, name their package (`rmhdag.handlers.raster`).
    """
    if examples:
        import_handlers(EXAMPLES)
    from rmhdag.handlers.manifest import shipped_manifest

    absent = (EXAMPLES, *(() if importlib.util.find_spec(GEOSPATIAL) is not None else NEED_GEOSPATIAL))
    # Before users' modules, so that one of our names in another module is refused.
    for entry in shipped_manifest():
        if not entry["module"].startswith(absent):
            registry.promise(entry)
    for module in modules:
        # The current folder comes last, so that no file in it replaces an installed module.
        unsearched = search_current_folder(module)
        try:
            import_handlers(module)
        except RegistrationError as error:
            if unsearched is None:
                raise
            raise RegistrationError(
                error.message, f"{error.remedy} The current folder was not searched: {unsearched}."
            ) from error
    return registry


def import_handlers(name: str) -> None:
    """A package of rmhdag stands for all modules in it."""
    try:
        module = importlib.import_module(name)
        if name.startswith(OURS):
            for inside in modules_in(module):
                importlib.import_module(inside)
    except (Exception, SystemExit) as error:
        raise broken_module(name, error) from error


def broken_module(name: str, error: BaseException) -> RegistrationError:
    """The error with its place, its cause and what to do."""
    what = f"handlers of module {name!r} cannot be loaded"
    if isinstance(error, RegistrationError):
        return RegistrationError(f"{what}: {error.message}", error.remedy)
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        if name == error.name or name.startswith(f"{error.name}."):
            return RegistrationError(
                f"{what}: there is no module {error.name!r}",
                "Is it spelt right (RMHDAG_HANDLERS, --handlers), is it installed, is its folder on PYTHONPATH?",
            )
        return RegistrationError(
            f"{what}: {_place_of(error, name)}it imports {error.name!r}, which is not installed",
            f"Install {error.name.partition('.')[0]!r} in the environment of rmhdag, or correct the import.",
        )
    if isinstance(error, SystemExit):
        return RegistrationError(
            f"{what}: {_place_of(error, name)}it calls sys.exit({error.code!r})",
            "The module must not exit while it is imported.",
        )
    detail = error.msg if isinstance(error, SyntaxError) else str(error)
    kind = type(error).__name__
    return RegistrationError(
        f"{what}: {_place_of(error, name)}{kind}{f': {detail}' if detail else ''}", "Correct the module."
    )


def _place_of(error: BaseException, module: str) -> str:
    """`file:line: ` of the mistake: where the text is wrong, else the last line of the package that ran."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{error.filename}:{error.lineno}: "
    package = module.partition(".")[0]
    steps = list(traceback.walk_tb(error.__traceback__))
    inside = [
        f"{frame.f_code.co_filename}:{line}: "
        for frame, line in steps
        if frame.f_globals.get("__name__", "").partition(".")[0] == package
    ]
    return inside[-1] if inside else ""


def modules_in(package: ModuleType) -> list[str]:
    """All modules of the package except `__main__`."""
    modules = pkgutil.iter_modules(getattr(package, "__path__", ()), f"{package.__name__}.")
    return [module.name for module in modules if not module.name.endswith("__main__")]


def failing(error: RegistrationError) -> Callable[..., Any]:
    def fail(ctx: Any) -> None:
        raise error

    return fail


def told(entry: ManifestEntry) -> dict[str, Any]:
    """The entry for the platform, without the place of the code."""
    return {key: value for key, value in entry.items() if key != "module"}


def split_modules(text: str) -> list[str]:
    """`a.b:c` or `a.b,c` as in RMHDAG_HANDLERS."""
    return [part for part in re.split(r"[:,\s]+", text) if part]


def _place(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code else ""
    return f"{function.__module__}.{function.__qualname__}{where}"
