"""Where resource figures come from: one file for each source, wired in ``exporter.app``."""
