"""Handlers that take published content back, or hand it on to services outside."""
