"""Evaluation: what runs reached, and how they compare. It needs no server, database or network."""
