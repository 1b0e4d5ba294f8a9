"""Results of runs, and their comparisons."""
