"""What the API says about the catalogue."""

from pydantic import Field

from rmhdag.models.api.api_model import ApiModel


class CatalogueRemoval(ApiModel):
    collection_id: str
    removed: int = Field(description="How many items were taken out; with `dry_run`, how many would be")
    kept: int = Field(description="Items that stay because assets show them")
    item_ids: list[str] = Field(description="The first hundred of those that were taken out")
    dry_run: bool = False
