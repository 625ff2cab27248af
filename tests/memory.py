"""How much memory a process has needed at most."""

from __future__ import annotations

from pathlib import Path


def peak_mb(process_id: int | str = "self") -> float:
    """Not by `ru_maxrss`: a process that was started by a large one begins with the peak of that one."""
    return int(Path(f"/proc/{process_id}/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024
