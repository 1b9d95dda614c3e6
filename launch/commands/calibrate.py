"""`rankmesh calibrate`: measures what ranks cost on this host, for plans of slices."""

from __future__ import annotations

from typing import Annotated

import typer


def calibrate(
    ranks: Annotated[
        int, typer.Option(metavar="N", help="The number of ranks that work at once.")
    ] = 2,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, help="The requests of each measurement.")
    ] = 60,
) -> None:
    """Measure computing and collectives with N ranks, and keep the results for plans.

    It takes one and a half to three minutes. Nothing else should run meanwhile.
    """
    from ...compiler.slicing.sources import require_packages
    from ..calibration.calibrate import calibrate as measure

    require_packages()
    found, path = measure(ranks, repeat)
    for count, costs in found.items():
        print(
            f"{count} at once: {1e-9 / costs.flop:.1f} GFLOP/s, in convolutions "
            f"{1e-9 / costs.convolved_flop:.1f}, {1e-9 / costs.byte:.1f} GB/s, "
            f"{costs.call * 1e6:.1f} us a node"
        )
    print(
        f"a collective: {costs.latency * 1e6:.1f} us, and {1e-9 / costs.exchanged_byte:.1f} GB/s; "
        f"around it {1e-9 / costs.image_byte:.1f} GB/s to lay images out anew\n"
        f"kept in {path}"
    )
