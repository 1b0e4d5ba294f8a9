"""Measure what the documentation claims: each part yields figures that ``run`` prints.

Parts share ``measure`` (figures), ``servers`` (processes, Prometheus, the master), ``stored``
(runs in a master's database), ``stacks`` (a local stack and runs on it), ``load`` (requests),
``loops`` (training loops in processes of their own).
"""
