"""Types of setting values that several packages use."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

QueueName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
WebUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s?#]+$")]
Interval = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]
# From a minute and a half: parts of a day are for tests.
Days = Annotated[float, Field(ge=0.001, le=36_500, allow_inf_nan=False)]


def split_names(text: str) -> list[str]:
    return text.replace(",", " ").split()
