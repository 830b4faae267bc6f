"""Names for what lies beside a file or folder and is named after it, whatever that is called: a file system takes 255 bytes."""

from __future__ import annotations

import hashlib
import os

NAME_BYTES = 255
_DIGEST_LETTERS = 16
UNFINISHED = ".inprogress"


def name_beside(name: str, suffix: str, prefix: str = "") -> str:
    """The name between a prefix and a suffix; of one too long for that, a part, and a digest that tells it from others."""
    whole = f"{prefix}{name}{suffix}"
    if len(os.fsencode(whole)) <= NAME_BYTES:
        return whole
    room = NAME_BYTES - len(os.fsencode(prefix + suffix)) - _DIGEST_LETTERS - 1
    part = name
    while len(os.fsencode(part)) > room:
        part = part[:-1]
    return f"{prefix}{part}~{hashlib.sha256(os.fsencode(name)).hexdigest()[:_DIGEST_LETTERS]}{suffix}"


def path_beside(path: str, suffix: str, prefix: str = "") -> str:
    """The same for the last part of a path."""
    folder, name = os.path.split(path)
    return os.path.join(folder, name_beside(name, suffix, prefix))


def unfinished_path(path: str) -> str:
    """Where what becomes `path` is kept until it is complete."""
    return path_beside(path, UNFINISHED, ".")
