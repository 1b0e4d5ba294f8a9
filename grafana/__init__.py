"""The dashboards: Python that is read and changed, JSON in ``dashboards/`` that Grafana loads."""

import warnings

# The SDK would rather see the dashboards of Grafana 12. Grafana 10 and 11 cannot read those.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import grafana_foundation_sdk.models.dashboard  # noqa: F401 - for its warning alone
