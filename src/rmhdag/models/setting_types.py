"""What the settings of all packages share: their base class, and types of values."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, AliasGenerator, BaseModel, ConfigDict, Field, StringConstraints

PREFIX = "RMHDAG_"
QueueName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
WebUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#]+$")]
Interval = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
# From a minute and a half: parts of a day are for tests.
Days = Annotated[float, Field(ge=0.001, le=36_500, allow_inf_nan=False)]


def own_variable(name: str) -> AliasChoices:
    return AliasChoices(f"{PREFIX}{name.upper()}")


class SettingsGroup(BaseModel):
    """The settings of one package. A field is read from the variable of its own name, unless it names others."""

    model_config = ConfigDict(
        populate_by_name=True, defer_build=True, alias_generator=AliasGenerator(validation_alias=own_variable)
    )


def split_names(text: str) -> list[str]:
    return text.replace(",", " ").split()
