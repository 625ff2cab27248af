"""Typed parameters and outputs: the models that a handler declares, their schemas, and violations of them.

A Pydantic model without a setting for unknown names ignores them, and with them misspelt parameters. Here it refuses
them; an explicit setting (`extra="allow"` or `extra="ignore"`) is respected.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, AliasPath, BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, SchemaValidator, core_schema

from rmhdag.handlers.contract import HandlerContext, NonRetryableError
from rmhdag.models.handler_result import HandlerResult
from rmhdag.models.json_values import json_pointer

# In the schema of an object: other accepted names of its members, by the name in `properties`.
OTHER_NAMES = "x-other-names"


class ParamsRefused(NonRetryableError):
    """The parameters do not fit the handler's model."""

    default_code = "INVALID_PARAMETER"


class OutputRefused(NonRetryableError):
    """The output does not fit the model that the handler declares for it."""


def find_params_model(function: Callable[..., Any]) -> type[BaseModel] | None:
    """The model in the annotation of the first argument, `HandlerContext[Model]`."""
    arguments = list(inspect.signature(function).parameters.values())
    if len([argument for argument in arguments if argument.default is argument.empty]) != 1:
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


def find_output_model(function: Callable[..., Any]) -> type[BaseModel] | None:
    """The model in the function's return annotation, if it is one."""
    try:
        annotation = get_type_hints(function).get("return")
    except NameError:
        return None
    if not isinstance(annotation, type) or not issubclass(annotation, BaseModel):
        return None
    return None if issubclass(annotation, HandlerResult) else annotation


def read_params(model: type[BaseModel], values: Any) -> BaseModel:
    try:
        params: BaseModel = strict_validator(model).validate_python(values)
    except ValidationError as error:
        raise ParamsRefused(explain(error, names=_known_names(model))) from None
    return params


def checked_output(model: type[BaseModel], output: Any) -> Any:
    """The output as JSON, including members that the model does not name; raises OutputRefused."""
    try:
        if isinstance(output, model):
            return output.model_dump(mode="json", by_alias=True)
        model.model_validate(output)
    except ValidationError as error:
        raise OutputRefused(explain(error, "output")) from None
    return output


def explain(error: ValidationError, what: str = "params", names: Collection[str] = ()) -> str:
    """Every problem with its place. Values are omitted: they may be secrets."""
    problems = [
        f"{what} {json_pointer(*detail['loc']) or '/'}: {_message(detail, names)}"
        for detail in error.errors(include_url=False, include_input=False)
    ]
    return "; ".join(problems)


def _message(detail: ErrorDetails, names: Collection[str]) -> str:
    if detail["type"] != "extra_forbidden":
        return str(detail["msg"])
    close = get_close_matches(str(detail["loc"][-1]), names, n=1) if len(detail["loc"]) == 1 else ()
    return "there is no such parameter" + (f"; did you mean {close[0]!r}?" if close else "")


def says_extra(model: Any) -> bool:
    """Whether the model, or one it inherits from, sets how unknown names are treated."""
    return "extra" in getattr(model, "model_config", {"extra": None})


@cache
def strict_validator(model: type[BaseModel]) -> SchemaValidator:
    """The model's own validator, but strict about unknown names, also in nested models."""
    if not model.__pydantic_complete__:
        model.model_rebuild()
    # Pydantic would reuse the existing validators of nested models, which ignore unknown names.
    return SchemaValidator(_forbid_extras(model.__pydantic_core_schema__), _use_prebuilt=False)


# Parts of a Pydantic schema that hold values, not schemas.
_VALUES = frozenset({"metadata", "serialization", "default", "expected", "members"})


def _forbid_extras(schema: Any) -> Any:
    if type(schema) in (list, tuple):
        return type(schema)(map(_forbid_extras, schema))
    if type(schema) is not dict:
        return schema
    strict = {key: value if key in _VALUES else _forbid_extras(value) for key, value in schema.items()}
    if schema.get("type") == "model" and not says_extra(schema.get("cls")):
        strict["config"] = {**strict.get("config", {}), "extra_fields_behavior": "forbid"}
    return strict


class StrictJsonSchema(GenerateJsonSchema):
    """The schema of what is really accepted: no unknown names, and all aliases of a field."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        json_schema = super().model_schema(schema)
        model = schema["cls"]
        if json_schema.get("type") != "object":
            return json_schema
        if self.mode == "validation":
            if not says_extra(model):
                json_schema["additionalProperties"] = False
            others = _other_names(model, json_schema.get("properties", {}))
            if others:
                json_schema[OTHER_NAMES] = others
        return json_schema


def _known_names(model: type[BaseModel]) -> list[str]:
    by_name = _is_known_by_name(model)
    return [alias for name, field in model.model_fields.items() for alias in _names_of(name, field, by_name=by_name)]


def _is_known_by_name(model: Any) -> bool:
    return bool(model.model_config.get("populate_by_name") or model.model_config.get("validate_by_name"))


def _other_names(model: Any, properties: JsonSchemaValue) -> dict[str, list[str]]:
    by_name = _is_known_by_name(model)
    others = {}
    for name, field in model.model_fields.items():
        names = _names_of(name, field, by_name=by_name)
        property_name = next((alias for alias in names if alias in properties), None)
        if property_name is not None and len(names) > 1:
            others[property_name] = [alias for alias in names if alias != property_name]
    return others


def _names_of(name: str, field: FieldInfo, *, by_name: bool) -> list[str]:
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [] if alias is None else [alias]
    names = [str(choice.path[0] if isinstance(choice, AliasPath) else choice) for choice in choices]
    return list(dict.fromkeys([*names, name] if by_name or not names else names))


def params_schema(model: type[BaseModel] | None) -> dict[str, Any]:
    return {} if model is None else model.model_json_schema(schema_generator=StrictJsonSchema)


def output_schema(model: type[BaseModel] | None) -> dict[str, Any]:
    return {} if model is None else model.model_json_schema(mode="serialization", schema_generator=StrictJsonSchema)
