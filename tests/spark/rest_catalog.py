"""Iceberg's own REST catalog as a peer, and a connection to it that loses requests and answers."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog import load_catalog

from tests.interop.live.broker import ROOT
from tests.interop.maven import copy_jars
from tests.ports import LOOPBACK, reserve_port
from tests.spark.ingested import COLUMNS, Row
from tests.spark.lake_tables import MILLISECONDS

PROJECT: Final = Path(__file__).resolve().parent / "catalog"
JARS: Final = ROOT / "build" / "catalog" / "jars"
# What happens to a request: it passes, never arrives, or is answered, but the answer never arrives.
PASSES, UNSENT, UNHEARD = "passes", "unsent", "unheard"


def resolve_catalog() -> str | None:
    """Copy the jars into build/catalog once; the error, None if there was none."""
    return copy_jars(PROJECT, JARS)


@contextmanager
def rest_catalog(folder: Path) -> Iterator[int]:
    """The port of a catalog whose database is in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    port = reserve_port()
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    places = [str(port), str(folder / "rest.db"), str(folder / "warehouse")]
    command = ["java", *options, "-cp", f"{JARS}/*", str(PROJECT / "RestCatalog.java"), *places]
    with (folder / "errors").open("w") as errors:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == "ready", (folder / "errors").read_text()
        yield port
    finally:
        server.kill()
        server.communicate()


def properties_of(port: int) -> dict[str, str]:
    return {"type": "rest", "uri": f"http://{LOOPBACK}:{port}"}


def read_rest(port: int, name: str = "orders", namespace: str = "kafka") -> list[Row]:
    """The rows of a table, in an order of their own, with the times that a log has."""
    table = load_catalog("reader", **properties_of(port)).load_table((namespace, name)).scan().to_arrow()
    at = table.schema.get_field_index("timestamp")
    table = table.set_column(at, "timestamp", table.column("timestamp").cast(MILLISECONDS))
    return sorted((tuple(row.values()) for row in table.select(COLUMNS).to_pylist()), key=repr)


class Proxy:
    """A connection to a server that may lose what passes; `fate` says what happens to a request, by its method and path."""

    def __init__(self, server_port: int, fate: Callable[[str, str], str]) -> None:
        self.server_port = server_port
        self.fate = fate
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, name="proxy", daemon=True)

    @contextmanager
    def running(self) -> Iterator[int]:
        self.thread.start()
        server = asyncio.run_coroutine_threadsafe(asyncio.start_server(self._serve, LOOPBACK, 0), self.loop).result()
        try:
            yield int(server.sockets[0].getsockname()[1])
        finally:
            server.close()
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()

    async def _serve(self, reader: Any, writer: Any) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head, body = await _message(reader)
            method, path, _ = head.partition(b"\r\n")[0].decode().split(" ", 2)
            fate = self.fate(method, path)
            if fate != UNSENT:
                answer = await self._forward(head, body)
                if fate == PASSES:
                    writer.write(answer)
                    await writer.drain()
        writer.close()

    async def _forward(self, head: bytes, body: bytes) -> bytes:
        lines = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
        lines.insert(1, b"Connection: close")
        reader, writer = await asyncio.open_connection(LOOPBACK, self.server_port)
        writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        await writer.drain()
        answer: bytes = await reader.read()
        writer.close()
        return answer


async def _message(reader: Any) -> tuple[bytes, bytes]:
    head: bytes = (await reader.readuntil(b"\r\n\r\n")).removesuffix(b"\r\n\r\n")
    sizes = [int(line.partition(b":")[2]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    return head, await reader.readexactly(sizes[0] if sizes else 0)
