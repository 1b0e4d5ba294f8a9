"""Exports, imports, and the published site."""
