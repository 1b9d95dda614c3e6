"""Exports every network of mindcv by name and compares what Rankmesh makes of it with MindSpore's
own results.

Runs in an environment of its own that has mindspore and mindcv (and no Rankmesh):

    python tests/oracle/networks.py JOURNAL_FOLDER --rankmesh PATH/TO/rankmesh [--names NAME ...] [--again]
    python tests/oracle/networks.py JOURNAL_FOLDER --rankmesh PATH/TO/rankmesh --run-rest [--seconds 60]
    python tests/oracle/networks.py JOURNAL_FOLDER --report tests/oracle/networks.txt
    python tests/oracle/networks.py JOURNAL_FOLDER --lite-report docs/ms-networks.md

Every network is compiled and its graph written with a sparse file for its weights, which `rankmesh
inspect` lowers. Those of RUN are exported whole, with random weights, run by MindSpore on the CPU,
and compared by `rankmesh run --expect`, as they are and as the .ms files that `rankmesh convert`
makes of them; --run-rest does so with those that were only lowered, small
ones first. One line per network goes into JOURNAL_FOLDER/journal.jsonl; what stands there is not
done again unless --again asks for it. Files are deleted as soon as they were compared.
"""  # noqa: E501

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures import TimeoutError as Late
from pathlib import Path
from typing import Any

from networks_report import Journal, lite_report, report
from networks_sizes import CALM, LAST, RUN, run_sizes, sizes

SECONDS = {False: 90, True: 240}
PATCHES, KEPT = (
    196,
    49,
)  # of the networks that MAE trains: all of an image of 224x224, and those that it sees


def inputs(name: str, size: int) -> list[Any]:
    """An image, and for the networks that MAE trains which of its patches are hidden."""
    import mindspore as ms
    import numpy as np

    image = ms.Tensor(np.random.standard_normal((1, 3, size, size)).astype(np.float32))
    hidden = np.random.permutation(np.arange(PATCHES) >= KEPT)[None].astype(np.int32)
    return [image, ms.Tensor(hidden)] if name.endswith("pretrain") else [image]


def network(name: str, blank: bool) -> Any:
    """A network with ten classes where it knows classes; `blank` leaves its weights as they come,
    which is fast.
    """
    import mindcv
    from mindspore.common.initializer import Initializer
    from networks_repair import repair

    repair()
    if blank:
        Initializer.__call__ = lambda self, array: None
    try:
        net = mindcv.create_model(name, num_classes=10, pretrained=False)
    except TypeError:
        net = mindcv.create_model(name, pretrained=False)
    return net.set_train(False)


def export(name: str, folder: str, run: bool) -> dict[str, Any]:
    """Write NAME.mindir (and NAME.npz with inputs and results) into the folder; says what it
    took."""
    import mindspore as ms
    import numpy as np

    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MindSpore warns for pages
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    ms.set_seed(1)
    np.random.seed(1)
    net = network(name, blank=not run)
    problems = []
    for size in run_sizes(name) if run else sizes(name):
        try:
            return (whole if run else without_weights)(net, name, *inputs(name, size))
        except Exception as error:  # whatever MindSpore raises is the reason to record
            problems.append(" ".join(str(error).split())[:300])
            if Path(
                f"{name}.mindir"
            ).exists():  # it was the run that failed, and would with another size
                break
    return {"refused": problems[0]}


