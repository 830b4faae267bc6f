"""The topics of a golden set: every codec, kind of timestamp, header, producer, transaction, cleaning and deletion."""

from __future__ import annotations

from collections.abc import Mapping

from tests.golden.making.workload import BASE_TIMESTAMP_MS, Case, Release, Workload

LAST_WITH_OLD_FORMATS = (3, 0)  # before it a topic's message.format.version still counts
FIRST_WITH_NEXT_GROUPS = (4, 0)  # the consumer groups of KIP-848
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
OLD_CODECS = CODECS[:-1]
RECOMPRESSED = (("none", "gzip"), ("snappy", "uncompressed"), ("gzip", "lz4"))
A_DAY_MS = 86_400_000
FOR_EVER_MS = 3_153_600_000_000
Settings = Mapping[str, object]
NOTHING: Settings = {}
MIXED_CONTENTS = ("null/empty keys and values", "random bytes and UTF-8", "timestamps fixed, rising, out of order, falling")


def write_all(release: Release, seed: int) -> Workload:
    """The whole workload of a release."""
    work = Workload(release, seed)
    _epochs(work)
    _codecs(work)
    _mixed(work)
    _log_append_time(work)
    _headers(work)
    _idempotent(work)
    _transactions(work)
    _deleted(work)
    _compacted(work, "compact", "none", "empty batches left by the cleaner")
    _compacted(work, "compact-gzip", "gzip")
    _compacted(
        work, "compact-keep", "none", "delete.retention.ms = 1 day: tombstones stay", more={"delete.retention.ms": A_DAY_MS}
    )
    _compacted(
        work, "compact-lz4-keep", "lz4", "delete.retention.ms = 1 day: tombstones stay", more={"delete.retention.ms": A_DAY_MS}
    )
    _compacted_transactions(work)
    _partitions(work)
    if release < LAST_WITH_OLD_FORMATS:
        _old_formats(work)
    _groups(work)
    work.add("wait-start", "retention", 0)
    work.add("wait-start", "delete-records", 0)
    work.add("pause", 2000)  # deleted segments leave the folder a moment later
    return work


def _sizes(segment_bytes: int, index_interval_bytes: int) -> dict[str, object]:
    return {"segment.bytes": segment_bytes, "index.interval.bytes": index_interval_bytes}


def _epochs(work: Workload) -> None:
    features = "broker restarted twice: several leader epochs", "idempotent and transactional producers across restarts"
    work.topic("epochs", *features, committed=True, settings=_sizes(5000, 300))
    for turn in range(3):
        plain, transactional = work.producer(), work.producer("gzip", transactional_id=f"epochs-{turn % 2}")
        work.fill("epochs", plain, work.number(12, 25))
        for end in ("commit", "abort") if turn != 1 else ("abort", "commit"):
            work.add("begin", transactional)
            work.fill("epochs", transactional, work.number(3, 9))
            work.add(end, transactional)
        work.close(plain, transactional)
        if turn < 2:
            work.restart()


def _codecs(work: Workload) -> None:
    sizes = {"none": 108_000, "zstd": 9000}
    for codec in CODECS:
        features = f"codec {codec}", *MIXED_CONTENTS, "100 KB value", "several segments"
        interval = work.source.choice([256, 512, 1024])
        work.topic(codec, *features, settings=_sizes(sizes.get(codec, 11_500), interval))
        producer = work.producer(codec)
        work.fill(codec, producer, work.number(200, 280), large=2 if codec == "none" else 1)
        work.close(producer)


def _mixed(work: Workload) -> None:
    work.topic("mixed-codecs", "all codecs in one log", "several segments", settings=_sizes(7000, 300))
    producers = [work.producer(codec) for codec in CODECS]
    for _ in range(work.number(14, 22)):
        work.fill("mixed-codecs", work.source.choice(producers), work.number(3, 18))
    work.close(*producers)
    for codec, target in RECOMPRESSED:
        feature = f"topic compression.type={target}, producer {codec}: broker rebuilds the batches"
        settings = {"compression.type": target, **_sizes(9000, 200)}
        name = work.topic(f"recompress-{codec}-to-{target}", feature, settings=settings)
        producer = work.producer(codec)
        work.fill(name, producer, work.number(50, 70))
        work.close(producer)


def _log_append_time(
    work: Workload, prefix: str = "", codecs: tuple[str, ...] = ("none", "gzip", "zstd"), more: Settings = NOTHING
) -> None:
    for codec in codecs:
        settings = {"message.timestamp.type": "LogAppendTime", **_sizes(3800, 300), **more}
        name = work.topic(f"{prefix}lat-{codec}", "LogAppendTime", f"codec {codec}", settings=settings)
        producer = work.producer(codec)
        work.fill(name, producer, work.number(70, 100), per_batch=(1, 9))
        work.close(producer)


