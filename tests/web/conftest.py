"""Fixtures of the web tests: a real Chromium that reports every error of a page."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from benchmarks.servers import database_url
from mlbench import ApiClient
from mlbench.local.home import Home, StackConnection
from mlbench_master.database.models import Run, open_database
from mlbench_master.recording.remote_write import RemoteWriter
from tests.conftest import PrometheusServer, free_port, wait_for
from tests.support.recording import Recording
from tests.support.serving import serve_master
from tests.web import made
from tests.web.watch import Watch

_PATIENCE_MS = 30_000
Filled = Callable[..., AbstractContextManager[StackConnection]]
TALKER, TALKER_LINES = 1, 3000
"""The still master's run with logs, and its number of numbered log lines."""
WORDY = 7
"""The still master's run that recorded a metric with a long name."""


@pytest.fixture
def watch() -> Watch:
    """The errors in the test's browser; after the test, they must be the expected ones."""
    return Watch()


@pytest.fixture
def context(chromium: Browser, watch: Watch) -> Iterator[BrowserContext]:
    """A browser profile without cookies, with a window of 1,280 px."""
    expect.set_options(timeout=_PATIENCE_MS)
    context = chromium.new_context(
        viewport={"width": 1280, "height": 900}, reduced_motion="reduce", accept_downloads=True
    )
    context.set_default_timeout(_PATIENCE_MS)
    watch.follow(context)
    yield context
    context.close()
    watch.check()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """An empty page, which stops all requests after the test."""
    page = context.new_page()
    yield page
    page.goto("about:blank")


@pytest.fixture(scope="session")
def connection(stack: Home) -> StackConnection:
    """The connection to the shared stack."""
    return stack.read_connection()


@pytest.fixture
def user(page: Page, connection: StackConnection) -> Page:
    """A page that is signed in to the shared stack."""
    sign_in(page, connection)
    return page


@pytest.fixture(scope="session")
def client(stack: Home) -> Iterator[ApiClient]:
    with ApiClient.from_home(stack) as client:
        yield client


@pytest.fixture(scope="session")
def filled(shared_prometheus: PrometheusServer, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Run a master without a controller, on a database that the given functions fill first."""

    @contextmanager
    def serve(*fills: Callable[[], None]) -> Iterator[StackConnection]:
        folder = tmp_path_factory.mktemp("master")
        database = open_database(database_url(folder))
        with database.atomic():
            for fill in fills:
                fill()
        with closing(RemoteWriter(shared_prometheus.url)) as writer:
            Recording.to(writer).run_all()
        database.close()
        with serve_master(folder, free_port(), shared_prometheus.url) as connection:
            yield connection

    return serve


@pytest.fixture(scope="session")
def still(filled: Filled) -> Iterator[StackConnection]:
    """A master with eight ended runs: the first has logs, and others have hostile names."""
    with filled(_make_still) as connection:
        yield connection


def _make_still() -> None:
    made.make_talker(TALKER_LINES)
    made.make_runs(5)
    target = {"metric": "val_global_Prec@1", "value": 97.0, "lower_is_better": False}
    reached = {"target": target, "target_train_seconds": 12.5}
    run = made.make_ended_run(name="reached", benchmark="digits", num_workers=4, **reached)
    Run.update(target_reached_at=run.finished_at).where(Run.id == run.id).execute()
    made.make_diagnosis(run)
    made.record_losses(run, "validation" + "/loss_of_the_1st_set" * 7)  # 150 characters
    origin = {"installation": "<b>lab", "run_id": 3, "imported_at": 0.0}
    hostile = {"image": "<b>image</b>", "command": "<i>", "reason": "<u>no", "origin": origin}
    made.make_ended_run(name="own", benchmark="", state="FAILED", **hostile)


@pytest.fixture
def no_run_left(client: ApiClient) -> Iterator[None]:
    """Stop the active runs after the test."""
    yield
    stop_runs(client)


def sign_in(page: Page, connection: StackConnection, path: str = "/signin?next=/signin") -> None:
    """Sign in through the URL with the token and open a page, by default the smallest one."""
    separator = "&" if "?" in path else "?"
    page.goto(f"{connection.url}{path}{separator}token={connection.token}")


def stop_runs(client: ApiClient) -> None:
    """Stop all active runs and wait until they have ended."""
    for run in client.get_runs().result().value:
        if run.active:
            client.stop_run(run.id).result()
    wait_for(lambda: not any(run.active for run in client.get_runs().result().value))


def poll_now(page: Page) -> None:
    """Make a page fetch new data, by the event of a tab that becomes visible."""
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def section(page: Page, name: str) -> Locator:
    """Find a section of a page by its heading."""
    return page.get_by_role("region", name=name, exact=True)


def drag(page: Page, area: Locator, start: float, end: float) -> None:
    """Drag the mouse over a chart between two fractions of its width."""
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box
    page.mouse.move(box["x"] + start * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
