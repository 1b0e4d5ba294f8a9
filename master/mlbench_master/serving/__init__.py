"""Serving HTTP so that no client keeps a thread, and agents are always answered."""
