"""Validation of random sets by rules that need no Kafka to be checked; tests/interop compares it with Kafka's own."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

from kafkalog import codecs
from kafkalog.engine import validation
from kafkalog.engine.building import RecordsBuilder
from kafkalog.engine.entries import Message, iter_entries
from kafkalog.engine.entry_records import Record
from kafkalog.engine.validation import Rules, validate
from kafkalog.errors import LogRefusal
from kafkalog.format import batch
from kafkalog.format.reference import encode_record
from kafkalog.kernels import batch_validation
from tests.engine.random_sets import NOW, random_set, source_codec

SETS = 1500


def _random_rules(chance: random.Random, source: int) -> Rules:
    return Rules(
        codec=chance.choice((source, source, source, *range(5))),
        compact=chance.random() < 0.2,
        magic=chance.choice((2, 2, 2, 1, 0)),
        timestamp_type=batch.LOG_APPEND_TIME_TYPE if chance.random() < 0.3 else batch.CREATE_TIME,
        leader_epoch=3,
        now_ms=NOW,
    )


def _outcome(data: bytes, source: int, rules: Rules) -> object:
    try:
        return validate(bytearray(data), source, 40, rules)
    except LogRefusal as error:
        return type(error), getattr(error, "record_errors", None)


def _sets(seed: int) -> list[tuple[bytes, int, Rules]]:
    chance = random.Random(seed)
    found = []
    for _ in range(SETS):
        data = random_set(chance)
        try:
            source = source_codec([entry.codec for entry in iter_entries(data)])
        except LogRefusal:
            continue
        found.append((data, source, _random_rules(chance, source)))
    return found


def test_the_fast_path_for_sound_batches_gives_what_the_slow_path_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = _sets(1)
    short = [_outcome(*each) for each in sets]
    monkeypatch.setattr(validation, "_validate_sound_batch", lambda *_: None)
    assert short == [_outcome(*each) for each in sets]


def test_stored_sets_hold_the_records_that_came_with_offsets_from_the_end_of_the_log() -> None:
    stored = 0
    for data, source, rules in _sets(2):
        outcome = _outcome(data, source, rules)
        if not isinstance(outcome, validation.Validated) or not _numbered_in_order(data):
            continue
        stored += 1
        came = [record for entry in iter_entries(data) for record in entry]
        found = [record for entry in iter_entries(outcome.data) for record in entry]
        assert [record.offset for record in found] == list(range(40, 40 + len(came)))
        assert outcome.next_offset == 40 + len(came)
        assert [(record.key, record.value) for record in found] == [(record.key, record.value) for record in came]
        for entry in iter_entries(outcome.data):
            entry.ensure_valid()
            assert isinstance(entry, Message) or entry.partition_leader_epoch == rules.leader_epoch
    assert stored > SETS / 4


def _numbered_in_order(data: bytes) -> bool:
    """Uncompressed batches are stored with whatever offsets they have inside; those of messages do not count."""
    entries = list(iter_entries(data))
    if entries[0].magic < 2:
        return True
    return [record.offset - entries[0].base_offset for record in entries[0]] == list(range(len(list(entries[0]))))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [codecs.NONE, codecs.GZIP])
def test_batches_of_new_clients_are_stored_in_the_old_format_of_the_topic(magic: int, codec: int) -> None:
    builder = RecordsBuilder(0, codec=codec)
    records = [Record(number, NOW + number, b"k%d" % number, b"v") for number in range(3)]
    builder.append_all(records)
    validated = validate(bytearray(builder.build()), codec, 7, Rules(codec=codec, magic=magic, now_ms=NOW))
    entries = list(iter_entries(validated.data))
    assert {entry.magic for entry in entries} == {magic}
    assert len(entries) == (1 if codec else 3)
    assert entries[-1].last_offset == 9
    found = [record for entry in entries for record in entry]
    assert [(record.offset, record.key) for record in found] == [(7, b"k0"), (8, b"k1"), (9, b"k2")]
    assert [record.timestamp for record in found] == [NOW, NOW + 1, NOW + 2] if magic else [-1, -1, -1]
    if codec:
        inner = [message.start for message in _messages(entries)]
        assert inner == sorted(inner)
        assert [_stored_offset(message) for message in _messages(entries)] == ([0, 1, 2] if magic else [7, 8, 9])


def _messages(entries: Sequence[object]) -> list[Message]:
    (wrapper,) = entries
    assert isinstance(wrapper, Message)
    return wrapper.inner_messages()


def _stored_offset(message: Message) -> int:
    return int.from_bytes(message.data[message.start : message.start + 8], "big")


def test_a_v1_wrapper_with_append_time_is_stamped_and_its_messages_are_left_alone() -> None:
    builder = RecordsBuilder(0, magic=1, codec=codecs.GZIP)
    builder.append_all([Record(0, 5, b"a", b"b"), Record(1, 6, b"a", b"c")])
    came = builder.build()
    rules = Rules(codec=codecs.GZIP, magic=1, timestamp_type=batch.LOG_APPEND_TIME_TYPE, now_ms=NOW)
    (before,), (after,) = list(iter_entries(came)), list(iter_entries(validate(bytearray(came), codecs.GZIP, 10, rules).data))
    assert isinstance(before, Message)
    assert isinstance(after, Message)
    assert (after.last_offset, after.timestamp, after.timestamp_type) == (11, NOW, batch.LOG_APPEND_TIME_TYPE)
    assert after.value == before.value


@pytest.mark.parametrize("setting", ["NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"])
def test_the_glance_says_the_same_without_the_compiler_and_with_bounds_checks(setting: str) -> None:
    environment = {**os.environ, setting: "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", "from tests.engine.test_validation import digest_of_glances as digest; print(digest())"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.strip() == digest_of_glances()


def digest_of_glances() -> str:
    """A hash of the findings in sound records and in ones with a byte changed."""
    chance = random.Random(3)
    digest = hashlib.sha256()
    for _ in range(150):
        count = chance.randrange(1, 5)
        headers = ((b"h", None), (b"", b"v")) if chance.random() < 0.3 else ()
        payload = bytearray(
            b"".join(
                encode_record(number, chance.choice((0, -70, 1 << 40)), chance.choice((None, b"k")), b"v" * 70, headers)
                for number in range(count)
            )
        )
        if chance.random() < 0.6:
            payload[chance.randrange(len(payload))] ^= 1 << chance.randrange(8)
        facts = np.zeros(batch_validation.FACT_COUNT, np.int64)
        sound = batch_validation.validate_records(np.frombuffer(payload, np.uint8), 0, len(payload), count, 1000, facts)
        digest.update(bytes([sound]) + (facts.tobytes() if sound else b""))
    return digest.hexdigest()
