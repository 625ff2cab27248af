"""What the API says about the catalogue."""

from __future__ import annotations

from pydantic import BaseModel, Field


class CatalogueRemoval(BaseModel):
    collection_id: str
    removed: int = Field(description="How many items were taken out; with `dry_run`, how many would be")
    kept: int = Field(description="Items that stay because assets show them")
    item_ids: list[str] = Field(description="The first hundred of those that were taken out")
    dry_run: bool = False
