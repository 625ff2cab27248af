"""Values above 64 KB are stored apart, under their hash; whoever shows them puts them in place of their references."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from rmhdag.models.columns import INLINE_BYTES
from rmhdag.models.leases import PAYLOAD_MEDIA_TYPE

REFERENCE_KEYS = {"sha256", "size_bytes", "media_type"}
MOST_BYTES = 64 * 1024 * 1024
# A fan-in gathers references to its children's outputs, and may be stored apart itself.
MOST_LEVELS = 3
# Instead of a value: it is not there, or is not what only looks like a reference.
NOT_STORED = object()


class ValuesTooLarge(Exception):
    """Together they are more than anybody wants to have at once."""

    def __init__(self) -> None:
        super().__init__(f"the stored values are larger than {MOST_BYTES // 1024**2} MB together")


def is_reference(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == REFERENCE_KEYS
        and value["media_type"] == PAYLOAD_MEDIA_TYPE
        and isinstance(value["sha256"], str)
        and len(value["sha256"]) == 64
        and type(value["size_bytes"]) is int
    )


class Unfolding:
    """One value with all that it refers to, by whatever way that is fetched."""

    def __init__(self) -> None:
        self._room = MOST_BYTES

    def steps(self, value: Any, levels: int = MOST_LEVELS) -> Generator[str, Any, Any]:
        """Yields hashes, is sent each value or NOT_STORED, and returns the whole. Raises ValuesTooLarge."""
        if isinstance(value, dict):
            if levels and is_reference(value):
                # Nothing smaller is stored apart: so what is made up cannot ask for millions of values.
                self._room -= max(value["size_bytes"], INLINE_BYTES)
                if self._room < 0:
                    raise ValuesTooLarge
                found = yield value["sha256"]
                return value if found is NOT_STORED else (yield from self.steps(found, levels - 1))
            whole = {}
            for key, member in value.items():
                whole[key] = yield from self.steps(member, levels)
            return whole
        if isinstance(value, list):
            members = dict(enumerate(value))
            for place, member in members.items():
                members[place] = yield from self.steps(member, levels)
            return list(members.values())
        return value
