"""Two schemas compared by every fact that PostgreSQL knows of them."""

from rmhdag.store.schema_facts import SchemaFacts, TableFacts


def assert_same_schema(found: SchemaFacts, wanted: SchemaFacts) -> None:
    assert found.enums == wanted.enums
    assert found.functions == wanted.functions
    assert found.tables.keys() == wanted.tables.keys()
    for name, table in wanted.tables.items():
        assert without_leaf_names(found.tables[name]) == without_leaf_names(table), name


def without_leaf_names(table: TableFacts) -> TableFacts:
    """PostgreSQL names the indexes of partitions by itself where it makes them."""
    for leaf in table.partitions.values():
        leaf.indexes = {facts.definition: facts for facts in leaf.indexes.values()}
    return table
