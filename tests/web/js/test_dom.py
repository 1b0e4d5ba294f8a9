"""``dom.js``: elements are made from texts alone, and stay while their items do."""

from tests.web.js.conftest import Call

_MODULE = "js/dom.js"


def test_text_is_never_markup(compute: Call) -> None:
    made = compute(
        _MODULE,
        """({ h }) => {
            const p = h("p", { title: '"><b>', hidden: true, id: null, class: false },
                "<img src=x onerror=alert(1)>", 0, null, false, h("b", {}, "&amp;"));
            return [p.title, p.getAttributeNames(), p.textContent, p.children.length];
        }""",
    )
    text = "<img src=x onerror=alert(1)>0&amp;"
    assert made == ['"><b>', ["title", "hidden"], text, 1]


def test_listeners_are_added(compute: Call) -> None:
    script = """({ h }) => {
        let clicks = 0;
        h("button", { onclick: () => clicks++ }).click();
        return clicks;
    }"""
    assert compute(_MODULE, script) == 1


def test_svg_elements_are_svg(compute: Call) -> None:
    made = compute(_MODULE, '({ svg }) => svg("path", { d: "M0 0" }) instanceof SVGPathElement')
    assert made is True


def test_the_same_text_changes_nothing(compute: Call) -> None:
    script = """({ h, setText }) => {
        const element = h("p", {}, "one");
        const node = element.firstChild;
        setText(element, "one");
        const isSame = element.firstChild === node;
        setText(element, 2);
        return [isSame, element.textContent];
    }"""
    assert compute(_MODULE, script) == [True, "2"]


def test_children_stay_while_their_items_do(compute: Call) -> None:
    script = """({ h, setText, keep }) => {
        const list = h("ul");
        let made = 0;
        const show = (items) => keep(list, items, (item) => item.id,
            () => { made += 1; return h("li"); },
            (element, item) => setText(element, item.text));
        const texts = () => [...list.children].map((child) => child.textContent).join(" ");
        const seen = [];
        show([{ id: 1, text: "a" }, { id: 2, text: "b" }, { id: 3, text: "c" }]);
        const second = list.children[1];
        seen.push(texts());
        show([{ id: 3, text: "c" }, { id: 2, text: "B" }, { id: 4, text: "d" }]);
        seen.push(texts(), list.children[1] === second, made);
        show([]);
        seen.push(list.children.length);
        return seen;
    }"""
    assert compute(_MODULE, script) == ["a b c", "c B d", True, 4, 0]