def without_weights(net: Any, name: str, *given: Any) -> dict[str, Any]:
    """The graph as export writes it, its weights in a file that is one hole."""
    from mindspore.train.mind_ir_pb2 import ModelProto
    from mindspore.train.serialization import _cell_info

    model = ModelProto()
    model.ParseFromString(_cell_info(net, False, *given)[0])
    offset, held = 64, {p.name: p for p in net.get_parameters()}
    for record in model.graph.parameter:
        parameter = held[record.name.partition(":")[2]]
        length = parameter.size * parameter.itemsize
        record.external_data.location, record.external_data.offset = "weights", offset
        record.external_data.length = length
        offset += -(-length // 64) * 64
    with open("weights", "wb") as file:
        file.truncate(offset)
    Path(f"{name}.mindir").write_bytes(model.SerializeToString())
    return {"input": list(given[0].shape)}


def whole(net: Any, name: str, *given: Any) -> dict[str, Any]:
    """The export and MindSpore's results, every constant parameter made irregular so that each one
    counts.
    """
    import mindspore as ms
    import numpy as np

    net.init_parameters_data()
    for parameter in net.get_parameters():
        value = parameter.asnumpy()
        if name in CALM and value.ndim > 1:
            parameter.set_data(ms.Tensor(value * np.float32(CALM[name])))
        elif value.dtype.kind == "f" and value.size and np.ptp(value) == 0:
            noise = 0.1 * np.random.standard_normal(value.shape)
            spread = np.abs(noise) if "variance" in parameter.name else noise
            parameter.set_data(ms.Tensor((value + spread).astype(value.dtype)))
    ms.export(net, *given, file_name=name, file_format="MINDIR")
    started = time.monotonic()
    ms.set_context(
        mode=ms.PYNATIVE_MODE
    )  # the same kernels, without compiling the network a second time
    results = net(*given)
    results = results if isinstance(results, (tuple, list)) else [results]
    arrays = {f"out_{i}": result.asnumpy() for i, result in enumerate(results)}
    np.savez(f"{name}.npz", **{f"in_{i}": x.asnumpy() for i, x in enumerate(given)}, **arrays)
    return {"input": list(given[0].shape), "seconds": round(time.monotonic() - started, 1)}


def lowered(rankmesh: str, model: Path) -> dict[str, Any]:
    """The primitives of a file, and those missing."""
    done = subprocess.run([rankmesh, "inspect", "--json", model], capture_output=True, text=True)
    if done.returncode:
        return {"error": (done.stdout + done.stderr).strip()[-800:]}
    found = json.loads(done.stdout)[0]
    return {"primitives": found["primitives"], "unsupported": list(found["unsupported"])}


def compared(rankmesh: str, model: Path) -> dict[str, Any]:
    """The largest relative error of what Rankmesh makes of a file, or what it says instead."""
    saved = model.with_suffix(".npz")
    done = subprocess.run(
        [rankmesh, "run", model, "--device", "cpu", "--inputs", saved, "--expect", saved],
        capture_output=True,
        text=True,
    )
    gap = re.search(r"OK: .*largest relative error ([^\s]+)", done.stdout)
    return {"gap": float(gap[1])} if gap else {"error": (done.stdout + done.stderr)[-1500:]}


def as_lite(rankmesh: str, model: Path) -> dict[str, Any]:
    """The same of the .ms file that a file becomes."""
    lite = model.with_suffix(".ms")
    command = [rankmesh, "convert", "--fmk=MINDIR", "--saveType=MINDIR_LITE"]
    done = subprocess.run(
        [*command, f"--modelFile={model}", f"--outputFile={lite}"], capture_output=True, text=True
    )
    if done.returncode:
        return {"error": (done.stdout + done.stderr).strip()[-800:]}
    return compared(rankmesh, lite)


class Exporter:
    """One process that exports, replaced when it takes too long or dies."""

    def __init__(self, folder: Path, seconds: int | None) -> None:
        self.folder, self.seconds = str(folder), seconds
        self.pool: ProcessPoolExecutor | None = None
        self.runs = False

    def export(self, name: str, run: bool) -> dict[str, Any]:
        """What `export` returned, or why it did not."""
        if run is not self.runs:  # a process that leaves weights blank must not run them
            self.stop()
            self.runs = run
        seconds = self.seconds or SECONDS[run]
        self.pool = self.pool or ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), max_tasks_per_child=8
        )
        try:
            return self.pool.submit(export, name, self.folder, run).result(seconds)
        except Late:
            self.stop()
            return {"refused": f"took more than {seconds} s"}
        except Exception as error:  # the exporting process was killed or raised
            self.stop()
            return {"refused": f"{type(error).__name__}: {error}"[:300]}

    def stop(self) -> None:
        """End the process at once."""
        if self.pool:
            for process in list((self.pool._processes or {}).values()):
                process.kill()
            self.pool.shutdown(cancel_futures=True)
            self.pool = None


def clear(folder: Path, name: str) -> None:
    """Delete what was exported."""
    for suffix in (".mindir", ".ms", ".npz"):
        (folder / name).with_suffix(suffix).unlink(missing_ok=True)
    (folder / "weights").unlink(missing_ok=True)


def wanted(names: list[str] | None, done: dict[str, dict[str, Any]], again: bool) -> list[str]:
    """The networks to do, in order: those that also run, then the others, the large ones last."""
    import mindcv

    left = [name for name in names or mindcv.list_models() if again or name not in done]
    return sorted(left, key=lambda name: (name not in RUN, bool(LAST.search(name))))


def only_lowered(
    names: list[str] | None, done: dict[str, dict[str, Any]], again: bool
) -> list[str]:
    """Those that MindSpore did not run yet, those with few nodes first, the large ones last."""
    left = [
        name
        for name, entry in done.items()
        if "primitives" in entry
        and "gap" not in entry
        and (again or "unrun" not in entry)
        and (not names or name in names)
    ]
    return sorted(
        left, key=lambda name: (bool(LAST.search(name)), sum(done[name]["primitives"].values()))
    )


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rankmesh")
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--run-rest", action="store_true")
    parser.add_argument("--seconds", type=int)
    parser.add_argument("--report", type=Path)
    parser.add_argument("--lite-report", type=Path)
    options = parser.parse_args()
    folder, journal = options.folder.resolve(), Journal(options.folder / "journal.jsonl")
    if options.report:
        options.report.write_text(report(journal.latest()))
        return
    if options.lite_report:
        options.lite_report.write_text(lite_report(journal.latest()))
        return
    folder.mkdir(parents=True, exist_ok=True)
    exporter, done = Exporter(folder, options.seconds), journal.latest()
    for name in (only_lowered if options.run_rest else wanted)(options.names, done, options.again):
        run = options.run_rest or name in RUN
        entry, model = exporter.export(name, run), folder / f"{name}.mindir"
        if options.run_rest and "refused" in entry:
            entry = {**done[name], "unrun": entry["refused"]}
        elif "refused" not in entry:
            known = (
                {key: done[name][key] for key in ("primitives", "unsupported")}
                if options.run_rest
                else {}
            )
            entry |= known or lowered(options.rankmesh, model)
            entry |= (
                compared(options.rankmesh, model)
                if run and not entry.get("unsupported", True)
                else {}
            )
            entry |= {"lite": as_lite(options.rankmesh, model)} if "gap" in entry else {}
        clear(folder, name)
        journal.add({"name": name, **entry})
    exporter.stop()


if __name__ == "__main__":
    sys.exit(main())
