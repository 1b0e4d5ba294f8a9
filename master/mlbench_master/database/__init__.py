"""The database: its connection, tables, transactions, and free space."""
