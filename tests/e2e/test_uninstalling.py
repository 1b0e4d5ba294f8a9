"""Uninstalling leaves no objects. This is the last file, because it removes the release."""

import json

from tests.e2e.commands import run, wait_until
from tests.e2e.release import Release

# Kinds of all objects that the chart, or Kubernetes on its behalf, may create.
_KINDS = (
    "deployments,replicasets,statefulsets,daemonsets,cronjobs,pods,services,endpoints,secrets,"
    "configmaps,serviceaccounts,roles,rolebindings,networkpolicies,ingresses,persistentvolumeclaims,"
    "controllerrevisions,clusterroles,clusterrolebindings"
)


def test_no_objects_are_left(release: Release) -> None:
    assert _of_the_release(release), "the release must have objects"
    helm = release.place.helm
    run(helm, "uninstall", release.name, "--namespace", release.name, "--wait", seconds=180)
    wait_until(
        lambda: _of_the_release(release), lambda objects: not objects, 120, "all objects are gone"
    )


def _of_the_release(release: Release) -> list[str]:
    """Return the objects with the release's labels, namespaced or not."""
    selector = f"app=mlbench,release={release.name}"
    listed = run(
        *("kubectl", "get", _KINDS, "--all-namespaces", "--selector", selector),
        *("--output", "json"),
    )
    return [f"{item['kind']} {item['metadata']['name']}" for item in json.loads(listed)["items"]]
