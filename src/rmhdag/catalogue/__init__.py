"""The static STAC catalogue: documents, their links and their extents, in any blob storage."""
