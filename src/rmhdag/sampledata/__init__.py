"""Rasters that look like real ones, made from nothing but a number: for first steps, for tests, for measurements."""
