"""Log lines and traces of all processes. Imports no other package of rmhdag."""
