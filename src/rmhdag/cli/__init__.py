"""The command line: reads arguments and settings, wires the parts, and reports results. Nothing imports it."""
