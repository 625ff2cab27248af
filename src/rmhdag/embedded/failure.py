"""The error of the launcher: what went wrong, where, and what to do about it."""


class EmbeddedPostgresError(RuntimeError):
    """An operation of the embedded server failed; the message names the place and the remedy."""
