"""The work of `kafkalog ls`: the listing as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from kafkalog.log.folders import require_topics
from kafkalog.tasks.listing import DirectoryScan, Listing

from ..failure import CLEAN, DAMAGE, INPUT_OUTPUT, warn
from ..render.layout import style_of
from ..render.listing_page import ListingPage
from ..render.progress import ReadProgress
from ..render.target import STDOUT, Sink, open_target


def show_listing(
    paths: Sequence[str], by: str, topics: list[str] | None, *, deep: bool, formats: bool, as_json: bool, quiet: bool
) -> int:
    """Write what is at the path; the exit code."""
    # Headers show which format each entry has; only the ratio needs all bytes.
    listing = _look(paths, topics, deep=deep or formats, ratio=deep or not formats, quiet=quiet)
    with open_target(STDOUT) as sink:
        if as_json:
            sink.write((json.dumps(listing.as_dict(), indent=2) + "\n").encode())
        else:
            page = ListingPage(listing, style_of(sink), by=by, deep=deep, formats=formats, fit=sink.isatty())
            sink.write("".join(line + "\n" for line in page.lines()).encode())
            if page.left_out and not quiet:
                warn(f"no room on this terminal for {', '.join(page.left_out)}; --json has everything")
    if any(found.unreadable for found in listing.partitions):
        return INPUT_OUTPUT
    return DAMAGE if any(found.problems for found in listing.partitions) else CLEAN


def _look(paths: Sequence[str], topics: list[str] | None, *, deep: bool, ratio: bool, quiet: bool) -> Listing:
    directory = DirectoryScan(paths)
    require_topics(directory.partitions, directory.path, topics)
    if topics:
        directory.only(topics)
    listings = []
    wanted = deep and not quiet and not Sink(1, STDOUT).isatty()
    with ReadProgress(sum(found.size for found in directory.partitions), wanted=wanted) as progress:
        for listing in directory.listings(deep=deep, ratio=ratio):
            listings.append(listing)
            progress.advance(listing.size)
    return Listing(directory.path, tuple(listings), *directory.other_names())
