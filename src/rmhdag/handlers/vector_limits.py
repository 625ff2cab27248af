"""Limits for vector files from outside. Imports no geospatial library, so that a worker can pass them on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

PREFIX = "RMHDAG_"
MEGABYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class VectorLimits:
    """Each field is a setting of the same name; children get them by environment variables."""

    vector_max_file_mb: int = 5 * 1024
    vector_max_unpacked_mb: int = 10 * 1024
    vector_max_columns: int = 1_000
    vector_max_feature_mb: int = 200
    vector_batch_mb: int = 8

    @classmethod
    def from_variables(cls, variables: Mapping[str, str] | None = None) -> VectorLimits:
        variables = os.environ if variables is None else variables
        texts = {field.name: variables.get(PREFIX + field.name.upper()) for field in fields(cls)}
        return cls(**{name: int(text) for name, text in texts.items() if text})

    def as_variables(self) -> dict[str, str]:
        return {PREFIX + field.name.upper(): str(getattr(self, field.name)) for field in fields(self)}
