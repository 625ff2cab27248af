"""A seeded simulation of orchestrators and workers around the real engine: the same seed gives the same history."""
