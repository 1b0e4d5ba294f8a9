"""``mlbench explain``: causes of a slow or failed run, and the saving without each cause."""

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from mlbench.cli.common import JsonOption, RunArgument, find_run, open_run, out, print_json
from mlbench.cli.live import patiently
from mlbench.contract import figures
from mlbench.contract.humanize import numbered


def explain(
    run_name: RunArgument,
    then: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="Compare the predicted saving with this later run, which lacks the cause.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Explain why a run was slow or failed, and what it cost.

    Each finding has its cost, and the saving that is predicted without its cause.
    """
    from mlbench.evaluation import findings  # noqa: PLC0415 - slow to import

    with open_run(run_name) as (client, run):
        result = patiently(client.get_result, run.id)
        check, disturbed = None, []
        if then is not None:
            later = find_run(client, then)
            after = patiently(client.get_result, later.id)
            check = findings.check(result, after)
            disturbed = [each.run_id for each in (result, after) if each.disturbed]
    if json:
        fields: dict[str, Any] = {"findings": [finding.to_fields() for finding in result.findings]}
        if then is not None:
            fields["check"] = asdict(check) if isinstance(check, findings.Check) else check
        print_json(fields)
        return
    if run.active:
        out.print(f"run {run.id} is active: these are its findings so far")
    for finding in result.findings:
        style = "red" if finding.severity == "bad" else "yellow"
        out.print(Text(f"{finding.title}.", style=style), finding.text, soft_wrap=True)
        cost = f"  cost {figures.seconds(finding.seconds)} of worker time"
        if saving := finding.saving:
            low, high = figures.seconds(saving.low), figures.seconds(saving.high)
            cost += f"; {figures.seconds(saving.seconds)} shorter without it ({low} to {high})"
        out.print(cost, soft_wrap=True)
    if not result.findings:
        out.print("nothing found: no cause cost this run 5 % or more of its time")
    if isinstance(check, findings.Check):
        predicted = check.predicted
        out.print(
            f"Without {', '.join(check.rules)}: predicted {figures.seconds(predicted.seconds)} "
            f"({figures.seconds(predicted.low)} to {figures.seconds(predicted.high)}), run "
            f"{later.id} took {figures.seconds(check.took)} ({check.clock} time): "
            f"{check.error * 100:+.1f} % error",
            soft_wrap=True,
        )
        if disturbed:
            out.print(
                f"{numbered('run', disturbed)} had CPU contention, which distorts this error: "
                "repeat both on an idle machine",
                soft_wrap=True,
            )
    elif check:
        out.print(f"not compared: {check}", soft_wrap=True)
