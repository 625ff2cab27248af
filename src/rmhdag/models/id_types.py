"""What ids look like where they come from outside. Those of columns are in `columns`, of workflows in the language."""

from __future__ import annotations

from typing import Annotated

from pydantic import StringConstraints

AssetId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
RequestId = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_.-]{1,64}$")]
WorkerId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
TaskId = Annotated[str, StringConstraints(min_length=1, max_length=64)]
# Of STAC items and collections: they become names of files.
StacId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$")]
