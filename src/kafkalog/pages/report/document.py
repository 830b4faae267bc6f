"""The frame of the page: a head whose policy lets nothing load and nothing of the data run, navigation, sections."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files

from kafkalog.format.markup import Markup, element, joined
from kafkalog.tasks.overview.result import Overview

from .section import SECOND, Section, time_text


@cache
def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _version() -> str:
    try:
        return f" {version('kafkalog')}"
    except PackageNotFoundError:  # a copy that is on the path without being installed
        return ""


def _hash_of(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def policy() -> str:
    """Only this style and this script, by their hashes: no request leaves the page, whatever a name in it looks like."""
    style, script = _hash_of(_resource("report.css")), _hash_of(_resource("report.js"))
    return f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"


def document(overview: Overview, sections: Sequence[Section]) -> str:
    """The whole page."""
    places = ", ".join(overview.paths)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy()),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", f"kafkalog report: {places}"),
        element("style", Markup(_resource("report.css"))),
    )
    body = element(
        "body",
        element("a", "Skip to the content", href="#content", class_="skip"),
        _header(overview, places),
        _navigation(sections),
        element("main", [_section(section) for section in sections], id="content"),
        element("footer", element("p", f"Made by kafkalog{_version()}. This file needs no network and sends nothing.")),
        element("div", id="tip", hidden=True, aria_hidden="true"),
        element("script", Markup(_resource("report.js"))),
    )
    return "<!DOCTYPE html>\n" + element("html", head, body, lang="en") + "\n"


def _header(overview: Overview, places: str) -> Markup:
    made = f"as of {time_text(overview.profile.now_ms, SECOND)} UTC"
    return element("header", element("h1", "kafkalog report"), element("p", element("strong", places), " ", made))


def _navigation(sections: Sequence[Section]) -> Markup:
    links = [element("li", element("a", section.short or section.title, href=f"#{section.identifier}")) for section in sections]
    return element("nav", element("ul", links), aria_label="Sections")


def _section(section: Section) -> Markup:
    name = f"{section.identifier}-title"
    title = element("h2", section.title, id=name)
    return element("section", joined(title, section.body), id=section.identifier, aria_labelledby=name)
