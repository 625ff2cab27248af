"""What the gateway's role may read: views that leave out everything that is not meant for clients.

They are made anew by `rmhdag db roles`, in one transaction with their grants. Columns that a client must not see, such
as the id of a job, are there where the gateway itself needs them to forward a command.
"""

from __future__ import annotations

from rmhdag.store.queries import load_queries
from rmhdag.store.schema import check_schema_name

SQL = load_queries(__file__)
GATEWAY_VIEWS = tuple(SQL)


def view_statements(schema: str) -> list[str]:
    """Dropped first: a view cannot be replaced by one with other columns."""
    check_schema_name(schema)
    statements = [f"DROP VIEW IF EXISTS {', '.join(f'{schema}.{name}' for name in GATEWAY_VIEWS)}"]
    for name, query in SQL.items():
        body = query.decode().replace("FROM dag_", f"FROM {schema}.dag_").replace("JOIN dag_", f"JOIN {schema}.dag_")
        statements.append(f"CREATE VIEW {schema}.{name} WITH (security_barrier) AS {body}")
    return statements
