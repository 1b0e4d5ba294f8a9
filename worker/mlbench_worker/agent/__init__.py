"""The agent: the main process of every worker pod. Standard library and prometheus-client only."""
