"""``compare/view.js``: what the page's address says."""

from tests.web.js.conftest import Call

_MODULE = "js/compare/view.js"


def test_runs_are_ids_each_once(compute: Call) -> None:
    found = compute(_MODULE, "(m, text) => m.parseRuns(text)", "3, 1 3,,2")
    assert found == {"ids": [3, 1, 2], "wrong": ""}


def test_what_is_no_id_is_told(compute: Call) -> None:
    found = compute(_MODULE, "(m, text) => m.parseRuns(text)", "one,2,0,-1,1e3")
    assert found == {"ids": [2], "wrong": "one, 0, -1, 1e3"}


def test_an_address_says_what_it_was_made_of(compute: Call) -> None:
    view = {"runs": "3,1", "goal": "a>=1", "metric": "b", "axis": "step", "isLog": True}
    again = compute(
        _MODULE, "(m, v) => { const p = m.toParams(v); return m.toView((n) => p[n]); }", view
    )
    assert again == view


def test_an_unknown_axis_is_as_good_as_none(compute: Call) -> None:
    found = compute(_MODULE, "(m) => m.toView((name) => (name === 'axis' ? 'sideways' : '')).axis")
    assert found == ""


def test_no_two_of_twenty_runs_look_the_same(compute: Call) -> None:
    looks = compute(_MODULE, "(m) => [...Array(20).keys()].map((i) => JSON.stringify(m.lookOf(i)))")
    assert len(set(looks)) == 20
