"""``live.js``: asking again and again, as seldom as will do."""

from playwright.sync_api import Page, expect

from tests.web.js.conftest import Call

_MODULE = "js/live.js"
_START = """({ poll }, answers) => {
    window.calls = 0;
    window.errors = [];
    window.polling = poll(async () => {
        const answer = answers[Math.min(window.calls++, answers.length - 1)];
        if (answer === "away") throw Object.assign(new Error("No answer"), { isPassing: true });
        if (answer === "wrong") throw Object.assign(new Error("It is gone"), { isPassing: false });
        return answer;
    }, (error) => window.errors.push(error.message));
}"""
_HIDE = """(hidden) => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def _calls(page: Page) -> int:
    calls: int = page.evaluate("window.calls")
    return calls


def test_it_asks_until_nothing_can_change(own_page: Page, call: Call) -> None:
    call(_MODULE, _START, [1000, 1000, None])
    assert _calls(own_page) == 1
    own_page.clock.run_for(999)
    assert _calls(own_page) == 1
    own_page.clock.run_for(1)
    assert _calls(own_page) == 2
    own_page.clock.run_for(100_000)
    assert _calls(own_page) == 3


def test_a_hidden_page_asks_less_often(own_page: Page, call: Call) -> None:
    own_page.evaluate(_HIDE, True)
    call(_MODULE, _START, [1000])
    own_page.clock.run_for(5_999)
    assert _calls(own_page) == 1
    own_page.clock.run_for(1)
    assert _calls(own_page) == 2
    own_page.evaluate(_HIDE, False)
    assert _calls(own_page) == 3


def test_a_hidden_page_stays_ended(own_page: Page, call: Call) -> None:
    call(_MODULE, _START, [1000, None])
    own_page.clock.run_for(1000)
    own_page.evaluate(_HIDE, True)
    own_page.evaluate(_HIDE, False)
    assert _calls(own_page) == 2


def test_while_the_master_is_away_it_says_so_and_goes_on(own_page: Page, call: Call) -> None:
    call(_MODULE, _START, [1000, "away", "away", 1000])
    connection = own_page.locator("#connection")
    expect(connection).to_be_hidden()
    own_page.clock.run_for(1000)
    expect(connection).to_be_visible()
    expect(connection).to_contain_text("No answer")
    own_page.clock.run_for(1000)
    assert _calls(own_page) == 3
    # It asks less and less often.
    own_page.clock.run_for(1999)
    assert _calls(own_page) == 3
    own_page.clock.run_for(1)
    assert _calls(own_page) == 4
    expect(connection).to_be_hidden()
    assert own_page.evaluate("window.errors") == []


def test_any_other_error_ends_it(own_page: Page, call: Call) -> None:
    call(_MODULE, _START, ["wrong"])
    own_page.clock.run_for(100_000)
    assert own_page.evaluate("[window.calls, window.errors]") == [1, ["It is gone"]]


def test_no_poll_that_has_ended_says_that_the_master_is_away(own_page: Page, call: Call) -> None:
    connection = own_page.locator("#connection")
    call(_MODULE, _START, ["away", "wrong"])
    expect(connection).to_be_visible()
    own_page.clock.run_for(1000)
    expect(connection).to_be_hidden()
    call(_MODULE, _START, ["away"])
    expect(connection).to_be_visible()
    own_page.evaluate("window.polling.stop()")
    expect(connection).to_be_hidden()


def test_after_an_error_it_can_be_begun_again(own_page: Page, call: Call) -> None:
    call(_MODULE, _START, ["wrong", 1000])
    own_page.evaluate("window.polling.now()")
    own_page.clock.run_for(1000)
    assert own_page.evaluate("[window.calls, window.errors]") == [3, ["It is gone"]]


def test_it_asks_at_once_or_never_again(own_page: Page, call: Call) -> None:
    call(_MODULE, _START, [5000])
    own_page.evaluate("window.polling.now()")
    assert _calls(own_page) == 2
    own_page.clock.run_for(5000)
    assert _calls(own_page) == 3
    own_page.evaluate("window.polling.stop()")
    own_page.clock.run_for(100_000)
    assert _calls(own_page) == 3
