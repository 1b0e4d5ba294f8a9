"""Evidence and profiles of a rank, gathered on request while a run hangs or fails."""
