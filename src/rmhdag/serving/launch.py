"""The last step before a service runs: limits, another account, no network; then its own Python takes over.

`python -m rmhdag.serving.launch FD` reads a plan from a descriptor, so that no secret is in a command line or a file.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from dataclasses import asdict, dataclass

PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWNET = 0x40000000
MEGABYTE = 1024 * 1024
# Nothing is written but logs.
MOST_FILE_MB = 64
MOST_FILES = 1024
NICENESS = 5


@dataclass(frozen=True)
class Plan:
    command: list[str]
    environment: dict[str, str]
    memory_mb: int
    parent: int
    # As which account, if not as that of the parent.
    uid: int | None = None
    gid: int | None = None
    # Sockets that are open already stay usable.
    network: bool = True

    def to_descriptor(self) -> int:
        """Readable again and again, for each start."""
        descriptor = os.memfd_create("rmhdag-service")
        os.write(descriptor, json.dumps(asdict(self)).encode())
        return descriptor


def read_plan(descriptor: int) -> Plan:
    size = os.fstat(descriptor).st_size
    return Plan(**json.loads(os.pread(descriptor, size, 0)))


def carry_out(plan: Plan) -> None:
    """Never returns: this process becomes the service."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not plan.network:
        # Needs the right to it; without, the settings of GDAL and the missing credentials have to do.
        libc.unshare(CLONE_NEWNET)
    resource.setrlimit(resource.RLIMIT_DATA, (plan.memory_mb * MEGABYTE,) * 2)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_FILE_MB * MEGABYTE,) * 2)
    resource.setrlimit(resource.RLIMIT_NOFILE, (MOST_FILES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The platform's own work goes first.
    os.nice(NICENESS)
    if plan.uid is not None and plan.gid is not None:
        os.setgroups([])
        os.setresgid(plan.gid, plan.gid, plan.gid)
        os.setresuid(plan.uid, plan.uid, plan.uid)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    # After the change of account, which would undo it.
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != plan.parent:
        sys.exit(f"error: process {plan.parent}, which started this one, is gone")
    # Services look for a file `.env` in their folder.
    os.chdir("/")
    try:
        os.execve(plan.command[0], plan.command, plan.environment)
    except OSError as error:
        sys.exit(f"error: {plan.command[0]} cannot be run: {error.strerror}")


if __name__ == "__main__":
    carry_out(read_plan(int(sys.argv[1])))
