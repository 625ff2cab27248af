"""Moments in queries: written out, for a number would be taken for one of several things."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import AwareDatetime, BeforeValidator

from rmhdag.models.columns import Timestamp

A_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:")


def _check_moment(value: Any) -> Any:
    """A number would be read as seconds or milliseconds, whichever seems likelier."""
    if isinstance(value, str) and not A_MOMENT.match(value):
        raise ValueError("not a time: write 2026-01-31T12:00:00Z")
    return value


Moment = Annotated[Timestamp, BeforeValidator(_check_moment)]
# Also before and after all that can be stored.
AnyMoment = Annotated[AwareDatetime, BeforeValidator(_check_moment)]
