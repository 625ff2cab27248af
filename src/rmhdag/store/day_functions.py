"""Functions of the schema's owner that create and drop days, so that other roles need no right to change tables.

They run with the owner's rights and with a fixed search path, touch partitions of our own tables only, and are open to
nobody but the owner until `rmhdag db roles` grants them.
"""

from __future__ import annotations

from dataclasses import dataclass

MAKE_DAY = "dag_make_day"
DROP_DAY = "dag_drop_day"

# Made beside the table and then attached, which lets writers go on; `PARTITION OF` would shut them out. A partitioned
# table has no storage of its own: the parameters are those of its catch-all partition.
_MAKE_BODY = """
DECLARE
    part text := parent || '_' || to_char(day, 'YYYYMMDD');
    catch_all text := parent || '_default';
    first text := day || ' 00:00:00+00';
    next_day text := (day + 1) || ' 00:00:00+00';
    stamp text;
    options text;
    inside text;
    today date := clock_timestamp() AT TIME ZONE 'UTC';
BEGIN
    IF abs(day - today) > 400 THEN
        RAISE EXCEPTION 'no partition is made for %: it is more than 400 days away', day USING ERRCODE = '22023';
    END IF;
    SELECT a.attname, array_to_string(d.reloptions, ', ') INTO stamp, options
    FROM pg_class AS c
    JOIN pg_partitioned_table AS p ON p.partrelid = c.oid
    JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = p.partattrs[0]
    JOIN pg_class AS d ON d.oid = p.partdefid
    WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname = parent;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% is not a table with a partition per day', parent USING ERRCODE = '22023';
    END IF;
    inside := format('%1$I >= %2$L AND %1$I < %3$L', stamp, first, next_day);
    EXECUTE format(
        'CREATE TABLE %I (LIKE %I INCLUDING ALL, CONSTRAINT %I CHECK (%s))', part, parent, part || '_day', inside
    ) || COALESCE(' WITH (' || options || ')', '');
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', catch_all);
    EXECUTE format(
        'WITH moved AS (DELETE FROM %I WHERE %s RETURNING *) INSERT INTO %I SELECT * FROM moved',
        catch_all, inside, part
    );
    EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', parent, part, first, next_day);
    EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', part, part || '_day');
END"""

_DROP_BODY = """
BEGIN
    IF EXISTS (
        SELECT FROM pg_class AS c
        WHERE c.relnamespace = to_regnamespace(quote_ident(current_schema())) AND c.relname = part AND c.relkind = 'r'
            AND c.relispartition AND part ~ '^dag_[a-z_]+_[0-9]{8}$'
            AND to_date(right(part, 8), 'YYYYMMDD') < (clock_timestamp() AT TIME ZONE 'UTC')::date
    ) THEN
        EXECUTE format('DROP TABLE %I', part);
    END IF;
END"""


@dataclass(frozen=True)
class DayFunction:
    name: str
    arguments: str
    body: str

    def ddl(self, schema: str) -> str:
        return (
            f"CREATE OR REPLACE FUNCTION {schema}.{self.name}({self.arguments}) RETURNS void LANGUAGE plpgsql "
            f"SECURITY DEFINER SET search_path = {schema}, pg_temp AS $${self.body} $$"
        )

    def closing_ddl(self, schema: str) -> str:
        """PostgreSQL lets everybody call a new function."""
        return f"REVOKE ALL ON FUNCTION {self.signature(schema)} FROM PUBLIC"

    def signature(self, schema: str) -> str:
        types = ", ".join(argument.split()[1] for argument in self.arguments.split(", "))
        return f"{schema}.{self.name}({types})"


DAY_FUNCTIONS = (
    DayFunction(MAKE_DAY, "parent text, day date", _MAKE_BODY),
    DayFunction(DROP_DAY, "part text", _DROP_BODY),
)
