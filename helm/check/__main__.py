"""Check the chart: Helm 3 and 4, every file of values, three versions of Kubernetes' schemas.

$HELM and $PROMTOOL name the programs. The exit code is 1 if a check fails.
"""

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from helm.check import helm4
from helm.check.kubernetes import SchemaChecker, newest_version, size_errors
from helm.check.operator_kinds import operator_errors
from helm.check.prometheus import promtool_errors
from helm.check.rendering import (
    CHART,
    ChartError,
    Helm,
    knows_operator,
    values_files,
    worker_documents,
)

# The oldest supported version has no schemas, so the chart is only rendered for it.
_OLDEST = "1.20"
_VALIDATED = ("1.25", "1.31", newest_version())


def main() -> int:
    """Print the errors, and return 1 if there are any."""
    helm, promtool = Helm(os.environ["HELM"]), os.environ["PROMTOOL"]
    checker = SchemaChecker()
    with TemporaryDirectory() as folder:
        archive = helm4.package(Path(folder))
        errors = helm4.missing_files(archive)
        helm.run("package", CHART, "--destination", Path(folder, "helm3"))
        for packed in Path(folder, "helm3").glob("*.tgz"):
            errors += helm4.missing_files(packed)
        for file in values_files():
            try:
                problems = [*_helm3(helm, promtool, checker, file), *_helm4(archive, checker, file)]
            except ChartError as error:
                problems = [str(error)]
            print(f"{file.stem}: {'ok' if not problems else 'WRONG'}", flush=True)
            errors += [f"{file.name}: {problem}" for problem in problems]
    for line in errors:
        print(line, file=sys.stderr)
    if not errors:
        print(
            f"The chart is valid: {len(values_files())} files of values, Kubernetes {_OLDEST} to "
            f"{_VALIDATED[-1]}, {checker.count} objects validated, Helm 3 and {helm4.version()}"
        )
    return 1 if errors else 0


def _helm3(helm: Helm, promtool: str, checker: SchemaChecker, file: Path) -> list[str]:
    helm.run("lint", "--strict", CHART, "--values", file)
    problems: list[str] = []
    for version in (_OLDEST, *_VALIDATED):
        documents = helm.render(f"{version}.0", "--values", file, operator=knows_operator(file))
        problems += size_errors(documents)
        if version == _OLDEST:
            problems += promtool_errors(promtool, documents)
            problems += operator_errors(documents)
        else:
            problems += checker.errors([*documents, *worker_documents(documents)], version)
    return problems


def _helm4(archive: Path, checker: SchemaChecker, file: Path) -> list[str]:
    values = yaml.safe_load(file.read_text()) or {}
    documents = helm4.render(archive, values)
    return [
        *(f"Helm 4: {error}" for error in helm4.lint(archive, values, _VALIDATED[-1])),
        *checker.errors([*documents, *worker_documents(documents)], _VALIDATED[-1]),
    ]


if __name__ == "__main__":
    sys.exit(main())
