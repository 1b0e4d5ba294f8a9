"""What the API serves: one file for each noun."""
