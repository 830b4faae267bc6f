"""`python -m kafkalog.cli.demo`: makes a small Kafka log directory in a temporary folder and shows on it what kafkalog does.

Every command is run as a user would type it. Nothing is left over.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from kafkalog import codecs
from kafkalog.format.control import EndTxnMarker, encode_end_txn_marker
from kafkalog.format.names import segment_file_name
from kafkalog.format.reference import Record, encode_batch, encode_control_batch, encode_message, encode_wrapper

from .run.spark_log import spark_log

FIRST_TIMESTAMP_MS = 1_767_225_600_000  # 2026-01-01
PRODUCER_ID = 9001
SPEED_BYTES = 100_000_000
RECORDS_PER_BATCH = 150
SHOP_ORDERS = 1500
STARTS = range(0, 100 * RECORDS_PER_BATCH, RECORDS_PER_BATCH)


def squeeze(codec: int, data: bytes, magic: int) -> bytes:
    return codecs.compress(codec, data, magic=magic)


def record(offset: int, key: str | None, value: str | None, *headers: tuple[str, str], timestamp: int | None = None) -> Record:
    time_ms = FIRST_TIMESTAMP_MS + offset * 1000 if timestamp is None else timestamp
    return Record(
        offset,
        time_ms,
        None if key is None else key.encode(),
        None if value is None else value.encode(),
        tuple((name.encode(), content.encode()) for name, content in headers),
    )


# -- the logs ------------------------------------------------------------------------------------------------------------------


def make_logs(folder: Path) -> None:
    """A log directory of four topics."""
    write_segment(folder / "orders-0", 0, make_orders())
    write_segment(folder / "legacy-0", 0, make_legacy())
    write_segment(folder / "payments-0", 0, make_payments())
    healthy = make_sensors()
    damaged = bytearray(b"".join(healthy))
    damaged[len(healthy[0]) + 80] ^= 0x10  # one flipped bit, in the values of the second batch
    write_segment(folder / "sensors-0", 0, [bytes(damaged)])


def write_segment(folder: Path, base_offset: int, entries: list[bytes]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / segment_file_name(base_offset, "log")).write_bytes(b"".join(entries))


def make_orders() -> list[bytes]:
    """Format v2, one batch with each codec."""
    entries = []
    for codec in range(len(codecs.NAMES)):
        first = record(codec * 2, f"order-{codec * 2}", '{"status":"paid"}', ("trace", f"{codec:04x}"))
        second = record(codec * 2 + 1, f"order-{codec * 2 + 1}", None if codec == codecs.ZSTD else "")
        entries.append(encode_batch([first, second], leader_epoch=0, codec=codec, compress=squeeze))
    return entries


def make_legacy() -> list[bytes]:
    """All three formats in one segment, as an upgraded cluster leaves them."""
    return [
        encode_message(record(0, "a", "written by Kafka 0.8", timestamp=-1), magic=0),
        encode_wrapper(
            [record(offset, "b", "0.8, compressed", timestamp=-1) for offset in (1, 2)],
            codec=codecs.GZIP,
            compress=squeeze,
            magic=0,
        ),
        encode_message(record(3, "c", "written by Kafka 0.10"), magic=1),
        encode_wrapper([record(offset, "d", "0.10, compressed") for offset in (4, 5)], codec=codecs.LZ4, compress=squeeze),
        encode_batch([record(6, "e", "written since Kafka 0.11", ("format", "v2"))], leader_epoch=3),
    ]


def make_payments() -> list[bytes]:
    """Two transactions of one producer: the first commits, the second aborts."""
    entries = []
    for base_offset, sequence, value, commit in ((0, 0, "10 EUR", True), (3, 2, "99999 EUR", False)):
        records = [record(base_offset, "alice", "-" + value), record(base_offset + 1, "bob", "+" + value)]
        entries.append(
            encode_batch(
                records, leader_epoch=0, transactional=True, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=sequence
            )
        )
        key, content = encode_end_txn_marker(EndTxnMarker(commit, coordinator_epoch=1))
        marker = {"offset": base_offset + 2, "timestamp": FIRST_TIMESTAMP_MS + (base_offset + 2) * 1000}
        entries.append(encode_control_batch(key, content, **marker, leader_epoch=0, producer_id=PRODUCER_ID, producer_epoch=0))
    return entries


def make_sensors() -> list[bytes]:
    return [
        encode_batch([record(base + step, "s1", f"{20 + base + step} °C") for step in range(2)], leader_epoch=0)
        for base in range(0, 8, 2)
    ]


def write_users(file: Path) -> None:
    """Twelve records of three users, as JSON lines."""
    users = cycle(("ada", "grace", "edsger"))
    times = range(FIRST_TIMESTAMP_MS, FIRST_TIMESTAMP_MS + 12_000, 1000)
    lines = ({"key": next(users), "value": f"login {number}", "timestamp": time_ms} for number, time_ms in enumerate(times))
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def make_large_segment(folder: Path) -> int:
    """A segment of about 100 MB of JSON records; how many there are.

    The CRC of a v2 batch does not cover the base offset, so a few batches are built and written again at other offsets.
    """
    numbers = [range(start, start + RECORDS_PER_BATCH) for start in STARTS]
    bodies = [encode_batch(list(map(make_order, few)), leader_epoch=0)[8:] for few in numbers]
    folder.mkdir()
    size = base_offset = 0
    with (folder / segment_file_name(0, "log")).open("wb") as file:
        for body in cycle(bodies):
            if size > SPEED_BYTES:
                return base_offset
            size += file.write(base_offset.to_bytes(8, "big") + body)
            base_offset += RECORDS_PER_BATCH
    return base_offset


def make_order(number: int) -> Record:
    trace = [("trace", f"{number:08x}")] if number % 3 == 0 else []
    return record(number, f"customer-{number * 7919 % 100_000:05}", order_json(number), *trace)


def order_json(number: int) -> str:
    return (
        f'{{"order_id":"{number * 2654435761 % (1 << 32):08x}-{number:04x}","customer":{number * 7919 % 100_000},"amount":'
        f'{number % 90 + 10}.{number % 100:02},"currency":"EUR","status":"shipped","city":"Lisbon","note":"left at the door"}}'
    )


def write_shop(folder: Path, first_day: int, days: int) -> None:
    """Two partitions of the topic shop: orders as JSON, a few hundred on each day, every day a segment."""
    for partition in range(2):
        for day in range(first_day, first_day + days):
            base = day * SHOP_ORDERS
            orders = [make_shop_order(day, base + number) for number in range(SHOP_ORDERS)]
            few = [orders[at : at + RECORDS_PER_BATCH] for at in range(0, SHOP_ORDERS, RECORDS_PER_BATCH)]
            entries = [encode_batch(part, leader_epoch=0, codec=codecs.ZSTD, compress=squeeze) for part in few]
            if partition == 1 and day == 1:
                entries[1] = entries[1][:100] + b"\xff" + entries[1][101:]  # one damaged byte
            write_segment(folder / f"shop-{partition}", base, entries)


def make_shop_order(day: int, number: int) -> Record:
    time_ms = FIRST_TIMESTAMP_MS + day * 86_400_000 + number % SHOP_ORDERS * 50_000
    return record(number, f"customer-{number % 97:02}", order_json(number), timestamp=time_ms)


# -- the show ------------------------------------------------------------------------------------------------------------------

STEPS = (
    (
        "What is here, at a glance.",
        "ls logs",
    ),
    (
        "Every fact in a log directory is a row of a table. First the segments: which files there are, what they hold. "
        "magics are the message formats: 0 is Kafka 0.8, 1 is 0.10, 2 is everything since 0.11.",
        "table segments logs --columns topic,partition,size,record_count,last_offset,magics,codecs",
    ),
    (
        "The records of a topic, as a consumer would get them. Each pair here was compressed with a different codec. "
        'A null value (a tombstone) and an empty one ("") are different things.',
        "table records logs --topic orders --columns offset,timestamp,key,value,codec,headers",
    ),
    (
        "Three formats in one segment, from a cluster that was upgraded over the years; Kafka 4 no longer writes the first two.",
        "table records logs --topic legacy --columns offset,magic,codec,timestampType,key,value,headers",
    ),
    (
        "Transactions, put together from the batches and the markers that end them.",
        "table transactions logs --topic payments --columns state,producer_id,first_offset,last_offset,marker_offset",
    ),
    (
        "read_committed leaves the aborted one out, as a transactional consumer would. JSON lines, ready for other programs.",
        "table records logs --topic payments --isolation read_committed --columns offset,key,value --format json",
    ),
    (
        "One bit of the sensors topic is flipped. By default a read ends there, after every record before it, and says where.",
        "table records logs --topic sensors --columns offset,key,value",
    ),
    (
        "With --on-damage skip only the damaged batch is left out. A line says what is missing, and so does the exit code.",
        "table records logs --topic sensors --columns offset,key,value --on-damage skip",
    ),
    (
        "What are these bytes? Every byte of the damaged batch belongs to a field, and the checksum shows that one is wrong.",
        "explain logs/sensors-0 --offset 2",
    ),
    (
        "How large is a record in each format, and why? From how many records per batch on is v2 smaller?",
        "estimate --count 100 --key-size 3 --value-size 5",
    ),
    (
        "A mistake gets an answer that helps.",
        "table record logs",
    ),
    (
        "Convert messages of old formats to v2 batches, as Kafka 4 needs it; offsets and timestamps stay.",
        "convert logs --topic legacy --out converted",
    ),
    (
        "Append records to a log as a broker would: batches, indexes, producer state, byte for byte.",
        "append users.jsonl --to written/users-0 --codec lz4",
    ),
    (
        "Compaction keeps the last record of each key, as Kafka's own cleaner does.",
        "compact written/users-0 --out compacted --roll",
    ),
    (
        "The records that are left, and a check of every file that was written.",
        "cat compacted --format json",
    ),
    (
        "",
        "verify compacted",
    ),
    (
        "Parquet, Arrow and CSV work the same way.",
        "table records logs --topic orders --format parquet --output orders.parquet",
    ),
)


def run_command(arguments: str, folder: Path, environment: dict[str, str]) -> None:
    """Show and run `kafkalog ARGUMENTS` in `folder`."""
    print(f"$ kafkalog {arguments}", flush=True)
    command = [sys.executable, "-m", "kafkalog", *shlex.split(arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        print(f"(exit code {done.returncode})")


def comment(text: str) -> None:
    if text:
        print()
    for line in textwrap.wrap(text, 96):
        print(f"# {line}")
    print(flush=True)


def read_orders(path: str) -> None:
    import kafkalog

    reader = kafkalog.open(path).read("records", columns=["offset", "key", "value"], start_offset=4)
    table = reader.read_all()  # a pyarrow.Table; pandas, Polars and DuckDB take the reader as it is
    print(table.schema)
    print(table.num_rows, "records from offset", table["offset"][0], "on; nulls among the values:", table["value"].null_count)


def show_python(folder: Path) -> None:
    comment("The same from Python, straight into Arrow:")
    print(textwrap.indent(inspect.getsource(read_orders) + "\nread_orders('logs/orders-0')\n", "    "), flush=True)
    read_orders(str(folder / "logs" / "orders-0"))


def timed_reads(path: Path, expected: int) -> Iterator[tuple[int, float]]:
    """(threads, seconds) of reading all default columns; the best of three, because the first one also warms up."""
    import kafkalog

    for threads in sorted({1, min(4, len(os.sched_getaffinity(0)))}):
        best = float("inf")
        for _ in range(3):
            begin = time.perf_counter()
            rows = sum(batch.num_rows for batch in kafkalog.open(path).read("records", threads=threads))
            best = min(best, time.perf_counter() - begin)
            if rows != expected:
                raise SystemExit(f"read {rows} records of {expected}")
        yield threads, best


# -- the pipeline --------------------------------------------------------------------------------------------------------------

INGEST = "ingest shop tables --decode json"


def show_pipeline(folder: Path, environment: dict[str, str]) -> None:
    """Logs into Parquet tables, twice, and SQL over them; on Spark where it is installed."""
    has_spark = importlib.util.find_spec("pyspark") is not None
    where = "local[2]" if has_spark else "none"
    write_shop(folder / "shop", 0, 2)
    comment(
        "The pipeline: log folders into Parquet tables. Two partitions with two days of orders, values decoded from JSON; one "
        f"byte of one batch is damaged. {WITH_SPARK if has_spark else NO_SPARK}"
    )
    run_command(f"{INGEST} --master '{where}'", folder, environment)
    comment("The damaged batch is set aside and nothing else is lost; so the exit code is 1. Each day has a folder:")
    for path in sorted((folder / "tables").glob("topic=*/*/*.parquet")):
        print(path.relative_to(folder))
    write_shop(folder / "shop", 2, 1)
    comment("A third day arrives. The next run ingests only new records; the one after it finds nothing new and starts no Spark.")
    run_command(f"{INGEST} --master none", folder, environment)
    run_command(f"{INGEST} --master '{where}'", folder, environment)
    if has_spark:
        show_sql(folder)


WITH_SPARK = "It runs on a local Spark here, and on a cluster with --master spark://..."
NO_SPARK = "There is no PySpark here, so threads of one process do the work; to use Spark: pip install 'kafkalog[spark,jre]'."


def query_tables(tables: str) -> None:
    from kafkalog.spark import session

    spark = session("local[2]", **{"spark.sql.shuffle.partitions": "2", "spark.ui.showConsoleProgress": "false"})
    spark.read.parquet(tables).createOrReplaceTempView("shop")
    spark.sql("""
        SELECT day, count(*) AS orders, round(sum(value.amount), 2) AS revenue
        FROM shop GROUP BY day ORDER BY day
    """).show()
    spark.read.parquet(tables + "/_damaged").selectExpr("topic", "partition", "position", "length", "reason").show()
    spark.stop()


def show_sql(folder: Path) -> None:
    comment("SQL over the result, and what was set aside:")
    print(textwrap.indent(inspect.getsource(query_tables) + "\nquery_tables('tables')\n", "    "), flush=True)
    with spark_log():
        query_tables(str(folder / "tables"))


def show_speed(folder: Path) -> None:
    comment(
        f"How fast? A segment of {SPEED_BYTES // 1_000_000} MB of uncompressed JSON records ({len(STARTS)} different batches, "
        "repeated), just written and so in the page cache: all eight default columns into Arrow, every CRC checked, "
        "best of three."
    )
    expected = make_large_segment(folder / "speed-0")
    size = sum(file.stat().st_size for file in (folder / "speed-0").iterdir())
    print(f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores for this process, Python {platform.python_version()}")
    for threads, seconds in timed_reads(folder / "speed-0", expected):
        rate = f"{size / seconds / 1e6:,.0f} MB/s, {expected / seconds / 1e6:.2f} million records/s"
        print(f"{threads} thread{'s' * (threads > 1)}: {expected:,} records in {seconds:.3f} s = {rate}")


def child_environment(folder: Path) -> dict[str, str]:
    """If compiled kernels cannot be cached, each command would compile them again; then the demo has its own cache."""
    from kafkalog.kernels.cache import cache_folder

    environment = dict(os.environ)
    if cache_folder() is None:
        environment["KAFKALOG_CACHE_DIR"] = str(folder / "cache")
    return environment


def main() -> int:
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kafkalog-demo-") as name:
        folder = Path(name)
        print(f"kafkalog reads Kafka's own files, without a broker. This makes a small log directory in {folder} and reads it.")
        make_logs(folder / "logs")
        write_users(folder / "users.jsonl")
        environment = child_environment(folder)
        for text, arguments in STEPS:
            comment(text)
            run_command(arguments, folder, environment)
        print(f"{(folder / 'orders.parquet').stat().st_size} bytes of Parquet")
        show_python(folder)
        show_pipeline(folder, environment)
        show_speed(folder)
    print(f"\nThat took {time.monotonic() - begin:.0f} seconds, and the folder is gone again. Next: kafkalog --help")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(141)
    except KeyboardInterrupt:
        sys.exit(130)
