"""Every record of the API, once: what the master answers, the document describes, clients read.

The attributes are the JSON's, in its order. ``mlbench.results`` has the records of results.
"""

from mlbench.records.answers import *
from mlbench.records.base import *
from mlbench.records.events import *
from mlbench.records.manifest import *
from mlbench.records.pods import *
from mlbench.records.runs import *
from mlbench.records.series import *
from mlbench.records.sets import *
