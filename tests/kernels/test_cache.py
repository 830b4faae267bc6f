"""The first minute: what a run compiles, when it says so, and that nobody compiles what somebody else has compiled."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from kafkalog.kernels import cache, crc, native
from tests.builders.small_logs import made_batch, write_segment
from tests.tidy.source import ROOT

pytestmark = pytest.mark.skipif(native.IS_OFF, reason="the JIT is off")
NOTICE = "kafkalog: compiling its kernels for this work"
# Prints how many kernels it found compiled, and how many it compiled itself.
COUNTING_READ = """
import gc, sys
import kafkalog
rows = kafkalog.open(sys.argv[1]).read("records", ["offset"], threads=1).read_all().num_rows
from numba.core.dispatcher import Dispatcher
kernels = [each for each in gc.get_objects() if isinstance(each, Dispatcher) and type(each._cache).__name__ == "_KernelCache"]
counts = [each.stats for each in kernels]
print(rows, sum(sum(each.cache_hits.values()) for each in counts), sum(sum(each.cache_misses.values()) for each in counts))
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write_segment(tmp_path / "orders-0", 0, *(made_batch(first, 10) for first in range(0, 100, 10)))
    return tmp_path / "orders-0"


def start(cache_folder: Path, *command: object, **environment: str) -> subprocess.Popen[str]:
    given = {**os.environ, "KAFKALOG_CACHE_DIR": str(cache_folder), cache.NO_NOTICE: "", **environment}
    return subprocess.Popen(
        [sys.executable, *map(str, command)], env=given, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def run(cache_folder: Path, *command: object, **environment: str) -> tuple[str, str]:
    """Standard output and error."""
    with start(cache_folder, *command, **environment) as child:
        out, errors = child.communicate(timeout=120)
    assert child.returncode == 0, errors
    return out, errors


def explain(log: Path) -> tuple[object, ...]:
    return "-m", "kafkalog", "explain", log / f"{0:020}.log", "--offset", 3


def compiled(counts: str) -> tuple[int, int]:
    rows, found, made = map(int, counts.split())
    assert rows == 100
    return found, made


def test_a_command_says_so_whenever_it_compiles_and_only_then(log: Path, tmp_path: Path) -> None:
    checksums = ("-m", "kafkalog", "table", "batches", log, "--columns", "crc_valid")
    for command in (explain(log), checksums):  # they need different kernels
        assert run(tmp_path / "cache", *command)[1] == f"{NOTICE}, once (a few seconds)\n"
        assert run(tmp_path / "cache", *command)[1] == ""


@pytest.mark.parametrize(
    ("more", "environment"), [(["--quiet"], {}), ([], {cache.NO_NOTICE: "1"})], ids=["option", "environment"]
)
def test_a_quiet_command_does_not_say_that_it_compiles(
    log: Path, tmp_path: Path, more: list[str], environment: dict[str, str]
) -> None:
    assert run(tmp_path / "cache", *explain(log), *more, **environment)[1] == ""


def test_without_a_folder_to_keep_kernels_in_the_notice_says_so(log: Path, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    for name in (cache.sources_name(), f"{cache.sources_name()}-bounds"):
        (shared / name).mkdir()
        (shared / name).chmod(0o777)  # anybody could put machine code there
    _, errors = run(shared, *explain(log))
    assert errors == f"{NOTICE}, for this run alone: there is no folder to keep them in (a few seconds)\n"
    assert not any(file.is_file() for file in shared.rglob("*"))


def test_of_two_processes_at_once_one_compiles_each_kernel_and_the_other_waits(log: Path, tmp_path: Path) -> None:
    alone = compiled(run(tmp_path / "alone", "-c", COUNTING_READ, log)[0])[1]
    both = [start(tmp_path / "both", "-c", COUNTING_READ, log) for _ in range(2)]
    results = [compiled(child.communicate(timeout=120)[0]) for child in both]
    assert sum(made for _, made in results) == alone
    assert sum(found for found, _ in results) == alone


def test_a_stopped_process_that_holds_a_lock_does_not_stop_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LONGEST_WAIT_SECONDS", 0.1)
    with (tmp_path / "scan.survey.lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert cache.wait_for_turn(tmp_path, "scan.survey") is None
    lock = cache.wait_for_turn(tmp_path, "scan.survey")
    assert lock is not None
    lock.close()


def test_packed_kernels_spare_another_machine_the_compiling(log: Path, tmp_path: Path) -> None:
    packed = str(tmp_path / "packed")
    pack = f"from kafkalog.kernels import cache; pickle.dump(cache.PackedKernels.here(cache.used), open({packed!r}, 'wb'))"
    unpack = f"pickle.load(open({packed!r}, 'rb')).unpack()"
    made = compiled(run(tmp_path / "driver", "-c", f"import pickle{COUNTING_READ}{pack}", log)[0])[1]
    out, errors = run(tmp_path / "executor", "-c", f"import pickle\n{unpack}{COUNTING_READ}", log)
    assert (compiled(out), errors) == ((made, 0), "")


def test_a_package_in_another_zip_finds_what_the_first_compiled(log: Path, tmp_path: Path) -> None:
    counts = []
    for name in ("first.zip", "second.zip"):  # Spark copies --py-files to another folder for each application
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for file in sorted((ROOT / "src" / "kafkalog").rglob("*")):
                if file.suffix in (".py", ".json"):
                    archive.write(file, file.relative_to(ROOT / "src"))
        out, _ = run(tmp_path / "cache", "-c", f"{COUNTING_READ}print(kafkalog.__file__)", log, PYTHONPATH=str(tmp_path / name))
        counted, place = out.splitlines()
        assert place.startswith(str(tmp_path / name))
        counts.append(compiled(counted))
    (_, made), again = counts
    assert made
    assert again == (made, 0)


def test_a_process_that_finds_a_function_locked_does_not_wait_to_unpack_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    monkeypatch.delenv(cache.NO_NOTICE)
    packed = cache.PackedKernels(cache.sources_name(), {"scan.survey": {"scan.survey.nbi": zlib.compress(b"")}})
    with (tmp_path / "scan.survey.lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        packed.unpack()
    assert not (tmp_path / "scan.survey.nbi").exists()
    assert capfd.readouterr().err == ""
    packed.unpack()
    assert (tmp_path / "scan.survey.nbi").exists()


def test_packed_kernels_of_other_sources_are_not_kept_and_those_that_are_there_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    content = {f"scan.survey-1.py311.{ending}": zlib.compress(ending.encode(), 1) for ending in ("1.nbc", "nbi")}
    cache.PackedKernels("kernels-of-another-release", {"scan.survey-1.py311": content}).unpack()
    assert list(tmp_path.iterdir()) == []
    ours = cache.PackedKernels(cache.sources_name(), {"scan.survey-1.py311": content})
    ours.unpack()
    assert (tmp_path / "scan.survey-1.py311.nbi").read_bytes() == b"nbi"
    assert cache.PackedKernels.here(["scan.survey-1.py311", "decode.expect-1.py311"]) == ours
    (tmp_path / "scan.survey-1.py311.1.nbc").write_bytes(b"compiled here")
    ours.unpack()
    assert (tmp_path / "scan.survey-1.py311.1.nbc").read_bytes() == b"compiled here"


def test_a_helper_that_python_cannot_call_says_so_and_does_not_crash() -> None:
    with pytest.raises(TypeError, match="only kernels can call"):
        crc.advance(crc.CRC32_TABLES, np.uint64(0), np.zeros(9, np.uint8), 0, 9)
