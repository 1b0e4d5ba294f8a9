"""The exporter: resource use of the worker pods, as cAdvisor names it."""
