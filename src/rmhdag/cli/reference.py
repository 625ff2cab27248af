"""The reference of all commands as Markdown, made from the commands themselves: `python -m rmhdag.cli.reference`."""

from __future__ import annotations

from collections.abc import Iterator

import typer

from rmhdag.cli.app import build_app
from rmhdag.cli.exit_codes import MEANINGS

WIDTH = 96

INTRODUCTION = """\
# The command line

<!-- Made by `python -m rmhdag.cli.reference > docs/cli.md`; a test keeps it up to date. -->

Data goes to stdout, messages go to stderr. `--json` gives one JSON object whose fields do not change their meaning.
Colour appears only in a terminal, and not with `NO_COLOR=1` or `--no-color`. `--debug` shows tracebacks; both flags may
stand anywhere. `-` as a file name reads stdin. Settings come from flags, then the environment, then a file
(`RMHDAG_CONFIG`, `./rmhdag.toml`, `~/.config/rmhdag/config.toml`), then `development.toml` in the data folder, which
`rmhdag up` writes (not read beside `RMHDAG_CONFIG`), then defaults; `rmhdag config show` tells which, and
[settings.md](settings.md) lists them all. `rmhdag --install-completion` adds completion to your shell (bash, zsh or
fish).

## Far away

With `RMHDAG_URL` (or `--url`) and the key in `RMHDAG_KEY`, which is never given on the command line, the commands
`submit`, `jobs`, `job`, `logs`, `cancel`, `retry`, `approvals`, `decide`, `assets`, `asset`, `rollback`, `catalogue`,
`workflows`, `queues`, `prune`, `dead-letters`, `callbacks`, `orchestrators`, `workers`, `keys` and `audit` talk to that
server and need no database; output, JSON and exit codes are alike.
If a database is named in the environment or a file, too, the server counts; `--database-url` on the command line counts
before `RMHDAG_URL`. All is done in the namespace of the key and in the name of its holder; `--as` is for `submit` with
the scope `admin`. The other commands work on the database, and say so if only a server is named.
"""

JOB = (
    "job_id, namespace, workflow_id, workflow_version, workflow_hash, status, ending, priority, submitted_by, "
    "correlation_id, idempotency_key, callback_url, request_id, parent_job_id, parent_node_id, rerun_of, root_job_id, "
    "created_at, started_at, completed_at, error_message, error, warnings [code, message, count], input_params, "
    "result_data, owner_id, owner_epoch, "
    "owner_heartbeat_at, duration_seconds"
)
NODE = (
    "node_id, type, status, attempt, retry_count, max_retries, lease_losses, task_id, reused_task_id, "
    "next_attempt_at, deadline_at, created_at, ready_at, dispatched_at, started_at, completed_at, checkpoint_phase, "
    "error_message, error, child_job_id, duration_seconds, taken_over, children, progress"
)

KEY = (
    "key_id, namespace, name, kind, state, scopes, rotated_from, created_by, created_at, expires_at, revoked_at, "
    "revoked_by, last_used_at"
)
ASSET = (
    "asset_id, platform_id, platform_refs, kind, processing_status, latest_revision, current_revision, "
    "current_job_id, content_hash, approval_state, classification, created_by, created_at, updated_at, deleted_at, "
    "deleted_by"
)
WORKFLOW = "workflow_id, version, hash, name, description, registered_by, registered_at, retired_at, retired_by"
REVISION = "revision, status, source, job_id, content_hash, created_by, created_at, completed_at, error_message"

