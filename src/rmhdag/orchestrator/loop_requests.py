"""What other threads ask of the loop that advances jobs: inputs without a row, jobs to load again, jobs to forget."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from rmhdag.engine.inputs import Start
from rmhdag.messaging.wake import Wake
from rmhdag.orchestrator.local_inputs import LocalInput, LocalInputs


class LoopRequests:
    """All public methods are safe in any thread."""

    def __init__(self) -> None:
        # Of jobs that are mine, from their claim on: what waits for them takes turns by it.
        self._namespaces: dict[str, str] = {}
        # job → when it last moved; all jobs that are mine as far as this process knows
        self._known: dict[str, float] = {}
        self.local = LocalInputs(self._namespace_of)
        self._lock = threading.Lock()
        self._to_reload: set[str] = set()
        self._to_forget: set[str] = set()
        self._bell = Wake()

    def give(self, items: Collection[LocalInput]) -> None:
        self.local.give(items)
        self.wake()

    def take_over(self, job_ids: Collection[str]) -> None:
        """Jobs that became mine: those that never began begin, the others go on where their rows say."""
        self.give([LocalInput(job_id, Start()) for job_id in job_ids])

    def note_namespaces(self, namespaces: Mapping[str, str]) -> None:
        """The namespaces of jobs that were just claimed, by job."""
        self._namespaces.update(namespaces)

    def _namespace_of(self, job_id: str) -> str:
        return self._namespaces.get(job_id, "")

    def reload(self, job_ids: Collection[str]) -> None:
        """Jobs whose rows show that something is owed: what is in memory is not believed any more."""
        with self._lock:
            self._to_reload.update(job_ids)
        self.take_over(job_ids)

    def let_go(self, job_ids: Collection[str]) -> None:
        """Jobs that were given away."""
        with self._lock:
            self._to_forget.update(job_ids)

    def moved_since(self, since: float) -> list[str]:
        return [job_id for job_id, moved in list(self._known.items()) if moved >= since]

    def wake(self) -> None:
        self._bell.ring()

    def fileno(self) -> int:
        """Readable when another thread has left something to do."""
        return self._bell.fileno()

    def close(self) -> None:
        self._bell.close()

    def _take_requests(self) -> tuple[set[str], set[str]]:
        """Jobs to load again, and jobs to forget, since the last call."""
        if not self._to_reload and not self._to_forget:
            return set(), set()
        with self._lock:
            reload, self._to_reload = self._to_reload, set()
            forget, self._to_forget = self._to_forget, set()
        return reload, forget
