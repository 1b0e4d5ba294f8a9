"""Settings in a command line: ``--lr 0.1``, ``--lr=0.1`` and ``lr=0.1``.

Agents use this module too, so it needs only the standard library.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

# Hydra writes + before a setting that its configuration lacks.
_SETTING = re.compile(r"(?:--|\+{0,2})(?P<name>[A-Za-z_][\w.-]*)=(?P<value>.*)", re.DOTALL)
_OPTION = re.compile(r"--(?P<name>[A-Za-z][\w.-]*)")
_VALUE = re.compile(r"(?!-)|-[.\d]")


@dataclass(frozen=True)
class CommandLine:
    """A command, taken apart."""

    words: tuple[str, ...]
    """Words that are neither names nor values of settings, in order."""
    settings: Mapping[str, str]
    """Values of the settings by name, with underscores instead of hyphens, without seeds."""

    @property
    def pattern(self) -> str:
        """The command without the values of its settings, such as ``python train.py --lr …``."""
        return " ".join([*self.words, *(f"--{name} …" for name in sorted(self.settings))])


def read_command(command: str) -> CommandLine:
    """Take a command apart. A word after an option is its value, unless it is an option too."""
    try:
        words = shlex.split(command)
    except ValueError:
        return CommandLine((command,), {})
    others: list[str] = []
    settings: dict[str, str] = {}
    position = 0
    while position < len(words):
        word, following = words[position], words[position + 1 : position + 2]
        position += 1
        if match := _SETTING.fullmatch(word):
            value = match["value"]
        elif (match := _OPTION.fullmatch(word)) and following and _VALUE.match(following[0]):
            value = following[0]
            position += 1
        else:
            others.append(word)
            continue
        name = match["name"].replace("-", "_")
        if not is_seed(name):
            settings[name] = f"{settings[name]} {value}" if name in settings else value
    return CommandLine(tuple(others), settings)


def is_seed(name: str) -> bool:
    """Check whether a setting with this name is a seed, in which repeats differ."""
    return re.split(r"[_.]", name.lower())[-1] == "seed"


def insert_settings(command: str, settings: Mapping[str, str]) -> str:
    """Return a command with settings in place of ``{KEY}``, or else added as ``--KEY VALUE``."""
    words = shlex.split(command)
    for key, value in settings.items():
        inserted = [word.replace(f"{{{key}}}", value) for word in words]
        words = inserted if inserted != words else [*words, f"--{key}", value]
    return shlex.join(words)
