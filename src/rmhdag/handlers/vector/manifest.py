"""What was prepared: tables with their columns, and the GeoParquet files with their rows. Stored as a JSON file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from rmhdag.handlers.contract import HandlerContext
from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.models.blobs import BlobRef
from rmhdag.models.records import TableName
from rmhdag.storage import BlobNotFound

TIME_TYPES = ("date", "timestamptz")
MOST_BYTES = 64 * 1024 * 1024
Bounds = Annotated[list[float], Field(min_length=4, max_length=4)]


class Stored(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PreparedColumn(Stored):
    """`source_name` is the name in the file."""

    name: str
    source_name: str
    type: str


class Span(Stored):
    """The first and the last value of a column of dates or times, as ISO text; times are in UTC."""

    first: str
    last: str


class PreparedTable(Stored):
    """`spans` are by the names of columns. `empty_columns` have no value in the whole layer, and are left out."""

    table_name: TableName
    stored_name: TableName
    table_group: TableName
    geometry_type: str
    layer: str
    row_count: int
    bbox: Bounds | None
    columns: list[PreparedColumn]
    is_split: bool = False
    spans: dict[str, Span] = Field(default_factory=dict)
    empty_columns: list[PreparedColumn] = Field(default_factory=list)

    def time_column(self, name: str) -> PreparedColumn | None:
        """None if it has no values. Raises VectorRefused if there is none, or one of another type."""
        if any(name in (column.name, column.source_name) for column in self.empty_columns):
            return None
        column = self.column(name)
        if column.type not in TIME_TYPES:
            raise VectorRefused(f"column {name!r} is {column.type}, and a time is needed.", code="INVALID_PARAMETER")
        return column

    def column(self, name: str) -> PreparedColumn:
        """By the name in the table, or by the one that users know. Raises VectorRefused."""
        for column in self.columns:
            if column.name == name:
                return column
        for column in self.columns:
            if column.source_name == name or column.source_name.lower() == name.lower():
                return column
        columns = ", ".join(column.source_name[:40] for column in self.columns[:20])
        raise VectorRefused(
            f"table {self.table_name} has no column {name[:60]!r}; it has {columns}.", code="INVALID_PARAMETER"
        )


class PreparedPart(Stored):
    """A GeoParquet file with rows of one table; their ids follow each other from `first_id`."""

    table: int
    file: BlobRef
    row_count: int
    first_id: int


class Manifest(Stored):
    version: int = 1
    tables: list[PreparedTable]
    parts: list[PreparedPart]
    source_format: str
    crs_input: str

    @property
    def row_count(self) -> int:
        return sum(table.row_count for table in self.tables)


def default_item_id(manifest: Manifest) -> str:
    """Of the STAC item, unless the order names it."""
    return manifest.tables[0].table_group


def read_manifest(ctx: HandlerContext[Any], file: BlobRef) -> Manifest:
    try:
        return Manifest.model_validate_json(ctx.storage.read(file.address, MOST_BYTES))
    except BlobNotFound:
        raise VectorRefused(
            f"the prepared data {file.address} was deleted: prepare the file again.", code="FILE_NOT_FOUND"
        ) from None
