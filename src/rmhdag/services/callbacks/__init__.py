"""Where callbacks may go, and how they are signed."""
