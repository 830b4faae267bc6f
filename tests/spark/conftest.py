"""One Spark session for all tests of a process, so one for each worker of pytest-xdist: it takes seconds to start."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require
from tests.spark.versions import has


def pytest_configure(config: pytest.Config) -> None:
    if not has("closed sockets"):
        config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    require("pyspark")
    from kafkalog.spark import session

    # Two cores, and only what a small test needs.
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.sql.pyspark.worker.logging.enabled": "true",
    }
    # The console of the JVM belongs to this process; the peer object store is reached with what the environment says.
    os.environ.setdefault("SPARK_LOCAL_DIRS", str(tmp_path_factory.mktemp("spark")))
    opened = session("local[2]", "kafkalog-tests", **conf)
    opened.sparkContext.setLogLevel("OFF")
    yield opened
    opened.stop()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where an ingest of the test writes its tables."""
    return tmp_path / "tables"


@pytest.fixture
def load(spark: Any) -> Callable[..., Any]:
    """load(path, schema=None, **options) is the DataFrame of the source."""

    def load(path: object, schema: str | None = None, **options: object) -> Any:
        reader = spark.read.format("kafkalog").options(**{name: str(value) for name, value in options.items()})
        return (reader.schema(schema) if schema else reader).load(str(path))

    return load
