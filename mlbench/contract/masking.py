"""Masking of secrets in command lines, which everyone who can read a run sees.

Masked are passwords in URLs, and the values of options and variables whose names look like those
of secrets. Agents use this module too, so it needs only the standard library.
"""

import re
import shlex
from collections.abc import Sequence

MASK = "***"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET = re.compile(
    r"(?:password|passwd|passphrase|secret|credentials?|token|authorization"
    r"|(?:api|access|secret|private|auth|account)[-_.]?key|(?:^|[-_.])(?:auth|pwd|pass))$",
    re.IGNORECASE,
)
# Tokens of language models, and metrics per token.
_HARMLESS = re.compile(
    r"(?:bos|eos|pad|unk|sep|cls|mask|stop|end|special|image|audio|new|next|per|max|min)[-_.]?token$",
    re.IGNORECASE,
)
_VALUE = r"""("[^"]*"|'[^']*'|(?:bearer\s+|basic\s+)?[^\s"']+)"""
# NAME=VALUE, "NAME": "VALUE" or NAME: VALUE, as in shell scripts, JSON, URLs and headers.
_ASSIGNED = re.compile(rf"""(?<![\w.-])([\w.-]++)(["']?\s*[=:]\s*){_VALUE}""", re.IGNORECASE)
_OPTION = re.compile(rf"(?<![\w.-])(--?[\w.-]++)(\s+)(?!-){_VALUE}", re.IGNORECASE)
_IN_URL = re.compile(r"(\w://[^/\s:@\"']*:)[^/\s@\"']+(?=@)")


def mask_words(words: Sequence[str]) -> list[str]:
    """Return the words of a command with its secrets masked."""
    masked, is_value = [], False
    for word in words:
        name, equals, value = word.partition("=")
        if is_value and not word.startswith("-"):
            masked.append(MASK)
            is_value = False
        elif value and _is_secret(name):
            masked.append(f"{name}={MASK}")
            is_value = False
        else:
            masked.append(_mask_text(word))
            is_value = word.startswith("-") and not equals and _is_secret(word)
    return masked


def mask_command(command: str) -> str:
    """Return a shell command line with its secrets masked, otherwise unchanged."""
    try:
        words = shlex.split(command)
    except ValueError:
        return _mask_text(command)
    masked = mask_words(words)
    return command if masked == words else shlex.join(masked)


def _mask_text(text: str) -> str:
    def mask(match: re.Match[str]) -> str:
        if not _is_secret(match[1]):
            return match[0]
        quote = match[3][0] if match[3][0] in "\"'" else ""
        return f"{match[1]}{match[2]}{quote}{MASK}{quote}"

    return _IN_URL.sub(rf"\1{MASK}", _OPTION.sub(mask, _ASSIGNED.sub(mask, text)))


def _is_secret(name: str) -> bool:
    name = _CAMEL.sub("-", name)
    is_word = not any(letter.isspace() for letter in name)
    return is_word and bool(_SECRET.search(name)) and not _HARMLESS.search(name)
