"""Fixtures of every test: tools that may be missing, and the golden log directories, unpacked once per session."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from kafkalog.kernels.cache import NO_NOTICE
from tests.golden import sets

REQUIRE_ALL = "KAFKALOG_REQUIRE_ALL"
NOBODY = 65534  # the unprivileged user that tests run as

# A shell that runs the suite in the background makes it ignore interrupts, and every command under test would do the same.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Which test compiles a kernel is chance; what commands write to standard error must not depend on it.
os.environ.setdefault(NO_NOTICE, "1")

# A machine may be slow, or compile a kernel in the middle of an example.
settings.register_profile("kafkalog", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kafkalog")


def unavailable(reason: str) -> None:
    """Skip the calling test with `reason`; fail it where the run asked for everything (KAFKALOG_REQUIRE_ALL=1)."""
    if os.environ.get(REQUIRE_ALL, "0") not in ("", "0"):
        pytest.fail(f"{reason} ({REQUIRE_ALL} is set, so this is no skip)", pytrace=False)
    pytest.skip(reason)


def require(*names: str) -> None:
    """Continue only if every name is a command on the PATH or an importable module."""
    missing = [name for name in names if shutil.which(name) is None and importlib.util.find_spec(name) is None]
    if missing:
        unavailable(f"not installed here: {', '.join(missing)}")


def require_root() -> None:
    """Continue only as root: the test gives files to another user, or runs as one."""
    if os.geteuid() != 0:
        unavailable("not root, so that nothing can be done as another user")


@pytest.fixture(scope="session")
def golden_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this session's golden sets are unpacked; the workers of pytest-xdist share one folder."""
    base = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        base = base.parent
    return base / "golden"


@pytest.fixture(scope="session")
def golden(golden_folder: Path) -> Callable[[str], Path]:
    """golden(era) is the folder that holds `<era>/` and `<era>-expected/`."""
    return lambda era: sets.unpack(era, golden_folder)
