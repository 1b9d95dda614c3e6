"""Exports every network of mindcv by name and compares what Rankmesh makes of it with MindSpore's own results.

Runs in an environment of its own that has mindspore and mindcv (and no Rankmesh):

    python tests/oracle/networks.py JOURNAL_FOLDER --rankmesh PATH/TO/rankmesh [--names NAME ...] [--again]
    python tests/oracle/networks.py JOURNAL_FOLDER --report tests/oracle/networks.txt

Every network is compiled and its graph written with a sparse file for its weights, which `rankmesh inspect` lowers.
Those of RUN are exported whole, with random weights, run by MindSpore in graph mode on the CPU, and compared by
`rankmesh run --expect`. One line per network goes into JOURNAL_FOLDER/journal.jsonl; what stands there is not done
again unless --again asks for it. Files are deleted as soon as they were compared.
"""

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

from networks_report import report

# Networks that MindSpore runs as well, and the height and width of their input: one or two of each family, kept
# small because MindSpore's convolution on a CPU is a reference kernel.
RUN = {
    "squeezenet1_1": 64, "resnet18": 64, "resnet50": 64, "mobilenet_v1_025": 64, "mobilenet_v2_035_96": 64,
    "mobilenet_v3_small_075": 64, "mobilenet_v3_large_075": 64, "shufflenet_v1_g3_05": 64, "shufflenet_v2_x0_5": 64,
    "ghostnet_050": 64, "mnasnet_050": 64, "regnet_x_200mf": 64, "regnet_y_200mf": 64, "rexnet_09": 64,
    "efficientnet_b0": 64, "efficientnet_v2_s": 64, "mixnet_s": 64, "resnext50_32x4d": 64, "seresnet18": 64,
    "skresnet18": 64, "resnest14": 64, "res2net50": 64, "res2net50_v1b": 64, "resnetv2_50": 64, "BiT_resnet50": 64,
    "repvgg_a0": 64, "densenet121": 64, "dpn92": 64, "googlenet": 64, "vgg11": 224, "inception_v3": 107,
    "inception_v4": 107, "xception": 64, "seresnext26_32x4d": 64, "hrnet_w32": 64, "nasnet_a_4x1056": 64, "pnasnet": 64,
    "convnext_tiny": 64, "convnextv2_atto": 64, "edgenext_xx_small": 256, "mobilevit_xx_small": 256,
    "poolformer_s12": 64, "visformer_tiny": 224, "visformer_tiny_v2": 224, "pit_ti": 224, "pvt_tiny": 224,
    "pvt_v2_b0": 64, "cmt_tiny": 160, "coat_lite_tiny": 224, "coat_tiny": 224, "convit_tiny": 224,
    "crossvit_9": 240, "swin_tiny": 224, "swinv2_tiny_window8": 256, "vit_b_32_224": 224, "cait_xxs24_224": 224,
    "xcit_tiny_12_p16_224": 224, "mlp_mixer_s_p32": 224, "repmlp_t224": 224,
    "mae_b_16_224_finetune": 224, "mae_b_16_224_pretrain": 224,
}
SIZES = (224, 256, 384, 240, 299, 331, 448, 512, 160, 192)
LAST = re.compile("huge|xlarge|_xl$|_h_|_l_|_l$|m48|m36|large|b[67]$|152|200|269|264|101|161|d[345]$|32gf|16gf|50x3")
SECONDS = {False: 90, True: 240}


def sizes(name: str) -> list[int]:
    """Heights to try, those that the name gives first."""
    named = [int(n) for n in re.findall(r"(?<!\d)\d{2,3}(?!\d)", name) if int(n) in (*SIZES, 96, 128)]
    return [*named, *SIZES]


def network(name: str, blank: bool) -> Any:
    """A network with ten classes where it knows classes; `blank` leaves its weights as they come, which is fast."""
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
    """Write NAME.mindir (and NAME.npz with inputs and results) into the folder; says what it took."""
    import mindspore as ms
    import numpy as np

    os.chdir(folder)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MindSpore warns for pages
    ms.set_context(mode=ms.GRAPH_MODE, device_target="CPU")
    ms.set_seed(1)
    np.random.seed(1)
    net = network(name, blank=not run)
    problems = []
    for size in [RUN[name]] if run else sizes(name):
        x = ms.Tensor(np.random.standard_normal((1, 3, size, size)).astype(np.float32))
        try:
            if run:
                return whole(net, name, x)
            return without_weights(net, name, x)
        except Exception as error:  # whatever MindSpore raises is the reason to record
            problems.append(" ".join(str(error).split())[:300])
    return {"refused": problems[0]}


