from __future__ import annotations

from tests.cli.conftest import call_cli, home
from tests.faults.conftest import cluster, fault_server, fault_template
from tests.orchestrator.conftest import platform

__all__ = ["call_cli", "cluster", "fault_server", "fault_template", "home", "platform"]
