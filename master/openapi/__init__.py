"""``/openapi.json``: what the API says of itself. The operations of each noun have a file."""
