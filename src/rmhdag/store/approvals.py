"""What waits for a person: rows that come and go with the wait, written with the job that asks."""

from __future__ import annotations

from rmhdag.store.queries import load_queries

SQL = load_queries(__file__)
