"""What goes wrong, and when: a shuffled deck of faults from one seed, dealt every few seconds by the main thread."""

from __future__ import annotations

import heapq
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from itertools import count, cycle
from random import Random
from typing import Any

import psycopg

from rmhdag.embedded import EmbeddedPostgres
from rmhdag.lab.chaos.fleet import Fleet, Member
from rmhdag.lab.chaos.proxy import Proxy
from rmhdag.store.connection import connect

# Twenty cards; the deck is shuffled anew when it is used up, so that every fault comes in its share.
DECK = (
    ["kill_worker"] * 4
    + ["kill_orchestrator"] * 4
    + ["freeze_worker"] * 2
    + ["freeze_orchestrator"] * 2
    + ["restart_database", "kill_database"]
    + ["terminate_backends", "cut"] * 2
    + ["half_open", "delay", "leave", "kill_worker"]
)
MEAN_PAUSE_SECONDS = 2.6
# What a worker is given to end its tasks, and the rest.
LEAVE_SECONDS = 30.0
# Once for each reconnect that the advance connection manages.
BREAK_SECONDS = 0.2
# How often a process is stopped and let go on until it stands in the middle of a transaction.
CATCHES = 40


class Nemesis:
    """Everything it does is logged; the same seed deals the same cards."""

    def __init__(
        self,
        fleet: Fleet,
        proxy: Proxy,
        postgres: EmbeddedPostgres,
        database: str,
        schema: str,
        seed: int,
        lease_seconds: float,
        log: Callable[[str], None],
    ) -> None:
        self._fleet = fleet
        self._proxy = proxy
        self._postgres = postgres
        self._database = database
        self._schema = schema
        self._random = Random(f"nemesis {seed}")
        self._lease_seconds = lease_seconds
        self._log = log
        self._deck: list[str] = []
        self._order = count()
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._disturbed_until = time.monotonic()
        self.done: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self.work_again_seconds: float | None = None

    def run(self, seconds: float, should_stop: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        next_card = time.monotonic() + MEAN_PAUSE_SECONDS
        while (now := time.monotonic()) < until and not should_stop():
            self._do_due(now)
            self._look_after_members()
            if now >= next_card:
                self._deal()
                next_card = time.monotonic() + self._random.uniform(0.4, 1.6) * MEAN_PAUSE_SECONDS
            time.sleep(0.05)

    def idle(self, seconds: float, should_stop: Callable[[], bool]) -> None:
        """No fault at all for a while."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not should_stop():
            self.look_after()
            time.sleep(0.05)

    def kill_one_by_one(self, seconds: float, should_stop: Callable[[], bool]) -> None:
        """A death or a departure, and nothing else until it has been noticed: how long does that take?"""
        until = time.monotonic() + seconds
        for card in cycle((self._kill_orchestrator, self._kill_worker, self._kill_worker, self._leave_orchestrator)):
            if time.monotonic() >= until or should_stop():
                return
            card()
            self.idle(2 * self._lease_seconds, should_stop)

    def move_jobs(self, seconds: float, should_stop: Callable[[], bool]) -> None:
        """No fault: orchestrators and workers leave in good order and come again, one after the other."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not should_stop():
            self.look_after()
            if all(member.is_well for member in self._fleet.members):
                registered = [member for member in self._fleet.members if self._is_registered(member)]
                self._let_leave(registered)
            time.sleep(0.1)

    def break_advance(self, seconds: float, should_stop: Callable[[], bool]) -> None:
        """The connections by which jobs advance are ended, as fast as they come back."""
        until = time.monotonic() + seconds
        statement = b"""
            SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE application_name LIKE 'orchestrator:advance:%'
        """
        self._log("the advance connections are ended every 200 ms")
        while time.monotonic() < until and not should_stop():
            self.look_after()
            row = self._tell_database(statement, None)
            self._disturbed_until = time.monotonic()
            self.done["terminated_backends"] += 0 if row is None else row[0]
            time.sleep(BREAK_SECONDS)

    def calm_seconds(self) -> float:
        """How long nothing has gone wrong."""
        return time.monotonic() - self._disturbed_until if not self._later else 0.0

    def heal(self) -> None:
        """The last fault is over: everybody is awake and at work, every connection is a good one."""
        self._later.sort()
        due, self._later = self._later, []
        for _, _, action in due:
            action()
        self._proxy.heal()
        for member in self._fleet.members:
            self._wake(member)
            member.start()

    def look_after(self) -> None:
        self._do_due(time.monotonic())
        self._look_after_members()

    def _deal(self) -> None:
        if not self._deck:
            self._deck = list(DECK)
            self._random.shuffle(self._deck)
        card = self._deck.pop()
        getattr(self, f"_{card}")()

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._order), action))

    def _do_due(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            heapq.heappop(self._later)[2]()

    def _look_after_members(self) -> None:
        for member in self._fleet.members:
            code = member.unexpected_end()
            if code is not None:
                self._log(f"{member.name} ended by itself with exit code {code}")
                self.unexpected.append(f"{member.name} ended with exit code {code}")
                self._after(1.0, member.start)

    # -- processes -------------------------------------------------------------------------------------------------

    def _kill_worker(self) -> None:
        self._kill(self._choose(self._fleet.workers))

    def _kill_orchestrator(self) -> None:
        self._kill(self._choose(self._fleet.orchestrators))

    def _kill(self, member: Member) -> None:
        pause = self._random.uniform(0, 1.5 * self._lease_seconds) if self._random.random() < 0.5 else 0.0
        self._remember_end(member, "kill")
        member.kill()
        self._note("kills", f"kill -9 {member.name}, back in {pause:.1f} s")
        self._after(pause, member.start)

    def _freeze_worker(self) -> None:
        self._freeze(self._choose(self._fleet.workers))

    def _freeze_orchestrator(self) -> None:
        self._freeze(self._choose(self._fleet.orchestrators))

    def _freeze(self, member: Member) -> None:
        """Two of three outlast the lease; a worker is frozen with or without its children."""
        outlasts = self._random.random() < 0.67
        low, high = (1.3, 2.0) if outlasts else (0.1, 0.4)
        seconds = self._random.uniform(low, high) * self._lease_seconds
        whole_group = self._random.random() < 0.5
        if member.is_frozen or member.process is None:
            return
        if outlasts:
            self._remember_end(member, "freeze")
        in_transaction = self._stop(member, whole_group, in_transaction=outlasts and member.role == "orchestrator")
        member.is_frozen = True
        self.done["freezes_in_transaction"] += in_transaction
        how = f"{' and children' if whole_group else ''}{' between BEGIN and COMMIT' if in_transaction else ''}"
        self._note("freezes", f"SIGSTOP {member.name}{how} for {seconds:.1f} s")
        frozen = member.process

        def wake() -> None:
            if member.process is frozen:
                self._wake(member)
                self.done["wake_ups_after_lease"] += outlasts

        self._after(seconds, wake)

    def _stop(self, member: Member, whole_group: bool, *, in_transaction: bool) -> bool:
        """SIGSTOP; on request in the middle of a transaction, if one comes by. Whether it is in one."""
        for _ in range(CATCHES if in_transaction else 0):
            member.send(signal.SIGSTOP, whole_group=whole_group)
            if self._is_in_transaction(member):
                return True
            member.send(signal.SIGCONT, whole_group=whole_group)
            time.sleep(self._random.uniform(0.001, 0.01))
        member.send(signal.SIGSTOP, whole_group=whole_group)
        return False

    def _is_in_transaction(self, member: Member) -> bool:
        """It has begun, is not at work in the database, and has not committed."""
        assert member.process is not None
        query = b"""
            SELECT EXISTS (
                SELECT FROM pg_stat_activity AS a
                JOIN dag_orchestrators AS o ON a.application_name = 'orchestrator:advance:' || right(o.owner_id, 8)
                WHERE o.process_id = %s AND a.state = 'idle in transaction'
            )
        """
        return self._tell_database(query, [member.process.pid]) == (True,)

    def _wake(self, member: Member) -> None:
        if member.is_frozen:
            member.send(signal.SIGCONT, whole_group=True)
            member.is_frozen = False
            self._log(f"SIGCONT {member.name}")

    def _leave(self) -> None:
        """A deployment: one process ends in good order and comes again."""
        self._let_leave([member for member in self._fleet.members if member.is_settled])

    def _leave_orchestrator(self) -> None:
        self._let_leave([member for member in self._fleet.orchestrators if member.is_settled])

    def _let_leave(self, members: list[Member]) -> None:
        if not members:
            return
        member = self._random.choice(members)
        pause = self._random.uniform(0, 1)
        member.is_leaving = True
        self._remember_end(member, "leave")
        member.send(signal.SIGTERM, whole_group=False)
        self._note("hand_overs", f"SIGTERM {member.name}")
        asked_at, leaver = time.monotonic(), member.process

        def look() -> None:
            if member.process is not leaver:
                return  # killed while it left
            code = member.left_with()
            waited = time.monotonic() - asked_at
            if code is None and waited < LEAVE_SECONDS:
                self._after(0.1, look)
                return
            if code is None:
                member.kill()
            self._log(f"{member.name} left after {waited:.1f} s with exit code {code}")
            if code != 0:
                self.unexpected.append(
                    f"{member.name} was stopped and ended with exit code {code} after {waited:.1f} s"
                )
            self._after(pause, member.start)

        look()

    def _choose(self, members: list[Member]) -> Member:
        """Somebody who is well, if there is anybody: the faults are to meet work that goes on."""
        well = [member for member in members if member.is_well]
        return self._random.choice(well or members)

    def _is_registered(self, member: Member) -> bool:
        """By then it has come to where it takes SIGTERM."""
        assert member.process is not None
        table = "dag_workers" if member.role == "worker" else "dag_orchestrators"
        query = f"SELECT EXISTS (SELECT FROM {table} WHERE process_id = %s)".encode()
        return self._tell_database(query, [member.process.pid]) == (True,)

    def _remember_end(self, member: Member, how: str) -> None:
        """Who sat there, by name, for the times of reclaim; the database may be away, then nobody remembers."""
        if member.process is None:
            return
        table, column = ("dag_workers", "worker_id") if member.role == "worker" else ("dag_orchestrators", "owner_id")
        statement = (
            f"INSERT INTO chaos_lives SELECT {column}, %s, clock_timestamp(), %s FROM {table} WHERE process_id = %s "
            f"ORDER BY started_at DESC LIMIT 1"
        )
        self._tell_database(statement.encode(), [member.role, how, member.process.pid])

    # -- the database ----------------------------------------------------------------------------------------------

    def _restart_database(self) -> None:
        self._bounce(signal.SIGQUIT, "immediate restart of PostgreSQL")

    def _kill_database(self) -> None:
        self._bounce(signal.SIGKILL, "kill -9 of PostgreSQL")

    def take_database_away(self, seconds: float) -> None:
        """One long outage, and how long after it the first result is written."""
        self._bounce(signal.SIGQUIT, "PostgreSQL is taken away", seconds)
        back = time.monotonic()
        query = b"""
            SELECT EXISTS (SELECT FROM dag_task_results WHERE status = 'completed'
                AND reported_at > (SELECT max(ended_at) FROM chaos_lives WHERE how = 'database_restarts'))
        """
        while self._tell_database(query, []) != (True,) and time.monotonic() - back < seconds:
            time.sleep(0.02)
        self.work_again_seconds = time.monotonic() - back
        self._log(f"work goes on {self.work_again_seconds:.1f} s after the database")

    def _bounce(self, number: signal.Signals, what: str, seconds: float | None = None) -> None:
        away = self._random.uniform(0, 2) if seconds is None else seconds
        pid = self._postgres.process_id
        if pid is not None:
            os.kill(pid, number)
        time.sleep(away)
        self._postgres.stop()
        self._postgres.start()
        self._proxy.target_port = port_of(self._postgres.dsn(self._database))
        self._remember_disturbance("database_restarts")
        self._note("database_restarts", f"{what}, away for {away:.1f} s")

    def _terminate_backends(self) -> None:
        share = self._random.choice((0.1, 0.3, 1.0))
        statement = b"""
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE (application_name LIKE 'orchestrator:%%' OR application_name LIKE '%%worker%%'
                OR application_name LIKE 'rmhdag:%%') AND pid <> pg_backend_pid() AND random() < %s
        """
        self._tell_database(statement, [share])
        self._remember_disturbance("terminated_backends")
        self._note("terminated_backends", f"pg_terminate_backend of {share:.0%}")

    def _cut(self) -> None:
        share = self._random.choice((0.1, 0.3, 1.0))
        self._proxy.cut(Random(self._random.random()), share)
        self._remember_disturbance("cuts")
        self._note("cuts", f"reset of {share:.0%} of the connections")

    def _half_open(self) -> None:
        share, seconds = self._random.choice((0.1, 0.4)), self._random.uniform(0.3, 2.0) * self._lease_seconds
        self._proxy.hold(Random(self._random.random()), share, seconds)
        self._remember_disturbance("half_open")
        self._note("half_open", f"{share:.0%} of the connections carry nothing for {seconds:.1f} s")
        self._disturbed_until += seconds

    def _delay(self) -> None:
        seconds = self._random.uniform(2, 5)
        self._proxy.delay(0.2, seconds)
        self._remember_disturbance("delays")
        self._note("delays", f"200 ms more for {seconds:.1f} s")
        self._disturbed_until += seconds

    def _note(self, counter: str, what: str) -> None:
        self.done[counter] += 1
        self._disturbed_until = time.monotonic()
        self._log(what)

    def _remember_disturbance(self, what: str) -> None:
        """Who cannot reach the database starts to watch anew: times of reclaim across this moment are not theirs."""
        self._tell_database(b"INSERT INTO chaos_lives VALUES ('', 'database', clock_timestamp(), %s)", [what])

    def _tell_database(self, statement: bytes, values: list[Any] | None) -> tuple[Any, ...] | None:
        """The first row of the answer, if there is one."""
        try:
            with connect(self._postgres.dsn(self._database), "chaos:nemesis", autocommit=True) as conn:
                conn.execute("SELECT set_config('search_path', %s, false)", [self._schema])
                answer = conn.execute(statement, values)
                return answer.fetchone() if answer.description else None
        except psycopg.OperationalError as error:
            self._log(f"the database did not answer the nemesis: {str(error).strip()}")
            return None


def port_of(dsn: str) -> int:
    return int(dsn.rsplit("@", 1)[1].split("/", 1)[0].rsplit(":", 1)[1])
