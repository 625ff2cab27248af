"""Handlers for vector data: reading untrusted files, cleaning, GeoParquet, and tables in PostGIS."""
