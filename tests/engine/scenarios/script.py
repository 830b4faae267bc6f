"""A script for the log engine, written by hand: its operations, and the expected result of each.

The form of the lines is that of the scripts in cases.tar.xz. Expected results are checked twice: against Kafka's own engine when
the script is recorded (record.py), and against what was recorded whenever the suite runs.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

START_MS: Final = 1_700_000_000_000
FOLDER: Final = "data/t-0"
MINUTE_MS: Final = 60_000
HOUR_MS: Final = 60 * MINUTE_MS
# Small index files keep the recorded folders small; only scripts about full indexes fill one.
SETTINGS: Final = {"segment.index.bytes": 4096}

Result = Mapping[str, Any]


@dataclass(frozen=True)
class Operation:
    """One line of a script. `refused` is the name of the error that Kafka gives for it, None where it has to succeed."""

    line: str
    refused: str | None
    gives: Mapping[str, Any]

    def difference(self, result: Result) -> str | None:
        """The part of the result that is not as expected, None if all is."""
        if (found := result.get("error")) != self.refused:
            return f"{self.line[:200]}: error {found} ({result.get('message')}), expected {self.refused}"
        wrong = {name: result.get(name) for name, value in self.gives.items() if result.get(name) != value}
        return f"{self.line[:200]}: {wrong}, expected {dict(self.gives)}" if wrong else None


@dataclass
class Script:
    """Operations in order; each method adds one."""

    name: str
    operations: list[Operation] = field(default_factory=list)
    is_open: bool = False
    recompresses: bool = False

    def do(self, operation: str, refused: str | None = None, gives: Mapping[str, Any] | None = None, **fields: Any) -> None:
        line = json.dumps({"op": operation, **fields}, separators=(",", ":"))
        self.operations.append(Operation(line, refused, gives or {}))

    def open(self, settings: Mapping[str, Any] | None = None, *, refused: str | None = None, **fields: Any) -> None:
        """Open the log; the first time with a clock and all settings."""
        if not any(json.loads(each.line)["op"] == "open" for each in self.operations):
            fields = {"time": START_MS, "config": {**SETTINGS, **(settings or {})}} | fields
        elif settings is not None:
            fields = {"config": {**SETTINGS, **settings}} | fields
        self.do("open", refused, fields.pop("gives", None), dir=FOLDER, **fields)
        self.is_open = refused is None

    def close(self, *, clean: bool = True) -> None:
        self.do("close", clean=clean)
        self.is_open = False

    def reopen(self, **fields: Any) -> None:
        """Close and open, as after a clean stop of the broker."""
        self.close()
        self.open(**fields)

    def crash(self, **fields: Any) -> None:
        """Open again, as after a kill of the broker; written data stays."""
        self.close(clean=False)
        self.open(**fields)

    def append(self, payload: bytes, **fields: Any) -> None:
        self.do("append", fields.pop("refused", None), fields.pop("gives", None), records=text(payload), **fields)

    def follow(self, payload: bytes, leader_epoch: int = 0, **fields: Any) -> None:
        """Append as a follower does with the bytes that its leader sent."""
        self.append(payload, origin="replication", leader_epoch=leader_epoch, **fields)

    def transactional(self, payload: bytes, **fields: Any) -> None:
        """Append with a guard, as after the coordinator confirmed the transaction."""
        self.append(payload, verify="start", **fields)

    def end_transaction(self, producer_id: int, epoch: int, *, commit: bool = True, **fields: Any) -> None:
        expected = fields.pop("refused", None), fields.pop("gives", None)
        self.do("end_txn", *expected, pid=producer_id, epoch=epoch, commit=commit, **fields)

    def read(self, offset: int, isolation: str = "log_end", **fields: Any) -> None:
        self.do("read", fields.pop("refused", None), fields.pop("gives", None), offset=offset, isolation=isolation, **fields)

    def high_watermark(self, offset: int, **gives: Any) -> None:
        self.do("hw", gives=gives, offset=offset)

    def advance(self, milliseconds: int) -> None:
        self.do("advance", ms=milliseconds)

    def damage(self, file: str, **change: Any) -> None:
        """Change a file of the partition folder behind the engine's back."""
        for name in ("copy", "rename"):
            if name in change:
                change[name] = f"{FOLDER}/{change[name]}"
        self.do("damage", file=f"{FOLDER}/{file}", **change)

    def state(self, **gives: Any) -> None:
        self.do("state", gives=gives)

    def __getattr__(self, operation: str) -> Callable[..., None]:
        """The other operations need no more than their name and fields."""
        if operation not in PLAIN_OPERATIONS:
            raise AttributeError(operation)

        def add(refused: str | None = None, gives: Mapping[str, Any] | None = None, **fields: Any) -> None:
            self.do(operation, refused, gives, **fields)

        return add

    def finish(self) -> Script:
        """Every script ends with a look at everything."""
        if self.is_open:
            self.state()
            self.close()
        self.do("ls")
        meta = {"op": "meta", "kind": self.name, **self._nature()}
        self.operations.insert(0, Operation(json.dumps(meta, separators=(",", ":")), None, {}))
        return self

    def _nature(self) -> dict[str, bool]:
        """Whether files were changed by hand, whether they were then opened as clean, and whether codecs may have run."""
        lines = [json.loads(each.line) for each in self.operations]
        damaged = lying = pending = clean = False
        for line in lines:
            if line["op"] == "close":
                clean = line["clean"]
            elif line["op"] == "damage":
                damaged = pending = True
            elif line["op"] == "open":
                lying |= pending and line.get("clean", clean)
                pending = False
        settings = json.dumps([line["config"] for line in lines if "config" in line])
        recompressed = self.recompresses or "compress" in settings or "compact" in settings
        return {"may_recompress": recompressed, "damaged": damaged, "damaged_under_clean_flag": lying}


PLAIN_OPERATIONS: Final = frozenset(
    {
        *("become_leader", "roll", "flush", "checkpoint", "retention", "truncate", "truncate_fully", "delete_records", "clean"),
        *("offset_for_time", "epoch_end", "config", "ls"),
    }
)


def text(payload: bytes) -> str:
    return base64.b64encode(payload).decode()


MODULES: Final = (
    *("writing", "reading", "retaining", "producing", "transactions", "validating", "loading", "cleaning"),
    *("cleaning_transactions", "misleading"),
)
Writer = Callable[[Script], None]
SCENARIOS: Final[dict[str, Writer]] = {}


def scenario(write: Writer) -> Writer:
    """Register a function that writes a script; its name is the name of the case."""
    assert write.__name__ not in SCENARIOS, f"two scenarios are called {write.__name__}"
    SCENARIOS[write.__name__] = write
    return write


def scripts() -> list[Script]:
    """Every script, in the order in which the modules of this package say them."""
    for module in MODULES:
        import_module(f"{__package__}.{module}")
    written = []
    for name, write in SCENARIOS.items():
        script = Script(name)
        write(script)
        written.append(script.finish())
    return written
