"""Archives of runs that have ended: sealing, where they lie, verifying, restoring."""
