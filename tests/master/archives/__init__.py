"""Archives: sealing, reading from them, verifying, restoring."""
