"""The identity of an asset: an id computed from a platform's own references, the same wherever it is computed.

References are text. A number would lose its leading zeros: "0038272" is not 38272.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rmhdag.models.assets import PlatformReview
from rmhdag.models.refusals import Kind, Place, Refusal

MOST_REFS = 20
MOST_CHARACTERS = 512
A_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}")
NAME_RULE = "use a lower-case letter, then lower-case letters, digits, `_` and `-`, at most 64 in all"


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform that orders assets. Its references are exactly those of `required`, any of `optional`, and the one
    that is the version label: `required` and `optional` identify an asset, the label names a version of it.
    """

    platform_id: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    version_ref: str | None = None
    review: PlatformReview = PlatformReview.NONE
    active: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.required, *self.optional, *([] if self.version_ref is None else [self.version_ref]))


KNOWN = (
    Platform("ddh", ("dataset_id", "resource_id"), version_ref="version_id"),
    Platform("arcgis", ("item_id",), ("layer_idx",)),
)


class InvalidReferences(Refusal):
    """`problems` are all that is wrong, each with its place: `platform_id` or a JSON pointer below `platform_refs`."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        message = problems[0][1] if len(problems) == 1 else f"{len(problems)} references are wrong"
        places = [Place(*problem) for problem in problems]
        super().__init__(Kind.INVALID, "invalid_references", message, places=places)
        self.problems = problems

    def __str__(self) -> str:
        return "; ".join(sentence for _, sentence in self.problems)


class InvalidPlatform(Refusal):
    """A definition of a platform that contradicts itself; `problems` as in InvalidReferences."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        message = problems[0][1] if len(problems) == 1 else f"{len(problems)} things are wrong with the platform"
        super().__init__(Kind.INVALID, "invalid_platform", message, places=[Place(*problem) for problem in problems])


@dataclass(frozen=True, slots=True)
class AssetReferences:
    """References of one asset, checked and in composed Unicode."""

    platform: Platform
    refs: Mapping[str, str]

    @property
    def version_label(self) -> str | None:
        return None if self.platform.version_ref is None else self.refs.get(self.platform.version_ref)

    @property
    def identity(self) -> dict[str, str]:
        """The references that identify the asset."""
        return {name: value for name, value in self.refs.items() if name != self.platform.version_ref}

    @property
    def asset_id(self) -> str:
        return asset_id_of(self.platform.platform_id, self.identity)

    @property
    def id_with_version(self) -> str | None:
        """The id of an asset from the time when the version label was part of the identity; None without a label."""
        return None if self.version_label is None else asset_id_of(self.platform.platform_id, self.refs)


class Platforms:
    """The platforms of a namespace: the shipped ones, and those that are registered, which replace shipped ones."""

    def __init__(self, registered: Iterable[Platform] = ()) -> None:
        self._by_id = {platform.platform_id: platform for platform in (*KNOWN, *registered)}

    @property
    def names(self) -> list[str]:
        return sorted(self._by_id)

    def __iter__(self) -> Iterator[Platform]:
        return iter(self._by_id[name] for name in self.names)

    def get(self, platform_id: str) -> Platform | None:
        return self._by_id.get(platform_id)

    def check(self, platform_id: str, refs: Mapping[str, Any]) -> AssetReferences:
        """Raises InvalidReferences."""
        platform = self._by_id.get(platform_id)
        if platform is None:
            unknown = f"there is no platform {platform_id!r}; there are {', '.join(self.names)}"
            raise InvalidReferences([("/platform_id", f"{unknown}; `rmhdag platforms set` adds others")])
        if not platform.active:
            inactive = f"platform {platform_id!r} is inactive and takes no orders"
            raise InvalidReferences([("/platform_id", f"{inactive}; `rmhdag platforms set` activates it again")])
        problems = [
            ("/platform_refs", f"{platform_id} needs the reference {name!r}")
            for name in platform.required
            if name not in refs
        ]
        for name in refs:
            if name not in platform.names:
                listed = ", ".join(platform.names)
                problems.append((_pointer(name), f"{platform_id} has no reference {name[:64]!r}; it has {listed}"))
        problems += [(_pointer(name), sentence) for name, value in refs.items() if (sentence := _fault(name, value))]
        if problems:
            raise InvalidReferences(problems)
        return AssetReferences(platform, {compose(name): compose(value) for name, value in refs.items()})


