"""The page of results, ``docs/results.md``: what is measured for it, and how it is written.

``python -m benchmarks.results`` lists its sections; ``measure`` runs them, ``page`` writes it.
"""
