"""YAML text in, checked workflow definition out; every problem with its position."""
