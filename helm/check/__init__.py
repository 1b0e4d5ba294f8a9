"""Checks of the chart: ``python -m helm.check``, with the Python of scripts/get-chart-tools.sh."""
