"""The handlers that come with rmhdag, and reserved names, known without importing any of them.

`python -m rmhdag.handlers.manifest` creates `manifest.json` where everything is installed. Workers register its
handlers, and workflows are checked against it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any, TypedDict

import orjson

PACKAGES = (
    "rmhdag.handlers.approval",
    "rmhdag.handlers.examples",
    "rmhdag.handlers.maintenance",
    "rmhdag.handlers.raster",
    "rmhdag.handlers.stac",
    "rmhdag.handlers.vector",
)
FILE = Path(__file__).with_name("manifest.json")

# Names that workflows of the original system use and that no handler has yet. A workflow that names one of them is
# refused with a sentence; the name as words joined by `_`, and these aliases, are meant by it too.
RESERVED: dict[str, tuple[str, ...]] = {
    "fathom.band_stack": (),
    "fathom.grid_inventory": (),
    "fathom.spatial_merge": (),
    "fathom.stac_register": (),
    "fathom.tile_inventory": (),
    "h3.export_dataset": (),
    "h3.finalize": (),
    "h3.inventory": (),
    "h3.raster_zonal": (),
    "h3.register_dataset": (),
    "maintenance.detect_orphan_blobs": ("detect_orphan_blobs",),
    "maintenance.job_health_check": ("job_health_check",),
    "maintenance.register_silver_blobs": ("register_silver_blobs",),
    "maintenance.task_watchdog": ("task_watchdog",),
    "ml.predict": (),
}


class ManifestEntry(TypedDict):
    """An entry as a worker registers it, without a version, and with the module that declares it."""

    handler: str
    aliases: list[str]
    queue: str | None
    timeout_seconds: int | None
    light: bool
    description: str
    params_schema: dict[str, Any]
    output_schema: dict[str, Any]
    module: str


@cache
def shipped_manifest() -> tuple[ManifestEntry, ...]:
    return tuple(orjson.loads(FILE.read_bytes())["handlers"])


def make_manifest() -> bytes:
    """Create the manifest from the handlers themselves; imports their libraries."""
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
    declared = {name for entry in entries for name in (entry["handler"], *entry["aliases"])}
    reserved = {name for title, aliases in RESERVED.items() for name in (title, title.replace(".", "_"), *aliases)}
    document = {"handlers": entries, "reserved": sorted(reserved - declared)}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


if __name__ == "__main__":
    made = make_manifest()
    FILE.write_bytes(made)
    sys.stdout.write(f"{FILE.name}: {len(orjson.loads(made)['handlers'])} handlers\n")
