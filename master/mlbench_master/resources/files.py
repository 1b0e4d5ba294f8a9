"""``/api/runs/{id}/files``: files in the output folders of ranks."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from falcon import Request, Response

from mlbench.contract.fields import Field
from mlbench.contract.records import RunFile
from mlbench_master.http.bodies import offer_file
from mlbench_master.openapi.operation import Schema, operation
from mlbench_master.openapi.parameters import Whole
from mlbench_master.reading import files
from mlbench_master.reading.store import ArchiveStore
from mlbench_master.resources.logs import AttemptQuery
from mlbench_master.runs import lifecycle

_TEXT, _BYTES = "text/plain; charset=utf-8", "application/octet-stream"
# Types that browsers execute, such as SVG, are not listed: these files are sent as plain bytes.
_TYPES: Mapping[str, str] = {
    **{".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg"},
    **{".gif": "image/gif", ".webp": "image/webp", ".csv": "text/csv; charset=utf-8"},
    **dict.fromkeys((".txt", ".log", ".md", ".json", ".jsonl", ".tsv", ".yaml", ".yml"), _TEXT),
}
_ANSWERS: Mapping[str, Schema] = {
    kind: {"type": "string", "contentMediaType": kind} for kind in (*_TYPES.values(), _BYTES)
}


@dataclass(frozen=True)
class FileQuery(AttemptQuery):
    """The parameters of ``GET /api/runs/{run_id}/files/{file}``."""

    rank: Annotated[Whole, Field(example=0)] = 0
    """Rank that wrote the file."""


@dataclass(frozen=True)
class FilesResource:
    """The list of a run's files, and the content of each file."""

    archives: ArchiveStore

    @operation("list_files", "The files, sorted by rank and name.", list[RunFile], errors=(502,))
    def on_get(self, req: Request, resp: Response, query: AttemptQuery, run_id: int) -> None:
        """List the files in each rank's `$MLBENCH_OUTPUT`, also those left on its machine."""
        run = lifecycle.find(run_id)
        resp.media = files.find(self.archives, run, query.attempt_of(run))

    @operation(
        "get_file",
        "The file, as a download that browsers do not execute.",
        files=_ANSWERS,
        errors=(502,),
    )
    def on_get_one(
        self, req: Request, resp: Response, query: FileQuery, run_id: int, file: str
    ) -> None:
        """Return the content of a file that the master has."""
        run = lifecycle.find(run_id)
        resp.data = files.read(self.archives, run, query.attempt_of(run), query.rank, file)
        path = PurePosixPath(file)
        resp.content_type = _TYPES.get(path.suffix.lower(), _BYTES)
        offer_file(resp, path.name)
        resp.set_header("Content-Security-Policy", "default-src 'none'; sandbox")
