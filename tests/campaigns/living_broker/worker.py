"""`python -m tests.campaigns.living_broker.worker`: does what the campaign asks over a pipe, and may be killed at any moment.

ingest   SOURCE TARGET CHOICES   one run on threads; the summary, or the error
verify   PATH                    the findings that are no mere notes
open     NAME OPTIONS            a stream, from its start or restart on
latest   NAME START              the end of its next micro-batch
rows     NAME START END          the rows of a micro-batch
spark                            start a Spark of this process; ingests then run on it
query    OPTIONS SINK CHECKPOINT start a streaming query into Parquet files, if it is not running; why the last one ended
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import IO, Any

from tests.campaigns.ingest_kills import session_members
from tests.interop.live.broker import ROOT

START_SECONDS = 120
ANSWER_SECONDS = 180
Row = tuple[str, int, int, bytes | None, bytes | None]


class Killed(Exception):
    """The worker was killed before it answered."""


class Failed(Exception):
    """A request ended with an error; the arguments are its text and the warnings before it."""


class Worker:
    """A process that does one thing at a time."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.started = 0
        self.seconds = 0.3  # about how long things take
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, *request: Any, kill: bool = False) -> tuple[Any, list[str]]:
        """The answer and the warnings on the way. With `kill` the process is killed at a random moment of its work."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        begin = time.monotonic()
        pickle.dump(request, process.stdin)
        process.stdin.flush()
        if kill:
            time.sleep(self.random.uniform(0, self.seconds * 1.2))
            self.kill()
            raise Killed
        answer = self._answer(process.stdout, request)
        self.seconds = 0.8 * self.seconds + 0.2 * (time.monotonic() - begin)
        kind, content, warnings = answer
        if kind == "error":
            raise Failed(content, warnings)
        return content, warnings

    def _answer(self, stream: IO[bytes], request: Any) -> Any:
        if not select.select([stream], [], [], ANSWER_SECONDS)[0]:
            self.kill()
            raise Failed(f"no answer within {ANSWER_SECONDS} seconds: {request!r}", [])
        try:
            return pickle.load(stream)
        except EOFError:
            self.kill()
            raise Failed(f"the process died: {request!r}", []) from None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-m", "tests.campaigns.living_broker.worker"]
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self.started += 1
            assert self._process.stdout is not None
            assert pickle.load(self._process.stdout) == "ready"
        return self._process

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        for member in session_members(process.pid):  # Spark's JVM and workers too
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


# -- in the process ------------------------------------------------------------------------------------------------------------


class Warnings(logging.Handler):
    """Keeps the warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


class Streams:
    """The streams of a worker, each as Spark keeps a reader on its driver."""

    def __init__(self) -> None:
        self.readers: dict[str, Any] = {}

    def open(self, name: str, options: dict[str, str]) -> Any:
        from kafkalog.spark.source import KafkaLogDataSource

        source = KafkaLogDataSource(dict(options))
        self.readers[name] = source.streamReader(source.schema())
        return self.readers[name].initialOffset()

    def latest(self, name: str, start: Any) -> Any:
        from kafkalog.spark.offered import ReadAllAvailable

        return self.readers[name].latestOffset(start, ReadAllAvailable())

    def rows(self, name: str, start: Any, end: Any) -> list[Row]:
        reader = self.readers[name]
        found: list[Row] = []
        for part in reader.partitions(start, end):
            for batch in reader.read(part):
                columns = [batch.column(each).to_pylist() for each in ("topic", "partition", "offset", "key", "value")]
                found += zip(*columns, strict=True)
        reader.commit(end)
        return found


class Sparks:
    """A Spark of this process, with one query that runs until it fails."""

    def __init__(self) -> None:
        self.session: Any = None
        self.running: Any = None

    def start(self) -> None:
        from kafkalog.spark import session

        quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "2"}
        self.session = session("local[2]", "living", **quiet)
        self.session.sparkContext.setLogLevel("OFF")

    def query(self, options: dict[str, str], sink: str, checkpoint: str) -> str:
        """Why the query is not running any more, empty at its first start and while it runs; it is started again."""
        if self.running is not None and self.running.isActive:
            return ""
        problem = "" if self.running is None else str(self.running.exception())
        frame = self.session.readStream.format("kafkalog").options(**options).load()
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        self.running = writer.trigger(processingTime="500 milliseconds").start(sink)
        return problem

    def ingest(self, source: str, target: str, choices: dict[str, Any]) -> int:
        """How many records were taken."""
        from kafkalog.spark import ingest

        place = {"master": "none[2]"} if self.session is None else {"spark": self.session}
        return ingest(source, target, **place, **choices).records


def verify(path: str) -> list[tuple[str, str, str]]:
    import kafkalog

    found = kafkalog.verify(path, threads=1).at_least("warning")
    return [(each.severity, each.reason, f"{each.topic}-{each.partition} {each}") for each in found]


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # so that no print comes between answers
    warnings = Warnings()
    logging.getLogger("kafkalog").addHandler(warnings)
    streams, sparks = Streams(), Sparks()
    commands: dict[str, Callable[..., Any]] = {
        "ingest": sparks.ingest,
        "verify": verify,
        "open": streams.open,
        "latest": streams.latest,
        "rows": streams.rows,
        "spark": sparks.start,
        "query": sparks.query,
    }
    pickle.dump("ready", answers)
    answers.flush()
    while True:
        try:
            name, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        warnings.texts = []
        try:
            answer = ("ok", commands[name](*arguments), warnings.texts)
        except Exception as error:
            answer = ("error", f"{type(error).__name__}: {error}", warnings.texts)
        pickle.dump(answer, answers)
        answers.flush()


if __name__ == "__main__":
    main()
