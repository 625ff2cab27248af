"""All commands, in the order of `--help`: which module defines each, and its line in the list.

So `rmhdag --help` imports no command, and a command only its own module. A test compares this with the commands.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """`module` is in this package and has a `register(app)`."""

    module: str
    help: str


COMMANDS = {
    "up": Command("up", "Start everything: database, orchestrator, worker, API."),
    "demo": Command("demo", "Process a sample raster and show the result."),
    "submit": Command("submit", "Start a job; --wait shows its progress until it ends."),
    "jobs": Command("jobs", "List jobs, newest first."),
    "job": Command("job", "Show a job: its nodes, and what they wait for."),
    "logs": Command("logs", "Show the logs of tasks; -f follows them."),
    "label": Command("label", "Change the labels of a job."),
    "cancel": Command("cancel", "Cancel a job."),
    "retry": Command("retry", "Run the failed parts again; reuse finished results."),
    "attention": Command("attention", "Show what needs a person: failures, queues, decisions."),
    "search": Command("search", "Find jobs, nodes, assets and workflows by id or name."),
    "approvals": Command("approvals", "List approvals that wait for a decision."),
    "decide": Command("decide", "Approve or reject a waiting approval."),
    "assets": Command("assets", "List assets, newest first."),
    "asset": Command("asset", "Show an asset, decide about a revision, or delete it."),
    "rollback": Command("rollback", "Restore an earlier revision of an asset."),
    "platforms": Command("platforms", "List, register and deactivate platforms."),
    "unpublish": Command("unpublish", "Delete the files of an asset or revision."),
    "footprints": Command("footprints", "Show where assets and jobs lie on the map."),
    "promoted": Command("promoted", "List, promote and demote datasets; order the gallery."),
    "catalogue": Command("catalogue", "Remove items from the STAC catalogue."),
    "storage": Command("storage", "List, upload and download files in blob storage."),
    "workflows": Command("workflows", "List, show, register and retire workflows."),
    "queues": Command("queues", "Show the tasks and workers of each queue."),
    "quotas": Command("quotas", "Show and change the quotas of namespaces."),
    "dead-letters": Command("dead_letters", "Show tasks that were given up; requeue or discard them."),
    "callbacks": Command("callbacks", "Show callbacks and their outcomes; send one again."),
    "services": Command("services", "Set up external services and show calls to them."),
    "orchestrators": Command("orchestrators", "List orchestrators; drain one."),
    "workers": Command("workers", "List workers; drain one."),
    "orchestrator": Command("run_orchestrator", "Run an orchestrator."),
    "worker": Command("run_worker", "Run a worker."),
    "api": Command("run_api", "Serve the HTTP API."),
    "gateway": Command("run_gateway", "Serve the gateway for business partners."),
    "serve": Command("run_services", "Serve STAC, OGC features and tiles."),
    "keys": Command("keys", "Create, list, rotate and revoke keys for the HTTP API."),
    "clients": Command("clients", "Show and change what clients of the gateway may use."),
    "audit": Command("audit", "Show who changed keys, assets, workflows and the platform."),
    "validate": Command("validate", "Check workflow files and report all problems at once."),
    "graph": Command("graph", "Draw a workflow: boxes, SVG, Mermaid, DOT."),
    "schema": Command("language_schema", "Show the JSON Schema of workflow files."),
    "sample-data": Command("sample_data", "Write sample rasters and vector layers."),
    "simulate": Command("simulate", "Simulate the engine under faults, from seeds."),
    "bench": Command("bench", "Measure throughput and latency."),
    "chaos": Command("chaos", "Run real processes under real faults, from a seed."),
    "prune": Command("prune", "Delete data past its retention; --dry-run shows what and why."),
    "db": Command("db", "Manage the database: schema, migration, embedded server."),
    "doctor": Command("doctor", "Check this machine and the database."),
    "config": Command("config", "Show settings and where they come from."),
    "version": Command("version", "Show the version."),
}
