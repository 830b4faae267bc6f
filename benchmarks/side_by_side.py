"""Whether a change costs speed: two checkouts of kafkalog do the same work in turns, in one run.

    python -m benchmarks.side_by_side BEFORE [AFTER] [--records N] [--rounds N] [--codecs A,B] [--only decode,dump]

BEFORE and AFTER are checkouts (`git worktree add BEFORE REVISION`); AFTER is this one unless given. Both run with the packages of
this environment, each in a warm process on one core. The table gives the median processor time of each and their ratio.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import kafkalog
from benchmarks.measure import REPOSITORY, WarmProcess, race

WORK = ("decode", "dump", "append", "append-lz4", "verify", "compact")
SEGMENT_BYTES = 64 << 20
WORKER = Path(__file__).with_name("checkout_worker.py")


def main() -> None:
    arguments = _parse()
    with tempfile.TemporaryDirectory(prefix="kafkalog-side-by-side-") as folder:
        sources = {codec: _write_log(Path(folder) / codec / "bench-0", codec, arguments) for codec in arguments.codecs.split(",")}
        print(f"{'':22}{'before, s':>12}{'after, s':>12}{'after/before':>14}")
        for what in arguments.only.split(","):
            for codec in sources if not what.startswith("append") else list(sources)[:1]:
                before, after = _compare(what, sources[codec], Path(folder), arguments)
                name = what if what.startswith("append") else f"{what}, {codec}"
                print(f"{name:22}{before:12.3f}{after:12.3f}{after / before:14.3f}", flush=True)


def _compare(what: str, source: Path, folder: Path, arguments: argparse.Namespace) -> tuple[float, float]:
    """Median processor seconds of a pass, before and after; both must come to the same rows."""
    contestants = [
        WarmProcess(name, _command(checkout, what, source, folder / name), arguments.core)
        for name, checkout in (("before", arguments.before), ("after", arguments.after))
    ]
    for contestant in contestants:
        with contestant:
            contestant.warm_up()
            rows = contestant.run().rows
    results = race(contestants, arguments.rounds, rows)
    return results["before"].seconds, results["after"].seconds


def _command(checkout: Path, what: str, source: Path, work: Path) -> list[str]:
    return ["env", f"PYTHONPATH={checkout / 'src'}", sys.executable, str(WORKER), what, str(source), str(work)]


def _write_log(folder: Path, codec: str, arguments: argparse.Namespace) -> Path:
    """A log of JSON values of about 170 bytes, whose keys occur three times each."""
    records = arguments.records
    chance = np.random.default_rng(7)
    numbers = chance.integers(0, records // 3, records)
    cities = ("Berlin", "Lisbon", "Nairobi", "Osaka", "Quito", "Reykjavik", "Toronto", "Wellington")
    values = [
        b'{"order":%d,"city":"%s","status":"paid","amount":%d,"note":"%s"}'
        % (number, cities[number % 8].encode(), number * 37 % 100_000, chance.bytes(48).hex().encode())
        for number in numbers.tolist()
    ]
    table = pa.table(
        {
            "key": pa.array([b"key-%08d" % number for number in numbers.tolist()], pa.large_binary()),
            "value": pa.array(values, pa.large_binary()),
            "timestamp_ms": pa.array(1_767_225_600_000 + np.arange(records)),
        }
    )
    config = kafkalog.LogConfig(segment_bytes=SEGMENT_BYTES)
    with kafkalog.PartitionLog.open(str(folder), config) as log:
        log.append_records(table, codec=codec, batch_bytes=arguments.batch_bytes)
    return folder


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.side_by_side", description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?", default=REPOSITORY)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--codecs", default="none,lz4")
    parser.add_argument("--batch-bytes", type=int, default=32 << 10)
    parser.add_argument("--only", default=",".join(WORK))
    return parser.parse_args()


if __name__ == "__main__":
    main()
