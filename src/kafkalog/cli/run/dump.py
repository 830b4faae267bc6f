"""The work of `kafkalog dump`: options to the task, its text to standard output."""

from __future__ import annotations

import sys

from kafkalog.errors import KafkaLogError
from kafkalog.tasks.dump import Dump, DumpOptions
from kafkalog.tasks.dump.contents import DECODERS, STRING_DECODER, class_contents
from kafkalog.tasks.dump.options import MAX_BYTES, Contents

from ..commands.dump import DumpRequest
from ..failure import CLEAN, report_failure
from ..render.escape import printable_lines
from ..render.target import STDOUT, Sink, open_target


def write_dump(request: DumpRequest) -> int:
    """Write the dump that the command line asks for; the exit code."""
    contents, is_decoded = _contents(request)
    options = DumpOptions(
        print_data_log=request.print_data_log or is_decoded,
        deep_iteration=request.deep_iteration,
        skip_record_metadata=request.skip_record_metadata,
        verify_index_only=request.verify_index_only,
        index_sanity_check=request.index_sanity_check,
        max_message_size=request.max_message_size,
        max_bytes=MAX_BYTES if request.max_bytes is None else min(request.max_bytes, MAX_BYTES),
        contents=contents,
        style=request.style,
    )
    dump = Dump(request.files, options)
    try:
        with open_target(STDOUT) as sink:
            _write(dump, sink)
    except KafkaLogError as error:
        return report_failure(error, on_damage=None)
    for line in dump.findings.lines():
        _complain(line)
    return CLEAN


def _contents(request: DumpRequest) -> tuple[Contents | None, bool]:
    """(decoder of keys and values, None for plain text; whether one was asked for)."""
    if request.decoder is not None:
        return DECODERS[request.decoder], True
    classes = request.key_decoder_class, request.value_decoder_class
    if set(classes) <= {None, STRING_DECODER}:
        return None, any(classes)
    key_class, value_class = (name or STRING_DECODER for name in classes)
    return class_contents(key_class, value_class), True


def _write(dump: Dump, sink: Sink) -> None:
    on_terminal = sink.isatty()
    for chunk in dump.chunks():
        sink.write(printable_lines(bytes(chunk).decode()).encode() if on_terminal else chunk)
        _report_warnings(dump)
    _report_warnings(dump)


def _report_warnings(dump: Dump) -> None:
    while dump.warnings:
        _complain(dump.warnings.pop(0))


def _complain(line: str) -> None:
    """On standard error as the tool writes it, without our name before it."""
    if sys.stderr is not None:
        sys.stderr.write(printable_lines(line) + "\n")
