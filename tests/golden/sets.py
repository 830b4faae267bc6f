"""The golden sets as archives: `data/<era>.tar.xz` holds `<era>/` and `<era>-expected/`, `data/set.tar.xz` what covers all eras.

python -m tests.golden.sets pack FOLDER       make the archives from a folder of log directories written by real brokers
python -m tests.golden.sets unpack FOLDER     the other way round
"""

from __future__ import annotations

import lzma
import os
import sys
import tarfile
import tempfile
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
WHOLE_SET = "set"
EXPECTED_SUFFIX = "-expected"


def eras() -> list[str]:
    """The names of the packed log directories, oldest release first."""
    return sorted((path.name.removesuffix(".tar.xz") for path in DATA.glob("[0-9]*.tar.xz")), key=_release)


def _release(era: str) -> tuple[list[int], str]:
    release, _, state = era.partition("-")
    return [int(part) for part in release.split(".")], state


def unpack(name: str, folder: Path, data: Path = DATA) -> Path:
    """`folder`, which then holds what the archive of one era holds; safe against others who do the same."""
    marker = folder / f".{name}.unpacked"
    if marker.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unpack-") as scratch:
        with tarfile.open(data / f"{name}.tar.xz") as archive:
            archive.extractall(scratch, filter="data")
        for part in sorted(os.listdir(scratch)):
            _rename_once(Path(scratch, part), folder / part)
    marker.touch()
    return folder


def _rename_once(source: Path, target: Path) -> None:
    """Move `source` into place unless another process was faster: a rename never shows a half-written tree."""
    try:
        source.rename(target)
    except OSError:
        if not target.exists():
            raise


def pack(folder: Path) -> list[Path]:
    """The archives made from `folder`: the same bytes for the same content, whoever packs it and when."""
    DATA.mkdir(exist_ok=True)
    names = sorted(path.name.removesuffix(EXPECTED_SUFFIX) for path in folder.iterdir() if path.name.endswith(EXPECTED_SUFFIX))
    groups = {name: [name, name + EXPECTED_SUFFIX] for name in names}
    groups[WHOLE_SET] = sorted(path.name for path in folder.iterdir() if path.is_file())
    return [pack_group(folder, members, DATA / f"{name}.tar.xz") for name, members in groups.items()]


def pack_group(folder: Path, members: list[str], archive: Path) -> Path:
    """The archive, of these folders or files."""
    with (
        lzma.open(archive, "wb", preset=9 | lzma.PRESET_EXTREME) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for member in members:
            for path in [folder / member, *sorted((folder / member).rglob("*"))]:
                tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_anonymous)
    return archive


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o755 if member.isdir() else 0o644
    return member


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] not in ("pack", "unpack"):
        sys.stderr.write("usage: python -m tests.golden.sets pack|unpack FOLDER\n")
        return 2
    folder = Path(arguments[1])
    if arguments[0] == "pack":
        for archive in pack(folder):
            sys.stdout.write(f"{archive.name} {archive.stat().st_size}\n")
        return 0
    for name in [*eras(), WHOLE_SET]:
        unpack(name, folder)
    for marker in folder.glob(".*.unpacked"):
        marker.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
