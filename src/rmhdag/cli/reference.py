"""The reference of all commands as Markdown, made from the commands themselves: `python -m rmhdag.cli.reference`."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import typer
from pydantic import BaseModel

from rmhdag.cli.app import build_app
from rmhdag.cli.exit_codes import MEANINGS
from rmhdag.models.api.approvals import WaitingApproval
from rmhdag.models.api.assets import (
    Descendant,
    LineageSource,
    RevisionSummary,
    UnpublishAnswer,
    UnpublishedFile,
    UnpublishedItem,
    UnpublishingView,
    VersionView,
)
from rmhdag.models.api.attention import Attention
from rmhdag.models.api.clients import IdentityView
from rmhdag.models.api.data_errors import WarningView
from rmhdag.models.api.jobs import JobLabels, JobSummary
from rmhdag.models.api.nodes import NodeView
from rmhdag.models.api.overviews import JobOverview, NodeOverview
from rmhdag.models.api.platforms import PlatformView
from rmhdag.models.api.previews import JobEstimate, OrderPreview, PreviewProblem
from rmhdag.models.api.processes import OrchestratorSummary, WorkerSummary
from rmhdag.models.api.promoted import PromotedView
from rmhdag.models.api.queues import QueueStatus
from rmhdag.models.api.reviews import DecisionView
from rmhdag.models.api.search import SearchHit
from rmhdag.models.api.services import ServiceCallView, ServiceDeleted, ServiceView
from rmhdag.models.api.workflows import WorkflowSummary

WIDTH = 96

INTRODUCTION = """\
# The command line

<!-- Made by `python -m rmhdag.cli.reference > docs/cli.md`; a test keeps it up to date. -->

Data is printed to stdout, messages to stderr. `--json` prints one JSON object whose fields keep their meaning. Output
is coloured only in a terminal, and not with `NO_COLOR=1` or `--no-color`. `--debug` shows tracebacks; both flags may
appear anywhere. `-` as a file name reads stdin.

Settings come from flags, then the environment, then a file (`RMHDAG_CONFIG`, `./rmhdag.toml`,
`~/.config/rmhdag/config.toml`), then `development.toml` in the data folder, which `rmhdag up` writes (not read if
`RMHDAG_CONFIG` is set), then defaults. `rmhdag config show` shows the origin of each, and [settings.md](settings.md)
lists them all. `rmhdag --install-completion` adds completion to your shell (bash, zsh or fish).

## Remote commands

