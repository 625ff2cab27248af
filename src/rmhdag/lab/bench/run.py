"""One run: the scenarios that were asked for, one after the other, on one server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rmhdag.lab.bench import callback_scenarios, gateway, http_scenarios, listeners, long_scenarios, scenarios
from rmhdag.lab.bench.rig import Server, open_server
from rmhdag.lab.bench.scenarios import Numbers, Sizes

BY_DEFAULT: dict[str, Callable[[Server, Sizes], Numbers]] = {
    "chain": scenarios.measure_chain,
    "fan_out": scenarios.measure_fan_out,
    "hop": scenarios.measure_hop,
    "cold": scenarios.measure_cold,
    "crowded": scenarios.measure_crowded,
    "poisoned": scenarios.measure_poisoned,
}
BY_NAME: dict[str, Callable[[Server, Sizes], Numbers]] = BY_DEFAULT | {
    "history": long_scenarios.measure_history,
    "idle_jobs": long_scenarios.measure_idle_jobs,
    "pinned": long_scenarios.measure_pinned,
    "retention": long_scenarios.measure_retention,
    "api": http_scenarios.measure_api,
    "submit": http_scenarios.measure_submit,
    "idle_api": http_scenarios.measure_idle_api,
    "callbacks": callback_scenarios.measure_callbacks,
    "listeners": listeners.measure_listeners,
    "gateway": gateway.measure_gateway,
}


def run_bench(
    names: Sequence[str], sizes: Sizes, url: str | None, on_result: Callable[[str, Numbers], None]
) -> dict[str, Any]:
    """Each result as it comes, and all of them at the end."""
    results: dict[str, Any] = {}
    with open_server(url) as server:
        for name in names or BY_DEFAULT:
            results[name] = BY_NAME[name](server, sizes)
            on_result(name, results[name])
    return results
