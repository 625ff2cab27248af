"""The read model: a connection goes in, models of `models.api` come out, read straight from the rows."""
