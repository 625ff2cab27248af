"""Protection: which files processes trust, which of their own files others may read, which requests are read at all."""
