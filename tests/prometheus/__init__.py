"""Tests of rules, alerts and runbooks."""
