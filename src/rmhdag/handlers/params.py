"""Typed parameters: which model a handler declares, and what is wrong with what it was given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.models.json_values import json_pointer


class ParamsRefused(NonRetryableError):
    """The parameters do not fit the handler's model."""


def find_params_model(function: Callable[..., Any]) -> type[BaseModel] | None:
    """The model in the annotation of the first argument, `HandlerContext[Model]`."""
    arguments = list(inspect.signature(function).parameters.values())
    if len([one for one in arguments if one.default is one.empty]) != 1:
        raise TypeError(f"{function.__qualname__} must take exactly one argument, the context")
    try:
        annotation = get_type_hints(function).get(arguments[0].name)
    except NameError as error:
        raise TypeError(
            f"{function.__qualname__}: {error} in its annotations; name the model by @handler(…, params=Model)"
        ) from error
    if get_origin(annotation) is not HandlerContext:
        return None
    (model,) = get_args(annotation)
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def read_params(model: type[BaseModel], given: Any) -> BaseModel:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise ParamsRefused(explain(error)) from None


def explain(error: ValidationError) -> str:
    """Every problem with its place. Values are left out: they may be secrets."""
    problems = [
        f"params {json_pointer(*detail['loc']) or '/'}: {detail['msg']}"
        for detail in error.errors(include_url=False, include_input=False)
    ]
    return "; ".join(problems)
