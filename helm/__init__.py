"""The Helm chart, and what checks it."""
