"""URLs with a user name and password are split and joined."""

import pytest

from mlbench.contract.login import Login, split_login, with_login


@pytest.mark.parametrize(
    ("url", "clean", "login"),
    [
        ("http://p:9090", "http://p:9090", None),
        ("http://p:9090/", "http://p:9090", None),
        ("http://u:s@p:9090/path/", "http://p:9090/path", Login("u", "s")),
        ("https://u@p", "https://p", Login("u", "")),
        ("http://u%40x:s%2F%3A@[::1]:9090", "http://[::1]:9090", Login("u@x", "s/:")),
    ],
)
def test_a_url_is_split(url: str, clean: str, login: Login | None) -> None:
    assert split_login(url) == (clean, login)


def test_a_login_is_added_to_a_url() -> None:
    login = Login("a user", "p@ss:w/rd")
    assert split_login(with_login("http://p:1/path", login)) == ("http://p:1/path", login)
    assert Login("Aladdin", "open sesame").header == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