def _headers(work: Workload) -> None:
    feature = "headers: none, several, duplicate keys, null and empty values, empty and non-ASCII keys"
    for name, codec in (("headers", "none"), ("headers-zstd", "zstd")):
        work.topic(name, feature, f"codec {codec}", settings=_sizes(9000, 300))
        producer = work.producer(codec)
        work.fill(name, producer, work.number(80, 120), headers=work.any_headers)
        work.close(producer)


def _idempotent(work: Workload) -> None:
    work.topic("idempotent", "idempotent producers (two, interleaved)", settings=_sizes(8000, 300))
    producers = [work.producer(codec, idempotent=True) for codec in ("none", "gzip")]
    for _ in range(work.number(8, 12)):
        work.fill("idempotent", work.source.choice(producers), work.number(2, 16), per_batch=(1, 5))
    work.close(*producers)


def _transactions(work: Workload) -> None:
    plain_codecs = ("none", "none", "none")
    _interleaved(work, "txn", plain_codecs)
    _interleaved(work, "txn-compressed", ("gzip", "lz4", "zstd"), {"segment.ms": FOR_EVER_MS})
    _interleaved(work, "txn-lat", plain_codecs, {"message.timestamp.type": "LogAppendTime"}, is_left_open=False)
    work.topic(
        "txn-aborted-only", "one producer, every transaction aborted", ".txnindex", committed=True, settings=_sizes(2500, 200)
    )
    producer = work.producer(transactional_id="abort-only")
    for _ in range(work.number(5, 8)):
        work.add("begin", producer)
        work.fill("txn-aborted-only", producer, work.number(1, 9))
        work.add("abort", producer)


def _interleaved(
    work: Workload, name: str, codecs: tuple[str, ...], more: Settings = NOTHING, *, is_left_open: bool = True
) -> None:
    features = ["transactions: several producers interleaved, committed and aborted", ".txnindex", "several segments"]
    features += ["an open transaction at the end"] if is_left_open else ["LogAppendTime"]
    work.topic(name, *features, committed=True, settings={**_sizes(4500, 200), **more})
    producers = [work.producer(codec, transactional_id=f"{name}-{number}") for number, codec in enumerate(codecs)]
    plain = work.producer(idempotent=True)
    work.transactions(name, producers, work.number(40, 60))
    work.fill(name, plain, work.number(4, 9))
    work.transactions(name, producers[:2], work.number(15, 25), committed_share=0.3)
    if is_left_open:
        left_open = work.producer(codecs[0], transactional_id=f"{name}-open")
        work.add("begin", left_open)
        work.fill(name, left_open, 5)
        work.transactions(name, producers[1:], 10)
        work.fill(name, plain, 3)
        work.fill(name, left_open, 3)


def _deleted(work: Workload) -> None:
    settings = {**_sizes(3600, 200), "file.delete.delay.ms": 200}
    feature = "oldest segments deleted by retention.bytes: first base offset > 0"
    work.topic("retention", feature, settings={**settings, "retention.bytes": 9000})
    producer = work.producer()
    work.fill("retention", producer, work.number(150, 190), per_batch=(1, 8))
    work.topic(
        "delete-records", "DeleteRecords: log start offset inside a batch", "log-start-offset-checkpoint", settings=settings
    )
    gzip = work.producer("gzip")
    for _ in range(12):
        work.fill("delete-records", gzip, 12, per_batch=(12, 12))
    work.add("delete-records", "delete-records", 0, 12 * 6 + 5)
    work.close(producer, gzip)


def _compaction(more: Settings) -> dict[str, object]:
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": 100}
    return {**settings, **_sizes(2500, 200), "file.delete.delay.ms": 200, **more}


def _compacted(work: Workload, name: str, codec: str, *features: str, idempotent: bool = True, more: Settings = NOTHING) -> None:
    features = "compacted by the cleaner", f"codec {codec}", "gaps in offsets", "tombstones", *features
    work.topic(name, *features, settings=_compaction(more))
    first, second, third = (work.producer(codec, idempotent=idempotent) for _ in range(3))
    rolling = work.producer()
    for number in range(5):
        work.send(third, name, b"c%d" % number, b"first-%d" % number, BASE_TIMESTAMP_MS + number)
    work.add("flush", third)
    _fill_few_keys(work, name, first, work.number(40, 60))
    for number in range(5):
        work.send(second, name, b"c%d" % number, b"second-%d" % number if number < 3 else None, BASE_TIMESTAMP_MS + 50 + number)
    work.add("flush", second)
    for count in ((40, 60), (20, 30), (10, 20)):
        _fill_few_keys(work, name, second, work.number(*count))
        work.roll(name, rolling)
        work.add("wait-cleaned", name, 0)
        work.add("pause", 600)
    _fill_few_keys(work, name, second, work.number(5, 12))  # a tail that is not cleaned
    work.close(first, second, third, rolling)


