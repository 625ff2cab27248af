"""What the platform says of itself: log lines and traces. Nothing of ours is imported here."""