def check_platform(platform: Platform) -> Platform:
    """Raises InvalidPlatform with all problems."""
    problems: list[tuple[str, str]] = []
    if not A_NAME.fullmatch(platform.platform_id):
        problems.append(("/platform_id", f"{platform.platform_id[:64]!r} is not a name: {NAME_RULE}"))
    fields = (("identity_refs", platform.required), ("optional_refs", platform.optional))
    for field, names in fields:
        for index, name in enumerate(names):
            if not A_NAME.fullmatch(name):
                problems.append((f"/{field}/{index}", f"{name[:64]!r} is not a name: {NAME_RULE}"))
    if platform.version_ref is not None and not A_NAME.fullmatch(platform.version_ref):
        problems.append(("/version_ref", f"{platform.version_ref[:64]!r} is not a name: {NAME_RULE}"))
    if not platform.required:
        problems.append(("/identity_refs", "at least one reference must identify an asset"))
    if len(platform.names) > MOST_REFS:
        problems.append(("/identity_refs", f"a platform has at most {MOST_REFS} references"))
    if len(set(platform.names)) != len(platform.names):
        problems.append(
            ("/identity_refs", "a reference occurs twice: each is an identity, an optional or the version reference")
        )
    if problems:
        raise InvalidPlatform(problems)
    return platform


def identity_change(before: Platform, after: Platform) -> str | None:
    """Why assets of `before` would not be found any more by their references under `after`; None if they would.

    A reference may become the version label, because assets that have it in their identity are looked up first.
    """
    if set(before.required) != set(after.required):
        return f"its identity references are {', '.join(before.required)}"
    lost = [name for name in before.optional if name not in (*after.optional, after.version_ref)]
    if lost:
        return f"assets may have the optional reference {lost[0]!r}"
    if before.version_ref is not None and before.version_ref in after.optional:
        return f"{before.version_ref!r} names versions and identifies no asset"
    return None


def read_platforms(text: str) -> tuple[Platform, ...]:
    """Read a setting such as `geonode=dataset,layer?; ckan=package,release:version`: `?` marks an optional reference,
    `:version` the version label. Raises ValueError.
    """
    platforms: list[Platform] = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        platform_id, _, listed = (piece.strip() for piece in part.partition("="))
        names = [name.strip() for name in listed.split(",")]
        labels = [name.removesuffix(":version") for name in names if name.endswith(":version")]
        required = tuple(name for name in names if not name.endswith(("?", ":version")))
        optional = tuple(name.removesuffix("?") for name in names if name.endswith("?"))
        for name in (platform_id, *required, *optional, *labels):
            if not A_NAME.fullmatch(name):
                raise ValueError(f"{part!r} is not a platform: write `name=reference,other_reference?`, in lower case")
        distinct = {*required, *optional, *labels}
        if not required or len(distinct) != len(names) or len(names) > MOST_REFS or len(labels) > 1:
            raise ValueError(
                f"{part!r}: a platform has 1 to {MOST_REFS} references, each once, at least one required, and at most "
                "one version"
            )
        if any(platform_id == other.platform_id for other in (*KNOWN, *platforms)):
            raise ValueError(f"platform {platform_id!r} exists already: choose another name")
        platforms.append(Platform(platform_id, required, optional, labels[0] if labels else None))
    return tuple(platforms)


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
        return f"{name} has a control character, or begins or ends with a space: remove it"
    return None


def _pointer(name: str) -> str:
    return "/platform_refs/" + name[:64].replace("~", "~0").replace("/", "~1")
