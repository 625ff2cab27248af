"""Clients of the gateway: what each of them may use, and the row that says so."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import Field

from rmhdag.models.columns import Flag, Id, JsonList, JsonObject, Name, Namespace, Stamped, Timestamp, Url
from rmhdag.models.table import Index, Row, Table


def quota(default: int, what: str, *, least: int = 0) -> Any:
    return field(default=default, metadata={"what": what, "least": least, "most": 10**9})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientQuotas:
    """Requests are limited by each gateway process, orders by the platform as a whole."""

    requests_per_second: int = quota(20, "requests in a second to one gateway process", least=1)
    requests_per_hour: int = quota(20_000, "requests in an hour to one gateway process", least=1)
    open_orders: int = quota(1_000, "orders that have not ended")
    orders_per_day: int = quota(10_000, "orders in the last 24 hours")

    def with_overrides(self, overrides: Mapping[str, Any]) -> Self:
        """Those of one client. What this version does not know, a newer one has written."""
        return replace(self, **{name: value for name, value in overrides.items() if name in CLIENT_QUOTAS})


# name → what it limits, and its bounds
CLIENT_QUOTAS: dict[str, Mapping[str, Any]] = {quota.name: quota.metadata for quota in fields(ClientQuotas)}


def refuse_wrong_quota(name: str, value: int) -> None:
    """Raises ValueError for a quota that does not exist, or a value that it cannot have."""
    if name not in CLIENT_QUOTAS:
        raise ValueError(f"there is no quota {name!r}: there are {', '.join(CLIENT_QUOTAS)}")
    least, most = CLIENT_QUOTAS[name]["least"], CLIENT_QUOTAS[name]["most"]
    if not least <= value <= most:
        raise ValueError(f"{name} is a number from {least:,} to {most:,}")


def read_client_quotas(text: str) -> dict[str, int]:
    """From `requests_per_second=20, open_orders=100`. Raises ValueError."""
    quotas: dict[str, int] = {}
    for part in filter(None, (assignment.strip() for assignment in text.split(","))):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if not number.isdecimal():
            raise ValueError(f"a quota is written as NAME=NUMBER, as in open_orders=100, and not as {part!r}")
        refuse_wrong_quota(name, int(number))
        quotas[name] = int(number)
    return quotas


class GatewayClient(Row):
    """A client of the gateway with quotas of its own. A client without a row has the defaults.

    `client_id` is the name of its keys; a client that is not `active` is refused, whatever key it has.
    """

    table: ClassVar[Table] = Table(
        name="dag_clients",
        key=("namespace", "client_id"),
    )

    namespace: Namespace = "default"
    client_id: Name
    active: Flag = True
    quotas: JsonObject = Field(default_factory=dict)
    changed_by: Name
    created_at: Stamped
    updated_at: Stamped


class IdentityKind(StrEnum):
    """What of a token is compared: the application that asked for it (`azp`, `appid` or `client_id`), or its `sub`."""

    APPLICATION = "application"
    SUBJECT = "subject"


class ClientIdentity(Row):
    """Whose tokens are those of a client, and what they are worth.

    An identity of an issuer belongs to one client of one namespace: a token does not say which namespace it is for.
    """

    table: ClassVar[Table] = Table(
        name="dag_client_identities",
        key=("identity_id",),
        indexes=(
            Index("who", ("issuer", "kind", "value"), unique=True),
            Index("list", ("namespace", "client_id", "identity_id")),
        ),
        storage={"fillfactor": "70"},
    )

    identity_id: Id
    namespace: Namespace = "default"
    client_id: Name
    issuer: Url
    kind: IdentityKind
    value: Url
    scopes: JsonList = Field(default_factory=list)
    created_by: Name
    created_at: Stamped
    expires_at: Timestamp | None = None
    last_used_at: Timestamp | None = None
