"""Opening a log whose small files say the impossible: checkpoints, indexes and topic ids that somebody else wrote."""

from __future__ import annotations

from .cleaning import put
from .loading import name
from .payloads import batch, in_transaction, produced
from .script import START_MS, Script, scenario, text
from .writing import ONE_RECORD, fill


@scenario
def a_log_start_beyond_the_end_begins_the_log_anew(log: Script) -> None:
    log.open({"segment.bytes": 3 * ONE_RECORD})
    for number in range(8):
        log.append(produced(1, 1, 0, number), leader_epoch=number // 3)
    log.close()
    log.do("damage", file="data/log-start-offset-checkpoint", truncate_to=0)
    log.do("damage", file="data/log-start-offset-checkpoint", append=text(b"0\n1\nt 0 16\n"))
    log.open(gives={"segments": [16], "after": [16, 16, 16, 16, 1]})
    log.state(producers=[], mapEndOffset=16)
    log.append(batch(1), gives={"firstOffset": 16})


@scenario
def an_index_entry_with_a_negative_position_is_no_place(log: Script) -> None:
    log.open({"segment.bytes": 3 * ONE_RECORD})
    fill(log, 5)
    log.close()
    log.damage(name(0, "index"), append=text(b"\x08\x39\x46\x56\x94\xd2\xd2\xab"))
    log.open(gives={"segments": [0, 3]})
    log.state(logEndOffset=5)
    log.read(0)


@scenario
def a_topic_id_that_cannot_be_read_keeps_the_log_from_opening(log: Script) -> None:
    log.open(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    fill(log, 1)
    log.close()
    log.damage("partition.metadata", truncate_to=42)
    log.open(refused="IllegalArgumentException")
    log.damage("partition.metadata", truncate_to=5)
    log.open(refused="KafkaStorageException")


@scenario
def a_recovery_point_beyond_the_end_is_taken_back(log: Script) -> None:
    log.open({"segment.bytes": 3 * ONE_RECORD})
    fill(log, 8)
    log.close(clean=False)
    log.do("damage", file="data/recovery-point-offset-checkpoint", truncate_to=0)
    log.do("damage", file="data/recovery-point-offset-checkpoint", append=text(b"0\n1\nt 0 99\n"))
    log.open()
    log.state(logEndOffset=8)
    log.append(batch(1), gives={"firstOffset": 8})
    log.flush()
    log.state()


@scenario
def epochs_beyond_the_end_are_forgotten(log: Script) -> None:
    log.open()
    fill(log, 4, leader_epoch=2)
    log.close()
    log.damage("leader-epoch-checkpoint", truncate_to=0)
    log.damage("leader-epoch-checkpoint", append=text(b"0\n3\n2 0\n3 2\n7 9\n"))
    log.open()
    log.state(epochs=[[2, 0], [3, 2]])
    log.close()
    log.damage("leader-epoch-checkpoint", truncate_to=3)
    log.open(refused="KafkaStorageException")


@scenario
def transaction_indexes_of_another_segment_are_made_anew(log: Script) -> None:
    log.open()
    log.transactional(in_transaction(1, 1, 0, 0))
    log.end_transaction(1, 0, commit=False)
    log.roll()
    log.transactional(in_transaction(1, 1, 0, 1))
    log.end_transaction(1, 0, commit=False)
    log.close()
    log.damage(name(0, "txnindex"), copy=name(2, "txnindex"))
    log.open()
    log.high_watermark(4)
    log.read(0, "committed")
    log.state()


@scenario
def a_word_in_the_place_of_an_epoch_is_refused_in_its_own_way(log: Script) -> None:
    """Kafka throws the exception of its integer parser, for the first such line, and another for every other fault."""
    log.open()
    fill(log, 2)
    log.close(clean=False)
    for content, refused in (
        (b"0\n1\na b\n", "NumberFormatException"),
        (b"0\n5\n0 0\n1 x\n2\n", "NumberFormatException"),
        (b"0\n2\n0 0\n2\n1 x\n", "KafkaStorageException"),
        (b"0\nx\n0 y\n", "KafkaStorageException"),
        (b"0\n1\n2147483648 0\n", "NumberFormatException"),
        (b"0\n1\n 1 0\n", "KafkaStorageException"),
    ):
        log.damage("leader-epoch-checkpoint", truncate_to=0)
        log.damage("leader-epoch-checkpoint", append=text(content))
        log.open(refused=refused)


@scenario
def a_word_in_the_checkpoint_of_the_cleaner_stops_it(log: Script) -> None:
    log.open({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.0, "segment.bytes": 3 * ONE_RECORD})
    put(log, 1, 2, 1)
    log.roll()
    log.high_watermark(3)
    log.close()
    log.do("damage", file="data/cleaner-offset-checkpoint", append=text(b"0\n1\nt 0 x\n"))
    log.open()
    log.high_watermark(3)
    log.clean(refused="NumberFormatException")
    put(log, 1)


@scenario
def a_checkpoint_of_the_cleaner_that_cannot_be_read_takes_the_directory_out_of_use(log: Script) -> None:
    log.open({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.0, "segment.bytes": 300 * ONE_RECORD})
    put(log, 1, 2, 1)
    log.roll()
    put(log, 1, 2, 1)
    log.high_watermark(6)
    log.close(clean=False)
    log.do("damage", file="data/cleaner-offset-checkpoint", append=text(b"0\nx\nt 0 1\n"))
    log.open()
    log.high_watermark(6)
    log.clean(gives={"cleaned": True, "endOffset": 3})
    put(log, 1, refused="KafkaStorageException")
    log.read(0, refused="KafkaStorageException")
    log.clean(gives={"cleaned": True, "endOffset": 3})
    log.truncate("KafkaStorageException", offset=3)
    log.roll("KafkaStorageException")
    log.flush("KafkaStorageException")
    log.retention()
    log.become_leader(epoch=3)
    log.offset_for_time("KafkaStorageException", ms=-3)
    log.state()
    log.close(clean=False)


@scenario
def an_index_entry_with_a_negative_position_stops_the_cleaner(log: Script) -> None:
    log.open({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.0})
    put(log, 1, 2, 1)
    log.roll()
    log.high_watermark(3)
    log.close()
    log.damage(name(0, "index"), append=text(b"\0\0\0\0\x94\xd2\xd2\xab"))
    log.open()
    log.high_watermark(3)
    log.clean("KafkaException")
    log.read(0)


@scenario
def a_magic_below_zero_holds_no_compressed_messages(log: Script) -> None:
    """Such an entry counts as an old message, whose attributes are then one byte of the checksum: here each codec there is."""
    log.open()
    stored = batch(1)
    log.append(stored)
    log.roll()
    fill(log, 1)
    log.flush()
    log.checkpoint()
    log.close(clean=False)
    log.damage(name(0, "log"), xor=[16, 0xFF])
    codec = stored[17] & 7
    for other in range(8):
        if codec != other:
            log.damage(name(0, "log"), xor=[17, codec ^ other])
        codec = other
        log.open()
        log.state(logEndOffset=2)
        log.read(0, refused=None if codec == 0 else "InvalidRecordException" if codec <= 4 else "IllegalArgumentException")
        log.offset_for_time("IllegalArgumentException", ms=START_MS)
        log.close(clean=False)
