"""The dashboards, one file each, which reads from top to bottom like the page does."""
