"""What one namespace may have of the platform: the quotas, their defaults, and the row of a namespace."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, Self

from pydantic import Field

from rmhdag.models.columns import Attempt, Flag, JsonObject, Name, Namespace, Share, Stamped, Timestamp
from rmhdag.models.limits import BODY_BYTES, MB
from rmhdag.models.table import Check, Index, Row, Table

GB = 1024 * MB


def quota(default: int, what: str, *, most: int = 2**53, least: int = 0) -> Any:
    return field(default=default, metadata={"what": what, "most": most, "least": least})


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """Generous for one laptop, and such that some tens of namespaces can live together on one platform."""

    running_tasks: int = quota(10_000, "tasks that shared workers hold at the same time", least=1)
    running_share: int = quota(
        90, "percent of the shared workers' slots of a queue, while there are other namespaces", most=100, least=1
    )
    open_jobs: int = quota(100_000, "jobs that have not ended")
    stored_bytes: int = quota(50 * GB, "bytes of parameters, results and stored values of jobs")
    upload_bytes: int = quota(256 * MB, "bytes of uploads that are not finished; those of an hour ago are removed")
    listeners: int = quota(400, "open streams (SSE and WebSocket) of one API process")
    requests_per_second: int = quota(500, "requests a second to one API process", least=1)
    processor_share: int = quota(
        25, "percent of a processor that requests to one API process may use, while other namespaces call it", least=1
    )
    body_bytes: int = quota(
        BODY_BYTES, "bytes of large request bodies in the memory of one API process; the largest alone always has room"
    )
    handler_trials: int = quota(2, "handlers that are tried at the same time")
    workflows: int = quota(2_000, "workflows, not counting their versions")
    handlers: int = quota(2_000, "handlers that its own workers have registered")
    keys: int = quota(1_000, "API keys that are valid")
    priority: int = quota(10, "highest priority of a job", most=10)

    def with_overrides(self, overrides: Mapping[str, Any]) -> Self:
        """Those of a namespace. What this version does not know, a newer one has written."""
        return replace(self, **{name: value for name, value in overrides.items() if name in QUOTAS})

    def as_json(self) -> dict[str, int]:
        return asdict(self)


# name → what it limits, and its bounds
QUOTAS: dict[str, Mapping[str, Any]] = {one.name: one.metadata for one in fields(Quotas)}


def refuse_wrong_value(name: str, value: int) -> None:
    """Raises ValueError for a quota that does not exist, or a value that it cannot have."""
    if name not in QUOTAS:
        raise ValueError(f"there is no quota {name!r}: there are {', '.join(QUOTAS)}")
    least, most = QUOTAS[name]["least"], QUOTAS[name]["most"]
    if not least <= value <= most:
        raise ValueError(f"{name} is a number from {least:,} to {most:,}")


def read_quotas(text: str) -> dict[str, int]:
    """From `open_jobs=1000, running_share=50`. Raises ValueError."""
    quotas: dict[str, int] = {}
    for part in filter(None, (assignment.strip() for assignment in text.split(","))):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if not number.isdecimal():
            raise ValueError(f"a quota is written as NAME=NUMBER, as in open_jobs=1000, and not as {part!r}")
        refuse_wrong_value(name, int(number))
        quotas[name] = int(number)
    return quotas


class NamespaceRow(Row):
    """A namespace with the quotas of its own, and what it uses, as it was counted last.

    `is_watched` namespaces have so many tasks running that claims count them; of the others no claim takes notice.
    """

    table: ClassVar[Table] = Table(
        name="dag_namespaces",
        key=("namespace",),
        indexes=(Index("watched", ("namespace",), where="is_watched"),),
        checks=(Check("share_range", "running_share BETWEEN 1 AND 100"),),
        storage={"fillfactor": "50"},
    )

    namespace: Namespace = "default"
    is_watched: Flag = False
    running_tasks: Attempt | None = None
    running_share: Share = 100
    created_at: Stamped
    counted_at: Timestamp | None = None
    changed_by: Name | None = None
    quotas: JsonObject = Field(default_factory=dict)
    used: JsonObject = Field(default_factory=dict)
