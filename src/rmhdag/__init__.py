"""rmhdag: a DAG orchestrator for geospatial data, with PostgreSQL as its only truth."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["AsyncClient", "AsyncJob", "Client", "Job", "RmhdagError", "__version__"]

if TYPE_CHECKING:
    from rmhdag.client import AsyncClient, AsyncJob, Client, Job, RmhdagError
else:

    def __getattr__(name: str) -> Any:
        """The client is imported on first use: the command line starts without it."""
        if name in __all__:
            from importlib import import_module

            return getattr(import_module("rmhdag.client"), name)
        raise AttributeError(f"module 'rmhdag' has no attribute {name!r}")
