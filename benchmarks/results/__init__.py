"""The page of results, ``docs/results.md``: what is measured for it, and how it is written."""
