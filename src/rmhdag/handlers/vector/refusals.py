"""Refusals of vector files, and warnings about those that were accepted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from rmhdag.handlers.contract import NonRetryableError
from rmhdag.models.handler_result import DataWarning

SAMPLES = 5


class VectorRefused(NonRetryableError):
    """The file is refused; the message says what is wrong and what to do."""

    default_code = "VECTOR_UNREADABLE"


class Finding(StrEnum):
    NULL_GEOMETRY = "NULL_GEOMETRY_DROPPED"
    REPAIRED = "GEOMETRY_REPAIRED"
    PARTS_DROPPED = "GEOMETRY_PARTS_DROPPED"
    COLLAPSED = "GEOMETRY_COLLAPSED_DROPPED"
    HEIGHTS_DROPPED = "GEOMETRY_HEIGHTS_DROPPED"
    ANTIMERIDIAN = "ANTIMERIDIAN_SPLIT"
    TYPE_SPLIT = "GEOMETRY_TYPE_SPLIT"
    CRS_ASSUMED = "CRS_ASSUMED"
    CRS_OVERRIDE = "CRS_OVERRIDE"
    EMPTY_COLUMNS = "EMPTY_COLUMNS_DROPPED"
    COLUMNS_RENAMED = "COLUMNS_RENAMED"
    RESERVED_COLUMNS = "RESERVED_COLUMNS_RENAMED"
    IDS = "FEATURE_IDS_DROPPED"
    DATES_RESET = "DATES_RESET"
    EMPTY_ROWS = "EMPTY_ROWS_DROPPED"
    TEXT_CHANGED = "TEXT_CHANGED"
    GEOMETRY_UNREADABLE = "GEOMETRY_UNREADABLE_DROPPED"
    HEADER_SUSPICIOUS = "HEADER_SUSPICIOUS"
    TABLES_IGNORED = "LAYERS_WITHOUT_GEOMETRY_IGNORED"


@dataclass
class Findings:
    """Counted while batches go by; each loss becomes a warning."""

    counts: dict[Finding, int] = field(default_factory=dict)
    messages: dict[Finding, str] = field(default_factory=dict)
    samples: dict[Finding, list[str]] = field(default_factory=dict)

    def add(self, finding: Finding, message: str, count: int = 1, samples: Iterator[str] | list[str] = ()) -> None:  # type: ignore[assignment]
        if count <= 0:
            return
        self.counts[finding] = self.counts.get(finding, 0) + count
        self.messages.setdefault(finding, message)
        quoted = self.samples.setdefault(finding, [])
        for sample in samples:
            if len(quoted) >= SAMPLES:
                break
            quoted.append(sample)

    def warnings(self) -> tuple[DataWarning, ...]:
        return tuple(
            DataWarning(code=finding.value, message=self._message(finding), count=count)
            for finding, count in self.counts.items()
        )

    def _message(self, finding: Finding) -> str:
        samples = ", ".join(self.samples[finding])
        return f"{self.messages[finding]} ({samples})" if samples else self.messages[finding]
