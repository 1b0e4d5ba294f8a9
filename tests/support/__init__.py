"""Shared test support: servers, stacks, sample records and files."""
