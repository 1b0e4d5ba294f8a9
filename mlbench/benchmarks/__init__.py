"""Benchmarks: the official tasks, their options, and the rules of the closed division."""
