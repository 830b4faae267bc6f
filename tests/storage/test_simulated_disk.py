"""Files that change in place on the simulated disk, after a power cut."""

from __future__ import annotations

import pytest

from tests.builders.simulated_disk import SimulatedFs

PATH = "/data/file"


def found(fs: SimulatedFs) -> set[bytes]:
    return {image[PATH] for image in fs.images()}


def test_synced_bytes_are_found_and_others_may_be_lost_zero_or_torn() -> None:
    fs = SimulatedFs({PATH: b""})
    file = fs.open(PATH)
    file.write(0, b"durable")
    file.sync()
    assert found(fs) == {b"durable"}
    file.write(7, b"x" * 2000)
    assert found(fs) == {b"durable" + b"x" * 2000, b"durable", b"durable" + bytes(2000), b"durable" + b"x" * 513}


def test_bytes_written_over_others_may_be_there_in_part() -> None:
    fs = SimulatedFs({PATH: b"a" * 2000})
    fs.open(PATH).write(0, b"b" * 2000)
    assert found(fs) == {b"b" * 2000, b"a" * 2000, b"b" * 513 + b"a" * 1487}


def test_a_file_that_was_cut_may_be_found_whole() -> None:
    fs = SimulatedFs({PATH: b"abcdef"})
    file = fs.open(PATH)
    file.truncate(2)
    assert (file.size, file.read(0, 10)) == (2, b"ab")
    assert found(fs) == {b"ab", b"abcdef"}
    file.truncate(4)
    file.sync()
    assert found(fs) == {b"ab\0\0"}


def test_a_file_is_made_only_if_that_was_asked_for() -> None:
    fs = SimulatedFs({PATH: b""})
    with pytest.raises(FileNotFoundError):
        fs.open("/data/other")
    fs.open("/data/other", create=True).write(3, b"x")
    assert fs.files()["/data/other"] == b"\0\0\0x"
    assert fs.size("/data/other") == 4


def test_every_nth_image_is_one_of_all() -> None:
    fs = SimulatedFs({PATH: b""})
    for name in "abc":
        fs.open(f"/data/{name}", create=True).write(0, name.encode())
    every = [frozenset(image.items()) for image in fs.images()]
    some = [frozenset(image.items()) for image in fs.images(every=5, first=2)]
    assert some == every[2::5]
