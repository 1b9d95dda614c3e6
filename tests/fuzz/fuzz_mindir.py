"""Fuzzes reader, decryptor and lowering with atheris; see CONTRIBUTING.md for the command.

    python tests/fuzz/fuzz_mindir.py FOUND SEEDS -max_total_time=600 -timeout=30 -rss_limit_mb=3000

What it finds is written into the folder FOUND, one file per place in the code; SEEDS is libFuzzer's
corpus folder, to which the small models of tests/data are added, those of single primitives too.
"""

from __future__ import annotations

import hashlib
import sys
import traceback
from importlib import import_module
from pathlib import Path
from random import Random

import atheris

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / ".types"), str(ROOT / "tests" / "support")]
with atheris.instrument_imports(include=["rankmesh"]):
    from fuzzed import KINDS, survives_as
    from model_changes import change
    from recorded import Family, families

    from rankmesh.compiler.lowering.builder.families import FAMILIES
    from rankmesh.compiler.lowering.builder.lite_families import LITE_FAMILIES
    from rankmesh.compiler.mindir.mindir_pb2 import ModelProto

    for family in FAMILIES:  # else each would come with its first primitive, and not be watched
        import_module(f"rankmesh.compiler.lowering.primitives.{family}")
    for family in LITE_FAMILIES:
        import_module(f"rankmesh.compiler.lowering.lite.{family}")

LARGEST_SEED = 60_000
FOUND, SEEDS = map(Path, sys.argv[1:3])
SCRATCH = FOUND / "scratch" / "m.mindir"


def test_one_input(data: bytes) -> None:
    """The first byte says as what the rest is read; a fault is written down, and fuzzing goes
    on."""
    if not data:
        return
    kind = KINDS[data[0] % len(KINDS)]
    try:
        survives_as(kind, SCRATCH, data[1:])
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        place = hashlib.sha1(
            f"{type(error)} {frames[-1].filename}:{frames[-1].lineno}".encode()
        ).hexdigest()[:8]
        target = FOUND / f"{kind}-{type(error).__name__}-{place}"
        if not target.exists():
            target.write_bytes(data[1:])
            traceback.print_exc()


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Half of the time a change of the parsed model, else libFuzzer's own."""
    random = Random(seed)
    if random.random() < 0.5:
        return bytes(atheris.Mutate(data, max_size))
    model = ModelProto()
    try:
        model.ParseFromString(data[1:])
    except Exception:
        return bytes(atheris.Mutate(data, max_size))
    change(model, random, random.randrange(1, 4))
    return (data[:1] + model.SerializeToString())[:max_size]


def main() -> None:
    """Write the seeds, then fuzz."""
    SCRATCH.parent.mkdir(parents=True, exist_ok=True)
    SEEDS.mkdir(exist_ok=True)
    for path in (ROOT / "tests" / "data").glob("*/*/*.mindir"):
        if path.stat().st_size <= LARGEST_SEED:
            kinds = [1] if path.name.startswith("enc_") else [0, 2]
            for kind in kinds:
                (SEEDS / f"{KINDS[kind]}_{path.name}").write_bytes(
                    bytes([kind]) + path.read_bytes()
                )
    for path in (ROOT / "tests" / "data" / "ms").glob("*.ms"):
        if path.stat().st_size <= LARGEST_SEED:
            kind = KINDS.index("lite")
            (SEEDS / f"lite_{path.name}").write_bytes(bytes([kind]) + path.read_bytes())
    for family in map(Family.read, families()):
        for number, record in enumerate(family.records):
            (SEEDS / f"{KINDS[0]}_{family.name}_{number}").write_bytes(b"\0" + family.file(record))
    atheris.Setup([sys.argv[0], str(SEEDS), *sys.argv[3:]], test_one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
