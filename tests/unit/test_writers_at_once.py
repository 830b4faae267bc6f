"""Two writers on one partition: the second is refused, or finds done what it was to do; nothing is written twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkalog.errors import StorageError
from kafkalog.storage.fs import LocalFs
from kafkalog.tasks.append import AppendOptions, AppendResult, Target, append, source_file

from .small_logs import made_batch, read_offsets, write_segment


class LateFs(LocalFs):
    """One whose user is slow: before it holds a folder for the first time, somebody else has done something there."""

    def __init__(self, before: Callable[[], object]) -> None:
        self.before: list[Callable[[], object]] = [before]

    @contextmanager
    def lock(self, folder: str) -> Iterator[None]:
        while self.before:
            self.before.pop()()
        with super().lock(folder):
            yield


@pytest.mark.parametrize("is_there", [True, False])
def test_an_append_that_another_one_overtakes_writes_nothing_twice(tmp_path: Path, is_there: bool) -> None:
    orders = tmp_path / "data" / "orders-0"
    if is_there:
        write_segment(orders, 0, made_batch(0))
    source = tmp_path / "records.jsonl"
    source.write_text("".join(json.dumps({"value": f"v{number}", "timestamp": number}) + "\n" for number in range(20)))

    def run(fs: LocalFs) -> AppendResult:
        return append([source_file(str(source))], Target.of(str(orders), None), AppendOptions(), fs)

    with pytest.raises(StorageError, match="another append" if is_there else "another process"):
        run(LateFs(lambda: run(LocalFs())))
    assert len(read_offsets(orders)) == (30 if is_there else 20)
    assert run(LocalFs()).state == "already there"
