"""Handlers that describe rasters as STAC items and keep the catalogue. Load this package to have them all."""
