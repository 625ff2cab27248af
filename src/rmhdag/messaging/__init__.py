"""How processes are notified of work: doorbells over rows that polling finds anyway."""
