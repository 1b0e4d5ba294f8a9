"""The dashboards; each file reads from top to bottom like its page."""
