"""Databases on a running server: made, copied, dropped."""

import psycopg
import pytest

from rmhdag.embedded import EmbeddedPostgres


def test_a_database_of_ones_own_is_empty(database: str) -> None:
    with psycopg.connect(database) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert tables == (0,)


def test_a_copy_has_what_its_template_has(postgres: EmbeddedPostgres) -> None:
    with psycopg.connect(postgres.create_database("pattern")) as connection:
        connection.execute("CREATE TABLE thing AS SELECT 42 AS answer")
    try:
        with psycopg.connect(postgres.create_database("copy", template="pattern")) as connection:
            assert connection.execute("SELECT answer FROM thing").fetchone() == (42,)
    finally:
        postgres.drop_database("copy")
        postgres.drop_database("pattern")


def test_dropping_ends_open_connections(postgres: EmbeddedPostgres) -> None:
    with psycopg.connect(postgres.create_database("busy"), autocommit=True) as connection:
        postgres.drop_database("busy")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_dropping_what_is_not_there_is_no_error(postgres: EmbeddedPostgres) -> None:
    postgres.drop_database("never_made")


@pytest.mark.parametrize("name", ["with space", "a/b", 'quo"te', "ümlaut", "per%cent", "Semi;colon"])
def test_any_name_is_a_name(postgres: EmbeddedPostgres, name: str) -> None:
    try:
        with psycopg.connect(postgres.create_database(name)) as connection:
            assert connection.execute("SELECT current_database()").fetchone() == (name,)
    finally:
        postgres.drop_database(name)
