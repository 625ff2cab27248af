"""Which folders of a zone belong to a namespace. An address names a container; the namespace decides where that is.

`default` has the containers of the zone itself. Any other namespace has its own folder in each zone, which holds its
containers. So no address can refer to another namespace. Containers of `default` can be shared with others by
configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from rmhdag.models.blobs import check_container
from rmhdag.models.namespaces import DEFAULT, RESERVED, home_of
from rmhdag.models.records import Zone
from rmhdag.storage.errors import OutsideStorage, StorageError

EVERYBODY = "*"


class Access(StrEnum):
    READ = "read"
    WRITE = "write"


# Namespace (or `*`) → zone and container → access.
Shares = Mapping[str, Mapping[str, Access]]


class Place(NamedTuple):
    """Where a container is in its zone, and whether it may be written."""

    folder: str
    writable: bool


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """The zones as one namespace sees them."""

    namespace: str = DEFAULT
    shared: Mapping[tuple[Zone, str], Access] = field(default_factory=dict)

    @property
    def home(self) -> str:
        return home_of(self.namespace)

    def place(self, zone: Zone, container: str) -> Place:
        """The place of a container whose name was checked."""
        if self.namespace == DEFAULT:
            if self.is_reserved(container):
                raise OutsideStorage(
                    f"containers whose name begins with {RESERVED} hold the files of other namespaces: choose another"
                )
            return Place(container, True)
        access = self.shared.get((zone, container))
        if access is not None:
            return Place(container, access is Access.WRITE)
        return Place(f"{self.home}/{container}", True)

    def split(self, zone: Zone, key: str) -> tuple[str, str]:
        """Container and path of a file in a zone. Raises OutsideStorage if it belongs to another namespace."""
        below = f"{self.home}/" if self.home else ""
        container, _, path = key.removeprefix(below).partition("/") if key.startswith(below) else ("", "", "")
        if container and self._is_at(zone, container, f"{below}{container}"):
            return container, path
        container, _, path = key.partition("/")
        if self._is_at(zone, container, container):
            return container, path
        raise OutsideStorage("this file belongs to another namespace")

    def is_reserved(self, name: str) -> bool:
        """Whether a folder next to our containers is not a container."""
        return not self.home and name.startswith(RESERVED)

    def shared_in(self, zone: Zone) -> list[str]:
        return [container for where, container in self.shared if where == zone]

    def _is_at(self, zone: Zone, container: str, folder: str) -> bool:
        try:
            return self.place(zone, container).folder == folder
        except OutsideStorage:
            return False


def view_of(namespace: str, shares: Shares) -> NamespaceView:
    if namespace == DEFAULT:
        return NamespaceView()
    named = {**shares.get(EVERYBODY, {}), **shares.get(namespace, {})}
    return NamespaceView(namespace, {split_share(name): access for name, access in named.items()})


def check_shares(shares: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Access]]:
    """The shares, checked. Raises StorageError with a remedy."""
    checked: dict[str, dict[str, Access]] = {}
    for namespace, named in shares.items():
        if namespace == DEFAULT:
            raise StorageError("shares are containers of the namespace default, which needs no share itself: remove it")
        for name, access in named.items():
            split_share(name)
            if access not in set(Access):
                raise StorageError(f"the share {name!r} of {namespace!r} is {access!r}: write read or write")
            checked.setdefault(namespace, {})[name] = Access(access)
    return checked


def split_share(name: str) -> tuple[Zone, str]:
    zone, slash, container = name.partition("/")
    try:
        if not slash or zone not in set(Zone) or container.startswith(RESERVED):
            raise ValueError
        return Zone(zone), check_container(container)
    except ValueError:
        raise StorageError(
            f"{name!r} names no container that can be shared: write ZONE/CONTAINER, such as bronze/reference"
        ) from None
