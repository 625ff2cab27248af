"""Live events for many listeners, from one reader of the table."""
