"""Master data of the flow's own tables: rows that people and programs read and write."""
