"""Tests of the controller: decisions, observation and execution."""
