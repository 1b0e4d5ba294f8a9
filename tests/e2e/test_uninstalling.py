"""Uninstalled, the release leaves nothing: the last of these tests, as it takes all away."""

import json

from tests.e2e.commands import run, wait_until
from tests.e2e.release import Release

# All that the chart may make, and what Kubernetes makes for it.
_KINDS = (
    "deployments,replicasets,statefulsets,daemonsets,cronjobs,pods,services,endpoints,secrets,"
    "configmaps,serviceaccounts,roles,rolebindings,networkpolicies,ingresses,persistentvolumeclaims,"
    "controllerrevisions,clusterroles,clusterrolebindings"
)


def test_nothing_is_left(release: Release) -> None:
    assert _of_the_release(release), "there is something to remove"
    helm = release.place.helm
    run(helm, "uninstall", release.name, "--namespace", release.name, "--wait", seconds=180)
    wait_until(lambda: _of_the_release(release), lambda left: not left, 120, "all objects are gone")


def _of_the_release(release: Release) -> list[str]:
    """Return the objects with the release's labels, in any namespace or in none."""
    selector = f"app=mlbench,release={release.name}"
    listed = run(
        *("kubectl", "get", _KINDS, "--all-namespaces", "--selector", selector),
        *("--output", "json"),
    )
    return [f"{one['kind']} {one['metadata']['name']}" for one in json.loads(listed)["items"]]
