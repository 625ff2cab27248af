"""Settings of platforms: those that order assets besides the shipped ones, which seed the registry."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from rmhdag.assets.identity import read_platforms
from rmhdag.models.setting_types import SettingsGroup


def check_platforms(text: str) -> str:
    read_platforms(text)
    return text


Platforms = Annotated[str, AfterValidator(check_platforms)]


class PlatformConfiguration(SettingsGroup):
    """Orchestrators and APIs need the same platforms."""

    platforms: Platforms = Field(
        default="",
        description="Platforms besides ddh and arcgis, and their references (`?` is optional, `:version` the version "
        "label): `geonode=dataset,layer?; ckan=package,release:version`. `rmhdag platforms set` changes them later",
    )
