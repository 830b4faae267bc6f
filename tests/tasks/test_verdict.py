"""The verdict of `verify` against what really happens: the engine opens a copy of the log directory, on the disk."""

from __future__ import annotations

import errno
import shutil
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

import kafkalog
from kafkalog.engine.log_directory import LogDirectory
from kafkalog.errors import KafkaLogError
from kafkalog.format import names
from kafkalog.format.checkpoint import PartitionOffset, encode_offset_checkpoint
from kafkalog.storage.failures import read_error
from kafkalog.storage.fs import LocalFs
from kafkalog.storage.local import LocalStore
from kafkalog.storage.lock import broker_lock
from kafkalog.tables.logs import open_logs
from kafkalog.tasks.broker_start import load_partition
from kafkalog.tasks.verdict import CUT, EMPTIED, KEPT, REFUSED, UNKNOWN, LoadedPartition, Verdict
from tests.builders.small_logs import made_batch, write_segment
from tests.campaigns.damage.bytes_damage import OPERATORS
from tests.campaigns.damage.golden_set import BASE_OFFSET, FOLDER, VARIANTS, golden_segment

STATES = ("clean", "crashed", "crashed-before-any-checkpoint", "clean-without-an-index-and-snapshots")


@dataclass(frozen=True)
class Loaded:
    """What the engine did to a partition of a log directory."""

    error: str
    end_offset: int = -1
    size: int = 0


def verdict_on(path: Path, topics: list[str] | None = None) -> Verdict:
    verdict = kafkalog.verify(path, threads=1, topics=topics).verdict
    assert verdict is not None
    return verdict


def really_loaded(logs: Path, scratch: Path) -> tuple[Path, dict[str, Loaded]]:
    """A copy of the log directory after each of its partitions was opened as at a broker's start."""
    copy = scratch / "loaded"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(logs, copy)
    found = {}
    for folder in sorted(path.name for path in copy.iterdir() if path.is_dir()):
        topic, _, number = folder.rpartition("-")
        try:
            with LogDirectory(str(copy)) as directory:
                directory._was_clean = (logs / names.CLEAN_SHUTDOWN).exists()  # also for the second partition
                log = directory.open_log(topic, int(number))
                found[folder] = Loaded("", log.log_end_offset, log.size)
        except KafkaLogError as error:
            found[folder] = Loaded(type(error).__name__)
    return copy, found


def expect(verdict: Verdict, logs: Path, scratch: Path) -> list[LoadedPartition]:
    """The verdict says exactly what the engine did; returns what happened to partitions."""
    copy, loaded = really_loaded(logs, scratch)
    told = {each.name: each for each in verdict.partitions}
    for name, real in loaded.items():
        size = sum(path.stat().st_size for path in (logs / name).glob("*.log"))
        each = told.get(name, LoadedPartition(name, 0, "", end_offset=real.end_offset))
        assert (each.outcome == REFUSED) == bool(real.error), (each, real)
        if real.error:
            continue
        assert (each.end_offset, each.cut_bytes) == (real.end_offset, size - real.size), (each, real)
        assert (each.outcome == KEPT) == (size == real.size), (each, real)
        lost = {offset for offset in intact_offsets(logs / name) if offset >= real.end_offset}
        assert (each.loss is not None) == bool(lost), (each, lost)
        left = [found for found in kafkalog.verify(copy / name, threads=1).errors if found.file.endswith(".log")]
        assert {found.position for found in each.damage} == {found.position for found in left}, (each, left)
    assert verdict.starts is not any(real.error for real in loaded.values())
    return [told[name] for name in loaded if name in told]


def intact_offsets(folder: Path) -> list[int]:
    batches = open_logs(folder).read("batches", ["base_offset"], on_damage="salvage").read_all()
    return [offset for offset in batches["base_offset"].to_pylist() if offset is not None]


def make_directory(root: Path, files: dict[str, bytes]) -> Path:
    """A log directory as a broker leaves it, with indexes and checkpoints, of the files of one partition."""
    folder = root / Path(FOLDER).name
    folder.mkdir(parents=True)
    for path, content in files.items():
        (folder / Path(path).name).write_bytes(content)
    (root / names.META_PROPERTIES).write_bytes(b"version=1\ncluster.id=x\nnode.id=1\n")
    with LogDirectory(str(root)) as directory:
        directory.open_log("golden", 0)
    assert (root / names.CLEAN_SHUTDOWN).exists()
    return folder


