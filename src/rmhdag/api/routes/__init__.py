"""One file per noun. Each has a `router`, and is served by being here."""