def without_weights(net: Any, name: str, x: Any) -> dict[str, Any]:
    """The graph as export writes it, its weights in a file that is one hole."""
    from mindspore.train.mind_ir_pb2 import ModelProto
    from mindspore.train.serialization import _cell_info

    model = ModelProto()
    model.ParseFromString(_cell_info(net, False, x)[0])
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
    return {"input": list(x.shape)}


def whole(net: Any, name: str, x: Any) -> dict[str, Any]:
    """The export and MindSpore's results, every constant parameter made irregular so that each one counts."""
    import mindspore as ms
    import numpy as np

    net.init_parameters_data()
    for parameter in net.get_parameters():
        value = parameter.asnumpy()
        if value.dtype.kind == "f" and value.size and np.ptp(value) == 0:
            noise = 0.1 * np.random.standard_normal(value.shape)
            spread = np.abs(noise) if "variance" in parameter.name else noise
            parameter.set_data(ms.Tensor((value + spread).astype(value.dtype)))
    ms.export(net, x, file_name=name, file_format="MINDIR")
    started = time.monotonic()
    results = net(x)
    results = results if isinstance(results, (tuple, list)) else [results]
    arrays = {f"out_{i}": result.asnumpy() for i, result in enumerate(results)}
    np.savez(f"{name}.npz", in_0=x.asnumpy(), **arrays)
    return {"input": list(x.shape), "seconds": round(time.monotonic() - started, 1)}


def compare(rankmesh: str, name: str, folder: Path, run: bool) -> dict[str, Any]:
    """What Rankmesh makes of the file: its primitives, those missing, and the largest relative error."""
    model, saved = folder / f"{name}.mindir", folder / f"{name}.npz"
    done = subprocess.run([rankmesh, "inspect", "--json", model], capture_output=True, text=True)
    if done.returncode:
        return {"error": (done.stdout + done.stderr).strip()[-800:]}
    found = json.loads(done.stdout)[0]
    result = {"primitives": found["primitives"], "unsupported": list(found["unsupported"])}
    if not run or found["unsupported"]:
        return result
    done = subprocess.run([rankmesh, "run", model, "--device", "cpu", "--inputs", saved, "--expect", saved],
                          capture_output=True, text=True)
    gap = re.search(r"OK: .*largest relative error ([^\s]+)", done.stdout)
    return {**result, "gap": float(gap[1])} if gap else {**result, "error": (done.stdout + done.stderr)[-1500:]}


class Exporter:
    """One process that exports, replaced when it takes too long or dies."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.pool: ProcessPoolExecutor | None = None

    def export(self, name: str, run: bool) -> dict[str, Any]:
        """What `export` returned, or why it did not."""
        if run:  # which a process that leaves weights blank must not
            self.stop()
        self.pool = self.pool or ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=8)
        try:
            return self.pool.submit(export, name, self.folder, run).result(SECONDS[run])
        except Late:
            self.stop()
            return {"refused": f"took more than {SECONDS[run]} s"}
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
    for path in (folder / f"{name}.mindir", folder / f"{name}.npz", folder / "weights"):
        path.unlink(missing_ok=True)


def wanted(names: list[str] | None, journal: Path, again: bool) -> list[str]:
    """The networks to do, in order: those that also run, then the others, the large ones last."""
    import mindcv

    names = names or mindcv.list_models()
    done = {json.loads(line)["name"] for line in journal.read_text().splitlines()} if journal.exists() else set()
    left = [name for name in names if again or name not in done]
    return sorted(left, key=lambda name: (name not in RUN, bool(LAST.search(name))))


def main() -> None:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rankmesh")
    parser.add_argument("--names", nargs="+")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args()
    folder, journal = options.folder.resolve(), options.folder / "journal.jsonl"
    if options.report:
        options.report.write_text(report(journal))
        return
    folder.mkdir(parents=True, exist_ok=True)
    exporter = Exporter(folder)
    for name in wanted(options.names, journal, options.again):
        run = name in RUN
        entry = {"name": name, **exporter.export(name, run)}
        if "refused" not in entry:
            entry |= compare(options.rankmesh, name, folder, run)
        clear(folder, name)
        with journal.open("a") as file:
            file.write(json.dumps(entry) + "\n")
        print(name, {key: entry[key] for key in entry if key not in ("name", "primitives")}, flush=True)
    exporter.stop()


if __name__ == "__main__":
    sys.exit(main())