def put_in_state(root: Path, folder: Path, state: str, next_offset: int) -> None:
    if not state.startswith("clean"):
        (root / names.CLEAN_SHUTDOWN).unlink()
    if state == "crashed-before-any-checkpoint":
        (root / names.RECOVERY_POINT_CHECKPOINT).unlink()
    if state == "clean-without-an-index-and-snapshots":
        for file in (folder / f"{next_offset:020d}.index", *folder.glob("*.snapshot")):
            file.unlink()  # so that producers are replayed from the first segment


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_verdict_on_a_damaged_log_is_what_the_engine_does(
    operator: Callable[[bytearray, Random], str], tmp_path: Path
) -> None:
    outcomes = set()
    for seed, name in enumerate(list(VARIANTS)[OPERATORS.index(operator) :: 5]):
        segment = golden_segment(name)
        data = bytearray(segment.data)
        operator(data, Random(seed))
        root = tmp_path / name
        folder = make_directory(root, segment.among_neighbours())
        (folder / names.segment_file_name(BASE_OFFSET)).write_bytes(data)
        for state in STATES:
            logs = tmp_path / f"{name}-{state}"
            shutil.copytree(root, logs)
            put_in_state(logs, logs / folder.name, state, segment.next_offset)
            verdict = verdict_on(logs)
            happened = expect(verdict, logs, tmp_path)
            outcomes |= {each.outcome for each in happened}
    assert outcomes >= {CUT, KEPT}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two partitions of three segments, left by a clean shutdown."""
    for number in (0, 1):
        for base in (0, 20, 40):
            write_segment(tmp_path / "logs" / f"orders-{number}", base, made_batch(base), made_batch(base + 10))
    (tmp_path / "logs" / names.META_PROPERTIES).write_bytes(b"version=1\ncluster.id=x\nnode.id=1\n")
    with LogDirectory(str(tmp_path / "logs")) as directory:
        for number in (0, 1):
            directory.open_log("orders", number)
    return tmp_path / "logs"


def flip(log: Path) -> None:
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)


def test_nothing_happens_to_healthy_logs(logs: Path, tmp_path: Path) -> None:
    for state in ("clean", "crashed", "crashed-before-any-checkpoint"):
        healthy = tmp_path / state
        shutil.copytree(logs, healthy)
        put_in_state(healthy, healthy / "orders-0", state, 20)
        verdict = verdict_on(healthy)
        assert expect(verdict, healthy, tmp_path) == []
        assert (verdict.starts, verdict.text, verdict.next_steps) == (True, "the broker will start and lose nothing", ())


def test_damage_after_a_clean_shutdown_stays_and_after_a_crash_cuts(logs: Path, tmp_path: Path) -> None:
    flip(logs / "orders-0" / names.segment_file_name(20))
    verdict = verdict_on(logs)
    (stays,) = expect(verdict, logs, tmp_path)
    assert (stays.outcome, [found.base_offset for found in stays.damage], verdict.loses_records) == (KEPT, [20], False)
    assert "the broker will start, but not notice the damage in orders-0 (crc at offset 20)" in verdict.text
    (logs / names.CLEAN_SHUTDOWN).unlink()
    (logs / names.RECOVERY_POINT_CHECKPOINT).unlink()
    verdict = verdict_on(logs)
    (cut,) = expect(verdict, logs, tmp_path)
    assert verdict.text.startswith("the broker will start, but cut orders-0 at offset 20 (30 intact records lost). ")
    assert cut.loss is not None
    assert (cut.loss.first_offset, cut.loss.last_offset, cut.loss.records) == (20, 59, 30)
    (step,) = verdict.next_steps
    assert step.command == f"kafkalog salvage {logs}/orders-0 --out rescued"


def test_a_recovery_point_after_the_damage_hides_it_from_the_broker(logs: Path, tmp_path: Path) -> None:
    flip(logs / "orders-1" / names.segment_file_name(0))
    (logs / names.CLEAN_SHUTDOWN).unlink()
    (stays,) = expect(verdict_on(logs), logs, tmp_path)
    assert (stays.outcome, [found.base_offset for found in stays.damage]) == (KEPT, [0])


def test_damage_that_a_missing_index_makes_a_broker_replay_stops_it(logs: Path, tmp_path: Path) -> None:
    log = logs / "orders-0" / names.segment_file_name(20)
    content = log.read_bytes()
    log.write_bytes(content[:8] + bytes(4) + content[12:])  # a length of zero
    put_in_state(logs, logs / "orders-0", "clean-without-an-index-and-snapshots", 40)
    verdict = verdict_on(logs)
    (refused,) = expect(verdict, logs, tmp_path)
    assert (refused.outcome, refused.detail) == (REFUSED, f"length in {log.name} at byte 0")
    assert [step.command for step in verdict.next_steps] == [f"kafkalog salvage {logs}/orders-0 --out rescued"]


def test_an_unfinished_write_is_no_loss(logs: Path, tmp_path: Path) -> None:
    (logs / names.CLEAN_SHUTDOWN).unlink()
    with (logs / "orders-0" / names.segment_file_name(40)).open("ab") as log:
        log.write(made_batch(60)[:-5])
    verdict = verdict_on(logs)
    (cut,) = expect(verdict, logs, tmp_path)
    assert (cut.outcome, cut.loss, verdict.next_steps) == (CUT, None, ())
    assert "lose nothing that was written completely: it cuts an unfinished end off orders-0 at offset 60" in verdict.text


def test_a_log_start_beyond_the_end_empties_the_log(logs: Path, tmp_path: Path) -> None:
    offsets = [PartitionOffset("orders", 0, 100)]
    (logs / names.LOG_START_CHECKPOINT).write_bytes(encode_offset_checkpoint(offsets))
    verdict = verdict_on(logs)
    assert [each.outcome for each in verdict.partitions] == [EMPTIED]
    _, loaded = really_loaded(logs, tmp_path)
    assert loaded["orders-0"] == Loaded("", 100, 0)
    assert "delete all of orders-0 (60 intact records lost)" in verdict.text
    assert "kafkalog salvage" in verdict.next_steps[0].command


@pytest.mark.parametrize(
    ("name", "content", "command"),
    [
        (names.LEADER_EPOCH_CHECKPOINT, b"0\n9\n", "kafkalog reindex {folder} --in-place"),
        (names.PARTITION_METADATA, b"version: 0\n", "mv -- {folder}/partition.metadata {folder}/partition.metadata.broken"),
    ],
)
def test_a_malformed_file_of_a_partition_stops_the_broker(
    logs: Path, tmp_path: Path, name: str, content: bytes, command: str
) -> None:
    (logs / "orders-0" / name).write_bytes(content)
    verdict = verdict_on(logs)
    (refused,) = expect(verdict, logs, tmp_path)
    assert (refused.outcome, verdict.starts) == (REFUSED, False)
    assert verdict.text == f"the broker will not start with this log directory: orders-0: {name} cannot be read"
    assert [step.command for step in verdict.next_steps] == [command.format(folder=logs / "orders-0")]
    after = tmp_path / "after"
    shutil.copytree(logs, after)
    run_command(command.format(folder=after / "orders-0"))
    assert verdict_on(after).starts


def run_command(command: str) -> None:
    if command.startswith("kafkalog reindex"):
        kafkalog.reindex(command.split()[2])
    else:
        subprocess.run(["bash", "-c", command], check=True)


def test_what_is_in_the_root_stops_the_broker(logs: Path) -> None:
    (logs / "old stuff").mkdir()
    (logs / names.REPLICATION_CHECKPOINT).write_bytes(b"1\n")
    verdict = verdict_on(logs)
    assert verdict.starts is False
    assert "old stuff is a folder that belongs to no partition" in verdict.text
    assert f"{names.REPLICATION_CHECKPOINT} cannot be read" in verdict.text
    for step in verdict.next_steps:
        subprocess.run(["bash", "-c", step.command], check=True)
    assert verdict_on(logs).starts
    assert logs.with_name("logs.old stuff").is_dir()
    (logs / names.META_PROPERTIES).write_bytes(b"version=7\n")
    assert verdict_on(logs).starts is False


def test_a_wrong_index_is_used_after_a_clean_shutdown_and_reindex_repairs_it(logs: Path, tmp_path: Path) -> None:
    index = logs / "orders-0" / names.segment_file_name(20, "txnindex")
    index.write_bytes(struct.pack(">hqqqq", 0, 7, 20, 25, 20))
    verdict = verdict_on(logs)
    (stale,) = expect(verdict, logs, tmp_path)
    assert stale.stale == (index.name,)
    (step,) = verdict.next_steps
    run_command(step.command)
    assert verdict_on(logs).partitions == ()


def test_some_partitions_say_nothing_about_the_directory(logs: Path) -> None:
    flip(logs / "orders-0" / names.segment_file_name(20))
    (logs / "old").mkdir()
    assert verdict_on(logs, topics=["orders"]).text.startswith("a broker will load what was checked here, but not notice")
    assert verdict_on(logs / "orders-1").text == "a broker will load what was checked here and lose nothing"
    (logs / names.META_PROPERTIES).unlink()
    (logs / "old").rmdir()
    assert verdict_on(logs).text.startswith("a broker will load these logs, but not notice")


def test_a_running_broker_has_no_verdict_but_salvage_is_advised(logs: Path) -> None:
    flip(logs / "orders-0" / names.segment_file_name(20))
    with broker_lock(str(logs)):
        verdict = verdict_on(logs)
    assert (verdict.starts, verdict.is_running, verdict.partitions) == (None, True, ())
    assert [step.command for step in verdict.next_steps] == [f"kafkalog salvage {logs}/orders-0 --out rescued"]


def test_a_partition_that_cannot_be_loaded_here_is_unknown(logs: Path) -> None:
    log = logs / "orders-0" / names.segment_file_name(20)
    log.rename(logs.parent / "elsewhere")
    log.symlink_to(logs.parent / "elsewhere")
    verdict = verdict_on(logs)
    assert verdict.starts is None
    assert [each.outcome for each in verdict.partitions] == [UNKNOWN]
    assert verdict.text.startswith("not known for 1 partition: orders-0 (")
    assert ". A broker will load the rest and lose nothing" in verdict.text
    assert "will start" not in verdict.text


def test_a_file_that_may_not_be_read_makes_the_verdict_unknown_in_a_few_words(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, name in ((LocalStore, "open"), (LocalFs, "open"), (LocalFs, "read")):
        done = getattr(kind, name)

        def refuse(place: object, path: str, *rest: object, done: Callable[..., object] = done) -> object:
            if path.startswith(str(logs / "orders-0")):
                raise read_error(path, "opening failed", PermissionError(errno.EACCES, "no"))
            return done(place, path, *rest)

        monkeypatch.setattr(kind, name, refuse)
    (logs / names.CLEAN_SHUTDOWN).unlink()
    verdict = verdict_on(logs)
    assert verdict.text.startswith("not known for 1 partition: orders-0 (")
    assert "Permission denied). A broker will load the rest" in verdict.text
    assert "writ" not in verdict.text


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_metadata_log_without_beginning_and_snapshot_is_a_doubt(logs: Path, has_snapshot: bool) -> None:
    folder = logs / "__cluster_metadata-0"
    write_segment(folder, 20, made_batch(20))
    if has_snapshot:
        (folder / f"{20:020}-{1:010}.checkpoint").write_bytes(made_batch(0))
    doubt = "not known whether the broker will start: __cluster_metadata-0 begins at offset 20 and has no snapshot"
    assert (doubt in verdict_on(logs).text) == (not has_snapshot)


def test_a_partition_that_changes_meanwhile_is_unknown(logs: Path) -> None:
    (logs / names.CLEAN_SHUTDOWN).unlink()
    log = logs / "orders-0" / names.segment_file_name(40)
    (partition, _) = open_logs(logs).partitions
    log.write_bytes(log.read_bytes() + made_batch(60)[:-5])
    loaded = load_partition(LocalFs(), partition, [])
    assert (loaded.outcome, loaded.detail) == (UNKNOWN, "its files are changing, so a broker is running")
    (partition, _) = open_logs(logs).partitions
    assert load_partition(LocalFs(), partition, []).outcome == CUT


def test_a_single_file_has_no_verdict(logs: Path) -> None:
    assert kafkalog.verify(logs / "orders-0" / names.segment_file_name(0)).verdict is None


def test_the_verdict_on_a_killed_broker_is_what_the_real_broker_did(golden: Callable[[str], Path]) -> None:
    for era, after in (("4.3.0-damaged", "4.3.0-damaged-recovered"), ("4.3.0-unclean", "4.3.0-recovered")):
        recovered = golden(after) / after
        verdict = verdict_on(golden(era) / era)
        assert verdict.starts
        for folder in (golden(era) / era).glob("open-*"):
            told = {each.name: each for each in verdict.partitions}.get(folder.name)
            sizes = [sum(log.stat().st_size for log in place.glob("*.log")) for place in (folder, recovered / folder.name)]
            assert sizes[0] - sizes[1] == (told.cut_bytes if told else 0), folder.name


def test_partitions_without_findings_load_as_they_are(golden: Callable[[str], Path]) -> None:
    for era in ("0.9.0.1", "4.3.0"):
        for partition in open_logs(golden(era) / era).partitions:
            loaded = load_partition(LocalFs(), partition, [])
            assert (loaded.outcome, loaded.cut_bytes) == (KEPT, 0), loaded
