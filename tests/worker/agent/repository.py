"""Real git repositories."""

from pathlib import Path

from tests.support.processes import run_text

_WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, and return what it says."""
    done = run_text(["git", *_WHO, *arguments], cwd=folder, check=True)
    return done.stdout.strip()
