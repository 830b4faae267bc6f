"""Recovery by windows of headers leaves exactly what recovery entry by entry leaves."""

from __future__ import annotations

import random

import pytest

from kafkalog.engine import recovery
from kafkalog.engine.building import RecordsBuilder, encode_message, end_transaction_marker
from kafkalog.engine.config import LogConfig
from kafkalog.engine.log_segment import BULK_BYTES
from kafkalog.engine.partition_log import PartitionLog
from kafkalog.engine.schedule import ManualClock
from kafkalog.format.control import EndTxnMarker
from tests.builders.simulated_disk import Files, SimulatedFs

NOW = 1_700_000_000_000
LOG = "/data/t-0/00000000000000000000.log"
CONFIG = LogConfig.of({"index.interval.bytes": 200, "segment.index.bytes": 12_000})


def random_log(seed: int, count: int = 300) -> bytes:
    """Plain, idempotent and transactional batches, markers, empty leader epochs and v1 messages, one after the other."""
    choose = random.Random(seed)
    entries = []
    offset = 0
    in_transaction: set[int] = set()
    sequences: dict[int, int] = {}
    for number in range(count):
        time = NOW - 5000 + choose.randrange(4000)
        kind = choose.choice(["plain", "idempotent", "transaction", "end", "message"])
        epoch = number // 90 if choose.random() < 0.9 else -1
        if kind == "message":
            entries.append(encode_message(offset, 1, 0, time, b"key", b"value"))
            offset += 1
        elif kind == "end" and in_transaction:
            marker = EndTxnMarker(choose.random() < 0.5, 3)
            producer_id = in_transaction.pop()
            entries.append(
                end_transaction_marker(producer_id, 0, marker, timestamp=time, offset=offset, partition_leader_epoch=epoch)
            )
            offset += 1
        else:
            producer_id = {"idempotent": choose.randrange(10), "transaction": 100 + choose.randrange(3)}.get(kind, -1)
            sequence = sequences.get(producer_id, 0) if producer_id >= 0 else -1
            if kind == "transaction":
                in_transaction.add(producer_id)
            builder = RecordsBuilder(
                offset,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=sequence,
                is_transactional=kind == "transaction",
                partition_leader_epoch=epoch,
            )
            records = choose.randrange(1, 4)
            for _ in range(records):
                builder.append(offset, time, b"key", b"v" * choose.randrange(200))
                offset += 1
            sequences[producer_id] = sequence + records
            entries.append(builder.build())
        offset += choose.choice([0, 0, 0, 7])
    return b"".join(entries)


def recovered(data: bytes, monkeypatch: pytest.MonkeyPatch, windowed_bytes: int) -> tuple[Files, list[str]]:
    monkeypatch.setattr(recovery, "WINDOWED_BYTES", windowed_bytes)
    fs = SimulatedFs({LOG: data})
    log = PartitionLog.open("/data/t-0", CONFIG, fs=fs, clock=ManualClock(NOW))
    states = [
        f"{state.producer_id} {list(state.batches)} {state.current_txn_first_offset} {state.coordinator_epoch}"
        for state in log.producers.active_producers.values()
    ]
    return fs.files(), [*states, str(log.leader_epochs.entries), str(log.log_end_offset)]


@pytest.mark.parametrize("seed", range(6))
def test_windows_and_entries_recover_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = random_log(seed)
    assert recovered(data, monkeypatch, 0) == recovered(data, monkeypatch, 1 << 40)


@pytest.mark.parametrize("seed", range(12))
def test_windows_and_entries_end_at_the_same_damage(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(seed)
    data = bytearray(random_log(seed))
    position = choose.randrange(len(data))
    if seed % 3 == 0:
        del data[position:]
    elif seed % 3 == 1:
        data[position] ^= 1 << choose.randrange(8)
    else:
        data[position:] = bytes(len(data) - position)
    assert recovered(bytes(data), monkeypatch, 0) == recovered(bytes(data), monkeypatch, 1 << 40)


def test_an_index_that_fills_up_stops_both_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    small = CONFIG.with_settings({"segment.index.bytes": 80})
    faults = []
    for windowed_bytes in (0, 1 << 40):
        monkeypatch.setattr(recovery, "WINDOWED_BYTES", windowed_bytes)
        with pytest.raises(Exception, match="full") as caught:
            PartitionLog.open("/data/t-0", small, fs=SimulatedFs({LOG: random_log(1)}), clock=ManualClock(NOW))
        faults.append(type(caught.value))
    assert faults[0] is faults[1]


@pytest.mark.parametrize("interval", [0, 150, 4096])
def test_a_large_set_is_indexed_as_its_batches_one_by_one(interval: int) -> None:
    config = LogConfig.of({"index.interval.bytes": interval})
    choose = random.Random(interval)
    batches = []
    for offset in range(1200):
        builder = RecordsBuilder(offset, partition_leader_epoch=1)
        builder.append(offset, NOW + choose.randrange(1000), b"key", b"v" * choose.randrange(150))
        batches.append(builder.build())
    at_once, one_by_one = (SimulatedFs({"/data/x": b""}) for _ in range(2))
    assert len(b"".join(batches)) > 2 * BULK_BYTES
    with PartitionLog.open("/data/t-0", config, fs=at_once, clock=ManualClock(NOW)) as log:
        log.append_as_follower(b"".join(batches[:3]), 1)
        log.append_as_follower(b"".join(batches[3:]), 1)
    with PartitionLog.open("/data/t-0", config, fs=one_by_one, clock=ManualClock(NOW)) as log:
        for data in batches:
            log.append_as_follower(data, 1)
    assert at_once.files() == one_by_one.files()


class CountingFs(SimulatedFs):
    """Counts how often folders are listed."""

    listings = 0

    def list(self, path: str) -> list[str]:
        self.listings += 1
        return super().list(path)


def listings_of_a_recovery(segments: int) -> int:
    files = {}
    for number in range(segments):
        builder = RecordsBuilder(number, producer_id=7, producer_epoch=0, base_sequence=number)
        builder.append(number, NOW, b"key", b"value")
        files[f"/data/t-0/{number:020}.log"] = builder.build()
    fs = CountingFs(files)
    log = PartitionLog.open("/data/t-0", CONFIG, fs=fs, clock=ManualClock(NOW), clean=False)
    assert log.log_end_offset == segments
    return fs.listings


def test_recovery_does_not_list_the_folder_for_every_segment() -> None:
    """It took 42 s for 1,000 segments: each listing has all files of all segments."""
    assert listings_of_a_recovery(40) == listings_of_a_recovery(4)
