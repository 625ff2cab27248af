"""What all tests share: the one way to skip, Hypothesis' profile, and PostgreSQL servers with a fresh database per test."""

import os
from collections.abc import Iterator

import hypothesis
import pytest

hypothesis.settings.register_profile("default", derandomize=True, deadline=None, database=None)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=2_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def require(condition: object, reason: str) -> None:
    """Skip the test unless the condition holds; under REQUIRE_ALL=1 fail it instead. There is no other way to skip."""
    if condition:
        return
    if os.environ.get("REQUIRE_ALL") == "1":
        pytest.fail(f"REQUIRE_ALL=1 and missing: {reason}", pytrace=False)
    pytest.skip(reason)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = sorted(
        {str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr) for report in skipped}
    )
    terminalreporter.write_line(f"skipped: {len(skipped)}")
    for reason in reasons:
        terminalreporter.write_line(f"  {reason}")


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A developer's own RMHDAG_ variables must not change what a test sees."""
    for name in [name for name in os.environ if name.startswith("RMHDAG_") and name != "RMHDAG_TEST_PROCESSES"]:
        monkeypatch.delenv(name)
    yield
