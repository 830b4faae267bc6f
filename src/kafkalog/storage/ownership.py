"""Whom files belong to: those that we make have to be of use to the broker whose folder they are in, whoever we run as."""

from __future__ import annotations

import stat
from typing import NamedTuple

ROOT = 0
_SHARED = stat.S_ISVTX | stat.S_IWOTH
_OWNER_READS_AND_WRITES = stat.S_IRUSR | stat.S_IWUSR


class Ownership(NamedTuple):
    """The user and the group of a file or folder, and its permission bits; None: what the process gives to what it makes."""

    user: int
    group: int
    mode: int | None = None
    is_needed: bool = True  # False: what cannot be given to that user may stay ours

    @property
    def is_shared(self) -> bool:
        """Whether it is a folder such as /tmp, in which everybody has files of his own."""
        return self.mode is not None and self.mode & _SHARED == _SHARED


class Pattern(NamedTuple):
    """What new files and new folders are like."""

    file: Ownership
    folder: Ownership

    @classmethod
    def below(cls, above: Ownership) -> Pattern:
        """What is new below a folder that belongs to somebody; in one for everybody it belongs to who makes it."""
        owner = Ownership(ROOT, ROOT) if above.is_shared else above._replace(mode=None)
        return cls(owner, owner)

    @classmethod
    def of_copy(cls, above: Ownership, original: Pattern) -> Pattern:
        """What a copy is like that is made below `above`.

        Who owns the place gets it. In root's place, or one for everybody, it belongs to whom the original belongs to. It may be
        read by whom the original may be read by.
        """
        owner = original.folder._replace(is_needed=False) if above.user == ROOT or above.is_shared else above
        return cls(
            owner._replace(mode=(original.file.mode or 0) | _OWNER_READS_AND_WRITES),
            owner._replace(mode=(original.folder.mode or 0) | stat.S_IRWXU),
        )

    @classmethod
    def of_log(cls, file: Ownership, folder: Ownership) -> Pattern:
        """What new files of a log are like: the owner is that of the folder, the mode that of the file."""
        return cls(folder._replace(mode=file.mode), folder)
