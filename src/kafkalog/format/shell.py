"""Commands to type: words quoted for a shell, whatever bytes a file name has."""

from __future__ import annotations

import os
import shlex


def shell_word(text: str) -> str:
    """`text` as one word of a shell's command line, printable as it is.

    A name with control characters, direction marks or bytes that are not UTF-8 becomes $'…' with their bytes escaped, which
    bash, zsh, ksh and busybox understand.
    """
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if character in "\\'":
        return "\\" + character
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))  # after \x, more than two digits would count


def path_word(path: str) -> str:
    """A path as a word that no command takes for an option."""
    return shell_word(os.path.join(".", path) if path.startswith("-") else path)
