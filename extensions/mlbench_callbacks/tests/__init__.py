"""Callbacks for training libraries: shared parts, and scripts with the real libraries."""
