"""Pools of worker pods, a module for each kind."""
