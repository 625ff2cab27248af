"""START and END, which a file may name without declaring them."""

from __future__ import annotations

START = "START"
END = "END"
