"""Real processes among real faults: a seeded nemesis, a mixed workload, and a checker that believes nobody."""
