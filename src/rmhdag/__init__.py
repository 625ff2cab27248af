"""rmhdag: a DAG orchestrator for geospatial data, with PostgreSQL as its only truth."""

__version__ = "0.1.0"
