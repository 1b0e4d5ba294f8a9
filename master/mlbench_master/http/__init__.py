"""HTTP: bodies, errors, access control, and support for MLBench's original client."""
