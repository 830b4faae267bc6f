"""The work of `kafkalog transactions`: read, then rows as text, or JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import kafkalog
from kafkalog.log.report import ReadReport
from kafkalog.tasks.transactions import (
    STATES,
    read_transactions,
    transactional_ids,
)

from ..failure import warn
from ..render.escape import json_safe
from ..render.style import style_of
from ..render.summary import report_exit_code, summarise
from ..render.target import STDOUT, open_target
from ..render.transaction_page import TransactionPage


def show_transactions(
    path: str,
    topics: Sequence[str],
    partitions: Sequence[int],
    states: Sequence[str],
    now: int | None,
    bootstrap_server: str,
    as_json: bool,
    quiet: bool,
) -> int:
    """Write the transactions at the path; the exit code."""
    logs = kafkalog.open(path)
    report = ReadReport()
    found = list(read_transactions(logs.choose(list(topics) or None, list(partitions) or None), report))
    names = transactional_ids(logs)
    now_ms = int(time.time() * 1000) if now is None else now
    with open_target(STDOUT) as sink:
        if as_json:
            content = {"partitions": [each.as_dict(names, now_ms, states or STATES, bootstrap_server) for each in found]}
            text = "\n".join(map(json_safe, json.dumps(content, indent=2, ensure_ascii=False).split("\n")))
        else:
            page = TransactionPage(found, names, now_ms, states or STATES[:1], bootstrap_server, style_of(sink))
            text = "\n".join(page.lines())
        sink.write((text + "\n").encode())
    line = summarise(report)
    if line and not quiet:
        warn(line)
    return report_exit_code(report)
