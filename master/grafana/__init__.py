"""The way to Grafana: its folder, data source and dashboards, and annotations of what runs did."""
