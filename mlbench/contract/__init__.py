"""Contract: names, records, settings and tokens that all parts share. It imports no other part."""
