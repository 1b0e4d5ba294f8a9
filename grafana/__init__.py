"""Generator of the dashboards: ``python -m grafana.build`` writes ``dashboards/*.json``."""

import warnings

# The SDK warns that this schema is deprecated, but Grafana 10 and 11 cannot read newer ones.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import grafana_foundation_sdk.models.dashboard  # noqa: F401 - only to silence its warning