def _fill_few_keys(work: Workload, topic: str, producer: str, count: int) -> None:
    work.fill(topic, producer, count, per_batch=(1, 7), key=work.few_keys, value=work.short_value)


def _compacted_transactions(work: Workload) -> None:
    for name, retention in (("compact-txn", 100), ("compact-txn-keep", A_DAY_MS)):
        features = "compacted", "transactions", f"delete.retention.ms={retention}", "markers kept or emptied by the cleaner"
        work.topic(name, *features, committed=True, settings=_compaction({"delete.retention.ms": retention}))
        codecs = ("none", "gzip", "none")
        producers = [work.producer(codec, transactional_id=f"{name}-{number}") for number, codec in enumerate(codecs)]
        rolling, gone = work.producer(), work.producer(transactional_id=f"{name}-gone")
        work.add("begin", gone)
        _fill_few_keys(work, name, gone, 4)
        work.add("abort", gone)
        for _ in range(3):
            work.transactions(name, producers, work.number(20, 30), key=work.few_keys, value=work.short_value)
            work.roll(name, rolling)
            work.add("wait-cleaned", name, 0)
            work.add("pause", 500)
        for end in ("abort", "commit", "abort"):
            work.add("begin", producers[0])
            _fill_few_keys(work, name, producers[0], work.number(2, 5))
            work.add(end, producers[0])
        work.close(rolling, gone, *producers)


def _partitions(work: Workload) -> None:
    work.topic("multi", "3 partitions", partitions=3, settings=_sizes(5000, 300))
    producer = work.producer("snappy")
    work.fill("multi", producer, work.number(150, 200), partitions=3)
    work.close(producer)


def _old_formats(work: Workload) -> None:
    for prefix, version in (("v0-", "0.9.0"), ("v1-", "0.10.0")):
        feature = f"message.format.version={version}"
        for codec in OLD_CODECS:
            settings = {**_sizes(5000, 256), "message.format.version": version}
            name = work.topic(
                f"{prefix}{codec}", f"codec {codec}", *MIXED_CONTENTS, "several segments", feature, settings=settings
            )
            producer = work.producer(codec)
            work.fill(name, producer, work.number(60, 120))
            work.close(producer)
        for codec in ("none", "gzip", "lz4"):
            features = (feature,) if codec == "none" else (feature, "sparse inner offsets")
            name = f"{prefix}compact-{codec}"
            _compacted(work, name, codec, *features, idempotent=False, more={"message.format.version": version})
    _log_append_time(work, "v1-", ("none", "gzip", "lz4"), {"message.format.version": "0.10.0"})
    for name, size in (("switch-one-segment", 1_000_000), ("switch-segments", 3000)):
        feature = "message format switched: v0, v1, v2 in one log"
        work.topic(name, feature, settings={"message.format.version": "0.9.0", **_sizes(size, 300)})
        producers = [work.producer(codec) for codec in OLD_CODECS]
        for version in ("0.9.0", "0.10.0", "0.11.0"):
            work.alter(name, {"message.format.version": version})
            for producer in producers:
                work.fill(name, producer, work.number(8, 16))
        work.close(*producers)


def _groups(work: Workload) -> None:
    """Groups that fill the internal topics: of every kind, one that is deleted, offsets in transactions."""
    work.add("group", "golden-group-é", "gzip", 20, "")
    work.add("group", "group-two", "snappy", 10, "client.id=cé")
    work.add("group", "group-three", "lz4", 10, "group.instance.id=static-1")
    if work.release >= FIRST_WITH_NEXT_GROUPS:
        work.add("group", "group-next", "lz4", 10, "group.protocol=consumer")
    work.add("group", "group-gone", "lz4", 10, "")
    work.add("delete-group", "group-gone")
    producer = work.producer(transactional_id="offsets-txn")
    for offset, end in enumerate(("commit", "abort", "commit"), 5):
        work.add("begin", producer)
        work.send(producer, "idempotent", b"tx", b"offsets", BASE_TIMESTAMP_MS)
        work.add("flush", producer)
        work.add("offsets", producer, "txn-group", "gzip", 0, offset)
        work.add(end, producer)
    work.close(producer)
    work.cases["__consumer_offsets"] = Case(("internal topic",), partitions=2, committed=True)
    work.cases["__transaction_state"] = Case(("internal topic",), partitions=2)
