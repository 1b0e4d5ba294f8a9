"""The worker: the agent in every worker pod, and the benchmark tasks that it runs."""
