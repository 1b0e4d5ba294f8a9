"""MLPerf's rules: the score of an official set, and the convergence of a reference."""
