"""How a batch is divided: first among namespaces, then among their jobs, so that more jobs do not get more turns."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sized
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")
Held = TypeVar("Held", bound=Sized)


def share_out(members: OrderedDict[str, Held], room: int, take: Callable[[str, Held, int], list[T]]) -> list[T]:
    """Up to `room`, a share of each member; those served are last in the next round, and those left empty go.

    `take` may take less than the share that it is offered; if it takes nothing of anybody, that is the end.
    """
    parts: list[T] = []
    while members and len(parts) < room:
        before = len(parts)
        share = max(1, (room - before) // len(members))
        for name in list(islice(members, room - before)):
            held = members[name]
            parts += take(name, held, min(share, room - len(parts)))
            if held:
                members.move_to_end(name)
            else:
                del members[name]
        if len(parts) == before:
            break
    return parts


class JobLine(Generic[Held]):
    """What waits, by namespace and job. A job stays in the namespace it came under, so that its order is kept."""

    def __init__(self, namespace_of: Callable[[str], str], empty: Callable[[], Held]) -> None:
        self._namespace_of = namespace_of
        self._empty = empty
        self._namespaces: OrderedDict[str, OrderedDict[str, Held]] = OrderedDict()
        self._jobs: dict[str, str] = {}

    def __len__(self) -> int:
        """How many jobs have something waiting."""
        return len(self._jobs)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._jobs

    def __iter__(self) -> Iterator[str]:
        return iter(self._jobs)

    def of(self, job_id: str) -> Held:
        """What the job has waiting, to be added to."""
        namespace = self._jobs.get(job_id)
        if namespace is None:
            namespace = self._jobs[job_id] = self._namespace_of(job_id)
        jobs = self._namespaces.setdefault(namespace, OrderedDict())
        held = jobs.get(job_id)
        if held is None:
            held = jobs[job_id] = self._empty()
        return held

    def replace(self, job_id: str, held: Held) -> None:
        """With something of the same job; with nothing, it is not in line any more."""
        jobs = self._namespaces[self._jobs[job_id]]
        jobs[job_id] = held
        if not held:
            self._leave(job_id)

    def take(self, limit: int, take: Callable[[str, Held, int], list[T]]) -> list[T]:
        def take_of_job(job_id: str, held: Held, share: int) -> list[T]:
            parts = take(job_id, held, share)
            if not held:
                del self._jobs[job_id]
            return parts

        def take_of_namespace(_: str, jobs: OrderedDict[str, Held], share: int) -> list[T]:
            return share_out(jobs, share, take_of_job)

        return share_out(self._namespaces, limit, take_of_namespace)

    def _leave(self, job_id: str) -> None:
        namespace = self._jobs.pop(job_id)
        jobs = self._namespaces[namespace]
        del jobs[job_id]
        if not jobs:
            del self._namespaces[namespace]


def one_namespace(_: str) -> str:
    """Where nobody says whose a job is."""
    return ""
