"""``pieces.js``: small parts that several pages show."""

from playwright.sync_api import Page, expect

from tests.web.js.conftest import Call

_MODULE = "js/pieces.js"


def test_a_state_is_word_and_colour(compute: Call) -> None:
    script = """({ badge, setBadge }) => {
        const element = badge("STARTED");
        setBadge(element, "FAILED");
        return [element.textContent, element.dataset.state];
    }"""
    assert compute(_MODULE, script) == ["FAILED", "failed"]


def test_a_run_is_active_until_it_ends(compute: Call) -> None:
    script = "({ isActive }, states) => states.filter((state) => isActive({ state }))"
    states = ["INITIALIZED", "STARTED", "FINISHED", "FAILED", "STOPPED"]
    assert compute(_MODULE, script, states) == ["INITIALIZED", "STARTED"]


def test_an_active_run_waits_for_something_or_for_its_turn(compute: Call) -> None:
    script = "({ waitingFor }, runs) => runs.map(waitingFor)"
    runs = [
        {"state": "INITIALIZED", "waiting": ""},
        {"state": "INITIALIZED", "waiting": "2 workers are not ready"},
        {"state": "STARTED", "waiting": ""},
        {"state": "STOPPED", "waiting": ""},
        {"state": "STOPPED", "waiting": "not yet counted"},
    ]
    told = ["waits for its turn", "2 workers are not ready", "", "", "not yet counted"]
    assert compute(_MODULE, script, runs) == told


def test_an_error_says_what_is_wrong_and_tries_again(compute: Call) -> None:
    script = """({ errorState }) => {
        let tries = 0;
        const element = errorState(new Error("<b>wrong</b>"), () => { tries += 1; });
        element.querySelector("button").click();
        return [element.getAttribute("role"), element.firstChild.textContent, tries];
    }"""
    assert compute(_MODULE, script) == ["alert", "<b>wrong</b>", 1]


def _add_copy_button(page: Page, call: Call) -> None:
    call(_MODULE, "({ copyButton }) => main.append(copyButton(() => 'mlbench up', 'the line'))")
    page.get_by_role("button", name="Copy the line").click()


def test_a_text_is_copied(own_page: Page, call: Call) -> None:
    own_page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    _add_copy_button(own_page, call)
    expect(own_page.get_by_text("Copied")).to_be_visible()
    assert own_page.evaluate("navigator.clipboard.readText()") == "mlbench up"
    own_page.clock.run_for(2000)
    expect(own_page.get_by_text("Copied")).to_have_count(0)


def test_where_nothing_can_be_copied_it_says_so(own_page: Page, call: Call) -> None:
    own_page.evaluate("delete Navigator.prototype.clipboard")
    _add_copy_button(own_page, call)
    expect(own_page.get_by_text("Select and copy")).to_be_visible()
