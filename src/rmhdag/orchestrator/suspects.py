"""Jobs that spoilt a transaction: each goes alone, after a growing pause, until it is well or has failed too often.

An exception or refused data counts each time. Slowness counts only if other work was committed since the last time:
else it is the database that is slow, and no job fails for that.
"""

from __future__ import annotations

from dataclasses import dataclass

from rmhdag.store.verdicts import Verdict

MOST_FAILURES = 3
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 30.0


@dataclass(slots=True)
class _Record:
    failures: int = 0
    tries: int = 0
    commits_before: int = -1
    not_before: float = 0.0


class Suspects:
    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._commits = 0

    def __len__(self) -> int:
        return len(self._records)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._records

    def note_commit(self, job_ids: set[str]) -> None:
        """Only these are cleared: a job that spoils its batches is not forgiven because others went through."""
        self._commits += 1
        if self._records:
            for job_id in job_ids & self._records.keys():
                del self._records[job_id]

    def add(self, job_ids: set[str]) -> None:
        """One of them is to blame; until it is known which, each goes alone."""
        for job_id in job_ids:
            self._records.setdefault(job_id, _Record())

    def blame(self, job_id: str, verdict: Verdict, now: float) -> int:
        """The job failed alone: how often it has, as far as that counts."""
        record = self._records.setdefault(job_id, _Record())
        record.tries += 1
        if verdict is Verdict.DATA or self._commits > record.commits_before:
            record.failures += 1
        record.commits_before = self._commits
        self._pause(record, now)
        return record.failures

    def put_off(self, job_id: str, now: float) -> None:
        """The job was overtaken although it was alone: nothing is wrong with it, but it must not spin."""
        record = self._records.setdefault(job_id, _Record())
        record.tries += 1
        self._pause(record, now)

    @staticmethod
    def _pause(record: _Record, now: float) -> None:
        pause = FIRST_PAUSE_SECONDS * 2 ** min(record.tries - 1, 16)
        record.not_before = now + min(LONGEST_PAUSE_SECONDS, pause)

    def may_try(self, job_id: str, now: float) -> bool:
        record = self._records.get(job_id)
        return record is None or now >= record.not_before

    def due(self, now: float) -> list[str]:
        """Those whose pause is over; they are named once per pause."""
        due = [job_id for job_id, record in self._records.items() if 0.0 < record.not_before <= now]
        for job_id in due:
            self._records[job_id].not_before = 0.0
        return due

    def forget(self, job_id: str) -> None:
        self._records.pop(job_id, None)
