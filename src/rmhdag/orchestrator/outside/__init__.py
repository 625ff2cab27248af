"""Calls to services outside: signed messages, and pipelines of Azure Data Factory."""
