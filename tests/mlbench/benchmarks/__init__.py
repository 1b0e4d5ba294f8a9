"""Tests of the official tasks, their options and their rules."""
