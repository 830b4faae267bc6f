"""`python -m kafkalog` is the command line."""

from __future__ import annotations

import sys

from kafkalog.cli.entry import run

if __name__ == "__main__":
    sys.exit(run())
