"""vector.index_tables and vector.catalogue_tables: tables are indexed, counted and handed over to be shown."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, model_validator

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.handlers.registry import handler
from rmhdag.handlers.vector.manifest import Bounds, Manifest, PreparedTable, default_item_id, read_manifest
from rmhdag.handlers.vector.refusals import VectorRefused
from rmhdag.models.blobs import BlobRef
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.id_types import StacId
from rmhdag.models.records import TableRecord, TableRole
from rmhdag.models.table_names import name_with, table_slug
from rmhdag.postgis.database import Conn
from rmhdag.postgis.loading import IndexWish, LoadingError, TableFacts, finish_table
from rmhdag.postgis.views import SplitView, find_time_span, make_split_views

MOST_INDEXES = 20


class Indexes(BaseModel):
    """Besides the key. Columns are named as in the file or as in the table."""

    model_config = ConfigDict(extra="forbid")

    spatial: bool = True
    attributes: Annotated[list[str], Field(max_length=MOST_INDEXES)] = Field(default_factory=list)
    temporal: Annotated[list[str], Field(max_length=MOST_INDEXES)] = Field(default_factory=list)

    def wish_for(self, table: PreparedTable) -> IndexWish:
        attributes, temporal = (
            [table.column(name).name for name in names] for names in (self.attributes, self.temporal)
        )
        return IndexWish(self.spatial, attributes, temporal)


class IndexParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    manifest: BlobRef = Field(description="Output of vector.prepare")
    indexes: Indexes | Annotated[list[str], Field(max_length=MOST_INDEXES)] = Field(
        default_factory=Indexes, description="Columns with an index; a list stands for attributes"
    )
    loaded_rows: Annotated[int, Field(ge=0)] | None = Field(
        None, description="Rows that were loaded by all tasks together; compared with what was prepared"
    )


class TableSummary(BaseModel):
    table_name: str
    stored_name: str
    geometry_type: str
    row_count: int
    column_count: int
    srid: int = 4326
    bbox: Bounds | None
    has_spatial_index: bool


class IndexOutput(BaseModel):
    tables: list[TableSummary]
    row_count: int


@handler("vector.index_tables", aliases=["vector_index_tables"])
def index_tables(ctx: HandlerContext[IndexParams]) -> IndexOutput:
    """Checks that every prepared row is in its table, then makes the indexes and collects statistics."""
    params = ctx.params
    manifest = read_manifest(ctx, params.manifest)
    if params.loaded_rows is not None and params.loaded_rows != manifest.row_count:
        raise NonRetryableError(
            f"{params.loaded_rows:,} rows were loaded, and {manifest.row_count:,} were prepared",
            code="ROW_COUNT_MISMATCH",
        )
    with ctx.postgis.connect() as conn:
        tables = index_all(ctx, conn, manifest, params.indexes)
    return IndexOutput(tables=tables, row_count=sum(table.row_count for table in tables))


def index_all(
    ctx: HandlerContext[Any], conn: Conn, manifest: Manifest, indexes: Indexes | list[str]
) -> list[TableSummary]:
    wish = Indexes(attributes=indexes) if isinstance(indexes, list) else indexes
    wishes = [wish.wish_for(table) for table in manifest.tables]
    summaries = []
    for number, (table, table_wish) in enumerate(zip(manifest.tables, wishes, strict=True)):
        ctx.progress(number, len(manifest.tables), f"indexing {table.table_name}")
        try:
            facts = finish_table(ctx.postgis, conn, table.stored_name, table.row_count, table_wish)
        except LoadingError as error:
            raise NonRetryableError(str(error), code="ROW_COUNT_MISMATCH") from None
        summaries.append(_summary(table, facts, table_wish))
    return summaries


def _summary(table: PreparedTable, facts: TableFacts, wish: IndexWish) -> TableSummary:
    return TableSummary(
        table_name=table.table_name,
        stored_name=table.stored_name,
        geometry_type=table.geometry_type,
        row_count=facts.row_count,
        # With the key and the geometry.
        column_count=len(table.columns) + 2,
        bbox=None if facts.bounds is None else list(facts.bounds),
        has_spatial_index=wish.spatial,
    )


class CatalogueWords(BaseModel):
    """Columns of the catalogue that people fill."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    title: Annotated[str, Field(max_length=500)] | None = None
    description: Annotated[str, Field(max_length=20_000)] | None = None
    keywords: (
        Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=50)]
        | Annotated[str, Field(max_length=5_000)]
        | None
    ) = None
    license: Annotated[str, Field(max_length=100)] | None = Field(None, description="As an SPDX identifier")
    attribution: Annotated[str, Field(max_length=500)] | None = None
    providers: Annotated[list[dict[str, Any]], Field(max_length=50)] | None = Field(None, description="As in STAC")
    sci_doi: Annotated[str, Field(max_length=500)] | None = Field(
        default=None, validation_alias=AliasChoices("sci_doi", "sci:doi")
    )
    sci_citation: Annotated[str, Field(max_length=20_000)] | None = Field(
        default=None, validation_alias=AliasChoices("sci_citation", "sci:citation")
    )
    stac_extensions: Annotated[list[str], Field(max_length=50)] | None = None


WORDS = frozenset({*CatalogueWords.model_fields, "sci:doi", "sci:citation"})


