"""Protection on a shared machine: which files processes trust, and which of their own files others may read."""
