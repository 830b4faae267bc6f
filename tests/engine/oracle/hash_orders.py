"""The orders of Java's HashMap, obtained from a JDK: python -m tests.engine.oracle.hash_orders

Takes the keys of each case from tests/format/data/hash_orders.json and writes the file again with the JDK's orders.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parent / "HashOrders.java"
ORDERS = SOURCE.parents[2] / "format" / "data" / "hash_orders.json"
RUN_SECONDS = 120


def ask(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The cases with the orders that the JDK on the PATH gives them."""
    asked = "".join(f"{','.join(map(str, case[part]))}\n" for case in cases for part in ("keys", "removed", "added"))
    command = ["java", str(SOURCE)]
    done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=RUN_SECONDS, check=True)
    orders = [[int(key) for key in line.split(",") if key] for line in done.stdout.splitlines()]
    pairs = zip(cases, orders[::2], orders[1::2], strict=True)
    return [{**case, "put": put, "computed": computed} for case, put, computed in pairs]


def render(cases: list[dict[str, Any]]) -> str:
    return "[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases) + "\n]\n"


def main() -> None:
    before = ORDERS.read_text(encoding="utf-8")
    cases = ask(json.loads(before))
    after = render(cases)
    ORDERS.write_text(after, encoding="utf-8")
    sys.stdout.write(f"{len(cases)} cases, {'the same bytes' if after == before else 'other bytes than before'}\n")


if __name__ == "__main__":
    main()