class TableWords(CatalogueWords):
    """What people say about the tables, for the catalogue."""

    properties: dict[str, Any] = Field(
        default_factory=dict,
        description="More facts; title, license and the other words for the catalogue may be here too",
    )

    @model_validator(mode="after")
    def _check_properties(self) -> Self:
        """A word that the catalogue cannot hold would be noticed when the table is to be shown: too late."""
        self._words_of_properties()
        return self

    def facts(self) -> dict[str, Any]:
        """Those of `properties` count if there is none of its own name; the rest are custom properties."""
        others = {name: value for name, value in self.properties.items() if name not in WORDS}
        facts = {
            name: getattr(words if getattr(self, name) is None else self, name)
            for words in [self._words_of_properties()]
            for name in CatalogueWords.model_fields
        }
        return {**facts, "custom_properties": others}

    def _words_of_properties(self) -> CatalogueWords:
        words = {name: value for name, value in self.properties.items() if name in WORDS}
        return CatalogueWords.model_validate(words)


class CatalogueParams(TableWords):
    manifest: BlobRef = Field(description="Output of vector.prepare")
    tables: list[TableSummary] = Field(description="Output of vector.index_tables")
    overwrite: bool = Field(False, description="Replace a table of the same name that belongs to no asset")
    temporal_property: str | None = Field(None, description="Column with the time of a feature")
    split_column: str | None = Field(None, description="Make a view for each value of this column, at most 20")
    collection_id: StacId | None = Field(None, description="STAC collection, if there is an item")
    item_id: StacId | None = Field(None, description="STAC item; as for vector.create_stac, if not given")


class ShownTable(BaseModel):
    table_name: str
    geometry_type: str
    row_count: int
    role: TableRole
    collection: str = Field(description="Name for services: schema and table")


class CatalogueOutput(BaseModel):
    tables_created: list[ShownTable]


@handler("vector.catalogue_tables", aliases=["vector_catalogue_tables"], output=CatalogueOutput)
def catalogue_tables(ctx: HandlerContext[CatalogueParams]) -> HandlerResult:
    """Hands the tables over: they get their public names when the job's revision is served, or at once if it makes
    none. Makes views by the values of a column, if asked for.
    """
    params = ctx.params
    manifest = read_manifest(ctx, params.manifest)
    with ctx.postgis.connect() as conn:
        records = table_records(ctx, conn, manifest, params.tables, params)
    return HandlerResult(output=shown_tables(ctx, records).model_dump(mode="json"), records=tuple(records))


def table_records(
    ctx: HandlerContext[Any], conn: Conn, manifest: Manifest, summaries: list[TableSummary], params: CatalogueParams
) -> list[TableRecord]:
    facts = params.facts()
    stac = {}
    if params.collection_id is not None:
        item_id = params.item_id or default_item_id(manifest)
        stac = {"stac_collection_id": params.collection_id, "stac_item_id": item_id}
    records = []
    for table, summary in zip(manifest.tables, summaries, strict=True):
        span: dict[str, Any] = {}
        if params.temporal_property is not None:
            column = table.time_column(params.temporal_property)
            if column is not None:
                span = find_time_span(ctx.postgis, conn, table.stored_name, column.name)
        details = {
            **facts,
            **stac,
            **span,
            "bbox": summary.bbox,
            "geometry_type": table.geometry_type,
            "feature_count": summary.row_count,
            "table_group": table.table_group if table.is_split else None,
            "column_definitions": {
                column.name: {"type": column.type, "source_name": column.source_name} for column in table.columns
            },
        }
        records.append(
            TableRecord(
                table_name=table.table_name,
                stored_name=table.stored_name,
                role=TableRole.GEOMETRY_SPLIT if table.is_split else TableRole.PRIMARY,
                geometry_type=table.geometry_type,
                feature_count=summary.row_count,
                overwrite=params.overwrite,
                details=details,
            )
        )
        if params.split_column is not None:
            column_name = _split_column(table, params.split_column)
            try:
                views = make_split_views(ctx.postgis, conn, table.stored_name, column_name)
            except LoadingError as error:
                raise VectorRefused(f"{error}: choose another split_column.", code="INVALID_PARAMETER") from None
            records += [_view_record(table, view, details, params) for view in views]
    return records


def shown_tables(ctx: HandlerContext[Any], records: list[TableRecord]) -> CatalogueOutput:
    return CatalogueOutput(
        tables_created=[
            ShownTable(
                table_name=record.table_name,
                geometry_type=record.geometry_type,
                row_count=record.feature_count,
                role=record.role,
                collection=f"{ctx.postgis.schema}.{record.table_name}",
            )
            for record in records
        ]
    )


def _split_column(table: PreparedTable, name: str) -> str:
    column = table.column(name)
    if column.type not in ("text", "integer", "bigint", "boolean"):
        raise VectorRefused(
            f"column {name!r} is {column.type}: views are made by text, whole numbers or true and false.",
            code="INVALID_PARAMETER",
        )
    return column.name


def _view_record(
    table: PreparedTable, view: SplitView, details: dict[str, Any], params: CatalogueParams
) -> TableRecord:
    slug = table_slug(view.text).removeprefix("t_") or "value"
    title = f"{details.get('title') or table.table_name} — {view.column} {view.text}"
    return TableRecord(
        table_name=name_with(table.table_name, f"_{view.column}_{slug}"[:40]),
        stored_name=view.stored_name,
        role=TableRole.VIEW,
        geometry_type=table.geometry_type,
        feature_count=view.row_count,
        overwrite=params.overwrite,
        details={
            **details,
            "title": title[:500],
            "bbox": None if view.bounds is None else list(view.bounds),
            "feature_count": view.row_count,
            "table_type": "split_view",
            "custom_properties": {
                "split_view": True,
                "base_table": table.table_name,
                "split_column": view.column,
                "split_value": view.text,
            },
        },
    )
