"""What a key may do. `admin` includes the others, except that only `worker` keys take tasks."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    READ = "read"
    SUBMIT = "submit"
    OPERATE = "operate"
    ADMIN = "admin"
    WORKER = "worker"
