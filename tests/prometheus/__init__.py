"""The rules, alerts and runbooks: tried by promtool, and complete."""
