"""Whom new files and folders belong to: they have to be of use to the broker whose folder they are in, whoever we run as.

Root gives what it makes to the owner of the folder, or of the file that it replaces: a broker runs as another user. So a file is
made without a name, given away, and linked; a crash never leaves a file of root's in its place. Journals keep the order of
changes to one file, so a power cut does not either. Where a file system has no files without names (NFS), a file is given away
right after it is made.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import NamedTuple

from .unfinished import OPEN_FOLDER, UNFINISHED, UNFINISHED_MODE, is_unfinished, name_beside, user_name

NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMELESS = os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC
_CANNOT_BE_NAMELESS = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOENT, errno.EPERM)
_MAKING = f".making{UNFINISHED}"
ROOT = 0
_SHARED = stat.S_ISVTX | stat.S_IWOTH
_OWNER_READS_AND_WRITES = stat.S_IRUSR | stat.S_IWUSR


class Ownership(NamedTuple):
    """The user and group of a file or folder, and its permission bits; None: the default of this process."""

    user: int
    group: int
    mode: int | None = None
    is_needed: bool = True  # False: it may stay ours if it cannot be given to that user

    @property
    def is_shared(self) -> bool:
        """Whether it is a folder such as /tmp, in which every user has files."""
        return self.mode is not None and self.mode & _SHARED == _SHARED


class Pattern(NamedTuple):
    """Owner and mode of new files and of new folders."""

    file: Ownership
    folder: Ownership

    @classmethod
    def below(cls, above: Ownership) -> Pattern:
        """The pattern below a folder: its owner's, or in a shared folder the maker's."""
        owner = Ownership(ROOT, ROOT) if above.is_shared else above._replace(mode=None)
        return cls(owner, owner)

    @classmethod
    def of_copy(cls, above: Ownership, original: Pattern) -> Pattern:
        """The pattern of a copy that is made below `above`.

        It belongs to the owner of the place; in root's place, or a shared one, to the owner of the original. It may be read by
        those who may read the original.
        """
        owner = original.folder._replace(is_needed=False) if above.user == ROOT or above.is_shared else above
        return cls(
            owner._replace(mode=(original.file.mode or 0) | _OWNER_READS_AND_WRITES),
            owner._replace(mode=(original.folder.mode or 0) | stat.S_IRWXU),
        )

    @classmethod
    def of_log(cls, file: Ownership, folder: Ownership) -> Pattern:
        """The pattern of new files of a log: the owner of its folder, the mode of its file."""
        return cls(folder._replace(mode=file.mode), folder)


def ownership_of(status: os.stat_result) -> Ownership:
    return Ownership(status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode))


def may_give() -> bool:
    """Whether files can be given to other users."""
    return os.geteuid() == ROOT


def owner_of_new(above: Ownership, like: Ownership | None) -> Ownership | None:
    """The owner of something new in a folder that is `above`; None: what this process makes is right as it is."""
    if like is not None:
        return None if like.mode is None and not _is_for_another(like) else like
    if not may_give() or above.is_shared or not _is_for_another(above):
        return None
    return above._replace(mode=None)


def _is_for_another(owner: Ownership) -> bool:
    return may_give() and (owner.user, owner.group) != (os.geteuid(), os.getegid())


def make_file(name: str, folder: int, owner: Ownership) -> int:
    """A descriptor of the new file `name` in the open folder; FileExistsError if the name is taken."""
    if _is_for_another(owner):
        try:
            return _make_nameless(name, folder, owner)
        except OSError as error:
            if error.errno not in _CANNOT_BE_NAMELESS:
                raise
    descriptor = os.open(name, NEW_FILE, _first_mode(owner), dir_fd=folder)
    try:
        settle(descriptor, owner)
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            os.unlink(name, dir_fd=folder)
        raise
    return descriptor


def _make_nameless(name: str, folder: int, owner: Ownership) -> int:
    descriptor = os.open(".", _NAMELESS, _first_mode(owner), dir_fd=folder)
    try:
        settle(descriptor, owner)
        # With descriptors, so that linkat follows the link that /proc has for a file without a name.
        os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_folder(name: str, folder: int, owner: Ownership) -> None:
    """Make the folder `name` in the open one; it gets its name when it has its owner."""
    if is_there(name, folder):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)
    making = name_beside(name, _MAKING, ".")
    with suppress(FileNotFoundError):
        os.rmdir(making, dir_fd=folder)  # left by a killed run
    try:
        os.mkdir(making, UNFINISHED_MODE, dir_fd=folder)
        descriptor = os.open(making, OPEN_FOLDER, dir_fd=folder)
        try:
            give_folder(descriptor, owner)
        finally:
            os.close(descriptor)
        os.rename(making, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.rmdir(making, dir_fd=folder)
        raise


def give_folder(descriptor: int, owner: Ownership) -> None:
    """Give a folder of unfinished work to its owner; PermissionError if another folder was put in its place."""
    if not is_unfinished(descriptor):
        raise PermissionError(errno.EPERM, "another folder was put in the place of one that was just made")
    settle(descriptor, owner._replace(mode=0o777 & ~current_umask() if owner.mode is None else owner.mode))


_REFUSED = (errno.EPERM, errno.EINVAL)  # the latter for users that are unknown in a container


def settle(descriptor: int, owner: Ownership) -> None:
    """Give an open file of ours to its owner, as far as we may: users other than root can only set a group."""
    made = os.fstat(descriptor)
    if may_give() and (made.st_uid, made.st_gid) != (owner.user, owner.group):
        try:
            os.fchown(descriptor, owner.user, owner.group)
        except OSError as error:
            if error.errno not in _REFUSED:
                raise
            if owner.is_needed:
                reason = f"it cannot be given to {user_name(owner.user)}, to whom it has to belong ({os.strerror(error.errno)})"
                raise PermissionError(errno.EPERM, reason) from error
    elif made.st_gid != owner.group:
        with suppress(OSError):
            os.fchown(descriptor, -1, owner.group)
    inherited = made.st_mode & stat.S_ISGID if stat.S_ISDIR(made.st_mode) else 0  # from a setgid folder above
    if owner.mode is not None and stat.S_IMODE(made.st_mode) != owner.mode & 0o777 | inherited:
        with suppress(PermissionError):  # on a file system without modes: the file is ours
            os.fchmod(descriptor, owner.mode & 0o777 | inherited)


def problem_of_new_files(folder: str) -> str:
    """Why files that this process makes in a folder would be of no use, and what to do; empty if nothing is wrong."""
    status = os.stat(folder)
    is_own = status.st_uid == os.geteuid()
    owner, you = user_name(status.st_uid), f"you ({user_name(os.geteuid())})"
    advice = f"run this as {owner}" + (" or as root" if status.st_uid != ROOT else "")
    if os.statvfs(folder).f_flag & os.ST_RDONLY:
        return "mounted read-only; work on a copy"
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        mode = f"mode {stat.S_IMODE(status.st_mode):04o}"
        if is_own:
            return f"{you} may not write there ({mode}); allow it first (`chmod u+w`)"
        return f"belongs to {owner}, and {you} may not write there ({mode}); {advice}"
    if not may_give() and not _is_usable_by(ownership_of(status), _new_file_in(status)):
        return f"belongs to {owner}, and a broker that runs as {owner} could not open the files that {you} make there; {advice}"
    return ""


def _is_usable_by(owner: Ownership, made: Ownership) -> bool:
    """Whether the owner of a folder could read and write a file with the owner and mode `made`."""
    mode = made.mode or 0
    is_group_enough = made.group == owner.group and mode & 0o060 == 0o060
    return made.user == owner.user or is_group_enough or mode & 0o006 == 0o006


def _new_file_in(folder: os.stat_result) -> Ownership:
    """Owner and mode of a file that this process makes there and cannot give away."""
    group = folder.st_gid if folder.st_mode & stat.S_ISGID else os.getegid()
    return Ownership(os.geteuid(), group, 0o666 & ~current_umask())


def current_umask() -> int:
    """The umask, read and not set and set back: other threads make files meanwhile."""
    with suppress(OSError, ValueError, StopIteration), open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("Umask:")).split()[1], 8)
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _first_mode(owner: Ownership) -> int:
    return 0o666 if owner.mode is None else owner.mode & 0o777


def is_there(name: str, folder: int) -> bool:
    """Whether the open folder has something of that name."""
    try:
        os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
