"""What a key may do. `admin` includes all that concerns its namespace, except that only `worker` keys take tasks.

`platform` is about what no namespace owns: the schema, retention, processes and the audit trail of all namespaces. It
includes nothing else, and nothing includes it.
"""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    ADMIN = "admin"
    WORKER = "worker"
    PLATFORM = "platform"
