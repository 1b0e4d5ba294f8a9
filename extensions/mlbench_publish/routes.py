"""``/api/archives/``: import of archives."""

from dataclasses import dataclass
from tempfile import TemporaryFile

from falcon import Request, Response

from mlbench.contract.records import Imported
from mlbench_master.http.bodies import read_to_file
from mlbench_master.openapi.operation import Route, operation
from mlbench_master.reading.series import SeriesReader
from mlbench_master.runs import lifecycle, presenters
from mlbench_master.services import Services
from mlbench_master.serving.connection import is_gone
from mlbench_publish import importing

# At most four imports run at once, and the /tmp of the chart has 1 GiB.
_MAX_BYTES = 200 << 20


@dataclass(frozen=True)
class ImportsResource:
    """Imports of archives."""

    reader: SeriesReader

    @operation(
        "import_archive",
        "The imported run, and whether the import added it.",
        Imported,
        body=bytes,
        errors=(502, 503),
    )
    def on_post(self, req: Request, resp: Response) -> None:
        """Import a run from its archive, the body of the request.

        The imported run is read-only. Its `origin` is set; otherwise, lists and comparisons treat
        imported runs like all others. Importing the same archive again, or the archive of a run of
        this installation, adds nothing.
        """
        with TemporaryFile() as file:
            read_to_file(req, file, _MAX_BYTES)
            run, added = importing.import_archive(self.reader, file, lambda: is_gone(req.env))
        resp.media = Imported(presenters.describe(lifecycle.find(run.id)), added)


def routes(services: Services) -> list[Route]:
    """Return the route that imports archives."""
    return [Route("/api/archives", ImportsResource(services.reader))]
