"""Archives: one file with all that is known of a run, which tells whether a bit of it has changed.

An archive is a zip file. ``run.json`` and ``rows.json`` describe the run, ``files/`` has what its
ranks left, ``samples.parquet`` a row for each sample, series after series, and ``digests.json`` the
SHA-256 of each series and of each other member. The zip file's comment is the SHA-256 of all that
comes before it.

This needs pyarrow, which is imported when an archive is opened: agents and ``mlbench --help`` have
to do without.
"""

from mlbench.archive.format import *
from mlbench.archive.reading import *
from mlbench.archive.writing import *
