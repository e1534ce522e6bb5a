"""PostgreSQL: its schema, its roles, master data and the outbox."""
