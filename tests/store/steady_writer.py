"""A process that writes like an older program, without pause, until its standard input ends; then it reports.

Run as `python steady_writer.py DSN NAME`. It prints one line when it has begun and a JSON object at the end. A lock
that is not granted within the budget is an error of PostgreSQL's, so slow machines do not disturb the measure.
"""

import json
import select
import sys
import time

import psycopg

BUDGET_MS = 800

JOB = """INSERT INTO dagapp.dag_jobs (job_id, workflow_id, workflow_version, workflow_hash, fairness_key, submitted_by,
    root_job_id, idempotency_key) VALUES (%s, 'w', 1, 'h', 'me', 'me', %s, %s)"""
NODE = "INSERT INTO dagapp.dag_node_states (job_id, node_id) VALUES (%s, 'n1')"
MESSAGE = """INSERT INTO dagapp.dag_queue_messages (task_id, job_id, node_id, queue, handler, order_key, fairness_key)
    VALUES (%s, %s, 'n1', 'q', 'echo', 1, 'me')"""
EVENT = """INSERT INTO dagapp.dag_job_events (job_id, seq, event_type, source_app) VALUES (%s, %s, %s, 'writer')"""
RUN_JOB = "UPDATE dagapp.dag_jobs SET status = 'running', started_at = now(), version = version + 1 WHERE job_id = %s"
RUN_NODE = "UPDATE dagapp.dag_node_states SET status = 'running' WHERE job_id = %s"
END_NODE = "UPDATE dagapp.dag_node_states SET status = 'completed', completed_at = now() WHERE job_id = %s"
END_JOB = "UPDATE dagapp.dag_jobs SET status = 'completed', completed_at = now() WHERE job_id = %s"


def main(dsn: str, name: str) -> None:
    written, longest = 0, 0.0
    error = None
    with psycopg.connect(dsn, autocommit=True, options=f"-c lock_timeout={BUDGET_MS}") as conn:
        while not select.select([sys.stdin], [], [], 0)[0]:
            job_id = f"{name}-{written:06}"
            begun = time.monotonic()
            try:
                with conn.transaction():
                    conn.execute(JOB, [job_id, job_id, job_id])
                    conn.execute(NODE, [job_id])
                    conn.execute(MESSAGE, [f"t-{job_id}", job_id])
                    conn.execute(EVENT, [job_id, 1, "job_started"])
                with conn.transaction():
                    conn.execute(RUN_JOB, [job_id])
                    conn.execute(RUN_NODE, [job_id])
                with conn.transaction():
                    conn.execute(END_NODE, [job_id])
                    conn.execute(END_JOB, [job_id])
                    conn.execute(EVENT, [job_id, 2, "job_completed"])
            except psycopg.Error as caught:
                error = f"{type(caught).__name__}: {caught}"
                break
            longest = max(longest, time.monotonic() - begun)
            written += 1
            if written == 1:
                print("writing", flush=True)
    print(json.dumps({"written": written, "longest_seconds": longest, "error": error}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
