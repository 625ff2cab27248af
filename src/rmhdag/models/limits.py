"""How large anything may be: the one table of limits. docs/limits.md is written from it."""

from __future__ import annotations

KB = 1024
MB = 1024 * KB

# What is stored in one piece of `dag_payloads`, and what all stored values of one task may be together.
PAYLOAD_BYTES = 64 * MB
PAYLOAD_CHUNK_BYTES = MB
