"""Local launcher: runs a user's script in supervised processes of this host."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Sequence

from ...comm.errors import RankFailed
from ...comm.job.environment import deadline_from_environment
from ...comm.job.placement import RankSpec, local_ranks, table_ranks
from ...comm.processes.rank_process import Command
from ..compat import compat_path
from ..options.notice import notice
from ..options.user_files import read_rank_table
from ..rank.rank_environment import rank_variables, rendezvous_variables, replaced
from ..supervision import host
from ..supervision.supervised_job import SupervisedJob
from .launchers import ScriptJob
from .rank_printer import RankPrinter


class LocalLauncher:
    """Starts the ranks of this host, prints what they write, and ends all when one fails."""

    def launch(self, job: ScriptJob) -> int:
        """See Launcher.launch."""
        specs = _specs(job)
        ranks = [spec.rank for spec in specs]
        devices = [rank.device for rank in ranks]
        commands = [_command(job, spec, devices) for spec in specs]
        with RankPrinter([rank.rank for rank in ranks], job.log_dir) as printer:
            supervised = SupervisedJob(ranks, commands, deadline_from_environment(), printer.log)
            try:
                with supervised:
                    supervised.run(printer)
                return 0
            except RankFailed as error:
                printer.tick(everything=True)
                notice(str(error), logging.ERROR)
                status = supervised.status or RankFailed.exit_code
                return 128 - status if status < 0 else status  # a signal as shells show it


def _specs(job: ScriptJob) -> list[RankSpec]:
    name = socket.gethostname()
    if job.rank_table is not None:
        return table_ranks(read_rank_table(job.rank_table), host.names(), name, host.cores())
    return local_ranks(job.size, name, range(job.size), host.cores())


def _command(job: ScriptJob, spec: RankSpec, devices: Sequence[int]) -> Command:
    table = os.path.abspath(job.rank_table) if job.rank_table else None
    folders = [compat_path(), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **rank_variables(spec.rank, devices, table, os.environ),
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(folders),
        **rendezvous_variables(spec.rank, job.rank_table),
    }
    arguments = (sys.executable, *replaced(job.program, spec.rank))
    return Command(arguments, environment, spec.cores)
