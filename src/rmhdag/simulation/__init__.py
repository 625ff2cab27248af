"""A seeded world of orchestrators and workers around the real engine: the same seed gives the same history."""
