"""Reading what the API's /metrics says."""

from falcon.testing import TestClient
from prometheus_client.parser import text_string_to_metric_families

Labels = dict[str, str]


def scrape(api: TestClient) -> dict[str, list[tuple[Labels, float]]]:
    """Return the labels and value of every series, by name."""
    text = api.simulate_get("/metrics").text
    found: dict[str, list[tuple[Labels, float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def value(api: TestClient, name: str, **labels: str) -> float | None:
    """Return the value of the only series that has these labels."""
    found = [v for ls, v in scrape(api).get(name, []) if labels.items() <= ls.items()]
    assert len(found) <= 1
    return found[0] if found else None
