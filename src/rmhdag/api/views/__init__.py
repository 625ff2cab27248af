"""Facts that several places show, each computed once: a connection goes in, models of `models.api` come out."""
