"""Archives of runs that have ended: sealing, import, verification and restoring."""
