"""Who may do what in the database: roles with no more rights than their processes need.

The owner has the tables and migrates. `app` reads and writes rows, `reader` reads them, `gateway` reads a few views;
none of them can change a table. What is granted also holds for tables and partitions that the owner makes later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from psycopg import sql

from rmhdag.models.audit import AuditRecord
from rmhdag.models.registry import SchemaMeta
from rmhdag.store.audit import add_audit
from rmhdag.store.connection import Conn, enter_schema
from rmhdag.store.day_functions import DAY_FUNCTIONS
from rmhdag.store.gateway_views import GATEWAY_VIEWS, view_statements
from rmhdag.store.schema import check_schema_name

ACTION = "roles.grant"


class RolesRefused(Exception):
    """Nothing was changed: `remedy` says what to do first."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.remedy = remedy


class Roles(NamedTuple):
    app: str
    reader: str
    gateway: str


def role_names(prefix: str = "rmhdag") -> Roles:
    check_schema_name(prefix)
    return Roles(*(f"{prefix}_{kind}" for kind in Roles._fields))


def make_roles(conn: Conn, schema: str, roles: Roles, *, actor: str) -> list[str]:
    """Create the roles that are missing and grant all of them what they need; returns those that were created.

    Call it as the owner of the schema, on an autocommit connection. Safe to call twice.
    """
    missing = _missing(conn, roles)
    _check_owner(conn, schema)
    with conn.transaction():
        for statement in [*(f"CREATE ROLE {role} LOGIN" for role in missing), *grant_statements(schema, roles)]:
            conn.execute(statement.encode())
        enter_schema(conn, schema)
        add_audit(conn, "default", actor, ACTION, f"schema {schema}", after={"roles": list(roles), "created": missing})
    return missing


def set_password(conn: Conn, role: str, password: str) -> None:
    """The server keeps a hash of it."""
    conn.execute(sql.SQL("ALTER ROLE {} PASSWORD {}").format(sql.Identifier(role), sql.Literal(password)))


def are_granted(conn: Conn, schema: str, roles: Roles) -> bool:
    """Whether the roles are there and `app` may work with every table."""
    query = """
        SELECT count(*) = 3 AND bool_and(has_schema_privilege(r.oid, %(schema)s, 'USAGE')) AND NOT EXISTS (
            SELECT FROM pg_class AS c
            WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind IN ('r', 'p')
                AND NOT has_table_privilege(%(app)s, c.oid, 'INSERT') AND c.relname <> %(meta)s
        )
        FROM pg_roles AS r
        WHERE r.rolname = ANY(%(roles)s)"""
    values = {"schema": schema, "roles": list(roles), "app": roles.app, "meta": SchemaMeta.table.name}
    try:
        return conn.execute(query, values).fetchone() == (True,)
    except psycopg.errors.UndefinedObject:  # the role, in has_table_privilege
        return False


def script(schema: str, roles: Roles) -> str:
    """The same as SQL, for an administrator who does not let us do it."""
    created = [
        f"DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') "
        f"THEN CREATE ROLE {role} LOGIN; END IF; END $$"
        for role in roles
    ]
    return "".join(f"{statement};\n" for statement in [*created, *grant_statements(schema, roles)])


def grant_statements(schema: str, roles: Roles) -> list[str]:
    """What was granted before is taken back first, so that nobody keeps more than they should have."""
    check_schema_name(schema)
    app, reader, gateway = roles
    everybody = ", ".join(roles)
    functions = ", ".join(function.signature(schema) for function in DAY_FUNCTIONS)
    future = f"ALTER DEFAULT PRIVILEGES IN SCHEMA {schema}"
    return [
        *view_statements(schema),
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {everybody}",
        f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {schema} FROM {everybody}",
        f"REVOKE ALL ON SCHEMA {schema} FROM {everybody}",
        f"GRANT USAGE ON SCHEMA {schema} TO {everybody}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {app}",
        f"REVOKE UPDATE, DELETE ON {schema}.{AuditRecord.table.name} FROM {app}",
        f"REVOKE INSERT, UPDATE, DELETE ON {schema}.{SchemaMeta.table.name} FROM {app}",
        f"GRANT EXECUTE ON FUNCTION {functions} TO {app}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {reader}",
        f"GRANT SELECT ON {', '.join(f'{schema}.{view}' for view in GATEWAY_VIEWS)} TO {gateway}",
        f"{future} GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {app}",
        f"{future} GRANT EXECUTE ON FUNCTIONS TO {app}",
        f"{future} GRANT SELECT ON TABLES TO {reader}",
    ]


def _missing(conn: Conn, roles: Sequence[str]) -> list[str]:
    query = """SELECT rolname, rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls FROM pg_roles
        WHERE rolname = ANY(%s)"""
    rights = dict(conn.execute(query, [list(roles)]).fetchall())
    for role, is_powerful in rights.items():
        if is_powerful:
            raise RolesRefused(
                f"role {role} exists and may do more than work with tables",
                f"Run `ALTER ROLE {role} NOSUPERUSER NOCREATEROLE NOCREATEDB NOREPLICATION NOBYPASSRLS` "
                "as a superuser, or choose other names by --prefix.",
            )
    return [role for role in roles if role not in rights]


def _check_owner(conn: Conn, schema: str) -> None:
    query = "SELECT tableowner, current_user FROM pg_tables WHERE schemaname = %s AND tablename = %s"
    row = conn.execute(query, [schema, SchemaMeta.table.name]).fetchone()
    if row is None:
        raise RolesRefused(f"schema {schema} is not set up in this database", "Run `rmhdag db migrate` first.")
    owner, me = row
    if owner != me:
        raise RolesRefused(
            f"the tables of schema {schema} belong to {owner}, and this is {me}",
            f"Name {owner} in RMHDAG_OWNER_DATABASE_URL, or run what --print shows as {owner}.",
        )
