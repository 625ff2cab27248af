"""References to stored payloads: one reserved envelope, which no data from outside may contain.

A value above 64 KB is stored once under its hash, and this stands in its place, at the top of a value or inside one:

    {"rmhdag:payload": {"sha256": "…", "size_bytes": 123456, "media_type": "application/json"}}

Nothing is guessed from the keys inside. `check_json`, through which all data from outside comes, refuses the reserved
key: wherever it is found, rmhdag itself wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from rmhdag.models.json_values import RESERVED_KEY as RESERVED_KEY
from rmhdag.models.json_values import may_hold_reserved_key

PAYLOAD_MEDIA_TYPE = "application/json"
# The value of a secret input: only workers look into it.
SECRET_MEDIA_TYPE = "application/vnd.rmhdag.secret"
HIDDEN = "***"


@dataclass(slots=True, frozen=True)
class Reference:
    """Stands for a value that is stored in `dag_payloads`."""

    sha256: str
    size_bytes: int
    media_type: str = PAYLOAD_MEDIA_TYPE

    def as_json(self) -> dict[str, Any]:
        return {
            RESERVED_KEY: {"sha256": self.sha256, "size_bytes": self.size_bytes, "media_type": self.media_type},
        }


def as_reference(value: Any) -> Reference | None:
    """The reference that this value is, or None if it is an ordinary value."""
    if type(value) is not dict or len(value) != 1 or RESERVED_KEY not in value:
        return None
    inside = value[RESERVED_KEY]
    return Reference(inside["sha256"], inside["size_bytes"], inside["media_type"])


def is_secret(value: Any) -> bool:
    reference = as_reference(value)
    return reference is not None and reference.media_type == SECRET_MEDIA_TYPE


def hide_secrets(value: Any) -> Any:
    """The same value as people may see it."""
    # Most values have none, and to write one takes a twentieth of the time that it takes to copy it.
    try:
        has_none = not may_hold_reserved_key(orjson.dumps(value))
    except TypeError:
        has_none = False
    return value if has_none else _hide(value)


def _hide(value: Any) -> Any:
    if isinstance(value, dict):
        return HIDDEN if is_secret(value) else {key: _hide(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_hide(member) for member in value]
    return value


def references_in(value: Any) -> Iterator[Reference]:
    """All references at any depth."""
    if isinstance(value, dict):
        reference = as_reference(value)
        if reference is not None:
            yield reference
            return
        for member in value.values():
            yield from references_in(member)
    elif isinstance(value, list):
        for member in value:
            yield from references_in(member)


def references_in_text(text: bytes) -> list[Reference]:
    """All references in JSON text that rmhdag has written; most texts are not even parsed."""
    return list(references_in(orjson.loads(text))) if may_hold_reserved_key(text) else []


def holder_of_payload(sha256: str) -> str:
    """As a user of payloads: a payload that refers to others."""
    return f"payload:{sha256}"


def holder_of_revision(asset_id: str, revision: int) -> str:
    """As a user of payloads: the outputs of an asset's revision, which outlive its job."""
    return f"asset:{asset_id}/{revision}"
