"""The laboratory: simulation, benchmarks and chaos. It tries the platform; no part of the platform needs it."""
