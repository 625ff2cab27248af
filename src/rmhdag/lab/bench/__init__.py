"""Benchmarks: orchestrator and worker as separate processes, compared with the bare SQL."""
