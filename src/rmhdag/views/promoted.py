"""Promoted datasets as they are shown."""

from __future__ import annotations

from rmhdag.models.api.promoted import PromotedView
from rmhdag.models.assets import Classification
from rmhdag.store.promoted import PromotedLine

MISSING = "the catalogue no longer has what it refers to"
WITHHELD = "its revision is not cleared for the public, so it is not shown outside"


def view_of(line: PromotedLine) -> PromotedView:
    is_public = line.classification == Classification.PUBLIC
    warnings = [*([] if line.is_there else [MISSING]), *([WITHHELD] if line.is_withheld and is_public else [])]
    facts = {name: value for name, value in line._asdict().items() if name not in ("is_there", "is_withheld")}
    return PromotedView.model_validate(
        {
            **facts,
            "item_id": line.item_id or None,
            "in_gallery": line.gallery_order is not None,
            "is_system_reserved": line.system_role is not None,
            "visible_outside": is_public and line.is_there and not line.is_withheld,
            "warnings": warnings,
        }
    )
