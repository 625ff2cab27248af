"""The command line: reads arguments and settings, wires the parts, and says what happened. Nothing imports it."""
