"""Labels of jobs and orders: what people call them, to find them again. Each is a key and a text."""

from __future__ import annotations

import re
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from rmhdag.models.columns import varchar
from rmhdag.models.limits import LABEL_KEY_CHARACTERS, LABEL_VALUE_CHARACTERS, LABELS_OF_A_JOB
from rmhdag.models.plain_text import refuse_deceiving

KEY_PATTERN = rf"[a-z0-9][a-z0-9._-]{{0,{LABEL_KEY_CHARACTERS - 1}}}"
_KEY = re.compile(KEY_PATTERN)
KEY_RULE = (
    f"the key of a label has 1 to {LABEL_KEY_CHARACTERS} characters, lower-case letters, digits, `.`, `_` and `-`, "
    "and begins with a letter or digit"
)


def check_key(text: str) -> str:
    if _KEY.fullmatch(text) is None:
        raise PydanticCustomError("label_key", KEY_RULE)
    return text


def _refuse_other_values(value: Any) -> Any:
    if not isinstance(value, str):
        raise PydanticCustomError("label_value", "the value of a label is text: write it in quotes")
    if len(value) > LABEL_VALUE_CHARACTERS:
        raise PydanticCustomError(
            "label_value",
            "the value of a label has at most {most} characters, and this one has {count}: shorten it",
            {"most": LABEL_VALUE_CHARACTERS, "count": len(value)},
        )
    return value


def _refuse_many(labels: Any) -> Any:
    if isinstance(labels, dict) and len(labels) > LABELS_OF_A_JOB:
        raise PydanticCustomError(
            "too_many_labels",
            "there are at most {most} labels, and these are {count}: leave some out",
            {"most": LABELS_OF_A_JOB, "count": len(labels)},
        )
    return labels


class LabelFilter(NamedTuple):
    """Has a label with this key; with this value, if one is named."""

    key: str
    value: str | None = None


def read_filter(text: str) -> LabelFilter:
    """`aoi` or `aoi=oslo`. Raises a ValueError."""
    key, equals, value = text.partition("=")
    check_key(key)
    return LabelFilter(key, _refuse_other_values(refuse_deceiving(value)) if equals else None)


def check_filter(text: str) -> str:
    read_filter(text)
    return text


# The columns of the table; callers give the types below, which say more about what is wrong.
LabelKey = Annotated[str, varchar(LABEL_KEY_CHARACTERS, min_length=1)]
LabelValue = Annotated[str, varchar(LABEL_VALUE_CHARACTERS)]
GivenKey = Annotated[str, AfterValidator(check_key), Field(json_schema_extra={"pattern": f"^{KEY_PATTERN}$"})]
GivenFilter = Annotated[str, AfterValidator(check_filter)]
GivenValue = Annotated[LabelValue, BeforeValidator(_refuse_other_values), AfterValidator(refuse_deceiving)]
Labels = Annotated[
    dict[GivenKey, GivenValue],
    BeforeValidator(_refuse_many),
    Field(max_length=LABELS_OF_A_JOB),
]
