"""Entry of the command line: settles signals and streams before anything else is imported."""

from __future__ import annotations

import signal


def main() -> None:
    """Run a command of `rankmesh`. Ctrl-C ends it by the signal itself, without a traceback, unless
    the command has something to undo, and handles the signal.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # nohup and & ignore it
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .standard_streams import prepare_standard_streams

    prepare_standard_streams()
    from .cli import main

    main()
