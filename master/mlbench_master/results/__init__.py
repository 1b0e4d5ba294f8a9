"""Results: what runs reached, and how they compare."""
