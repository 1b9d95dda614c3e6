"""The options of the command line, each once: its type and the help that a newcomer reads."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__


def _show_version(asked: bool) -> None:
    if asked:
        print(f"rankmesh {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option(
    "--version", is_eager=True, callback=_show_version, help="Show the version and exit.")]
Model = Annotated[str, typer.Argument(
    metavar="MODEL", show_default=False,
    help="A .mindir or .onnx file; a pattern such as 'llama_rank{rank}.mindir'; or NAME.mindir where "
         "NAME0.mindir, NAME1.mindir, ... lie.")]
ModelOrNone = Annotated[str | None, typer.Argument(metavar="MODEL", show_default=False, help="As for `rankmesh run`.")]
Config = Annotated[str | None, typer.Option(
    metavar="FILE", help="A configuration (.ini), as for Model.build_from_file: the folder of external weights, named "
                         "groups of ranks, the rank table, precision, the model cache.")]
InspectConfig = Annotated[str | None, typer.Option(
    "--config", metavar="FILE", help="A configuration (.ini) to read MODEL with; without MODEL, show which of its keys "
                                     "act, which do nothing here, which are unknown.")]
Ranks = Annotated[int | None, typer.Option(
    metavar="N", help="How many ranks; by default as many as files match.")]
LaunchedRanks = Annotated[int | None, typer.Option(
    metavar="N", help="How many ranks; by default as many as the rank table has, else one per visible NVIDIA GPU.")]
RankTable = Annotated[str | None, typer.Option(
    metavar="FILE", help="A rank table (JSON): which device each rank has; see `rankmesh rank-table`.")]
Inputs = Annotated[str | None, typer.Option(
    metavar="NPZ", help="Inputs, by name or as in_0, in_1, ...; by default ones. May hold {rank}. One file may hold "
                        "the reference outputs too.")]
Expect = Annotated[str | None, typer.Option(
    metavar="NPZ", help="Reference outputs to compare with, by name or as out_0, out_1, ... May hold {rank}. One file "
                        "may hold the inputs too.")]
Rtol = Annotated[float | None, typer.Option(
    metavar="R", min=0, help="Compare each element: |got - ref| <= A + R * |ref|.")]
Atol = Annotated[float | None, typer.Option(metavar="A", min=0, help="See --rtol.")]
Save = Annotated[str | None, typer.Option(
    metavar="NPZ", help="Write the outputs there, as out_0, out_1, ... May hold {rank}.")]
Repeat = Annotated[int, typer.Option(metavar="N", min=0, help="Run N times more, and print the latency.")]
Device = Annotated[str | None, typer.Option(
    metavar="cpu|gpu|ascend", help="By default gpu where there is one per rank, else cpu.")]
Collectives = Annotated[str | None, typer.Option(
    metavar="NAME", help="How tensors are exchanged: shared_memory, mpi, gloo, nccl or hccl; by default what fits.")]
Oversubscribe = Annotated[bool, typer.Option("--oversubscribe", help="Let several ranks share one GPU.")]
Weights = Annotated[bool, typer.Option("--weights", help="Show all weights, not only the first 12.")]
AllowEqualShards = Annotated[bool, typer.Option(
    "--allow-equal-shards", help="Let ranks of a group have equal shards: as where each gets inputs of its own.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what was chosen, and why.")]
Module = Annotated[bool, typer.Option("-m", help="SCRIPT is the name of a module, as for `python -m`.")]
Script = Annotated[list[str] | None, typer.Argument(
    metavar="SCRIPT ARGS...", show_default=False,
    help="The script and its arguments; {rank}, {local_rank}, {device} and {world_size} are filled in.")]
LogDir = Annotated[str | None, typer.Option(metavar="DIR", help="Write each rank's output to DIR/rank_R.log too.")]
Launcher = Annotated[str, typer.Option(metavar="local|mpirun", help="Who starts the ranks.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else on standard output.")]
Key = Annotated[str | None, typer.Option(
    metavar="HEX", help="The key of an encrypted model, its bytes as hex digits; shown in the list of processes: "
                        "prefer --key-file, or the variable RANKMESH_KEY.")]
KeyFile = Annotated[str | None, typer.Option(metavar="FILE", help="A file that holds the key, as hex digits.")]
DecMode = Annotated[str, typer.Option(metavar="AES-GCM|AES-CBC|SM4-CBC", help="How the model was encrypted.")]
AllowUnauthenticated = Annotated[bool, typer.Option(
    "--allow-unauthenticated", help="With a key, read models too that are not encrypted or have no tags: whoever can "
                                    "write the file then chooses what runs.")]
CachedModel = Annotated[str | None, typer.Argument(
    metavar="MODEL", show_default=False, help="Only what is kept of this model: as for `rankmesh run`, or as "
                                              "`rankmesh cache list` shows it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List what would be removed, and remove nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed where there is no terminal.")]
TableFiles = Annotated[list[str], typer.Argument(
    metavar="FILE...", show_default=False, help="Rank tables (JSON), of any version.")]
TableDevices = Annotated[str, typer.Option(
    metavar="IDS", help="The devices, in the order of their ranks: 0-7, or 0,1,4-5.")]
TableIp = Annotated[str | None, typer.Option(
    metavar="ADDRESS", help="The server's IP address or host name; by default this host's first address.")]
TableVersion = Annotated[str | None, typer.Option(
    metavar="1.0|1.2", help="The format's version; by default 1.0, or 1.2 where there are super pods.")]
SuperDevices = Annotated[str | None, typer.Option(
    metavar="IDS", help="Version 1.2: each device's id in its super pod, in the same order: the SDID that "
                        "`npu-smi info -t spod-info` shows.")]
SuperPod = Annotated[str, typer.Option(metavar="ID", help="Version 1.2: the super pod's id, with --super-devices.")]
TableFolder = Annotated[str, typer.Option("--out", metavar="DIR", help="The folder to write to.")]
TableOut = Annotated[str | None, typer.Option(
    "--out", metavar="FILE", help="The file to write; by default hccl_<servers>s_<ranks>p.json in this folder.")]
Owners = Annotated[list[int], typer.Option(
    "--pid", metavar="OWNER", help="The process: what get_model_info('current_pid') gives there. Once for each rank.")]
WeightsFile = Annotated[str, typer.Argument(
    metavar="FILE", show_default=False, help="The weights, by name; {rank} in it is the process's rank.")]
Layout = Annotated[list[str] | None, typer.Option(
    "--layout", metavar="NAME=AXIS", help="Cut full weights of this name or pattern along an axis, a part per rank.")]
Delta = Annotated[bool, typer.Option("--delta", help="Add them to the exported weights instead of replacing those.")]
