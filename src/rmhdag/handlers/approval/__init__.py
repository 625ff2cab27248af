"""Handlers about the approval of content. They decide nothing themselves: they return records."""
