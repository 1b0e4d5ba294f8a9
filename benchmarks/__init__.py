"""Measurements behind the figures in the documentation. ``run`` prints the figures of each part.

Parts share ``measure`` (figures), ``servers`` (processes, Prometheus, the master), ``stored``
(runs in a master's database), ``stacks`` (a local stack and runs on it), ``load`` (requests),
``loops`` (training loops, each in its own process).
"""
