"""Much data for `bench-ui`, written straight into PostgreSQL: jobs, a fan-out, a wide graph, log lines, live events."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self

from psycopg.types.json import Jsonb

from rmhdag.models.ids import task_id_of
from rmhdag.picture.layout import layout
from rmhdag.store import workflows
from rmhdag.store.connection import Conn
from rmhdag.workflow import definition_hash, definition_json, load

TILES = """\
workflow_id: tiles
name: Tiles of a country
inputs: {items: {type: array, default: [1]}}
defaults: {queue: light}
nodes:
  split:
    type: fan_out
    source: "{{ inputs.items }}"
    task: {handler: echo, params: {value: "{{ item }}"}}
    next: gather
  gather: {type: fan_in, next: END}
"""
LINES_PER_CHUNK = 1_000


@dataclass(frozen=True)
class Sizes:
    jobs: int
    items: int
    graph_nodes: int
    lines: int
    events: int


LARGE = Sizes(jobs=100_000, items=10_000, graph_nodes=200, lines=1_000_000, events=36_000)
# To see that every figure can be measured; the figures themselves mean nothing.
SMALL = Sizes(jobs=40, items=30, graph_nodes=20, lines=200, events=60)


@dataclass(frozen=True)
class Seeded:
    """Ids of the jobs that are looked at."""

    large_id: str
    graph_id: str
    live_id: str

    @classmethod
    def ids(cls) -> Self:
        return cls(*(job_id_of(2**40 + number) for number in range(3)))


def job_id_of(number: int) -> str:
    return f"0191000000007000{number:016x}"


def wide_workflow(count: int) -> str:
    """Rows of ten nodes, each after the one above it."""
    lines = ["workflow_id: wide", "name: A wide graph", "defaults: {queue: light}", "nodes:"]
    for number in range(count):
        after = f", depends_on: [n{number - 10}]" if number >= 10 else ""
        lines.append(f"  n{number}: {{handler: echo{after}}}")
    return "\n".join(lines) + "\n"


def register(conn: Conn, text: str) -> str:
    """The hash of the definition."""
    definition = load(text, queues={"light"}).definition
    digest = definition_hash(definition)
    stored = workflows.StoredWorkflow(definition.workflow_id, definition.version, digest, definition_json(definition))
    workflows.register_workflow(conn, "default", stored, "bench", layout(definition).as_json(), development=True)
    return digest


def seed(conn: Conn, sizes: Sizes) -> None:
    tiles = register(conn, TILES)
    wide = register(conn, wide_workflow(sizes.graph_nodes))
    _seed_jobs(conn, tiles, sizes.jobs)
    seeded = Seeded.ids()
    begin = datetime.now(UTC) - timedelta(hours=2)
    for job_id, workflow_id, digest, status in (
        (seeded.large_id, "tiles", tiles, "completed"),
        (seeded.graph_id, "wide", wide, "completed"),
        (seeded.live_id, "wide", wide, "running"),
    ):
        conn.execute(
            """INSERT INTO dag_jobs (job_id, namespace, workflow_id, workflow_version, workflow_hash, status,
                   fairness_key, submitted_by, root_job_id, created_at, started_at, completed_at, updated_at,
                   input_params, metadata)
               VALUES (%(job)s, 'default', %(workflow)s, 1, %(hash)s, %(status)s::job_status, 'bench', 'bench', %(job)s,
                   %(begin)s, %(begin)s, CASE WHEN %(status)s = 'completed' THEN %(begin)s::timestamptz END, %(begin)s,
                   '{}', '{}')""",
            {"job": job_id, "workflow": workflow_id, "hash": digest, "status": status, "begin": begin},
        )
    _seed_fan_out(conn, seeded.large_id, sizes.items, begin)
    _seed_graph(conn, seeded, sizes.graph_nodes, begin)
    _seed_lines(conn, seeded.large_id, sizes.lines)
    conn.execute("ANALYZE")


def _seed_jobs(conn: Conn, digest: str, count: int) -> None:
    """A minute apart, one of ten failed."""
    conn.execute(
        """INSERT INTO dag_jobs (job_id, namespace, workflow_id, workflow_version, workflow_hash, status, fairness_key,
               submitted_by, root_job_id, created_at, started_at, completed_at, updated_at, error_message,
               input_params, metadata)
           SELECT id, 'default', 'tiles', 1, %(hash)s,
               (CASE WHEN i %% 10 = 3 THEN 'failed' ELSE 'completed' END)::job_status,
               'bench', 'user ' || i %% 50, id, at, at, at + interval '40 s', at + interval '40 s',
               CASE WHEN i %% 10 = 3 THEN 'no such band' END, '{}', '{}'
           FROM generate_series(1, %(count)s) AS i,
               LATERAL (SELECT '0191000000007000' || lpad(to_hex(i), 16, '0') AS id,
                   now() - interval '3 h' - (%(count)s - i) * interval '1 minute' AS at) AS one""",
        {"hash": digest, "count": count},
    )


def _seed_fan_out(conn: Conn, job_id: str, count: int, begin: datetime) -> None:
    # As the engine writes it: a node without `dynamic_nodes` is no fan-out that has begun, and has no squares.
    output = {"dynamic_nodes": ["split__0", f"split__{count - 1}"], "total": count}
    conn.execute(
        """INSERT INTO dag_node_states (job_id, node_id, namespace, status, created_at, updated_at, ready_at,
               started_at, completed_at, output, input_params)
           VALUES (%(job)s, 'split', 'default', 'completed', %(begin)s, %(begin)s, %(begin)s, %(begin)s, %(begin)s,
                   %(output)s, '{}'),
               (%(job)s, 'gather', 'default', 'completed', %(begin)s, %(begin)s, %(begin)s, %(begin)s, %(begin)s,
                   '{}', '{}')""",
        {"job": job_id, "begin": begin, "output": Jsonb(output)},
    )
    conn.execute(
        """INSERT INTO dag_node_states (job_id, node_id, namespace, status, parent_node_id, fan_out_index,
               fan_out_item_key, created_at, updated_at, ready_at, started_at, completed_at, error_message,
               input_params)
           SELECT %(job)s, 'split__' || i, 'default',
               (CASE WHEN i %% 1000 = 7 THEN 'failed' ELSE 'completed' END)::node_status, 'split', i, 'tile ' || i,
               %(begin)s, %(begin)s, %(begin)s, %(begin)s + i * interval '10 ms',
               %(begin)s + i * interval '10 ms' + (100 + i %% 900) * interval '1 ms',
               CASE WHEN i %% 1000 = 7 THEN 'no such band' END, '{}'
           FROM generate_series(0, %(count)s - 1) AS i""",
        {"job": job_id, "begin": begin, "count": count},
    )


def _seed_graph(conn: Conn, seeded: Seeded, count: int, begin: datetime) -> None:
    for job_id, status in ((seeded.graph_id, "completed"), (seeded.live_id, "running")):
        conn.execute(
            """INSERT INTO dag_node_states (job_id, node_id, namespace, status, created_at, updated_at, ready_at,
                   started_at, completed_at, input_params)
               SELECT %(job)s, 'n' || i, 'default', %(status)s::node_status, %(begin)s, %(begin)s, %(begin)s, %(begin)s,
                   CASE WHEN %(status)s = 'completed' THEN %(begin)s::timestamptz END, '{}'
               FROM generate_series(0, %(count)s - 1) AS i""",
            {"job": job_id, "status": status, "begin": begin, "count": count},
        )


def _seed_lines(conn: Conn, job_id: str, count: int) -> None:
    per_chunk = min(LINES_PER_CHUNK, count)
    conn.execute(
        """INSERT INTO dag_task_logs (task_id, lease_epoch, chunk_index, created_at, job_id, node_id, namespace,
               line_count, truncated, content)
           SELECT %(task)s, 1, c, now() + c * interval '1 ms', %(job)s, 'split__0', 'default', %(per)s, false,
               string_agg('INFO line ' || c * %(per)s + l, E'\n' ORDER BY l) || E'\n'
           FROM generate_series(0, %(chunks)s - 1) AS c, generate_series(0, %(per)s - 1) AS l
           GROUP BY c""",
        {"task": task_id_of(job_id, "split__0", 1), "job": job_id, "per": per_chunk, "chunks": count // per_chunk},
    )


def add_events(conn: Conn, job_id: str, first_seq: int, count: int, nodes: int) -> None:
    """In one transaction: nodes that end and begin again, one after the other."""
    conn.execute(
        """INSERT INTO dag_job_events (job_id, seq, created_at, namespace, transaction_id, event_type, event_status,
               node_id, source_app, event_data)
           SELECT %(job)s, i, now(), 'default', pg_current_xact_id()::text::bigint,
               (CASE WHEN i %% 2 = 0 THEN 'node_completed' ELSE 'node_running' END)::event_type, 'info',
               'n' || (i / 2) %% %(nodes)s, 'bench', '{}'
           FROM generate_series(%(first)s::bigint, %(first)s::bigint + %(count)s - 1) AS i""",
        {"job": job_id, "first": first_seq, "count": count, "nodes": nodes},
    )


def complete_node(conn: Conn, job_id: str, node_id: str, seq: int) -> None:
    """As an orchestrator does: the row and its event in one transaction."""
    with conn.transaction():
        conn.execute(
            """UPDATE dag_node_states SET status = 'completed', completed_at = now(), updated_at = now()
               WHERE job_id = %s AND node_id = %s""",
            (job_id, node_id),
        )
        conn.execute(
            """INSERT INTO dag_job_events (job_id, seq, created_at, namespace, transaction_id, event_type, event_status,
                   node_id, source_app, event_data)
               VALUES (%s, %s, now(), 'default', pg_current_xact_id()::text::bigint, 'node_completed', 'success', %s,
                   'bench', '{}')""",
            (job_id, seq, node_id),
        )
