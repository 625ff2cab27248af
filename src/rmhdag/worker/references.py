"""Large parameters: references to stored values are replaced by the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from rmhdag.models.json_values import RESERVED_KEY, json_pointer, may_hold_reserved_key
from rmhdag.models.leases import PayloadMissingError
from rmhdag.models.limits import PAYLOAD_BYTES
from rmhdag.models.references import SECRET_MEDIA_TYPE, Reference, as_reference
from rmhdag.models.stored_values import MOST_LEVELS
from rmhdag.store.vault import SecretUnreadable

_Place = tuple[str | int, ...]
OpenSecret = Callable[[bytes], str]


class UnresolvedReferenceError(Exception):
    """A parameter refers to a value that does not exist, or the values are too large."""


def resolve_references(params: Any, read: Callable[[str], bytes], open_secret: OpenSecret | None = None) -> Any:
    """The parameters with stored values inserted as text: nothing on the way to the handler parses them."""
    return _Resolution(read, open_secret).resolve(params, (), MOST_LEVELS)


class _Resolution:
    """Reads the payloads of one task: each once, within a limit for all of them."""

    def __init__(self, read: Callable[[str], bytes], open_secret: OpenSecret | None) -> None:
        self._read = read
        self._open_secret = open_secret
        self._texts: dict[str, bytes] = {}
        self._room = PAYLOAD_BYTES

    def resolve(self, value: Any, where: _Place, levels: int) -> Any:
        if isinstance(value, dict):
            reference = as_reference(value)
            if reference is not None:
                return self._fetch(reference, where, levels)
            return {key: self.resolve(member, (*where, key), levels) for key, member in value.items()}
        if isinstance(value, list):
            return [self.resolve(member, (*where, index), levels) for index, member in enumerate(value)]
        return value

    def _fetch(self, reference: Reference, where: _Place, levels: int) -> Any:
        self._room -= reference.size_bytes
        if self._room < 0 or not levels:
            what = f"larger than {PAYLOAD_BYTES // 1024**2} MB together" if levels else "nested too deeply"
            raise UnresolvedReferenceError(
                f"params {json_pointer(*where)}: the stored values are {what}; pass less, or write files"
            )
        text = self._texts.get(reference.sha256)
        if text is None:
            try:
                text = self._texts[reference.sha256] = self._read(reference.sha256)
            except PayloadMissingError as error:
                raise UnresolvedReferenceError(f"params {json_pointer(*where)}: {error}; was it pruned?") from error
        if reference.media_type == SECRET_MEDIA_TYPE:
            return self._opened(text, where)
        if may_hold_reserved_key(text):  # a fan-in gathers references to its children's outputs
            return self.resolve(orjson.loads(text), where, levels - 1)
        return orjson.Fragment(text)

    def _opened(self, text: bytes, where: _Place) -> str:
        assert self._open_secret is not None
        try:
            return self._open_secret(text)
        except SecretUnreadable as error:
            raise UnresolvedReferenceError(
                f"params {json_pointer(*where)}: {error}; set RMHDAG_SECRET_KEY for this worker"
            ) from None


def may_hold_reference(value: Any) -> bool:
    """Cheap, and never wrongly False."""
    if isinstance(value, dict):
        return RESERVED_KEY in value or any(map(may_hold_reference, value.values()))
    return isinstance(value, list) and any(map(may_hold_reference, value))
