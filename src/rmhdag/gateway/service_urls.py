"""Addresses of services that show a result, from templates: without a template nothing is promised."""

from __future__ import annotations

from collections.abc import Mapping
from string import Formatter
from typing import Any
from urllib.parse import quote

from rmhdag.models.namespaces import home_of

SERVICES = ("service_url", "preview", "viewer", "tiles", "stac_collection", "stac_item")
KINDS = ("raster", "vector", "dataset")
FIELDS = frozenset(
    {"collection_id", "catalogue_id", "item_id", "table_name", "container", "path", "url", "version", "platform_id"}
)
# Of a reference: {ref_dataset_id}.
REFERENCE = "ref_"
# These stand for themselves in addresses of tiles.
TILE_FIELDS = ("z", "x", "y")


def check_templates(templates: Any) -> None:
    """Raises ValueError."""
    if not isinstance(templates, dict):
        raise ValueError("service URLs are an object: kind of asset → name → template")
    for kind, by_name in templates.items():
        if kind not in KINDS or not isinstance(by_name, dict):
            raise ValueError(f"{kind!r}: there are {', '.join(KINDS)}, each with an object of templates")
        for name, template in by_name.items():
            if (
                name not in SERVICES
                or not isinstance(template, str)
                or not template.startswith(("https://", "http://"))
            ):
                raise ValueError(f"{kind}.{name}: a URL for one of {', '.join(SERVICES)}")
            for field in _fields(template):
                if field not in FIELDS and field not in TILE_FIELDS and not is_reference(field):
                    raise ValueError(f"{kind}.{name}: {{{field}}} is none of {', '.join(sorted(FIELDS))}")


def is_reference(field: str) -> bool:
    return field.startswith(REFERENCE) and field.isidentifier()


def services_of(templates: Mapping[str, str], facts: Mapping[str, str]) -> dict[str, str | None] | None:
    """All six names; a service whose facts are missing, such as the item of a vector, is null. None without
    templates.
    """
    if not templates:
        return None
    return {name: _fill(templates.get(name), facts) for name in SERVICES}


def facts_of(row: Mapping[str, Any], outputs: list[Mapping[str, Any]], namespace: str) -> dict[str, str]:
    """`outputs` are rows of items, of tables and of files; the first of each counts. `catalogue_id` is the collection
    as a catalogue of all namespaces names it.
    """
    facts = {"version": row["version_label"], "platform_id": row["platform_id"]}
    for name in ("collection_id", "item_id", "table_name", "container", "path"):
        facts[name] = next((output[name] for output in outputs if output.get(name) is not None), None)
    if facts["collection_id"] is not None:
        home = home_of(namespace)
        facts["catalogue_id"] = f"{home}:{facts['collection_id']}" if home else facts["collection_id"]
    if facts["path"] is not None:
        facts["url"] = f"/vsiaz/{facts['container']}/{facts['path']}"
    facts |= {f"{REFERENCE}{name}": value for name, value in (row["platform_refs"] or {}).items()}
    return {name: value for name, value in facts.items() if isinstance(value, str)}


def _fill(template: str | None, facts: Mapping[str, str]) -> str | None:
    if template is None:
        return None
    values = {name: quote(value, safe="") for name, value in facts.items()}
    values |= {name: f"{{{name}}}" for name in TILE_FIELDS}
    try:
        return template.format_map(values)
    except KeyError:
        return None


def _fields(template: str) -> list[str]:
    try:
        return [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise ValueError(f"{template!r} is not a template: {error}") from None
