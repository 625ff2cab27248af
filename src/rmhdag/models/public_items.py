"""What a STAC item says about our insides, and no reader of the catalogue needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PREFIX = "rmhdag:"
# How the date of the item is known: a fact about the data.
KEPT = frozenset({"rmhdag:datetime_source"})
# With or without a prefix such as `ddh:` or `etl:`.
INTERNAL = frozenset(
    "job_id node_id task_id worker_id owner_id lease_epoch etl_job_id etl_batch_id correlation_id host hostname "
    "local_path mount_path scratch_path source_path blob_path".split()
)


def is_internal(name: str) -> bool:
    """Whether a property is about the platform: ours by its prefix, or one that names jobs, hosts or paths."""
    return name not in KEPT and (name.startswith((PREFIX, "_")) or name.rpartition(":")[2] in INTERNAL)


def without_internals(item: Mapping[str, Any]) -> dict[str, Any]:
    """The item without internal properties, its own and those of its assets. Addresses of its files stay."""
    document = dict(item)
    if isinstance(item.get("properties"), Mapping):
        document["properties"] = _without(item["properties"])
    if isinstance(item.get("assets"), Mapping):
        document["assets"] = {
            name: _without(asset) if isinstance(asset, Mapping) else asset for name, asset in item["assets"].items()
        }
    return document


def _without(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if not is_internal(name)}
