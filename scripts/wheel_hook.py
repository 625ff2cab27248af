"""Refuses to build a wheel without the web interface: it would look complete and serve a page that says it is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MANIFEST = "src/rmhdag/ui/static/manifest.json"


class WheelHook(BuildHookInterface):  # type: ignore[type-arg,misc]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        # An editable installation serves whatever is there, as soon as it is there.
        if version != "editable" and not Path(self.root, MANIFEST).is_file():
            raise RuntimeError("the web interface is not built: run scripts/build-ui, then build the wheel again")
