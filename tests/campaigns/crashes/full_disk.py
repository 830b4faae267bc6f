"""The real commands on a disk without room: a small one in memory, mounted where nobody else sees it, filled to its last pages.

python -m tests.campaigns.crashes.full_disk [JOB...]    with no page left, one, two, … until the command completes
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence

from tests.cli.forks import Forks

from .interruptions import Disturbed
from .power_cuts import all_jobs

PAGE = 4096
SIZE = "4m"
INSIDE = "--inside"


def main(names: Sequence[str]) -> int:
    wrong: list[str] = []
    with Forks() as forks:
        for job in all_jobs():
            if not names or job.name in names:
                disturbed = Disturbed(job, forks)
                pages = 0
                while not disturbed.starve(pages * PAGE):
                    pages += 1
                sys.stdout.write(f"{job.name}: {pages} sizes that were not enough, {len(disturbed.wrong)} wrong\n")
                wrong += disturbed.wrong
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    return bool(wrong)


def _run_inside(names: Sequence[str]) -> int:
    """Run this program again where it may mount a disk that nobody else sees."""
    with tempfile.TemporaryDirectory() as folder:
        mounted = f'mount -t tmpfs -o size={SIZE} none "$0" && TMPDIR="$0" exec "$@"'
        again = [sys.executable, "-m", "tests.campaigns.crashes.full_disk", INSIDE, *names]
        return subprocess.run(["unshare", "-rm", "sh", "-c", mounted, folder, *again], env=os.environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[2:]) if sys.argv[1:2] == [INSIDE] else _run_inside(sys.argv[1:]))
