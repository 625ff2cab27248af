"""Values above 64 KB are stored separately, under their hash; views replace the references by the values."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from rmhdag.models.limits import INLINE_BYTES, PAYLOAD_BYTES
from rmhdag.models.references import as_reference

MOST_BYTES = PAYLOAD_BYTES
# A fan-in gathers references to its children's outputs, and may be stored apart itself.
MOST_LEVELS = 3
# Instead of a value: it is not there any more.
NOT_STORED = object()


class ValuesTooLarge(Exception):
    """Together the values exceed the limit of one response."""

    def __init__(self) -> None:
        super().__init__(f"the stored values are larger than {MOST_BYTES // 1024**2} MB together")


class Unfolding:
    """One value with all that it refers to, by whatever way that is fetched."""

    def __init__(self) -> None:
        self._room = MOST_BYTES

    def steps(self, value: Any, levels: int = MOST_LEVELS) -> Generator[str, Any, Any]:
        """Yields hashes, is sent each value or NOT_STORED, and returns the whole. Raises ValuesTooLarge."""
        if isinstance(value, dict):
            reference = as_reference(value) if levels else None
            if reference is not None:
                # Nothing smaller is stored apart: so what is made up cannot ask for millions of values.
                self._room -= max(reference.size_bytes, INLINE_BYTES)
                if self._room < 0:
                    raise ValuesTooLarge
                stored = yield reference.sha256
                return value if stored is NOT_STORED else (yield from self.steps(stored, levels - 1))
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
