"""The one error of the launcher: what went wrong, where, and what to do about it."""


class EmbeddedPostgresError(RuntimeError):
    """The embedded server cannot do what was asked; the message names the place and the remedy."""
