"""YAML text in, checked workflow definition out; every problem with its position."""

from rmhdag.workflow.catalogue import (
    HandlerCatalogue,
    HandlerEntry,
    handlers_from_file,
    read_handlers,
    shipped_handlers,
)
from rmhdag.workflow.inputs import InvalidInputs, validate_inputs
from rmhdag.workflow.language_schema import json_schema
from rmhdag.workflow.loader import (
    LoadedWorkflow,
    check,
    definition_hash,
    definition_json,
    load,
    load_file,
    load_folder,
    workflow_files,
)
from rmhdag.workflow.problems import InvalidWorkflow, Problem

__all__ = [
    "HandlerCatalogue",
    "HandlerEntry",
    "InvalidInputs",
    "InvalidWorkflow",
    "LoadedWorkflow",
    "Problem",
    "check",
    "definition_hash",
    "definition_json",
    "handlers_from_file",
    "json_schema",
    "load",
    "load_file",
    "load_folder",
    "read_handlers",
    "shipped_handlers",
    "validate_inputs",
    "workflow_files",
]
