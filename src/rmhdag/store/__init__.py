"""PostgreSQL: the schema made from the models, its migration, and connections."""
