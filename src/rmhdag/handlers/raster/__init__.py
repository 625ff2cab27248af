"""Handlers for rasters. Loaded in the children of workers only: they import GDAL."""
