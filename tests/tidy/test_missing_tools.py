"""A tool that is missing skips a test with its reason, and fails it where everything was asked for."""

from __future__ import annotations

import pytest

from tests.conftest import REQUIRE_ALL, require

NOWHERE = "a-command-that-nobody-has"


def test_a_missing_tool_skips_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(REQUIRE_ALL, raising=False)
    with pytest.raises(pytest.skip.Exception, match=NOWHERE):
        require("python3", NOWHERE)


def test_a_missing_tool_fails_where_everything_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRE_ALL, "1")
    with pytest.raises(pytest.fail.Exception, match=NOWHERE):
        require(NOWHERE)


def test_commands_and_modules_that_are_there_pass() -> None:
    require("sh", "pytest")
