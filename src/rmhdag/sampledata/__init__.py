"""Realistic sample rasters and vector layers, created from a seed: for first steps, tests and measurements."""
