"""The only writer of job state: inbox, engine, one guarded transaction; and the duties around it."""
