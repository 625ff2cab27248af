"""The command as in tests/cli, a platform as in tests/orchestrator, and other users of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest

from tests.cli.conftest import call_cli, home, run_cli  # noqa: F401
from tests.conftest import require
from tests.orchestrator.platform import Platform

NOBODY = 65534


@pytest.fixture
def platform(migrated_database: str) -> Iterator[Platform]:
    made = Platform(migrated_database)
    yield made
    made.close()


@pytest.fixture
def as_nobody() -> Callable[[Callable[[], object]], int]:
    """Do something as another user of this machine; the exit code, 1 if it was refused."""
    require(os.geteuid() == 0, "only root can act as another user")

    def act(deed: Callable[[], object]) -> int:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                os.umask(0)
                deed()
                code = 0
            except OSError:
                pass
            finally:
                os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    return act
