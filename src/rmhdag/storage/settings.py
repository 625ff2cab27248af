"""Where the zones are and with which options they are reached; passed to children by environment variables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rmhdag.models.records import Zone
from rmhdag.storage.errors import StorageError
from rmhdag.storage.namespaces import Access, NamespaceView, Shares, check_shares, view_of

ROOT_VARIABLE = "RMHDAG_STORAGE"
OPTIONS_VARIABLE = "RMHDAG_STORAGE_OPTIONS"
SHARES_VARIABLE = "RMHDAG_STORAGE_SHARES"
ZONE_VARIABLES = {zone: f"{ROOT_VARIABLE}_{zone.name}" for zone in Zone}

# Names of options; those that are not secret may be shown. Options of one zone begin with its name and a dot.
OPEN_OPTIONS = frozenset({"azure_endpoint", "azure_client_id", "azure_tenant_id", "aws_endpoint", "aws_region"})
SECRET_OPTIONS = frozenset(
    {"azure_account_key", "azure_sas_token", "azure_client_secret"}
    | {"aws_access_key_id", "aws_secret_access_key", "aws_session_token"}
)
OPTIONS = OPEN_OPTIONS | SECRET_OPTIONS


def split_option(name: str) -> tuple[Zone | None, str]:
    """`silver.aws_region` is an option of silver alone. Raises StorageError for an unknown option."""
    zone, dot, option = name.rpartition(".")
    if option not in OPTIONS or (dot and zone not in set(Zone)):
        raise StorageError(f"there is no storage option {name!r}: use {', '.join(sorted(OPTIONS))}")
    return (Zone(zone) if dot else None), option


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """A zone has its own URL, or is a folder of its name below `root`."""

    root: str | None = None
    zones: Mapping[Zone, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    shares: Shares = field(default_factory=dict[str, dict[str, Access]])

    @property
    def is_given(self) -> bool:
        return self.root is not None or bool(self.zones)

    def describe(self) -> str:
        """For people; URLs contain no secrets."""
        places = {str(zone): url for zone in Zone if (url := self.zones.get(zone)) is not None}
        return ", ".join(([self.root] if self.root else []) + [f"{zone} {url}" for zone, url in places.items()])

    def url_of(self, zone: Zone) -> str | None:
        if zone in self.zones:
            return self.zones[zone].rstrip("/")
        return None if self.root is None else f"{self.root.rstrip('/')}/{zone}"

    def is_account(self, zone: Zone) -> bool:
        """Whether its containers are those of an Azure account."""
        return re.fullmatch(r"az://[^/]*", self.url_of(zone) or "") is not None

    def options_of(self, zone: Zone) -> dict[str, str]:
        named = [(*split_option(name), value) for name, value in self.options.items()]
        shared = {option: value for owner, option, value in named if owner is None}
        return shared | {option: value for owner, option, value in named if owner is zone}

    def view_of(self, namespace: str) -> NamespaceView:
        return view_of(namespace, self.shares)

    @classmethod
    def from_variables(cls, variables: Mapping[str, str]) -> StorageSettings:
        """For child processes, which get the settings from their parent."""
        return cls(
            variables.get(ROOT_VARIABLE) or None,
            {zone: url for zone, name in ZONE_VARIABLES.items() if (url := variables.get(name))},
            json.loads(variables.get(OPTIONS_VARIABLE) or "{}"),
            check_shares(json.loads(variables.get(SHARES_VARIABLE) or "{}")),
        )

    def as_variables(self) -> dict[str, str]:
        variables = {ZONE_VARIABLES[zone]: url for zone, url in self.zones.items()}
        if self.root is not None:
            variables[ROOT_VARIABLE] = self.root
        if self.options:
            variables[OPTIONS_VARIABLE] = json.dumps(dict(self.options))
        if self.shares:
            variables[SHARES_VARIABLE] = json.dumps({name: dict(shared) for name, shared in self.shares.items()})
        return variables
