"""Bodies of calls, checked before they are sent."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from rmhdag.client.errors import InvalidRequest
from rmhdag.models.api.problems import ProblemPlace
from rmhdag.models.json_values import json_pointer

B = TypeVar("B", bound=BaseModel)


def checked(model: type[B], fields: dict[str, Any]) -> B:
    """What the server would refuse is refused here, in the same way."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        # Pydantic names the class of an exception before its sentence, which says all there is to say.
        places = [
            ProblemPlace(pointer=json_pointer(*fault["loc"]), detail=str(fault["msg"]).removeprefix("Value error, "))
            for fault in error.errors(include_url=False, include_input=False)
        ]
        what = places[0].detail if len(places) == 1 else f"{len(places)} things are wrong with it"
        raise InvalidRequest("invalid_request", what, errors=places) from None
