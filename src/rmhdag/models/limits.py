"""How large anything may be: every limit of every edge, in one table. docs/limits.md is made from it:

    python -m rmhdag.models.limits > docs/limits.md

Sizes are bytes of JSON as it is stored, that is compact UTF-8; tests/limits goes just below and just above each.
"""

from __future__ import annotations

from typing import NamedTuple

KB = 1024
MB = 1024 * KB

# Values. What stands in a row itself is small; what is larger is stored in `dag_payloads`, in chunks.
INLINE_BYTES = 64 * KB
PAYLOAD_BYTES = 64 * MB
PAYLOAD_CHUNK_BYTES = MB
LOOKED_INTO_BYTES = MB
JSON_DEPTH = 64

# Workflows.
FILE_BYTES = 8 * MB
# What a file becomes: all defaults are written out, and each edge gets its points.
DEFINITION_BYTES = 16 * MB
LAYOUT_BYTES = 64 * MB
MAX_NODES = 10_000
NODE_ID_CHARACTERS = 100
TEMPLATE_CHARACTERS = 64 * KB
EXPRESSION_CHARACTERS = 4 * KB
TEXT_CHARACTERS = MB
# A shorter secret could not be distinguished from ordinary text.
SECRET_CHARACTERS = 6
# A pattern's size is its parts with counted repetitions written out; trying it takes some 30 ns per part and letter.
PATTERN_CHARACTERS = 500
PATTERN_SIZE = 1_000
PATTERN_TEXT_CHARACTERS = 10_000

# Jobs. A job may be given the 100,000 items of its fan-out.
INPUT_BYTES = 8 * MB
INPUT_DEPTH = 32
PARAMS_BYTES = 16 * MB
RESULT_BYTES = MB
MAX_CHILDREN = 500_000
NAMED_FAILURES = 100
CHILD_DEPTH = 8
LABELS_OF_A_JOB = 16
LABEL_KEY_CHARACTERS = 63
LABEL_VALUE_CHARACTERS = 200
# What one step of an expansion may put into rows and payloads.
EXPANSION_BYTES = 4 * MB
INBOX_BYTES = 8 * KB
MESSAGE_CHARACTERS = 2_000

# Tasks.
RECORDS_BYTES = 16 * MB
MOST_RECORDS = 100_000
# A handler's checkpoint; the rest is for what rmhdag adds to it.
CHECKPOINT_BYTES = 60 * KB
CHECKPOINT_ROW_BYTES = 64 * KB
LOG_CHUNK_BYTES = 64 * KB
TASK_LOG_BYTES = MB

# HTTP.
# Where parameters, workflows or results are sent; elsewhere a body is small.
BODY_BYTES = 10 * MB
SMALL_BODY_BYTES = 256 * KB
HEADER_BYTES = 32 * KB
# What a body costs grows with its values, and with its lists and objects most of all. So many of each, as the
# parameters of one job, are read, checked, stored and shown within a second; 100,000 items of three members fit.
BODY_VALUES = 410_000
BODY_CONTAINERS = 200_000
# Of all jobs in one submission: defaults make a small body large.
BATCH_BYTES = 16 * MB
JOBS_IN_A_BATCH = 1_000
REASON_CHARACTERS = 1_000
URL_CHARACTERS = 512
IDEMPOTENCY_KEY_CHARACTERS = 128


class Limit(NamedTuple):
    what: str
    value: int
    unit: str
    above: str


