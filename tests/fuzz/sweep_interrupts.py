"""Sweep of interrupts: sends a command Ctrl-C at one moment after the other, and looks at its end.

    python tests/fuzz/sweep_interrupts.py [--signal INT] [--every 0.02] COMMAND...

Each end is by the signal, by 128 + its number, or the end that the command has without it. The
sweep ends when the command was done before the signal came. A traceback is printed with its moment;
one from the start of Python, before the first lines of the command line run, is not counted.
"""

from __future__ import annotations

import argparse
import itertools
import signal
import subprocess
import sys
import time
from collections import Counter

_PATIENCE = 60.0
_STARTS = ("<frozen site>", "from rankmesh.launch.entry import main")


def main() -> None:
    """Run the sweep; the exit status is 1 where an end was not in order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--signal", default="INT")
    parser.add_argument("--every", type=float, default=0.02)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    number = signal.Signals[f"SIG{options.signal}"]
    ends: Counter[int] = Counter()
    faults = 0
    for moment in itertools.count():
        delay = moment * options.every
        status, text = _interrupted(options.command, number, delay)
        ends[status] += 1
        if not _in_order(status, text, number):
            faults += 1
            print(f"after {delay:.3f} s: status {status}\n{text}", file=sys.stderr)
        if status == 0:
            break
    print(f"{moment + 1} moments, {faults} faults, ends {dict(ends)}")
    sys.exit(bool(faults))


def _interrupted(command: list[str], number: signal.Signals, delay: float) -> tuple[int, str]:
    """The status of a command that gets a signal after so many seconds, and what it printed."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        time.sleep(delay)
        process.send_signal(number)
        try:
            return process.wait(_PATIENCE), process.communicate()[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait(), f"alive {_PATIENCE} s after the signal"


def _in_order(status: int, text: str, number: signal.Signals) -> bool:
    if "Traceback" in text or "Exception ignored" in text:
        return any(one in text for one in _STARTS)
    return status in (-number, 128 + number, 0)


if __name__ == "__main__":
    main()
