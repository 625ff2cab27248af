"""Real processes under real faults: a seeded nemesis, a mixed workload, and an independent checker."""
