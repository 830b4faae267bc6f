"""Every recipe does what it says: its commands and programs run as written and print what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import require
from tools.recipes import DOCS, Command, Failed, Reader, blocks, pages, read_commands, renew, renewed, same

CALLED_FOR = {
    "bucket",
    "bytes",
    "full-disk",
    "groups",
    "lake",
    "old-formats",
    "parquet",
    "power-cut",
    "put-back",
    "transaction",
    "undelete",
    "which-replica",
}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_shows(page: Path) -> None:
    require("bash", "moto", "duckdb")
    shown, found = renew(page)
    if not same(shown, found):
        assert shown == found, "run python -m tools.recipes"


def test_every_recipe_has_commands_and_is_in_the_list_of_recipes() -> None:
    recipes = {page.stem for page in pages() if page.parent.name == "recipes"}
    listed = (DOCS / "recipes" / "index.md").read_text(encoding="utf-8")
    assert recipes >= CALLED_FOR
    assert [name for name in recipes if f"({name}.md)" not in listed] == []
    for page in pages():
        kinds = [block.kind for block in blocks(page.read_text(encoding="utf-8"))]
        assert "console" in kinds, page.name


def page_of(*lines: str) -> str:
    return "\n".join(["# A page", "", *lines, ""])


PAGE = """\
```console
$ echo one \\
    two
old
```

```python
print(7)
```

```text
```

The end
"""


def test_a_page_is_renewed_and_prose_stays(tmp_path: Path) -> None:
    found = renewed(PAGE, Reader(tmp_path))
    assert found == PAGE.replace("old\n", "one two\n").replace("```text\n", "```text\n7\n")
    assert not same(PAGE, found)
    assert renewed(found, Reader(tmp_path)) == found


def test_commands_share_a_folder_whose_name_is_not_shown(tmp_path: Path) -> None:
    page = page_of("```console", "$ echo text > file", "$ echo $PWD/file", "$ false", "$ echo $?", "$ cat file", "```")
    shown = renewed(page, Reader(tmp_path))
    assert "$ echo $PWD/file\nfile\n$ false\n$ echo $?\n1\n$ cat file\ntext\n" in shown


def test_an_option_that_is_gone_fails_the_page(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="No such option"):
        renewed(page_of("```console", "$ kafkalog ls . --no-such-option", "```"), Reader(tmp_path))
    renewed(page_of("```console", "$ kafkalog ls . --no-such-option", "$ echo $?", "```"), Reader(tmp_path))


def test_what_a_program_prints_has_to_be_on_the_page(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="does not show"):
        renewed(page_of("```python", "print(7)", "```"), Reader(tmp_path))


def test_ages_speeds_and_sizes_of_what_others_write_may_differ_and_nothing_else_may() -> None:
    assert same("open   2 h 4 min  yes\n", "open  320 d 6 h  yes\n")
    assert same("0.3 s: 21,623 records/s, 1 MB/s of log\n", "12.1 s: 9 records/s, 0 MB/s of log\n")
    assert same("wrote 3600 rows, 71.2 KiB, to orders.parquet\n", "wrote 3600 rows, 9 KiB, to orders.parquet\n")
    assert same("log into 4 files of 125,693 bytes\n", "log into 4 files of 125,694 bytes\n")
    assert not same("6,450 records in 0.3 s\n", "6,449 records in 0.3 s\n")
    assert not same("a  b\n", "a b c\n")


def test_commands_of_a_block_are_separated_from_their_output() -> None:
    assert read_commands("$ a\n1\n2\n$ b\n") == [Command("a", "1\n2\n"), Command("b", "")]
    assert Command("kafkalog ls disk", "").arguments == ["ls", "disk"]
    assert Command("kafkalog ls disk | head", "").arguments is None
