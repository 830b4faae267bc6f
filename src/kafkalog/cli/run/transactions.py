"""The work of `kafkalog transactions`: read, then rows as text, or JSON."""

from __future__ import annotations

import time

import kafkalog
from kafkalog.tasks.transactions import STATES

from ..commands.transactions import TransactionsRequest
from ..render.escape import json_page
from ..render.layout import style_of
from ..render.summary import finish_read
from ..render.target import STDOUT, open_target
from ..render.transaction_page import TransactionPage


def show_transactions(request: TransactionsRequest) -> int:
    """Write the transactions at the path; the exit code."""
    logs = kafkalog.open(request.paths, topic_ids=request.topic_ids)
    found = kafkalog.transactions(logs, topics=request.topics, partitions=request.partitions)
    now_ms = int(time.time() * 1000) if request.now is None else request.now
    server, names = request.bootstrap_server, found.transactional_ids
    with open_target(STDOUT) as sink:
        if request.as_json:
            content = {"partitions": [each.as_dict(names, now_ms, request.states or STATES, server) for each in found]}
            text = json_page(content)
        else:
            page = TransactionPage(found.partitions, names, now_ms, request.states or STATES[:1], server, style_of(sink))
            text = "\n".join(page.lines())
        sink.write((text + "\n").encode())
    return finish_read(found.report, quiet=request.quiet)
