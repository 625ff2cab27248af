"""How large anything may be: the one table of limits, each with what happens above it. docs/limits.md shows it.

Sizes are bytes of JSON as it is stored: compact UTF-8.
"""

from __future__ import annotations

KB = 1024
MB = 1024 * KB

# What stands in a row itself. An output, or a node's parameters, above this are stored in `dag_payloads`.
INLINE_BYTES = 64 * KB
# One value in `dag_payloads`, and all stored values of one task together.
PAYLOAD_BYTES = 64 * MB
PAYLOAD_CHUNK_BYTES = MB
# The parameters of one node, or the result of one job, with all that expressions put into them.
PARAMS_BYTES = 16 * MB
# A job's parameters: it may be given the 100,000 items of its fan-out.
INPUT_BYTES = 8 * MB
INPUT_DEPTH = 32
# A job's result; members of a larger one are stored apart.
RESULT_BYTES = MB
# Expressions look into stored values up to this.
LOOKED_INTO_BYTES = MB
RECORDS_BYTES = 16 * MB
MOST_RECORDS = 100_000
CHECKPOINT_BYTES = 64 * KB
INBOX_BYTES = 8 * KB
LOG_CHUNK_BYTES = 64 * KB
TASK_LOG_BYTES = MB
MESSAGE_CHARACTERS = 2_000
DEPTH = 64
MAX_CHILDREN = 500_000
# What one step of an expansion may put into rows and payloads.
EXPANSION_BYTES = 4 * MB
