"""Real git repositories."""

import subprocess
from pathlib import Path

_WHO = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder, and return what it says."""
    done = subprocess.run(
        ["git", *_WHO, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
