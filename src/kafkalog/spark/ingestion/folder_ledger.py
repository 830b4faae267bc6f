"""The ledger of a target with folders of Parquet: one commit file for each run (`manifest`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..options import TopicPartition
from .ingest_options import IngestOptions
from .layout import SUPERSEDED, FolderLayout
from .ledger import Published, Staged, agreed
from .manifest import Commit, CommitLog, Progress, run_name, staging_folder
from .tables import Place, Tables
from .target import Target


class FolderLedger:
    """See `Ledger` for what its methods promise."""

    def __init__(self, target: Target, options: IngestOptions) -> None:
        self.log = CommitLog(target)
        self.before: Commit | None = self.log.latest()
        self.run = run_name(self.before)
        self.options = options if self.before is None else agreed(options, self.before.settings, target.name)
        self.tables = Tables(target, self.options)

    @property
    def is_first(self) -> bool:
        return self.before is None

    @property
    def progress(self) -> Mapping[TopicPartition, Progress]:
        return {} if self.before is None else self.before.progress

    @property
    def _number(self) -> int:
        return 1 if self.before is None else self.before.number + 1

    def settle(self) -> None:
        self.log.settle(self.before)

    def layout(self, topics: Collection[str], options: IngestOptions) -> FolderLayout:
        return FolderLayout(self.run, options.by)

    def places(self, topic: str, path: str, count: int) -> tuple[Place, Place]:
        name = f"{self._number:020}-{count:06}.parquet"
        folder, staged = path.rpartition("/")[0], f"{staging_folder(self.run)}/replaced"
        return (f"{folder}/kept-{name}", f"{staged}/kept-{name}"), (f"{SUPERSEDED}/{folder}/{name}", f"{staged}/{name}")

    def publish(self, staged: Staged) -> Published:
        self.log.publish(staged.commit(self._number, self.run, self.progress))
        return Published(self._number)

    def discard(self) -> None:
        self.log.discard(self.run)
