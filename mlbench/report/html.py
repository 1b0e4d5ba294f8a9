"""A comparison as one HTML file with plots, which asks no network for anything."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from mlbench.report.manifest import Fact
from mlbench.report.plots import plots
from mlbench.report.statement import statement, subtitle, title
from mlbench.report.tables import tables
from mlbench.results import Comparison


def render(comparison: Comparison, environment: tuple[Fact, ...] = (), left_out: int = 0) -> str:
    """Return a comparison as a page that stands alone.

    Args:
        comparison: what to show.
        environment: facts about the first run, such as its machines.
        left_out: how many runs did not finish, and are not compared.
    """
    templates = Environment(
        loader=PackageLoader("mlbench.report"),
        autoescape=True,  # names, metrics and settings are the user's
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template("report.html.jinja").render(
        title=title(comparison),
        subtitle=subtitle(comparison, left_out),
        said=statement(comparison),
        plots=plots(comparison),
        tables=tables(comparison),
        environment=environment,
        first_run=comparison.results[0].run_id,
    )