# The objects of `--json`; fields may be added, those that are here keep their meaning. A test compares.
JSON_OBJECTS = {
    "up": "up, database, schema, url, login_url, queues, storage, workflows, processes, logs",
    "demo": "job_id, cog, item, thumbnail, asset",
    "submit": "job_id, workflow_id, workflow_version",
    "submit --platform": "job_id, workflow_id, workflow_version, request_id, asset_id, revision, joined",
    "submit --dry-run": "workflow_id, workflow_version, input_params, dry_run",
    "submit --wait": f"{JOB}, node_counts, nodes [{NODE}]",
    "jobs": "jobs [job_id, workflow_id, workflow_version, status, ending, priority, submitted_by, correlation_id, "
    "rerun_of, parent_job_id, created_at, started_at, completed_at, error_message, duration_seconds], next",
    "job": f"{JOB}, node_counts, nodes [{NODE}, reason], reruns [job_id, status]",
    "job --node": "job_id, node_id, type, status, handler, queue, attempt, retry_count, max_retries, lease_losses, "
    "task_id, reused_task_id, parent_node_id, fan_out_index, fan_out_item_key, next_attempt_at, deadline_at, "
    "created_at, ready_at, dispatched_at, started_at, completed_at, checkpoint_phase, error_message, error, warnings, "
    "child_job_id, children_total, "
    "duration_seconds, input_params, output, worker_id, error_kind, metrics, checkpoint_saved_at, children, reason",
    "job --events": "job_id, events [seq, created_at, event_type, event_status, node_id, task_id, duration_ms, "
    "source_app, error_message, event_data, message]",
    "logs": "node_id, task_id, lease_epoch, line",
    "cancel": "job_id, command_id, outcome, reason",
    "cancel --dry-run": "job_id, status, under_way, finished, dry_run",
    "approvals": "approvals [kind, job_id, node_id, workflow_id, submitted_by, message, approvers, waiting_since, "
    "deadline_at, decide_path, command]",
    "decide": "job_id, command_id, outcome, reason",
    "retry": "job_id, rerun_of, again, reused",
    "retry --dry-run": "rerun_of, input_params, again, reused, keeps_children, dry_run",
    "retry --node": "job_id, command_id, outcome, reason",
    "assets": f"assets [{ASSET}], next",
    "asset": f"{ASSET}, current, revisions [{REVISION}]",
    "asset delete": f"{ASSET}, current",
    "asset delete --dry-run": f"{ASSET}, current, dry_run",
    "rollback": f"{REVISION}, asset_id, error, warnings, outputs, footprint, made_by",
    "catalogue remove": "collection_id, removed, kept, item_ids, dry_run",
    "workflows": f"workflows [{WORKFLOW}]",
    "workflows show": "workflow_id, version, hash, definition",
    "workflows register": "registered [workflow_id, version, nodes]",
    "workflows retire": WORKFLOW,
    "workflows restore": WORKFLOW,
    "storage ls": "zone, files [container, path, size_bytes, modified_at], has_more",
    "storage ls, without a container": "zone, containers",
    "storage put": "files [zone, container, path, size_bytes, sha256, media_type]",
    "storage get": "file, zone, container, path, size_bytes, sha256, media_type",
    "prune": "deleted, has_more",
    "prune --dry-run": "tables [table, rows, reason, setting, is_complete], kept [jobs, reason, is_complete], dry_run",
    "queues": "queues [queue, waiting, delayed, running, oldest_seconds, workers, slots, dead_letters, attention]",
    "dead-letters list": "dead_letters [dead_letter_id, queue, reason, error_message, job_id, node_id, task_id, "
    "created_at, settled_at, settled_by, settled_as]",
    "dead-letters requeue": "requeued [dead_letter_id, job_id, is_new_job], refused [dead_letter_id, reason]",
    "dead-letters discard": "discarded",
    "callbacks list": "callbacks [callback_id, job_id, status, endpoint_url, attempts, created_at, next_attempt_at, "
    "last_attempt_at, settled_at, last_status, last_error, redelivered_by, redelivered_at, body]",
    "callbacks redeliver": "redelivered",
    "orchestrators": "orchestrators [owner_id, host, process_id, version, alive, stopping, jobs_owned, started_at, "
    "heartbeat_at, silent_seconds, stats]",
    "workers": "workers [worker_id, host, process_id, version, alive, draining, slots, tasks_held, queues, "
    "started_at, heartbeat_at, silent_seconds, stats]",
    "orchestrators drain": "process, draining, has_ended",
    "workers drain": "process, draining, has_ended",
    "keys create": f"{KEY}, key",
    "keys list": f"keys [{KEY}]",
    "keys rotate": f"{KEY}, key",
    "keys revoke": KEY,
    "validate": "valid, problem_count, files [file, valid, workflow_id, version, node_count, "
    "problems [file, line, column, code, message, remedy, pointer]]",
    "graph": "title, description, direction, width, height, "
    "nodes [id, type, label, detail, description, layer, x, y, width, height], "
    "edges [source, target, kind, label, label_at, points]",
    "sample-data": "files [path, size_bytes]",
    "sample-data --to-storage": "files [zone, container, path, size_bytes, sha256, media_type]",
    "simulate": "ok, start, seeds, steps, failures [seed, invariant, message, trace_tail], operations",
    "simulate --seed": "ok, seed, steps, virtual_seconds, failure, operations, trace",
    "db migrate": "database, schema, applied, up_to_date, steps [kind, title, statements], "
    "refusals [what, where, why, remedy], notices",
    "db status": "database, embedded, running, server_version, schema, up_to_date, pending_steps",
    "db start": "url, folder",
    "doctor": "ok, checks [name, status, value, threshold, remedy]",
    "config show": "settings [name, value, origin, variables, description], warnings",
    "version": "version, python",
}


def reference() -> str:
    lines = [INTRODUCTION, "## Exit codes\n", "| code | meaning |", "|---|---|"]
    lines += [f"| {code.value} | {meaning} |" for code, meaning in MEANINGS.items()]
    lines += ["\n## JSON objects\n", "| command | fields; those in brackets are of each element |", "|---|---|"]
    lines += [f"| `{command}` | {fields} |" for command, fields in JSON_OBJECTS.items()]
    for path, text in pages():
        lines += [f"\n## `{path}`\n", "```text", text.rstrip(), "```"]
    return "\n".join(lines) + "\n"


def pages() -> Iterator[tuple[str, str]]:
    """The help of each command and of each group, in the order of `--help`."""
    root = typer.main.get_command(build_app(completion=False))
    top = typer.Context(root, info_name="rmhdag", terminal_width=WIDTH, help_option_names=["-h", "--help"])
    yield "rmhdag", root.get_help(top)
    stack = [(top, root)]
    while stack:
        context, command = stack.pop(0)
        for name, child in getattr(command, "commands", {}).items():
            inner = typer.Context(child, info_name=name, parent=context, terminal_width=WIDTH)
            yield inner.command_path, child.get_help(inner)
            stack.insert(0, (inner, child))


if __name__ == "__main__":
    print(reference(), end="")
