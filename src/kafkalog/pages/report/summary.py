"""The head of the report: how much there is, and what to look at first, each with the command to type next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from kafkalog.errors import ERROR, INFO, WARNING
from kafkalog.format.markup import Child, Markup, element
from kafkalog.format.quantities import plural, size_text
from kafkalog.pages.tables import code
from kafkalog.tasks.overview.result import Overview
from kafkalog.tasks.transactions import abort_command
from kafkalog.tasks.verdict import Verdict

from .section import DAY, MINUTE, Section, command, damaged_topics, middle_cut, time_text, topic_command

NAMED = 3
NAME_LENGTH = 40
WORTH_SAVING = 0.1  # of the bytes


@dataclass(frozen=True)
class Hint:
    """Something to look at: how grave, what it is, and commands to type next."""

    severity: str
    text: str
    commands: tuple[str, ...] = ()


def section(overview: Overview) -> Section:
    return Section("summary", "Summary", element("div", _cards(overview), _verdicts(overview), _hints(overview)))


def _cards(overview: Overview) -> Markup:
    profile, total = overview.profile, overview.profile.total
    first = min((found.first_timestamp_ms for found in overview.partitions if found.first_timestamp_ms >= 0), default=-1)
    last = max((found.last_timestamp_ms for found in overview.partitions), default=-1)
    ratio = "not measured" if total.ratio is None else f"{total.ratio:.2f} : 1"
    cards: list[tuple[str, Child, str]] = [
        ("On the disk", size_text(profile.disk.disk_bytes), f"{size_text(profile.disk.log_disk_bytes)} of it segments"),
        ("Topics", f"{len(overview.topics):,}", plural(len(overview.partitions), "partition")),
        ("Segments", f"{overview.segment_count:,}", size_text(overview.size)),
        ("Records", f"{total.records:,}", f"in {total.batches:,} batches"),
        ("From", time_text(first, DAY), f"to {time_text(last, DAY)}"),
        ("Compression", ratio, ", ".join(profile.codecs) or "no batches"),
        ("Findings", *_found(overview)),
    ]
    return element("ul", [_card(*card) for card in cards], class_="cards")


def _card(name: str, value: Child, detail: str) -> Markup:
    value = element("span", value, class_="value")
    return element("li", element("span", name, class_="name"), value, element("span", detail, class_="detail"))


def _found(overview: Overview) -> tuple[str, str]:
    if overview.checked is None:
        return "–", "not checked"
    counts = Counter(finding.severity for finding in overview.checked)
    several = {ERROR: "errors", WARNING: "warnings", INFO: INFO}
    named = [plural(counts[severity], severity, noun) for severity, noun in several.items() if counts[severity]]
    return f"{len(overview.checked):,}", ", ".join(named) or "nothing is wrong"


def _verdicts(overview: Overview) -> Child:
    """What a broker will do that starts here, and the commands to type first."""
    if not overview.verdicts:
        return None
    several = len(overview.verdicts) > 1
    items = [element("li", _verdict(found, several=several), class_=f"hint {_severity(found)}") for found in overview.verdicts]
    return element("div", element("h3", "When a broker starts here"), element("ul", items, class_="hints"))


def _severity(found: Verdict) -> str:
    is_unknown = found.starts is None and not found.is_running
    return ERROR if found.starts is False or is_unknown else WARNING if found.is_running or found.partitions else INFO


def _verdict(found: Verdict, *, several: bool) -> list[Child]:
    where = element("strong", f"{found.path}: ") if several else None
    steps = [element("div", f"{step.why[:1].upper()}{step.why[1:]}: ", code(step.command)) for step in found.next_steps]
    return [where, f"{found.text[:1].upper()}{found.text[1:]}.", *steps]


def _hints(overview: Overview) -> Markup:
    found = list(hints(overview))
    if not found:
        return element("p", "Nothing here calls for attention.", class_="calm")
    items = [element("li", _hint(hint), class_=f"hint {hint.severity}") for hint in found]
    return element("div", element("h3", "What to look at first"), element("ul", items, class_="hints"))


def _hint(hint: Hint) -> list[Child]:
    words = element("span", hint.severity, class_=f"severity {hint.severity}")
    return [words, " ", hint.text, *(element("div", code(line)) for line in hint.commands)]


def hints(overview: Overview) -> Iterator[Hint]:
    """What calls for attention, the gravest first."""
    yield from _unread(overview)
    yield from _findings(overview)
    yield from _open_transactions(overview)
    yield from _old_formats(overview)
    yield from _pinned(overview)
    yield from _deleted(overview)
    yield from _savings(overview)


def _unread(overview: Overview) -> Iterator[Hint]:
    report = overview.profile.report
    if report.unread:
        yield Hint(ERROR, f"{plural(len(report.unread), 'file')} could not be read: {report.unread[0]}")
    if overview.checked is None and report.dropped:
        yield Hint(ERROR, f"{plural(len(report.dropped), 'damaged range')} of {size_text(report.dropped_bytes)} left out")


def _findings(overview: Overview) -> Iterator[Hint]:
    for severity in (ERROR, WARNING):
        found = overview.checked.of(severity) if overview.checked is not None else []
        if found:
            kinds = [f"{reason} ({count})" for reason, count in Counter(each.reason for each in found).most_common(NAMED)]
            places = len({(each.topic, each.partition) for each in found})
            text = f"{plural(len(found), severity)} in {plural(places, 'partition')}: {', '.join(kinds)}."
            has_steps = any(verdict.next_steps for verdict in overview.verdicts)
            text += (
                " What to type is above, and with each finding below."
                if has_steps
                else " What to type is with each finding below."
            )
            yield Hint(severity, text)


def _open_transactions(overview: Overview) -> Iterator[Hint]:
    stuck = [axis for axis in overview.transactions if axis.counts["open"]]
    if stuck:
        count = sum(axis.counts["open"] for axis in stuck)
        held = sum(max(axis.end_offset - axis.last_stable_offset, 0) for axis in stuck)
        text = (
            f"{plural(count, 'transaction')} open in {plural(len(stuck), 'partition')}: consumers that read committed records "
            f"wait before {held:,} offsets. Stuck, if the producer is gone; to abort one on a running cluster:"
        )
        first = stuck[0]
        yield Hint(WARNING, text, (abort_command(first.topic, first.partition, first.open[0], "localhost:9092"),))


def _old_formats(overview: Overview) -> Iterator[Hint]:
    old = [topic for topic, formats in overview.formats.items() if {0, 1} & set(formats)]
    if old:
        named = ", ".join(old[:NAMED]) + (f" and {len(old) - NAMED} more" if len(old) > NAMED else "")
        text = f"{plural(len(old), 'topic')} in the formats v0 or v1, which Kafka 4 no longer writes: {named}. To convert:"
        yield Hint(WARNING, text, tuple(topic_command("convert", overview, each, "--out", "converted") for each in old[:NAMED]))


def _pinned(overview: Overview) -> Iterator[Hint]:
    pinned = overview.profile.pinned
    if pinned:
        text = (
            f"{plural(len(pinned), 'segment')} with timestamps in the future hold {size_text(overview.profile.pinned_bytes)} "
            f"that retention by time cannot delete; the longest until {time_text(pinned[0].held_until_ms, MINUTE)}."
        )
        yield Hint(WARNING, text)


def _deleted(overview: Overview) -> Iterator[Hint]:
    gone = [found for found in overview.deleted if found.state == "delete"]
    if gone:
        text = f"{plural(len(gone), 'deleted partition')} still on the disk, {size_text(sum(each.bytes for each in gone))}:"
        yield Hint(INFO, text, tuple(command("kafkalog", "undelete", path) for path in overview.paths))


def _savings(overview: Overview) -> Iterator[Hint]:
    profile = overview.profile
    total = profile.total.bytes
    if profile.zstd.bytes is not None and total and profile.zstd.bytes.value > WORTH_SAVING * total:
        text = f"zstd would save about {size_text(profile.zstd.bytes.value)} of {size_text(total)}"
        saved = {topic: found.bytes.value for topic, found in profile.zstd_by_topic.items() if found.bytes is not None}
        yield _for_largest(text, saved, "convert", overview, "--codec", "zstd", "--out", "smaller")
    compaction = profile.compaction
    if compaction is not None and total and compaction.duplicate_bytes.value > WORTH_SAVING * total:
        duplicates = size_text(compaction.duplicate_bytes.value)
        text = (
            f"About {duplicates} are records with a later one of the same key. Compaction drops these, and is for topics with "
            "cleanup.policy=compact only: of a topic of events it keeps the last one of each key, and deletes those without a key"
        )
        topics = profile.compaction_by_topic
        dropped = {topic: found.duplicate_bytes.value for topic, found in topics.items() if not found.unkeyed_records}
        yield _for_largest(text, dropped, "compact", overview, "--out", "compacted")


def _for_largest(text: str, saved: dict[str, int], verb: str, overview: Overview, *options: str) -> Hint:
    """A hint with the command for the topic that saves most, and how much. Kafka's own topics are the broker's business, and
    of a damaged one the command would end at the damage."""
    damaged = damaged_topics(overview)
    own = {topic: size for topic, size in saved.items() if size > 0 and not topic.startswith("__") and topic not in damaged}
    if not own:
        return Hint(INFO, f"{text}.")
    largest = max(own, key=own.__getitem__)
    without = " (damaged topics are to be salvaged first)" if damaged & saved.keys() else ""
    text = f"{text}. In {middle_cut(largest, NAME_LENGTH)} about {size_text(own[largest])}{without}:"
    return Hint(INFO, text, (topic_command(verb, overview, largest, *options),))