LIMITS: dict[str, tuple[Limit, ...]] = {
    "Workflows": (
        Limit("a workflow file", FILE_BYTES, "bytes", "`file-too-large`: the file is refused"),
        Limit("nodes of a workflow", MAX_NODES, "", "the file is refused"),
        Limit("the name of a node", NODE_ID_CHARACTERS, "characters", "the file is refused"),
        Limit("a text with templates", TEMPLATE_CHARACTERS, "characters", "the file is refused"),
        Limit("one expression", EXPRESSION_CHARACTERS, "characters", "the file is refused"),
        Limit("a pattern", PATTERN_CHARACTERS, "characters", "the file is refused"),
        Limit("a pattern with its repetitions written out", PATTERN_SIZE, "parts", "the file is refused"),
        Limit("a text that a pattern is matched against", PATTERN_TEXT_CHARACTERS, "characters", "refused"),
        Limit("a text produced by an expression", TEXT_CHARACTERS, "characters", "`template_error`: the node fails"),
    ),
    "Jobs": (
        Limit("the parameters of a job, with defaults", INPUT_BYTES, "bytes", "refused; a child job fails"),
        Limit("their depth", INPUT_DEPTH, "levels", "refused; a child job fails"),
        Limit("the resolved parameters of a node", PARAMS_BYTES, "bytes", "`template_error`: the node fails"),
        Limit("parameters in a row", INLINE_BYTES, "bytes", "large ones are stored separately, once per job"),
        Limit("the resolved result of a job", PARAMS_BYTES, "bytes", "the job fails"),
        Limit("a result in its row", RESULT_BYTES, "bytes", "large members are stored separately"),
        Limit(
            "a stored value that expressions can read",
            LOOKED_INTO_BYTES,
            "bytes",
            "expressions cannot read its members",
        ),
        Limit("items of a fan-out", MAX_CHILDREN, "", "`fan_out_source`: the node fails"),
        Limit("the output of a fan-in", PAYLOAD_BYTES, "bytes", "`aggregation_failed`: the fan-in fails"),
        Limit("failures that a fan-in names", NAMED_FAILURES, "", "the counts of the fan-out include the others"),
        Limit("child jobs in child jobs", CHILD_DEPTH, "levels", "the node fails"),
        Limit("labels of a job or an order", LABELS_OF_A_JOB, "", "refused"),
        Limit("the key of a label", LABEL_KEY_CHARACTERS, "characters", "refused"),
        Limit("the value of a label", LABEL_VALUE_CHARACTERS, "characters", "refused"),
        Limit("an error message", MESSAGE_CHARACTERS, "characters", "the rest is cut off"),
    ),
    "Tasks": (
        Limit("an output in its row", INLINE_BYTES, "bytes", "stored separately; a reference replaces it"),
        Limit("an output", PAYLOAD_BYTES, "bytes", "`output_refused`: the task fails"),
        Limit("the depth of an output", JSON_DEPTH, "levels", "`output_refused`: the task fails"),
        Limit("the stored values in a task's parameters, together", PAYLOAD_BYTES, "bytes", "the task fails"),
        Limit("the records of a result", RECORDS_BYTES, "bytes", "`output_refused`: the task fails"),
        Limit("records of a result", MOST_RECORDS, "", "the handler gets an error"),
        Limit("the data of a checkpoint", CHECKPOINT_BYTES, "bytes", "the handler gets an error"),
        Limit("metrics of a result", INLINE_BYTES, "bytes", "the handler gets an error"),
        Limit("the log of a task", TASK_LOG_BYTES, "bytes", "the rest is dropped, and the log says so"),
        Limit("a piece of a log", LOG_CHUNK_BYTES, "bytes", "422"),
    ),
    "HTTP": (
        Limit("a body with parameters, a workflow or results of tasks", BODY_BYTES, "bytes", "413"),
        Limit("any other body", SMALL_BODY_BYTES, "bytes", "413"),
        Limit("values in a body", BODY_VALUES, "", "413"),
        Limit("lists and objects in a body, empty ones too", BODY_CONTAINERS, "", "413"),
        Limit("address and headers", HEADER_BYTES, "bytes", "431"),
        Limit("the depth of a body", JSON_DEPTH, "levels", "400"),
        Limit("jobs in one submission", JOBS_IN_A_BATCH, "", "422"),
        Limit("their parameters with defaults, together", BATCH_BYTES, "bytes", "413"),
        Limit("an idempotency key", IDEMPOTENCY_KEY_CHARACTERS, "characters", "422"),
        Limit("a callback URL", URL_CHARACTERS, "characters", "422"),
        Limit("a reason for a decision or a cancel", REASON_CHARACTERS, "characters", "422"),
        Limit("a chunk of a payload", PAYLOAD_CHUNK_BYTES, "bytes", "413"),
        Limit("a payload", PAYLOAD_BYTES, "bytes", "422"),
    ),
}


RATES = (
    "",
    "## Rates and time",
    "",
    "| what | limit | above it |",
    "|---|---|---|",
    "| requests with one key, per API process | `RMHDAG_REQUESTS_PER_SECOND`, 1,000 | 429 with Retry-After |",
    "| jobs submitted with one key, per API process | `RMHDAG_SUBMITS_PER_SECOND`, 2,000 | 429 with Retry-After |",
    "| checking a workflow or large parameters | 0.6 s of processor time, 10 s with `Prefer: wait=10` | 422 |",
    "| evaluating the parameters of a node | 50 ms, as counted | `template_error`: the node fails |",
    "| all expressions that follow from one event of a job | 500 ms, as counted | `template_error`: the node fails |",
)


def render_page() -> str:
    lines = [
        "# Limits",
        "",
        "This page lists the limits of workflows, jobs, tasks and the API, and what happens above them.",
        "Sizes are those of compact JSON in UTF-8.",
        "",
        "Made from `src/rmhdag/models/limits.py` by `python -m rmhdag.models.limits > docs/limits.md`.",
        "`tests/limits` goes just below and just above each.",
    ]
    for part, limits in LIMITS.items():
        lines += ["", f"## {part}", "", "| what | limit | above it |", "|---|---|---|"]
        lines += [f"| {limit.what} | {_shown(limit)} | {limit.above} |" for limit in limits]
    return "\n".join([*lines, *RATES]) + "\n"


def _shown(limit: Limit) -> str:
    if limit.unit != "bytes":
        return f"{limit.value:,} {limit.unit}".strip()
    return f"{limit.value // MB} MB" if limit.value % MB == 0 else f"{limit.value // KB} KB"


if __name__ == "__main__":
    print(render_page(), end="")
