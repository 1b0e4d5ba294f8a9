"""The page of a run: start, progress, end, logs and files."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from mlbench import ApiClient
from mlbench.contract.records import Run
from mlbench.local.home import StackConnection
from tests.conftest import wait_for
from tests.support.known import known
from tests.support.stacks import losses, order_command, order_steps, run_to_end
from tests.web.conftest import TALKER, TALKER_LINES, WORDY, section, sign_in, stop_runs
from tests.web.watch import Watch


def _outcome(page: Page, text: str) -> None:
    chip = page.get_by_text(re.compile(text)).and_(page.get_by_role("status"))
    expect(chip.and_(page.locator(".badge"))).to_be_visible()


def _open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()
    expect(page.get_by_role("tabpanel", name=name, exact=True)).to_be_visible()


@pytest.mark.usefixtures("no_run_left")
def test_a_run_is_started_and_followed_to_its_target(
    user: Page, connection: StackConnection, client: ApiClient
) -> None:
    user.goto(f"{connection.url}/runs?new=1")
    dialog = user.get_by_role("dialog", name="New run")
    dialog.get_by_label("Benchmark").select_option("digits-linear")
    dialog.get_by_label("Name").fill("from-the-browser")
    dialog.get_by_role("button", name="Start run").click()
    user.wait_for_url(f"{connection.url}/runs/*")
    expect(user.get_by_role("heading", level=1, name="from-the-browser")).to_be_visible()

    _outcome(user, r"^93 % in [\d.]+ m?s$")
    progress = section(user, "Progress")
    for text in ("Validation accuracy", "Time to target, training", "Goodput"):
        expect(progress).to_contain_text(text)
    training_section = section(user, "Training")
    for name in ("Accuracy over the run", "Loss over the run", "Throughput over the run"):
        expect(training_section.get_by_role("img", name=name)).to_be_visible()
    breakdown = section(user, "Time breakdown")
    expect(breakdown.get_by_role("img", name="All workers")).to_be_visible()
    expect(breakdown.get_by_role("listitem").first).to_contain_text("%")
    expect(section(user, "Ranks").get_by_role("row")).to_have_count(3)
    timeline = section(user, "Timeline")
    for text in ("submitted", "ready", "running", "began", "target", "finished"):
        expect(timeline).to_contain_text(text, ignore_case=True)
    # Charts can also be drawn by step.
    training_section.get_by_role("button", name="View").click()
    training_section.get_by_label("Step", exact=True).check()
    expect(training_section.get_by_role("img", name="by step").first).to_be_visible()
    _open_tab(user, "Ranks and time")
    ranks = section(user, "Ranks").get_by_role("row")
    expect(ranks).to_have_count(3)
    expect(section(user, "Ranks")).to_contain_text("local-mlbench-worker-1")
    by_rank = section(user, "Time breakdown by rank and attempt")
    expect(by_rank).to_contain_text("Goodput")
    expect(by_rank.get_by_role("row")).to_have_count(3)
    expect(section(user, "Resources").get_by_role("img").first).to_be_visible()
    _open_tab(user, "Record")
    expect(section(user, "Delivery")).to_contain_text("No missing samples")
    expect(section(user, "Settings and machines")).to_contain_text("torch")

    for name, begin in (("Metrics (zip)", b"PK"), ("Resource usage (JSON)", b"{")):
        user.get_by_role("button", name="Download", exact=True).click()
        with user.expect_download() as download:
            user.get_by_role("link", name=name).click()
        assert Path(download.value.path()).read_bytes().startswith(begin)

    # A sample posted after the end is reported, but does not change the result.
    figures = progress.get_by_role("definition")
    _open_tab(user, "Overview")
    best, time_to_target = (figures.nth(place).text_content() or "" for place in (0, 1))
    run = client.get_runs().result().value[-1]
    client.post_metric(run.id, "val_global_Prec@1 @ 0", 99.9, date=run.started_at).result()
    user.reload()
    expect(figures.nth(0)).to_have_text(best)
    expect(figures.nth(1)).to_have_text(time_to_target)
    _open_tab(user, "Record")
    remarks = section(user, "Notes on the result")
    expect(remarks).to_contain_text("1 sample was added after the end, at")


@pytest.mark.usefixtures("no_run_left")
def test_a_value_outside_the_time_of_the_run_is_not_drawn(
    user: Page, connection: StackConnection, client: ApiClient
) -> None:
    run = order_steps(client, "foreign", steps=200, rate=100)
    wait_for(lambda: losses(client, run), what="it has begun")
    client.post_metric(run.id, "train_loss @ 0", 5.0, date="2018-08-03T09:21:44.331823Z").result()
    run_to_end(client, run)
    user.goto(f"{connection.url}/runs/{run.id}")
    training = section(user, "Training")
    expect(training).to_contain_text("1 value with a time outside of the run, not shown")
    expect(training.get_by_role("img").first).to_be_visible()


@pytest.mark.usefixtures("no_run_left")
def test_malformed_lines_are_reported_once(
    user: Page, connection: StackConnection, client: ApiClient
) -> None:
    command = "sh -c 'echo nonsense >> $MLBENCH_METRICS_FILE'"
    run = run_to_end(client, order_command(client, "nonsense", command))
    user.goto(f"{connection.url}/runs/{run.id}?tab=record")
    remarks = section(user, "Notes on the result")
    expect(remarks).to_contain_text("Not recorded: 1 malformed line")
    expect(section(user, "Settings and machines")).to_contain_text(
        re.compile(r"not recorded\s*1 malformed line")
    )


@pytest.fixture
def talked(page: Page, still: StackConnection) -> Page:
    """The page of a failed run with long logs."""
    sign_in(page, still, f"/runs/{TALKER}?tab=logs")
    expect(page.get_by_role("log")).to_be_visible()
    return page


def test_a_failure_is_explained_in_one_box_with_all_stacks(talked: Page) -> None:
    _open_tab(talked, "Overview")
    why = section(talked, "rank 1 on local-mlbench-worker-1 exited with code 3")
    expect(why.get_by_role("status")).to_have_text(
        "rank 1 is at <img src=x onerror=alert(1)> (data.py:41); rank 0 waits for it in all-reduce "
        "22"
    )
    # A failure without a traceback shows the last lines of the rank's log.
    lines = why.get_by_role("group", name="Last lines of the log")
    expect(lines).to_have_text("rank 1 begins <b>here</b> 2")
    expect(why.get_by_role("list")).to_be_hidden()
    why.get_by_text("Stacks of the ranks").press("Enter")
    lines = why.get_by_role("listitem")
    expect(lines.first).to_contain_text("<module> train.py:50 ranks 0")
    expect(lines.nth(2)).to_have_text("all_reduce distributed_c10d.py:2900 rank 0, not rank 1")
    expect(talked.get_by_role("button", name="Diagnose")).to_be_hidden()
    # The failure is above what cost time.
    findings = talked.get_by_role("list", name="Findings")
    assert known(why.bounding_box())["y"] < known(findings.bounding_box())["y"]
    why.get_by_role("link", name="Show log of rank 1").click()
    expect(talked.get_by_role("log", name="Log of rank 1")).to_be_visible()
    expect(why).to_be_hidden()
    assert talked.url.endswith("?tab=logs")


def test_the_hang_of_a_finished_run_is_only_in_its_timeline(
    page: Page, still: StackConnection
) -> None:
    sign_in(page, still, "/runs?query=reached")
    page.get_by_role("link", name="reached").click()
    expect(section(page, "Timeline")).to_contain_text("data.py:41")
    expect(section(page, "Hang diagnosis")).to_be_hidden()


def test_a_long_timeline_is_shown_whole_on_request(page: Page, still: StackConnection) -> None:
    def restart_often(route: Route) -> None:
        events = route.fetch().json()
        texts = [f"Attempt {number} began" for number in range(2, 32)]
        route.fulfill(json=[{**events[0], "kind": "restarted", "text": text} for text in texts])

    sign_in(page, still)
    page.route(f"**/api/runs/{TALKER}/events/", restart_often)
    page.goto(f"{still.url}/runs/{TALKER}")
    timeline = section(page, "Timeline")
    expect(timeline.get_by_text("Attempt 31 began")).to_be_visible()
    expect(timeline.get_by_role("listitem")).to_have_count(16)
    timeline.get_by_label("All events").check()
    expect(timeline.get_by_text("Attempt 15 began")).to_be_visible()


def test_a_failed_run_shows_the_log_of_the_failed_rank(talked: Page) -> None:
    _outcome(talked, "^failed$")
    # The stderr of the failed rank is selected first.
    log = talked.get_by_role("log", name="Log of rank 1")
    expect(log).to_contain_text("rank 1 begins <b>here</b> 2")
    talked.get_by_role("combobox", name="Attempt", exact=True).select_option("1")
    expect(log).to_contain_text("rank 1 begins <b>here</b> 1")
    talked.get_by_role("combobox", name="Rank", exact=True).select_option("0")
    expect(talked.get_by_role("log", name="Log of rank 0")).to_contain_text("rank 0 begins")
    _open_tab(talked, "Overview")
    expect(section(talked, "Timeline")).to_contain_text("attempt 2", ignore_case=True)


def test_tabs_are_kept_in_the_url_and_selected_by_arrow_keys(talked: Page) -> None:
    logs = talked.get_by_role("tab", name="Logs")
    expect(logs).to_have_attribute("aria-selected", "true")
    logs.press("ArrowRight")
    record = talked.get_by_role("tab", name="Record")
    expect(record).to_be_focused()
    expect(section(talked, "Settings and machines")).to_be_visible()
    assert talked.url.endswith("?tab=record")
    talked.reload()
    expect(record).to_have_attribute("aria-selected", "true")
    for key, name in (("ArrowRight", "Overview"), ("End", "Record"), ("Home", "Overview")):
        talked.locator("[role=tab][aria-selected=true]").press(key)
        expect(talked.get_by_role("tab", name=name)).to_be_focused()
    assert "tab=" not in talked.url


_MESSAGES = {
    "message_bytes": (4, 1024, 1 << 20),
    "all_reduce_float32_seconds": (5e-4, 6e-4, 4e-3),
    "all_reduce_float32_algorithm_bandwidth_bytes_per_second": (8e3, 1.7e6, 2.6e8),
    "all_reduce_float32_bus_bandwidth_bytes_per_second": (8e3, 1.7e6, 2.6e8),
    "all_reduce_float32_wrong_values": (0, 0, 0),
}


def test_a_run_of_the_communication_benchmark_shows_bandwidth_by_message_size(
    page: Page, still: StackConnection
) -> None:
    def answer(route: Route) -> None:
        names = [{"name": name, "has_ranks": True} for name in _MESSAGES]
        points = {
            f"{name} @ 0": [
                {"date": f"2026-11-29T12:00:0{i}Z", "value": str(value)}
                for i, value in enumerate(values)
            ]
            for name, values in _MESSAGES.items()
        }
        route.fulfill(json=names if "/runs/" in route.request.url else points)

    def change(route: Route) -> None:
        response = route.fetch()
        route.fulfill(json={**response.json(), "benchmark": "communication"})

    sign_in(page, still)
    page.route(f"**/api/runs/{WORDY}/", change)
    page.route(re.compile(f"/api/(runs/{WORDY}/metrics/|metrics/{WORDY}/)"), answer)
    page.goto(f"{still.url}/runs/{WORDY}")
    bandwidth = section(page, "Bus bandwidth")
    name = "Bus bandwidth by message size: all_reduce float32; Bus bandwidth (GB/s) by Message size"
    expect(bandwidth.get_by_role("img", name=f"{name} (bytes)")).to_be_visible()
    rows = bandwidth.get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.first).to_have_text(
        "Size (B)Count (elements)TypeRedopRootTime (us)Algbw (GB/s)Busbw (GB/s)#wrong"
    )
    expect(rows.last).to_have_text("1048576262144float32sum-14000.00.2600.2600")
    expect(section(page, "Progress")).to_contain_text("All-reduce, peak0.26 GB/s")
    expect(section(page, "Training")).to_be_hidden()


def test_a_finding_links_to_its_evidence(page: Page, still: StackConnection) -> None:
    def slow(route: Route) -> None:
        result = route.fetch().json()
        delays = [(1, 28.9, 2.4), (0, 0.0, 1.0)]
        late = [
            {"rank": rank, "seconds": seconds, "parts": {"compute": seconds}, "speedup_without": by}
            for rank, seconds, by in delays
        ]
        stragglers = {"speedup_without": 2.4, "ranks": late, "text": "rank 1 was late", "named": 1}
        ranks = [{"rank": rank, "compute_seconds": 0.05 + 0.07 * rank} for rank in (0, 1)]
        finding: dict[str, Any] = {
            "rule": "straggler",
            "severity": "bad",
            "title": "Rank 1 held up the others",
        }
        finding |= {"text": "It was 28.9 s late.", "seconds": 57.8, "evidence": "ranks"}
        finding |= {"saving": {"seconds": 28.9, "low": 27.0, "high": 30.0}}
        findings = [finding, *result["findings"]]
        fields = {"stragglers": stragglers, "ranks": ranks, "findings": findings}
        route.fulfill(json={**result, **fields})

    sign_in(page, still)
    page.route(f"**/api/runs/{TALKER}/result/", slow)
    page.goto(f"{still.url}/runs/{TALKER}?tab=record")
    findings = page.get_by_role("list", name="Findings").get_by_role("listitem")
    expect(findings).to_have_count(2)  # the restart is a finding, too
    finding = findings.first
    expect(finding).to_contain_text("Rank 1 held up the others")
    expect(finding).to_contain_text("saves 28.9 s")
    finding.get_by_role("link", name="Show ranks").click()
    ranks = section(page, "Ranks")
    expect(ranks).to_be_focused()
    expect(ranks.get_by_role("row").nth(1)).to_have_class("is-straggler")
    assert "tab=" not in page.url


def test_a_log_can_be_scrolled_from_its_end_to_its_start(talked: Page) -> None:
    talked.get_by_role("combobox", name="Rank", exact=True).select_option("0")
    talked.get_by_label("Stream").select_option("stdout")
    log = talked.get_by_role("log")
    expect(log).to_contain_text("rank 0 ends")
    expect(log).not_to_contain_text("rank 0 line 1\n")
    # Lines out of sight have no elements.
    assert log.locator(".log-line").count() < 1000
    # Each redraw shows the visible lines, even before the next scroll event.
    log.evaluate("""(log) => {
        log.drawn = { times: 0, wrong: 0 };
        new MutationObserver(() => {
            const seen = log.getBoundingClientRect();
            const lines = log.getElementsByClassName("log-line");
            const top = lines[0].getBoundingClientRect().top;
            const bottom = lines[lines.length - 1].getBoundingClientRect().bottom;
            log.drawn.times += 1;
            log.drawn.wrong += top > seen.top + 20 || bottom < seen.bottom - 20;
        }).observe(document.getElementById("log-lines"), { childList: true });
    }""")
    log.focus()
    for _ in range(300):
        talked.keyboard.press("Home")
        if log.get_by_text("rank 0 line 1", exact=True).count():
            break
        talked.wait_for_timeout(100)
    expect(log.get_by_text("rank 0 line 1", exact=True)).to_be_visible()
    drawn = log.evaluate("(log) => log.drawn")
    assert drawn["times"] > 0
    assert drawn["wrong"] == 0
    expect(talked.get_by_label("Follow")).not_to_be_checked()
    talked.get_by_label("Follow").check()
    expect(log.get_by_text("rank 0 ends").last).to_be_visible()


def test_a_log_is_searched_and_downloaded(talked: Page) -> None:
    log = talked.get_by_role("log", name="Log of rank 1")
    expect(log).to_contain_text("begins")  # by default, the stderr of the failed rank
    talked.get_by_label("Stream").select_option("stdout")
    talked.get_by_label("Search logs").fill("THE NEEDLE")
    # Colour codes of a terminal are removed.
    expect(log.get_by_text("the needle of 1")).to_be_visible()
    expect(talked.get_by_text("Match 1 of 1")).to_be_visible()
    talked.get_by_label("Search logs").fill("line 12")
    expect(talked.get_by_text("Match 1 of 111")).to_be_visible()
    expect(log.get_by_text("rank 1 line 12", exact=True)).to_be_visible()
    talked.get_by_role("button", name="Next match").click()
    expect(talked.get_by_text("Match 2 of 111")).to_be_visible()
    expect(log.get_by_text("rank 1 line 120", exact=True)).to_be_visible()
    # Pressing Enter before the search starts also shows the first match.
    talked.get_by_label("Search logs").fill("line 13")
    talked.keyboard.press("Enter")
    talked.wait_for_timeout(500)
    expect(talked.get_by_text("Match 1 of 111")).to_be_visible()
    talked.get_by_label("Search logs").fill("not there")
    expect(talked.get_by_text("No match")).to_be_visible()
    with talked.expect_download() as download:
        talked.get_by_role("link", name="Download log").click()
    assert download.value.suggested_filename == f"run-{TALKER}-rank-1-stdout.txt"
    assert len(Path(download.value.path()).read_text().splitlines()) == TALKER_LINES + 1 + 300


@pytest.mark.parametrize(
    ("path", "choice"),
    [(f"/runs/{WORDY}", "Metric"), (f"/compare?runs={WORDY}", "Add a chart")],
)
def test_pages_with_long_names_fit_a_phone(
    page: Page, still: StackConnection, path: str, choice: str
) -> None:
    page.set_viewport_size({"width": 375, "height": 800})
    # The number of requested points depends on the width of the screen.
    with page.expect_response(re.compile("metric_filter=.*summarize=")):
        sign_in(page, still, path)
    if choice == "Metric":
        page.get_by_role("button", name="View").click()
    expect(page.get_by_role("combobox", name=choice)).to_contain_text("validation/")
    assert page.evaluate("document.documentElement.scrollWidth") == 375


@pytest.fixture
def going(client: ApiClient) -> Iterator[Run]:
    """A run that stays active for a minute and logs once a second."""
    yield order_steps(client, "going", steps=6000, rate=100)
    stop_runs(client)


def test_the_log_of_an_active_run_is_followed_and_the_run_stopped(
    user: Page, connection: StackConnection, going: Run
) -> None:
    user.goto(f"{connection.url}/runs/{going.id}?tab=logs")
    log = user.get_by_role("log", name="Log of rank 0")
    expect(log).to_contain_text("step 100 of 6000")
    expect(log).to_contain_text("step 200 of 6000")
    user.get_by_role("button", name="Stop").click()
    _outcome(user, "^stopped")
    expect(user.get_by_role("button", name="Stop")).to_be_hidden()
    _open_tab(user, "Overview")
    expect(section(user, "Timeline")).to_contain_text("stopped", ignore_case=True)


@pytest.mark.slow
def test_a_run_is_repeated_and_deleted(
    user: Page, connection: StackConnection, client: ApiClient, watch: Watch
) -> None:
    first = order_steps(client, "again", num_workers=1, steps=20, rate=1000)
    run_to_end(client, first)
    user.goto(f"{connection.url}/runs/{first.id}")
    again = user.get_by_role("button", name="Run again")
    again.evaluate("""button => addEventListener("pagehide", () => {
        localStorage.setItem("again", button.disabled ? "disabled" : "enabled");
    })""")
    again.click()
    user.wait_for_url(lambda url: url != f"{connection.url}/runs/{first.id}")
    # The disabled button prevents a third run after a double click.
    assert user.evaluate("localStorage.getItem('again')") == "disabled"
    _outcome(user, "^completed$")
    second = client.get_runs().result().value[-1]
    assert second.id > first.id
    assert second.fields["args"] == first.fields["args"]
    assert second.num_workers == 1

    more = user.get_by_role("button", name="More actions")
    delete = user.get_by_role("button", name="Delete", exact=True)
    more.click()
    delete.click()
    dialog = user.get_by_role("dialog", name="Delete this run?")
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_have_count(0)
    assert client.get_run(second.id).result().value.id == second.id
    more.click()
    delete.click()
    dialog.get_by_role("button", name="Delete").click()
    user.wait_for_url(f"{connection.url}/runs")
    expect(user.get_by_label(f"Select run {first.id}", exact=True)).to_be_visible()
    expect(user.get_by_label(f"Select run {second.id}", exact=True)).to_have_count(0)
    watch.expect("status of 404")
    user.goto(f"{connection.url}/runs/{second.id}")
    expect(user.get_by_text(f"Run {second.id} not found")).to_be_visible()

    # An active run is stopped before it is deleted.
    going = order_steps(client, "going", steps=60_000)
    user.goto(f"{connection.url}/runs/{going.id}")
    more.click()
    delete.click()
    expect(dialog).to_contain_text("The run is stopped first.")
    dialog.get_by_role("button", name="Delete").click()
    user.wait_for_url(f"{connection.url}/runs")
    expect(user.get_by_label(f"Select run {going.id}", exact=True)).to_have_count(0)


def test_samples_lost_by_prometheus_are_reported(
    page: Page, still: StackConnection, watch: Watch
) -> None:
    sign_in(page, still)
    watch.expect("502")
    words = f"Prometheus has 1 of the 20 samples of run {WORDY}: it lost or forgot the rest"
    lost = {"status": 502, "message": words}
    for path in (f"metrics/{WORDY}/", f"runs/{WORDY}/result/"):
        page.route(f"**/api/{path}*", lambda route: route.fulfill(status=502, json=lost))
    page.goto(f"{still.url}/runs/{WORDY}")
    training = section(page, "Training")
    expect(training).to_contain_text(words)
    expect(training.get_by_text("Loading…")).to_be_hidden()
    progress = section(page, "Progress")
    expect(progress).to_contain_text(words)
    # A result that cannot be loaded is shown as not known.
    expect(progress.get_by_role("definition").nth(1)).to_have_text("not known")
    expect(section(page, "Time breakdown")).to_contain_text("Not known")
    expect(training.get_by_role("img")).to_have_count(0)


def test_files_are_shown_and_downloaded(talked: Page) -> None:
    _open_tab(talked, "Record")
    files = section(talked, "Files")
    for name, looks in (("plots/loss.csv", "0,5"), ("report.json", '{"loss": 0.4}')):
        files.get_by_text(name).click()
        expect(files.get_by_role("group", name=name)).to_contain_text(looks)
    files.get_by_text("plots/loss.png").click()
    expect(files.get_by_role("img", name="plots/loss.png")).to_have_js_property("naturalWidth", 1)
    expect(files).to_contain_text("Not uploaded from /there/model.pt: it has more than 1 MiB.")
    with talked.expect_download() as download:
        files.get_by_role("link", name="Download <b>page</b>.html of rank 0").click()
    assert Path(download.value.path()).read_bytes() == b"<script>alert(1)</script>"


def test_a_profile_is_shown_in_speedscope(page: Page, still: StackConnection, watch: Watch) -> None:
    watch.allow("GPU stall due to ReadPixels")  # Chromium without a GPU
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    sign_in(page, still)
    page.goto(f"{still.url}/runs/{TALKER}?tab=ranks")
    profiles = section(page, "Profiles")
    expect(profiles).to_contain_text("none of its processes is a Python")
    expect(profiles.get_by_role("button", name="Profile", exact=True)).to_be_hidden()
    profiles.get_by_text("Rank 0").click()
    names = ["train.py:42 <i>wait()</i>", "<b>aten::addmm</b>"]
    expect(profiles.get_by_role("rowheader")).to_have_text(names)
    expect(profiles.get_by_role("row").nth(1)).to_contain_text("4 sgloo:all_reduce, 75 %")
    expect(profiles.get_by_role("row").last).to_contain_text("0.0008 s0.0008 s1")
    with page.expect_download() as download:
        profiles.get_by_role("link", name="Download the profile of rank 0").click()
    assert b"aten::linear" in gzip.decompress(Path(download.value.path()).read_bytes())
    profiles.get_by_role("button", name="Show in speedscope").click()
    shown = page.frame_locator("iframe[title='Profile of rank 0']")
    shown.get_by_text("Sandwich").click()
    for name in ("aten::linear", "<b>aten::addmm</b>"):
        expect(shown.get_by_text(name).first).to_be_visible()
    assert all(url.startswith((still.url, "data:", "blob:")) for url in asked)


def test_a_button_profiles_a_rank(
    user: Page, connection: StackConnection, going: Run, watch: Watch
) -> None:
    user.goto(f"{connection.url}/runs/{going.id}?tab=ranks")
    profiles = section(user, "Profiles")
    profiles.get_by_label("Rank").select_option("Rank 1")
    profiles.get_by_label("Seconds").fill("2")
    for _ in range(2):
        profiles.get_by_role("button", name="Profile", exact=True).click()
        expect(profiles.get_by_role("listitem")).to_have_count(1)
    expect(profiles.get_by_role("alert")).to_contain_text("rank 1 is being profiled")
    watch.expect("409")
    profiles.get_by_text("py-spy").click()
    expect(profiles.get_by_role("table").first).to_contain_text("sleep")
    expect(profiles.get_by_role("link", name="Download the profile of rank 1")).to_be_visible()
