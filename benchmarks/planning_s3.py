"""Plans of a real S3 server's bucket next to plans of a simulated one of the same files: the same splits, as many requests."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

from pyarrow import fs

from benchmarks.measure import RunFailed
from benchmarks.report import Section, Table
from kafkalog.spark.ingestion.ingest_options import IngestOptions
from kafkalog.spark.ingestion.ingest_plan import cut_tasks, plan_ingest
from kafkalog.spark.ingestion.tables import Tables
from kafkalog.spark.ingestion.target import open_target
from kafkalog.spark.options import parse_options
from kafkalog.spark.read_plan import plan_splits
from kafkalog.spark.splits import Split
from tests.builders.lake_store import BUCKET, FILES_OF_SEGMENT, LakeStore, mounted
from tests.s3_server import S3Server

SEGMENTS_OF_PARTITION = 100
NAME = "lake"


class CountedRequests:
    """Passes requests on to the server and counts them by method."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.application = application
        self.lines: list[str] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.lines.append(f"{environ['REQUEST_METHOD']} {environ['PATH_INFO']}?{environ.get('QUERY_STRING', '')}")
        return self.application(environ, start_response)


def bucket_section(objects: int) -> Section:
    partitions = max(objects // (FILES_OF_SEGMENT * SEGMENTS_OF_PARTITION), 1)
    store = LakeStore(partitions, SEGMENTS_OF_PARTITION, segment_batches=1)
    server = S3Server()
    try:
        counted = CountedRequests(server.server.app)
        server.server.app = counted
        _fill(server, store)
        return _section(store, counted)
    finally:
        server.stop()


def _fill(server: S3Server, store: LakeStore) -> None:
    """Put all files of the lake where the server keeps its objects: 20,000 uploads would take minutes."""
    import boto3
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    os.environ |= {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ENDPOINT_URL": server.endpoint,
    }
    boto3.client("s3", endpoint_url=server.endpoint, region_name="us-east-1").create_bucket(Bucket=NAME)
    backend = s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    for key, content in store.objects():
        backend.put_object(NAME, key, content)


def _section(store: LakeStore, counted: CountedRequests) -> Section:
    objects = sum(1 for _ in store.objects())
    rows = []
    with tempfile.TemporaryDirectory() as target:
        for what, work in _works(target).items():
            counted.lines.clear()
            begin = time.perf_counter()
            real = work()
            seconds, lines = time.perf_counter() - begin, [*counted.lines]
            store.requests.clear()
            with mounted(store):
                simulated = work()
            expected = store.requests.total()
            if _shape(real) != _shape(simulated) or len(lines) < expected:
                raise RunFailed(f"{what}: {len(real)} splits by {len(lines)} requests, simulated {len(simulated)} by {expected}")
            rows.append([what, f"{len(lines):,}", f"{expected:,}", f"{len(real):,}", f"{seconds:.1f}"])
    counted.lines.clear()
    fs.FileSystem.from_uri(f"s3://{NAME}")[0].get_file_info(fs.FileSelector(NAME, recursive=True))
    text = (
        f"{objects:,} objects in {store.partitions} partitions, planned through Arrow from an S3 server (moto, in the same "
        "process: the seconds are mostly its own) and simulated. The splits are the same; the server sees a few requests more, "
        "to find out what the path is, and some again if it was slow to answer. One flat listing of the bucket is "
        f"{len(counted.lines)} requests, but a page names the next one, so they wait for each other; listings by folder do not."
    )
    heading = ("plan", "requests to the server", "simulated", "splits", "seconds")
    return Section("A bucket on a real S3 server", text, [Table(heading, rows)])


def _works(target: str) -> dict[str, Callable[[], list[Split]]]:
    options = IngestOptions((BUCKET,), target)
    source = options.source_options()
    tables = Tables(open_target(target), options)
    before: dict[Any, Any] = {}

    def ingest() -> list[Split]:
        plan = plan_ingest(source, before, tables)
        return cut_tasks(plan.partitions, source, 2, None) if plan.partitions else []

    def first() -> list[Split]:
        before.clear()
        return ingest()

    def nothing_new() -> list[Split]:
        before.update(
            {
                each.key: each.progress(each.end.next_offset - 1, each.end.cursor)
                for each in plan_ingest(source, {}, tables).partitions
            }
        )
        return ingest()

    return {
        "Spark read": lambda: plan_splits(parse_options({"path": BUCKET}), 2),
        "first ingest": first,
        "first ingest, then one with nothing new": nothing_new,
    }


def _shape(splits: list[Split]) -> list[list[tuple[str, int, int]]]:
    return [[(piece.path, piece.start, piece.stop) for part in split.parts for piece in part.slices] for split in splits]
