"""Title, tags and note of a run: edited on its page, and shown in the list as text."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from mlbench import ApiClient
from mlbench.local.home import StackConnection
from tests.web.conftest import sign_in
from tests.web.watch import Watch

_RUN = 2


@pytest.fixture
def client(still: StackConnection) -> Iterator[ApiClient]:
    """A client of the still master. Afterwards, the run's title, tags and note are empty again."""
    with ApiClient(url=still.url, token=still.token) as client:
        yield client
        client.edit_run(_RUN, title="", tags=[], note="").result()


def test_title_tags_and_note_are_edited_on_the_page_and_shown_in_the_list(
    page: Page, watch: Watch, still: StackConnection, client: ApiClient
) -> None:
    sign_in(page, still, f"/runs/{_RUN}")
    expect(page.get_by_role("button", name="More actions")).to_be_visible()
    name = page.get_by_role("heading", level=1).text_content() or ""
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Title, tags and note")
    dialog.get_by_label("Title").fill("The <b>best</b>")
    dialog.get_by_label("Tags").fill("paper no$good")
    dialog.get_by_label("Note").fill("Keep **this** one.")
    dialog.get_by_role("button", name="Save").click()
    watch.expect("status of 400")
    expect(dialog.get_by_text(re.compile("no\\$good"))).to_be_visible()
    dialog.get_by_label("Tags").fill("paper, lr:0.1")
    dialog.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1, name="The <b>best</b>")).to_be_visible()
    expect(page.get_by_text(f"submitted as {name}")).to_be_visible()
    expect(page.get_by_role("note").locator("strong")).to_have_text("this")
    run = client.get_run(_RUN).result().value
    assert (run.title, run.tags, run.display_name) == ("The <b>best</b>", ("lr:0.1", "paper"), name)

    page.get_by_role("list", name="Settings").get_by_role("link", name="paper").click()
    page.wait_for_url("**/runs?query=tag%3Apaper")
    rows = page.get_by_role("row").filter(has=page.get_by_role("checkbox"))
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("The <b>best</b>")
    expect(rows.get_by_role("link", name="lr:0.1")).to_be_visible()
    page.goto(f"{still.url}/compare?runs={_RUN},6")
    expect(page.get_by_role("link", name=f"The <b>best</b> #{_RUN}")).to_have_count(1)
