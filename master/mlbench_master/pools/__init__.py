"""Where worker pods come from: one file for each kind of pool."""
