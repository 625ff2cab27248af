"""Which asset is meant: an id made from a platform's own references, the same for everybody who computes it.

References are text. A number would lose what makes it a reference: "0038272" is not 38272.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_REFS = 20
MOST_CHARACTERS = 512
A_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform that orders assets. Its references are exactly those of `required`, and any of `optional`."""

    platform_id: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


KNOWN = (
    Platform("ddh", ("dataset_id", "resource_id"), ("version_id",)),
    Platform("arcgis", ("item_id",), ("layer_idx",)),
)


class InvalidReferences(Exception):
    """`problems` are all that is wrong, each with its place: `platform_id` or a JSON pointer below `platform_refs`."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(sentence for _, sentence in problems))
        self.problems = problems


class Platforms:
    """Those that are known here."""

    def __init__(self, registered: tuple[Platform, ...] = ()) -> None:
        self._by_id = {one.platform_id: one for one in (*KNOWN, *registered)}

    @property
    def names(self) -> list[str]:
        return sorted(self._by_id)

    def check(self, platform_id: str, refs: Mapping[str, Any]) -> dict[str, str]:
        """The references as they are kept: composed Unicode. Raises InvalidReferences."""
        platform = self._by_id.get(platform_id)
        if platform is None:
            known = ", ".join(self.names)
            raise InvalidReferences(
                [
                    (
                        "/platform_id",
                        f"there is no platform {platform_id!r}; known are {known}; RMHDAG_PLATFORMS adds others",
                    )
                ]
            )
        problems = [
            ("/platform_refs", f"{platform_id} needs the reference {name!r}")
            for name in platform.required
            if name not in refs
        ]
        taken = set(platform.required) | set(platform.optional)
        for name in refs:
            if name not in taken:
                given = ", ".join((*platform.required, *platform.optional))
                problems.append((_pointer(name), f"{platform_id} has no reference {name[:64]!r}; it has {given}"))
        problems += [(_pointer(name), sentence) for name, value in refs.items() if (sentence := _fault(name, value))]
        if problems:
            raise InvalidReferences(problems)
        return {compose(name): compose(value) for name, value in refs.items()}


def read_platforms(text: str) -> tuple[Platform, ...]:
    """From a setting: `geonode=dataset,layer?; ckan=package`; a `?` marks what may be left out. Or ValueError."""
    found: list[Platform] = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        platform_id, _, listed = (piece.strip() for piece in part.partition("="))
        names = [name.strip() for name in listed.split(",")]
        for name in (platform_id, *(name.removesuffix("?") for name in names)):
            if not A_NAME.fullmatch(name):
                raise ValueError(f"{part!r} is no platform: write `name=reference,other_reference?`, in lower case")
        required = tuple(name for name in names if not name.endswith("?"))
        if not required or len(set(names)) != len(names) or len(names) > MOST_REFS:
            raise ValueError(f"{part!r}: a platform has 1 to {MOST_REFS} references, each once, and needs one at least")
        if any(platform_id == other.platform_id for other in (*KNOWN, *found)):
            raise ValueError(f"platform {platform_id!r} is there already: choose another name")
        optional = tuple(name.removesuffix("?") for name in names if name.endswith("?"))
        found.append(Platform(platform_id, required, optional))
    return tuple(found)


def canonical(refs: Mapping[str, str]) -> str:
    """The same text for the same references, whatever their order and Unicode form."""
    composed = {compose(name): compose(value) for name, value in refs.items()}
    return json.dumps(composed, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def asset_id_of(platform_id: str, refs: Mapping[str, str]) -> str:
    return hashlib.sha256(f"{platform_id}|{canonical(refs)}".encode()).hexdigest()[:32]


def compose(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _fault(name: str, value: Any) -> str | None:
    if isinstance(value, bool | int | float):
        return (
            f"{name} is a number; references are text: write it in quotes, with its leading zeros ("
            '"0038272" is not 38272)'
        )
    if not isinstance(value, str):
        return f"{name} is not text: write it in quotes"
    if not 0 < len(value) <= MOST_CHARACTERS:
        return f"{name} has 1 to {MOST_CHARACTERS} characters"
    if value != value.strip() or any(unicodedata.category(letter) in ("Cc", "Cs") for letter in value):
        return f"{name} has a control character, or begins or ends with a space: take it out"
    return None


def _pointer(name: str) -> str:
    return "/platform_refs/" + name[:64].replace("~", "~0").replace("/", "~1")
