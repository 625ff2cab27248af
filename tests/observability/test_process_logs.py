"""What real processes write: lines that can be read by programs and say which job and task they are about."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.faults.processes import Cluster
from tests.observability.conftest import SECRET, start_worker, workflow


def lines_of(folder: Path, role: str) -> list[dict[str, Any]]:
    text = "".join(path.read_text() for path in folder.glob(f"{role}-*.log"))
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_lines_say_which_job_task_and_worker_they_are_about(cluster: Cluster, tmp_path: Path) -> None:
    given = {"RMHDAG_LOG_FORMAT": "json", "RMHDAG_LOG_LEVEL": "debug"}
    cluster.orchestrator(**given)
    start_worker(cluster, **given)
    good, bad = cluster.submit(workflow("spans.plain")), cluster.submit(workflow("spans.fail"))
    assert cluster.wait_for_end(good, bad) == ["completed", "failed"]
    worker_id = cluster.one("SELECT worker_id FROM dag_workers")
    for job_id, event, level in ((good, "task_ended", "debug"), (bad, "task_failed", "info")):
        line = next(line for line in lines_of(tmp_path, "worker") if line.get("job_id") == job_id)
        assert (line["event"], line["level"]) == (event, level)
        assert line["worker_id"] == worker_id
        assert line["node_id"] == "n0"
        task = "SELECT task_id FROM dag_task_results WHERE job_id = %s"
        assert line["task_id"] == cluster.one(task, job_id)
    cluster.wait_for(lambda: len(ended(tmp_path)) == 2, "both ends are told")
    assert ended(tmp_path) == {good: "completed", bad: "failed"}
    # The exception quotes the parameters: what has the name of a secret is masked in all that is kept of it.
    failed = next(line for line in lines_of(tmp_path, "worker") if line["event"] == "task_failed")
    kept = cluster.one("SELECT error_message FROM dag_task_results WHERE job_id = %s", bad)
    told = cluster.one("SELECT string_agg(content, '') FROM dag_task_logs WHERE job_id = %s", bad)
    for text in (failed["error"], kept, told):
        assert f"'password': '{SECRET}'" not in text
        assert "'password': ***" in text


def ended(folder: Path) -> dict[str, str]:
    lines = lines_of(folder, "orchestrator")
    return {line["job_id"]: line["status"] for line in lines if line["event"] == "job_ended"}


def test_lines_are_logfmt_and_few_unless_told_otherwise(cluster: Cluster, tmp_path: Path) -> None:
    cluster.orchestrator()
    start_worker(cluster)
    good, bad = cluster.submit(workflow("spans.plain")), cluster.submit(workflow("spans.fail"))
    assert cluster.wait_for_end(good, bad) == ["completed", "failed"]
    cluster.wait_for(lambda: "event=job_ended" in cluster.logs(), "the end of the bad one is told")
    text = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert f"level=info event=task_failed job_id={bad} node_id=n0 task_id=" in text
    assert f"level=info event=job_ended job_id={bad}" in text
    assert good not in text


def test_without_an_exporter_nothing_of_opentelemetry_is_loaded() -> None:
    """Neither by an orchestrator nor by a worker or its children; FastAPI itself loads the small part of it."""
    script = (
        "import sys, rmhdag.worker.child, rmhdag.worker.alone, rmhdag.worker.shared, rmhdag.worker.worker,"
        " rmhdag.orchestrator.process\n"
        "from rmhdag.observability import traces\n"
        "from rmhdag.cli.settings import load_settings\n"
        "from rmhdag.cli.observation import observed\n"
        "with observed(load_settings().settings, 'x'): traces.current_trace_parent()\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_azure_monitor_without_its_package_is_told_and_the_key_is_not(cluster: Cluster) -> None:
    key = "0123abcd-0123-4567-89ab-0123456789ab"
    script = (
        "import sys; sys.modules['azure.monitor.opentelemetry.exporter'] = None\n"
        "sys.argv = ['rmhdag', 'worker', '--queue', 'light']\n"
        "from rmhdag.cli.main import main; main()"
    )
    environment = os.environ | {
        "RMHDAG_DATABASE_URL": cluster.dsn,
        "APPLICATIONINSIGHTS_CONNECTION_STRING": f"InstrumentationKey={key}",
    }
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "the exporter for Azure Monitor is not installed" in done.stderr
    assert "rmhdag[azure-monitor]" in done.stderr
    assert key not in done.stderr
