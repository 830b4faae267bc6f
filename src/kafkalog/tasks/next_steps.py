"""What to type next: a reason and a command, with paths filled in and quoted for a shell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkalog.format.shell import path_word

FOLDERS_NAMED = 8


@dataclass(frozen=True)
class NextStep:
    """One command, and what it is for."""

    why: str
    command: str


def salvage_step(why: str, folders: Sequence[str]) -> NextStep:
    """Copy what is intact of these partitions; of very many, the first ones."""
    more = f", for the first {FOLDERS_NAMED} of {len(folders)}" if len(folders) > FOLDERS_NAMED else ""
    return NextStep(why + more, f"kafkalog salvage {' '.join(map(path_word, folders[:FOLDERS_NAMED]))} --out rescued")


def move_step(why: str, path: str, to: str) -> NextStep:
    return NextStep(why, f"mv -- {path_word(path)} {path_word(to)}")
