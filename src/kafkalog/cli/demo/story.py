"""The steps of the demo, in their order: what is typed, why, and what has to come out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import disk

CLEAN, DAMAGE = 0, 1
CLICKS_SEGMENT = f"disk/clicks-0/{disk.CLICKS // 2:020}.log"

REVENUE = """\
from kafkalog.spark import session

spark = session("local[2]", **{"spark.ui.enabled": "false"})
spark.read.parquet("lake/topic=orders").createOrReplaceTempView("orders")
spark.sql('''
    SELECT value.city, count(*) AS orders, round(sum(value.amount), 2) AS revenue
    FROM orders WHERE day >= '2026-01-02' GROUP BY value.city ORDER BY revenue DESC
''').show()
"""


@dataclass(frozen=True)
class Step:
    """One command, two lines of why, and what its output must contain.

    The command runs in the demo's folder; `kafkalog` and `python` are those that run the demo, and `2> FILE` works as in a
    shell. Of standard output the first `lines` are shown. `program` is a file that the command needs, and is shown too.
    `prepare` is done first.
    """

    title: str
    why: str
    command: str
    exit_code: int = CLEAN
    expected: tuple[str, ...] = ()
    lines: int = 24
    needs_spark: bool = False
    program: tuple[str, str] | None = None
    prepare: Callable[[Path], None] | None = None


STEPS = (
    Step(
        "What is on this disk?",
        "A broker lost its power and will not come back; this is a copy of its log directory. No Kafka is needed to read it. "
        "ls shows topics, offsets, times, formats and codecs, and below them what brokers leave over: here, a deleted topic.",
        "kafkalog ls disk",
        expected=("audit", "clicks", "orders", "payments", "leftovers", "-delete"),
    ),
    Step(
        "What is broken?",
        "verify checks every checksum, record, index, snapshot and checkpoint, and compares each file with the others. "
        "Each finding says where it is, down to the byte; the verdict says what a broker would do that starts here.",
        "kafkalog verify disk",
        DAMAGE,
        expected=("clicks-0", "crc", "offsets 1800 to 1949", "verdict"),
    ),
    Step(
        "What are these bytes?",
        "explain names every byte of a batch and the field it belongs to. "
        "Here the stored checksum and the computed one differ: one bit in 6.6 KB has flipped.",
        f"kafkalog explain {CLICKS_SEGMENT} --offset {disk.FLIPPED_CLICK}",
        DAMAGE,
        expected=("crc", "does not match"),
        lines=12,
    ),
    Step(
        "What would Kafka do about it?",
        "Kafka's own recovery cuts a segment at the first bad batch and deletes everything after it, intact or not. "
        "recover does the same, but first says what it would cost; with --dry-run it does nothing else.",
        "kafkalog recover disk --topic clicks --in-place --dry-run",
        DAMAGE,
        expected=("1050 intact records", "salvage"),
    ),
    Step(
        "Keep what is intact",
        "salvage copies every batch that can be proved intact into a new partition folder with new indexes, ready for a broker. "
        "One batch of 150 records is lost instead of 1,200 records; the journal next to the copy lists its bytes.",
        "kafkalog salvage disk/clicks-0 --out rescued",
        DAMAGE,
        expected=("2850 records", "1800 to 1949"),
    ),
    Step(
        "Bring a deleted topic back",
        "A deleted topic is renamed at once and removed a minute later. Until then, or on a disk that was pulled in time, "
        "all of it is there.",
        "kafkalog undelete disk --topic refunds --out undeleted",
        expected=("120 records",),
    ),
    Step(
        "Look at the records",
        "cat prints records as text, JSON lines, CSV, Arrow or Parquet; here the last two of the topic that was deleted. "
        "--follow tails a log that a broker is writing; --grep, --decode and time ranges are in cat --help.",
        "kafkalog cat undeleted --tail 2",
        expected=('{"refund":44}',),
    ),
    Step(
        "What is in old formats?",
        "Kafka 4 still reads messages of formats v0 and v1, which Kafka 0.8 to 0.10 wrote, but no longer writes them. "
        "ls --formats reads all headers and says how much there is.",
        "kafkalog ls disk --formats",
        expected=("1 topic with v0 or v1", "40 records"),
    ),
    Step(
        "Convert them",
        "The same records with the same offsets and timestamps, as v2 batches, in a new folder or in place. "
        "--dry-run makes all the new bytes first and writes none.",
        "kafkalog convert disk --topic audit --out converted",
        expected=("10 v0 none", "5 batches"),
    ),
    Step(
        "Why do consumers wait?",
        "Consumers of payments read committed records only, and stand still: a producer died inside its transaction. "
        "transactions finds it, and prints the command that aborts it.",
        "kafkalog transactions disk",
        expected=("7003", "kafka-transactions.sh", "--start-offset 6"),
    ),
    Step(
        "Into a lake",
        "Straight from the files into Parquet, JSON decoded into typed columns, on Spark or, where there is none, on threads. "
        "No broker has any load from it. What is damaged is set aside and reported, nothing else is lost.",
        "kafkalog ingest disk lake --topic orders --topic clicks --decode json",
        DAMAGE,
        expected=("commit 1 of", "6,450 records", "set aside in _damaged: 1 range"),
        lines=5,
    ),
    Step(
        "Again, exactly once",
        "Suppose the broker had worked for another day: its orders are added to the disk. The next run takes only what is new, "
        "each record once, even after runs that were killed. With --master none it needs no Spark.",
        "kafkalog ingest disk lake --topic orders --topic clicks --decode json --master none",
        expected=("commit 2 of", "1,200 records"),
        lines=3,
        prepare=lambda folder: disk.add_a_day(folder / "disk"),
    ),
    Step(
        "SQL over the lake",
        "The tables are plain Parquet files, a folder for each topic and day, so any engine reads them; here it is Spark. "
        "Its own messages go to a file.",
        "python revenue.py 2> spark.log",
        expected=("Lisbon", "revenue"),
        needs_spark=True,
        program=("revenue.py", REVENUE),
    ),
    Step(
        "All of it on one page",
        "report writes one HTML file that loads nothing and works offline: what is on the disk, by size and time, formats, keys, "
        "transactions, epochs, and every finding with the command to type next. Open it in a browser.",
        "kafkalog report disk -o report.html",
        DAMAGE,
        expected=("report.html",),
    ),
)
