"""Whose fault a failed transaction is, judged by what PostgreSQL says and not by the class of the exception.

psycopg calls a limit that one job's data exceeds "operational", like a server that is gone. Retrying the one for ever
stops everybody; failing a job for the other would be wrong.
"""

from __future__ import annotations

from enum import Enum

import psycopg
from psycopg import errors

from rmhdag.store.connection import Conn, NoAnswerError


class Verdict(Enum):
    # The connection is gone or in doubt, the server starts, stops, is full, or others were quicker: try again.
    CIRCUMSTANCES = "circumstances"
    # It took too long: because of its size, or because the server is slow. Repetition tells.
    SLOW = "slow"
    # The same data will fail again.
    DATA = "data"


_CIRCUMSTANCES = (
    "08",  # connection exceptions
    "25P03",  # idle in transaction for too long
    "40",  # serialisation failure, deadlock
    "53100",  # disk full
    "53200",  # out of memory
    "53300",  # too many connections
    "55P03",  # lock not available
    "57P",  # shutdown, crash, cannot connect now
    "58",  # input/output error of the server
)


def judge(error: BaseException, conn: Conn | None = None) -> Verdict:
    """What an exception of a transaction says about the data that was in it."""
    if isinstance(error, NoAnswerError):
        return Verdict.SLOW
    if not isinstance(error, psycopg.Error):
        return Verdict.DATA
    state = error.sqlstate
    if state is not None and not state.startswith(_CIRCUMSTANCES):
        return Verdict.SLOW if isinstance(error, errors.QueryCanceled) else Verdict.DATA
    if state is None and isinstance(error, (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError)):
        # The driver refused it before the server saw it.
        return Verdict.CIRCUMSTANCES if conn is not None and conn.closed else Verdict.DATA
    return Verdict.CIRCUMSTANCES
