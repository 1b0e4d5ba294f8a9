"""The Prometheus of the local stack: what keeps others on this machine, and web pages, out of it.

A password alone would not do: a browser that was once told it shows it with every request to
Prometheus, also with one that a page of another site makes. Such a page does not know the path.
"""

from pathlib import Path

import bcrypt

from mlbench.home import write_private
from mlbench.login import Login

USER = "mlbench"

# The least that there is. The password is random: nobody guesses it, however fast.
_BCRYPT_ROUNDS = 4


def write_login(folder: Path, login: Login) -> Path:
    """Keep a login for Prometheus beside its configuration; return its ``--web.config.file``.

    It holds a hash. The password itself is for the scrape of Prometheus by itself.
    """
    write_private(folder / "password", login.password)
    hashed = bcrypt.hashpw(login.password.encode(), bcrypt.gensalt(_BCRYPT_ROUNDS)).decode()
    path = folder / "web.yml"
    write_private(path, f'basic_auth_users:\n  {login.user}: "{hashed}"\n')
    return path
