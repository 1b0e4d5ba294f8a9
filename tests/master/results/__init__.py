"""Results: computing, comparing, and gathering what they need."""
