"""STAC, OGC features and tiles beside the platform: the field's own services, read-only, behind one port."""
