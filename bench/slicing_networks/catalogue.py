"""Catalogue of all networks for slicing, in the order of export."""

from __future__ import annotations

import builder_networks
import decoder_networks
import derived_networks
import encoder_networks
import image_networks
import large_networks
import media_networks
import text_networks
from registry import NETWORKS


def register() -> None:
    """Registers every network once."""
    if not NETWORKS:
        for one in (
            text_networks,
            large_networks,
            encoder_networks,
            media_networks,
            image_networks,
            decoder_networks,
            builder_networks,
            derived_networks,
        ):
            one.register()
