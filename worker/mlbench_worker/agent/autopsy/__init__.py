"""What an agent finds out of its rank when the run hangs or fails, before it is killed."""
