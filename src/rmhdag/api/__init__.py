"""The HTTP API: one command or one view per route, in a process of its own beside the engine."""
