"""The handlers that come with rmhdag and need more libraries than it does, told to those who have not got these.

`manifest.json` is made by `python -m rmhdag.handlers.manifest`, where everything is installed.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

import orjson

PACKAGES = ("rmhdag.handlers.raster", "rmhdag.handlers.stac")
FILE = Path(__file__).with_name("manifest.json")


class ManifestEntry(TypedDict):
    """As a worker registers it, without a version, and with the module that declares it."""

    handler: str
    aliases: list[str]
    queue: str | None
    timeout_seconds: int | None
    light: bool
    description: str
    params_schema: dict[str, Any]
    module: str


@cache
def shipped_manifest() -> tuple[ManifestEntry, ...]:
    return tuple(orjson.loads(FILE.read_bytes()))


def make_manifest() -> bytes:
    """From the handlers themselves; imports their libraries."""
    registry = importlib.import_module("rmhdag.handlers.registry")
    for package in PACKAGES:
        if importlib.util.find_spec(package) is not None:
            registry.import_handlers(package)
    specs = (spec for spec in registry.shared_registry if spec.function.__module__.startswith(PACKAGES))
    entries = []
    for spec in sorted(specs, key=lambda spec: str(spec.name)):
        entry = {**spec.manifest(), "module": spec.function.__module__}
        del entry["version"]
        entries.append(entry)
    return orjson.dumps(entries, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


if __name__ == "__main__":
    made = make_manifest()
    FILE.write_bytes(made)
    sys.stdout.write(f"{FILE.name}: {len(orjson.loads(made))} handlers\n")
