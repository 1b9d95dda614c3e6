"""Process of one part: `python -m gpu_check.part_process PART DEVICE RESULT` measures and writes.

Started by `run_part`, which ends it, with all that it has started, at the deadline of the part.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from importlib import import_module
from pathlib import Path

from .figures import FAILED, MISSED, PASSED, SKIPPED, PartResult, Skipped, write_result

_LINES = 6
"""Of the output of a part that has failed, the last ones are shown."""


def run_part(part: str, device: str, deadline: float, output: Path) -> PartResult:
    """Measure a part in a process of its own, within so many seconds; its output is kept."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
        result = Path(scratch, "result.json")
        with open(output, "wb") as written:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "gpu_check.part_process", part, device, str(result)],
                stdin=subprocess.DEVNULL,
                stdout=written,
                stderr=subprocess.STDOUT,
                env={**os.environ, "TMPDIR": scratch, **_environment(device)},
                start_new_session=True,
            )
            note = _ended(process, deadline)
        seconds = time.monotonic() - start
        try:
            return PartResult.read(part, seconds, result)
        except (OSError, ValueError, KeyError):
            lines = output.read_text(errors="replace").splitlines()[-_LINES:]
            text = " / ".join([note, *lines]).replace("|", "\\|")
            return PartResult(part, FAILED, seconds, note=text)


def _environment(device: str) -> dict[str, str]:
    return {"RANKMESH_EXECUTOR": "torch", "RANKMESH_DEVICE": device, "RANKMESH_CACHE": "off"}


def _ended(process: subprocess.Popen[bytes], deadline: float) -> str:
    """Wait for a process, and kill all of its session at the deadline; how it ended."""
    try:
        return f"ended with status {process.wait(deadline)} and no result"
    except subprocess.TimeoutExpired:
        return f"not done within {deadline:.0f} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def main() -> None:
    part, device, place = sys.argv[1:]
    path = Path(place)
    try:
        figures = import_module(f"gpu_check.parts.{part}").measure(device)
    except Skipped as reason:
        write_result(path, SKIPPED, [], str(reason))
    except Exception as error:  # of any kind: other parts are still to be measured
        traceback.print_exc()
        write_result(path, FAILED, [], f"{type(error).__name__}: {error}".replace("\n", " "))
    else:
        held = all(one.holds for one in figures)
        write_result(path, PASSED if held else MISSED, figures)


if __name__ == "__main__":
    main()
