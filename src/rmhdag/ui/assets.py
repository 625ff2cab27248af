"""The bundle: its files, and the encoding in which a browser gets each. Names hold hashes, so files never change."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import orjson

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
    ".wasm": "application/wasm",
    ".woff2": "font/woff2",
    ".png": "image/png",
}
# From the smallest on.
ENCODINGS = {"br": ".br", "gzip": ".gz"}


class Asset(NamedTuple):
    path: Path
    media_type: str
    encoding: str | None


@dataclass(frozen=True)
class Bundle:
    """What a build has written down in its manifest."""

    script: str
    style: str
    icon: str
    preload: tuple[str, ...]
    names: frozenset[str]

    def find(self, name: str, accept_encoding: str) -> Asset | None:
        """A file by its name, smaller if the browser takes it so; None for what is not in the manifest."""
        media_type = MEDIA_TYPES.get(Path(name).suffix)
        if name not in self.names or media_type is None:
            return None
        accepted = set(re.findall(r"[a-z]+", accept_encoding.lower()))
        encoding = next((kind for kind in ENCODINGS if kind in accepted), None)
        return Asset(STATIC / (name + ENCODINGS.get(encoding or "", "")), media_type, encoding)


class _Memory(NamedTuple):
    read_at: int
    bundle: Bundle


_last: _Memory | None = None


def read_bundle() -> Bundle | None:
    """The newest build; None if there is none. Read again when it has changed, so that a build needs no restart."""
    global _last
    manifest = STATIC / "manifest.json"
    try:
        changed_at = manifest.stat().st_mtime_ns
        if _last is None or _last.read_at != changed_at:
            _last = _Memory(changed_at, _read(orjson.loads(manifest.read_bytes())))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return _last.bundle


def _read(facts: dict[str, Any]) -> Bundle:
    return Bundle(facts["script"], facts["style"], facts["icon"], tuple(facts["preload"]), frozenset(facts["files"]))
