"""Every record of the API, once: what the master answers, the document describes, clients read.

The attributes are the JSON's, in its order. Records of results: ``mlbench.contract.results``.
"""

from mlbench.contract.records.answers import *
from mlbench.contract.records.base import *
from mlbench.contract.records.events import *
from mlbench.contract.records.manifest import *
from mlbench.contract.records.pods import *
from mlbench.contract.records.runs import *
from mlbench.contract.records.series import *
from mlbench.contract.records.sets import *
