"""Where worker pods come from."""
