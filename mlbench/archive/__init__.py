"""Archives: a file with the complete record of a run, protected by digests against any change.

An archive is a zip file. ``run.json`` and ``rows.json`` describe the run, ``files/`` has the files
of its ranks, ``samples.parquet`` a row for each sample, series after series, and ``digests.json``
the SHA-256 of each series and of each other member. The zip file's comment is the SHA-256 of all
bytes before it.

Archives need pyarrow. It is imported only when an archive is opened, because agents and
``mlbench --help`` have to work without it.
"""

from mlbench.archive.archive_format import *
from mlbench.archive.reading import *
from mlbench.archive.writing import *
