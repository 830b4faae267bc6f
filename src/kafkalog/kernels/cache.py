"""Where compiled kernels are kept: a folder for each version of the sources, wherever these were loaded from.

So a package that Spark unpacks at another path for each application finds what the one before it compiled, and the folder can
travel to other machines: its entries name the processor and the version of Numba. Entries are pickles, so nobody else may write
there. This module does without Numba: a driver that only passes kernels on does not load it.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO

BOUNDS_CHECK = os.environ.get("NUMBA_BOUNDSCHECK", "0") not in ("", "0")
NO_NOTICE = "KAFKALOG_NO_NOTICE"
INDEX, CODE = ".nbi", ".nbc"  # Numba's index of a function, and the machine code of one signature
# The slowest kernel compiles in a few seconds. Who holds the lock for longer is stopped, or died on a machine that we do not see.
LONGEST_WAIT_SECONDS = 30.0
POLL_SECONDS = 0.02

used: set[str] = set()  # the functions that this process has loaded or compiled, as their files are named


def _sources_digest() -> str:
    """A hash of every source a kernel may depend on: constants of `format` are compiled into the machine code."""
    digest = hashlib.sha256()
    for folder in ("format", "kernels"):
        sources = [file for file in files("kafkalog").joinpath(folder).iterdir() if file.name.endswith(".py")]
        for source in sorted(sources, key=lambda file: file.name):
            digest.update(source.name.encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _private_folder(path: Path) -> Path | None:
    """`path` if it is ours alone, otherwise None."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            return None
        with tempfile.TemporaryFile(dir=path):
            return path
    except OSError:
        return None


@functools.cache
def sources_name() -> str:
    """What the kernels depend on besides the processor: our sources, Python, and whether indices are checked."""
    name = f"kernels-{_sources_digest()}-py{sys.version_info[0]}{sys.version_info[1]}"
    return name + ("-bounds" if BOUNDS_CHECK else "")


@functools.cache
def cache_folder() -> Path | None:
    """None if there is no folder that only we can write to: then every run compiles what it needs."""
    chosen = os.environ.get("KAFKALOG_CACHE_DIR")
    home = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "kafkalog"
    return _private_folder(home / sources_name())


@functools.cache
def announce() -> None:
    """Say, once, that this process has to wait until kernels are compiled."""
    if sys.stderr is None or os.environ.get(NO_NOTICE, "") not in ("", "0"):
        return
    once = "once" if cache_folder() is not None else "for this run alone: there is no folder to keep them in"
    sys.stderr.write(f"kafkalog: compiling its kernels for this work, {once} (a few seconds)\n")


def wait_for_turn(folder: Path, function: str, seconds: float | None = None) -> IO[bytes] | None:
    """A lock on the files of this function, which ends when it is closed; None where locks do not work, or one takes too long."""
    try:
        lock = (folder / f"{function}.lock").open("wb")
    except OSError:
        return None
    end = time.monotonic() + (LONGEST_WAIT_SECONDS if seconds is None else seconds)
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                break
            announce()
            time.sleep(POLL_SECONDS)
        except OSError:
            break
        else:
            return lock
    lock.close()
    return None


@dataclass(frozen=True)
class PackedKernels:
    """Compiled kernels on their way to another machine: the compressed files of each function, by their names."""

    sources: str
    functions: dict[str, dict[str, bytes]]

    @classmethod
    def here(cls, functions: Iterable[str]) -> PackedKernels:
        """Those of these functions that this machine has."""
        found: dict[str, dict[str, bytes]] = {}
        folder = cache_folder()
        if folder is not None:
            for function in functions:
                with suppress(OSError):  # not there, or removed meanwhile
                    mine = [folder / f"{function}{INDEX}", *folder.glob(f"{function}.*{CODE}")]
                    found[function] = {file.name: zlib.compress(file.read_bytes(), 1) for file in mine}
        return cls(sources_name(), found)

    def unpack(self) -> None:
        """Keep them here if they are compiled from the same sources. A function that is compiled here already stays as it is.

        Numba takes an entry only if it was compiled for a processor like this one, and else compiles its own.
        """
        folder = cache_folder()
        if folder is None or self.sources != sources_name():
            return
        for function, packed in self.functions.items():
            if not (folder / f"{function}{INDEX}").exists():
                _keep(folder, function, packed)


def _keep(folder: Path, function: str, packed: dict[str, bytes]) -> None:
    lock = wait_for_turn(folder, function, 0)
    if lock is None:  # another process of this machine unpacks or compiles it
        return
    with lock, suppress(OSError):  # a full disk: it is compiled here
        if not (folder / f"{function}{INDEX}").exists():
            for name in sorted(packed):  # code before its index
                _put(folder / name, zlib.decompress(packed[name]))


def _put(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise
