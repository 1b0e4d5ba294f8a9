"""Records of the API: the JSON that the master sends, as dataclasses.

The OpenAPI document is generated from them, and clients read responses into them. Attributes have
the names and the order of the JSON fields. Records of results: ``mlbench.contract.results``.
"""

from mlbench.contract.records.answers import *
from mlbench.contract.records.events import *
from mlbench.contract.records.manifest import *
from mlbench.contract.records.pods import *
from mlbench.contract.records.record import *
from mlbench.contract.records.runs import *
from mlbench.contract.records.series_records import *
from mlbench.contract.records.sets import *
