"""Database roles of the services: each sees one schema, and can change nothing.

What is granted is checked again before a service gets the role: one that could do more is refused.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from rmhdag.serving.service_kinds import FEATURES_SCHEMA, Service

PGSTAC_SCHEMA = "pgstac"
# Of tables that are loaded, or wait for an approval.
WORK_SCHEMA = f"{FEATURES_SCHEMA}_work"
SCHEMAS = {Service.STAC: PGSTAC_SCHEMA, Service.FEATURES: FEATURES_SCHEMA}
Conn = psycopg.Connection[Any]

FIND_ROLE = """SELECT rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls FROM pg_roles
    WHERE rolname = %s"""
OWNERS = """SELECT DISTINCT pg_get_userbyid(relowner) FROM pg_class WHERE relnamespace = to_regnamespace(%(schema)s)
    UNION SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = %(schema)s ORDER BY 1"""
# Where this role could read or create something although it is not its business. `public` has the functions of PostGIS.
FOREIGN_SCHEMAS = """
    SELECT nspname FROM pg_namespace
    WHERE nspname NOT IN ('pg_catalog', 'information_schema', 'public', %(schema)s) AND nspname !~ '^pg_(temp|toast)'
        AND (has_schema_privilege(oid, 'USAGE') OR has_schema_privilege(oid, 'CREATE'))
    UNION ALL
    SELECT nspname || ' (CREATE)' FROM pg_namespace
    WHERE nspname IN ('public', %(schema)s) AND has_schema_privilege(oid, 'CREATE')
    ORDER BY 1 LIMIT 3"""
WRITABLE_TABLES = """
    SELECT c.oid::regclass::text FROM pg_class AS c
    WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND c.relnamespace <> 'pg_catalog'::regnamespace
        AND c.relnamespace <> 'information_schema'::regnamespace
        AND (SELECT nspname FROM pg_namespace WHERE oid = c.relnamespace) !~ '^pg_(temp|toast)'
        AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
    ORDER BY 1 LIMIT 3"""
# Not by to_regprocedure, which a role that may not use the schema cannot ask.
HAS_PGSTAC = """SELECT EXISTS (SELECT FROM pg_proc AS p JOIN pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname = 'pgstac' AND p.proname = 'get_item')"""
MEMBERSHIPS = """SELECT rolname FROM pg_roles
    WHERE rolname <> current_user AND pg_has_role(current_user, oid, 'MEMBER') ORDER BY 1 LIMIT 3"""


class RoleRefused(Exception):
    """The role could do more than read; the message says what, and what to do."""


class ServiceRoles(NamedTuple):
    stac: str
    features: str

    def of(self, service: Service) -> str:
        return self.stac if service is Service.STAC else self.features


def service_roles(prefix: str = "rmhdag") -> ServiceRoles:
    return ServiceRoles(f"{prefix}_stac", f"{prefix}_features")


def missing_parts(conn: Conn) -> dict[Service, str]:
    """Why a service has nothing to serve in this database; empty for those that have."""
    reasons = {}
    if not _exists(conn, HAS_PGSTAC):
        reasons[Service.STAC] = "the database has no pgSTAC; install it there and set RMHDAG_CATALOGUE=pgstac"
    if not _exists(conn, "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'postgis')"):
        reasons[Service.FEATURES] = (
            "the database has no PostGIS; install postgresql-15-postgis-3, set RMHDAG_POSTGIS=1 and use a new data "
            "folder, or run CREATE EXTENSION postgis in your own database"
        )
    elif not _exists(conn, f"SELECT to_regnamespace('{FEATURES_SCHEMA}') IS NOT NULL"):
        reasons[Service.FEATURES] = f"the database has no schema {FEATURES_SCHEMA} yet: load a vector layer first"
    return reasons


def make_role(conn: Conn, service: Service, roles: ServiceRoles) -> bool:
    """Create the role if it is missing, and grant it what it needs; returns whether it was created. Call it as a
    superuser, or as the owner of the schema with CREATEROLE, on an autocommit connection. Safe to call twice.
    """
    role = roles.of(service)
    row = conn.execute(FIND_ROLE, [role]).fetchone()
    if row is not None and row[0]:
        raise RoleRefused(f"role {role} exists and may do more than read: choose another prefix, or drop it")
    with conn.transaction():
        if row is None:
            conn.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        owners = [name for (name,) in conn.execute(OWNERS, {"schema": SCHEMAS[service]})]
        statements = grant_statements(service, role, owners)
        if service is Service.FEATURES and _exists(conn, f"SELECT to_regnamespace('{WORK_SCHEMA}') IS NOT NULL"):
            statements += work_statements(role, owners)
        for statement in statements:
            conn.execute(statement.encode())
    return row is None


def give_password(conn: Conn, role: str) -> str:
    """A new one, which is returned and kept nowhere."""
    password = secrets.token_urlsafe(24)
    # Hashed here: the statement may appear in the server's log.
    scrambled = conn.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
    alter = sql.SQL("ALTER ROLE {} LOGIN PASSWORD {}")
    conn.execute(alter.format(sql.Identifier(role), sql.Literal(scrambled)))
    return password


def grant_statements(service: Service, role: str, owners: list[str] | None = None) -> list[str]:
    """What was granted before is taken back first. `owners` make tables in the schema that the role is to see too."""
    schema = SCHEMAS[service]
    statements = [
        f"REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM {role}",
        f"REVOKE ALL ON SCHEMA {schema} FROM {role}",
        f"GRANT USAGE ON SCHEMA {schema} TO {role}",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}",
        f"ALTER ROLE {role} SET statement_timeout = '60s'",
    ]
    statements += [future_tables(schema, role, owner) for owner in owners or []]
    if service is Service.STAC:
        statements += [
            f"ALTER ROLE {role} SET default_transaction_read_only = on",
            f"ALTER ROLE {role} SET search_path = {schema}, public",
            # Searches are otherwise written down.
            f"ALTER ROLE {role} SET pgstac.readonly = 'true'",
        ]
    return statements


def work_statements(role: str, owners: list[str]) -> list[str]:
    """Tables come to be public by being moved, and keep their rights. Until then nobody without the right to use that
    schema can read them.
    """
    grant = f"GRANT SELECT ON ALL TABLES IN SCHEMA {WORK_SCHEMA} TO {role}"
    return [grant, *(future_tables(WORK_SCHEMA, role, owner) for owner in owners)]


def future_tables(schema: str, role: str, owner: str) -> str:
    name = '"' + owner.replace('"', '""') + '"'
    return f"ALTER DEFAULT PRIVILEGES FOR ROLE {name} IN SCHEMA {schema} GRANT SELECT ON TABLES TO {role}"


def script(roles: ServiceRoles) -> str:
    """The same as SQL, for an administrator; each part for the database that has its schema."""
    lines = []
    for service in SCHEMAS:
        role = roles.of(service)
        exists = f"SELECT FROM pg_roles WHERE rolname = '{role}'"
        lines += [
            f"-- {service}: where schema {SCHEMAS[service]} is",
            f"DO $$ BEGIN IF NOT EXISTS ({exists}) THEN CREATE ROLE {role} LOGIN; END IF; END $$;",
            *(f"{statement};" for statement in grant_statements(service, role)),
            f"ALTER DEFAULT PRIVILEGES IN SCHEMA {SCHEMAS[service]} GRANT SELECT ON TABLES TO {role};",
        ]
    return "\n".join(lines) + "\n"


def check_role(conn: Conn, service: Service) -> None:
    """Raises RoleRefused unless the role of this connection can do nothing but read its one schema."""
    schema = SCHEMAS[service]
    row = conn.execute("SELECT current_user").fetchone()
    name = row[0] if row else "?"
    powerful = conn.execute(FIND_ROLE, [name]).fetchone()
    faults = ["it may do more than work with tables"] if powerful is None or powerful[0] else []
    for query, meaning in (
        (FOREIGN_SCHEMAS, "it can use schema"),
        (WRITABLE_TABLES, "it can change"),
        (MEMBERSHIPS, "it has the rights of"),
    ):
        names = [line for (line,) in conn.execute(query, {"schema": schema})]
        if names:
            faults.append(f"{meaning} {', '.join(names)}")
    if not _exists(conn, f"SELECT COALESCE(has_schema_privilege(to_regnamespace('{schema}')::oid, 'USAGE'), false)"):
        faults.append(f"it cannot see schema {schema}")
    if faults:
        raise RoleRefused(
            f"role {name} is not fit for /{service}: {'; '.join(faults)}. Use the role that "
            "`rmhdag db roles --services` creates"
        )


def _exists(conn: Conn, query: str) -> bool:
    return conn.execute(query.encode()).fetchone() == (True,)