With `RMHDAG_URL` (or `--url`) and a key in `RMHDAG_KEY`, which is never passed on the command line, the commands
`submit`, `jobs`, `job`, `logs`, `cancel`, `retry`, `approvals`, `decide`, `assets`, `asset`, `rollback`, `platforms`,
`unpublish`, `promoted`, `catalogue`, `workflows`, `queues`, `prune`, `dead-letters`, `callbacks`, `services`,
`orchestrators`, `workers`, `keys` and `audit` use that server and need no database; output, JSON and exit codes are the
same. If the environment or a file also names a database, the server is used; `--database-url` on the command line takes
precedence over `RMHDAG_URL`. Commands act in the namespace of the key and on behalf of its owner; `--as` works for
`submit` with the scope `admin`. The other commands need a database, and say so if only a server is named.
"""


def fields_of(model: type[BaseModel], *, without: Collection[str] = ()) -> str:
    return ", ".join(name for name in model.model_fields if name not in without)


JOB = fields_of(JobOverview, without=("node_counts", "nodes", "reruns", "seen_at", "progress", "structure")).replace(
    "warnings", f"warnings [{fields_of(WarningView)}]"
)
NODE = fields_of(NodeOverview, without=("reason",))
KEY = (
    "key_id, namespace, name, kind, state, scopes, max_priority, rotated_from, created_by, created_at, expires_at, "
    "revoked_at, revoked_by, last_used_at"
)
ASSET = (
    "asset_id, platform_id, platform_refs, kind, processing_status, latest_revision, current_revision, "
    "current_job_id, content_hash, approval_state, classification, created_by, created_at, updated_at, deleted_at, "
    "deleted_by"
)
PLATFORM = fields_of(PlatformView)
WORKFLOW = fields_of(WorkflowSummary)
REVISION = fields_of(RevisionSummary)
LINEAGE = f"sources [{fields_of(LineageSource)}], descendants [{fields_of(Descendant)}]"

VERSIONS = f"latest_version, versions [{fields_of(VersionView)}]"
SERVICE = fields_of(ServiceView)
PROMOTED = fields_of(PromotedView)

# The objects of `--json`; fields may be added, those that are here keep their meaning. A test compares.
JSON_OBJECTS = {
    "up": "up, database, schema, url, login_url, gateway_url, sandbox_key, services_url, queues, storage, workflows, "
    "processes, logs",
    "demo": "job_id, cog, item, thumbnail, asset",
    "submit": "job_id, workflow_id, workflow_version",
    "submit --platform": "job_id, workflow_id, workflow_version, request_id, asset_id, revision, joined",
    "submit --dry-run": f"workflow_id, workflow_version, input_params, estimate [{fields_of(JobEstimate)}], dry_run",
    "submit --dry-run --platform": fields_of(OrderPreview)
    .replace("problems", f"problems [{fields_of(PreviewProblem)}]")
    .replace("warnings", "warnings [code, message]")
    .replace("estimate", f"estimate [{fields_of(JobEstimate)}]"),
    "submit --wait": f"{JOB}, node_counts, nodes [{NODE}]",
    "jobs": f"jobs [{fields_of(JobSummary)}], next",
    "job": f"{JOB}, node_counts, nodes [{NODE}, reason], reruns [job_id, status]",
    "job --node": fields_of(NodeView),
    "job --events": "job_id, events [seq, created_at, event_type, event_status, node_id, task_id, duration_ms, "
    "source_app, error_message, event_data, message]",
    "logs": "node_id, task_id, lease_epoch, line",
    "label": fields_of(JobLabels),
    "label --dry-run": f"{fields_of(JobLabels)}, dry_run",
    "cancel": "job_id, command_id, outcome, reason",
    "cancel --dry-run": "job_id, status, under_way, finished, dry_run",
    "attention": fields_of(Attention),
    "search": f"hits [{fields_of(SearchHit)}]",
    "approvals": f"approvals [{fields_of(WaitingApproval)}]",
    "decide": "job_id, command_id, outcome, reason",
    "retry": "job_id, rerun_of, again, reused",
    "retry --dry-run": "rerun_of, input_params, again, reused, keeps_children, dry_run",
    "retry --node": "job_id, command_id, outcome, reason",
    "assets": f"assets [{ASSET}], next",
    "asset": f"{ASSET}, current, {VERSIONS}, unpublishings [{fields_of(UnpublishingView)}], {LINEAGE}, "
    f"revisions [{REVISION}]",
    **{f"asset {step}": fields_of(DecisionView) for step in ("approve", "reject", "revoke", "clear")},
    "asset delete": f"{ASSET}, current, {VERSIONS}, unpublishings",
    "asset delete --dry-run": f"{ASSET}, current, {VERSIONS}, unpublishings, dry_run",
    "rollback": f"{REVISION}, asset_id, error, warnings, outputs, footprint, made_by, "
    "tables [table_name, role, geometry_type, feature_count, state]",
    "platforms list": f"platforms [{PLATFORM}]",
    "platforms show": PLATFORM,
    "platforms set": PLATFORM,
    "platforms deactivate": PLATFORM,
    "unpublish": fields_of(UnpublishAnswer)
    .replace("files,", f"files [{fields_of(UnpublishedFile)}],")
    .replace("items,", f"items [{fields_of(UnpublishedItem)}],"),
    "promoted": f"promoted [{PROMOTED}]",
    "promoted promote": PROMOTED,
    "promoted demote": PROMOTED,
    "promoted gallery": f"promoted [{PROMOTED}]",
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
    "queues": f"queues [{fields_of(QueueStatus)}]",
    "dead-letters list": "dead_letters [dead_letter_id, queue, reason, error_message, job_id, node_id, task_id, "
    "created_at, settled_at, settled_by, settled_as]",
    "dead-letters requeue": "requeued [dead_letter_id, job_id, is_new_job], refused [dead_letter_id, reason]",
    "dead-letters discard": "discarded",
    "callbacks list": "callbacks [callback_id, job_id, request_id, status, endpoint_url, attempts, created_at, "
    "next_attempt_at, last_attempt_at, settled_at, last_status, last_error, redelivered_by, redelivered_at, body]",
    "callbacks redeliver": "redelivered",
    "services": f"services [{SERVICE}]",
    "services set": f"{SERVICE}, is_new, new_secret",
    "services delete": fields_of(ServiceDeleted),
    "services calls": f"calls [{fields_of(ServiceCallView)}]",
    "services retry": "retried",
    "orchestrators": f"orchestrators [{fields_of(OrchestratorSummary)}]",
    "workers": f"workers [{fields_of(WorkerSummary)}]",
    "orchestrators drain": "process, draining, has_ended",
    "workers drain": "process, draining, has_ended",
    "clients identities": f"identities [{fields_of(IdentityView)}]",
    "clients bind": fields_of(IdentityView),
    "clients unbind": fields_of(IdentityView),
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
    lines += [
        "\n## JSON objects\n",
        "| command | fields; those in brackets are of the value before them, or of each of its elements |",
        "|---|---|",
    ]
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
