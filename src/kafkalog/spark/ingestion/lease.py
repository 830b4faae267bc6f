"""Which run may work on an object store: the holder of a lease, who renews it while it lives.

No clock is compared with another. A run that finds the lease held watches whether it changes: a living holder renews it every few
seconds, and one that has not done so for LEASE_SECONDS is dead, or so late that it will find out. The lease only saves two runs
from doing the same work; the commit, which only one of them can publish, makes sure that only one counts.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, Protocol

from kafkalog.errors import KafkaLogError, path_text
from kafkalog.format.json_shape import parse_object
from kafkalog.storage.publish import StoredObject, publish_object

from .target import OWN_FOLDER, busy

LOGGER = logging.getLogger("kafkalog.spark")

LEASE: Final = f"{OWN_FOLDER}/lease.json"
# A run without a renewal for this long counts as dead.
LEASE_SECONDS = 30.0
# Renewals in that time, a few of which may fail.
RENEWALS: Final = 6
SHOWN_LETTERS: Final = 100


class Slot(StoredObject, Protocol):
    """The object that holds a lease."""

    @property
    def is_atomic(self) -> bool:
        """Whether `write` compares and writes in one step."""
        ...


class Lease:
    """The lease of one target, as one run sees it."""

    def __init__(self, slot: Slot, target: str) -> None:
        self.slot = slot
        self.target = target
        self.token = secrets.token_hex(12)
        self.since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.renewals = 0
        self.tag: str | None = None
        self.guard = threading.Lock()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lease during the block; SparkSourceError while another run has it."""
        self.take()
        ended = threading.Event()
        keeper = threading.Thread(target=self._keep, args=(ended,), name="kafkalog-lease", daemon=True)
        keeper.start()
        try:
            yield
        finally:
            ended.set()
            keeper.join()
            # The outcome of the run is settled: a lease that cannot be released now expires.
            with suppress(KafkaLogError, OSError):
                self.release()

    def take(self) -> None:
        seen = self.slot.read()
        if seen is not None and not _is_free(seen[0]):
            seen = self._outlived(seen)
        self.tag = self._written(None if seen is None else seen[1])
        if self.tag is None or not self._is_settled():
            now = self.slot.read()
            raise busy(self.target, _holder(now[0]) if now else "")

    def _outlived(self, seen: tuple[bytes, str]) -> tuple[bytes, str] | None:
        """The content of the slot when its holder has ended; SparkSourceError if the holder renews it."""
        LOGGER.warning(
            "%s: another ingest has started here%s; waiting up to %.0f s to see whether it is still at work",
            path_text(self.target),
            _holder(seen[0]),
            LEASE_SECONDS,
        )
        expires = time.monotonic() + LEASE_SECONDS
        while time.monotonic() < expires:
            time.sleep(LEASE_SECONDS / RENEWALS / 4)
            now = self.slot.read()
            if now is None or _is_free(now[0]):
                return now
            if now[1] != seen[1]:
                raise busy(self.target, _holder(now[0]))
        return seen

    def _is_settled(self) -> bool:
        """Whether our lease stays, where another run may have written at the same moment."""
        if self.slot.is_atomic:
            return True
        time.sleep(LEASE_SECONDS / RENEWALS / 2)
        now = self.slot.read()
        return now is not None and self._is_own(now[0])

    def _keep(self, ended: threading.Event) -> None:
        while not ended.wait(LEASE_SECONDS / RENEWALS):
            # A failure here is retried; whether the lease was kept is checked before the commit.
            with suppress(KafkaLogError, OSError):
                if not self.renew():
                    return

    def renew(self) -> bool:
        """Renew the lease for another LEASE_SECONDS; whether it is still ours."""
        with self.guard:
            if self.tag is None:
                return False
            self.renewals += 1
            tag = self._written(self.tag)
            if tag is None and self.slot.read() is None:  # deleted by hand, and not taken since
                tag = self._written(None)
            self.tag = tag
            return tag is not None

    def _written(self, tag: str | None) -> str | None:
        """Write the lease over the content with this tag; its new tag, None if another run was there."""
        return publish_object(self.slot, self._content(), tag, self._is_own)

    def _is_own(self, content: bytes) -> bool:
        return _fields(content).get("token") == self.token

    def require(self) -> None:
        """SparkSourceError if another run has taken the lease."""
        if not self.renew():
            now = self.slot.read()
            raise busy(self.target, f"{_holder(now[0]) if now else ''}, since this run did not renew its lease in time")

    def release(self) -> None:
        with self.guard:
            if self.tag is not None:
                self.slot.write(json.dumps({**json.loads(self._content()), "free": True}).encode(), self.tag)
                self.tag = None

    def _content(self) -> bytes:
        fields = {"token": self.token, "host": socket.gethostname(), "process": os.getpid(), "since": self.since}
        return json.dumps({**fields, "renewals": self.renewals}).encode()


def _fields(content: bytes) -> dict[str, Any]:
    """The fields of a lease; none if it is not one: anybody can write anything there."""
    try:
        return parse_object(content)
    except ValueError:
        return {}


def _is_free(content: bytes) -> bool:
    return _fields(content).get("free") is True


def _holder(content: bytes) -> str:
    """The holder, for messages."""
    fields = _fields(content)
    shown = [path_text(str(fields.get(name, "?")))[:SHOWN_LETTERS] for name in ("process", "host", "since")]
    return " (process {} on {}, since {})".format(*shown)
