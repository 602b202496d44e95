"""Which of the processes that a launcher has started for one command this one is: its rank.

Launchers say it in environment variables: Slurm's srun, mpirun of Open MPI and of MPICH, torchrun,
and Kubernetes for the pods of an indexed Job.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from corpusmill.errors import UserError, option
from corpusmill.processors import count_processors


class _Launcher(NamedTuple):
    """The environment variables of a launcher.

    Attributes:
        rank: the number of a process.
        ranks: how many there are; not said by every launcher.
        ranks_on_host: how many of them are on the machine of this process; the first that is set.
        hosts: on how many machines they are.
    """

    rank: str
    ranks: str = ""
    ranks_on_host: Sequence[str] = ()
    hosts: str = ""

    def count_on_host(self, environment: Mapping[str, str]) -> int | None:
        """Return how many ranks are on the machine of this process, if that is said."""
        numbers = (_read(environment, name) for name in self.ranks_on_host)
        return next(filter(None, numbers), None)


# One that may be started by another one comes before it. Slurm gives a batch script a number, too,
# but a number of tasks to those that srun has started.
_LAUNCHERS = (
    _Launcher("RANK", "WORLD_SIZE", ["LOCAL_WORLD_SIZE"]),
    _Launcher("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ["OMPI_COMM_WORLD_LOCAL_SIZE"]),
    # MPICH's mpirun, or srun --mpi=pmi2
    _Launcher("PMI_RANK", "PMI_SIZE", ["MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"]),
    _Launcher("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ["SLURM_STEP_TASKS_PER_NODE"],
              "SLURM_STEP_NUM_NODES"),
    _Launcher("JOB_COMPLETION_INDEX"),
)  # fmt: skip


@dataclass(frozen=True)
class Rank:
    """One of the processes that a launcher has started for one command.

    Attributes:
        number: from 0.
        size: how many there are.
        is_on_one_host: whether all of them are known to be on this machine.
    """

    number: int
    size: int
    is_on_one_host: bool = False


def find_rank(
    number: int | None, size: int | None, environment: Mapping[str, str] = os.environ
) -> Rank | None:
    """Return the rank of this process; None for one that is alone.

    Args:
        number: the user's choice; None for what the launcher says.
        size: likewise.
        environment: the environment variables.

    Raises:
        UserError: only the number is known, or the number is none of the size.
    """
    launcher = _find_launcher(environment, needs_size=size is None)
    if size is None and number is not None:
        cause = "nothing says how many ranks there are"
        raise UserError(option("rank", number), cause, f"Add {option('ranks', 'N')}")
    size = size or _read(environment, launcher.ranks if launcher else "") or 1
    if number is None:
        number = 0 if size == 1 else _read(environment, launcher.rank if launcher else "")
    if number is None:
        cause = "no launcher says which of them this process is"
        raise UserError(
            option("ranks", size),
            cause,
            f"Add {option('rank', 'N')}, or start it by srun or mpirun",
        )
    if number >= size:
        cause = f"ranks are counted from 0, and there are {size}"
        raise UserError(option("rank", number), cause, f"Give {option('ranks')} of all processes")
    on_host = launcher.count_on_host(environment) if launcher else None
    hosts = _read(environment, launcher.hosts if launcher else "")
    return Rank(number, size, size in {on_host} or hosts == 1) if size > 1 else None


def count_own_processors(environment: Mapping[str, str] = os.environ) -> int:
    """Return how many processors this process may use, beside other ranks on this machine."""
    launcher = _find_launcher(environment, needs_size=True)
    return count_processors((launcher and launcher.count_on_host(environment)) or 1)


def _find_launcher(environment: Mapping[str, str], needs_size: bool) -> _Launcher | None:
    for launcher in _LAUNCHERS:
        is_said = _read(environment, launcher.rank) is not None
        if is_said and (_read(environment, launcher.ranks) or not needs_size):
            return launcher
    return None


def _read(environment: Mapping[str, str], name: str) -> int | None:
    """Read a number; of Slurm's "2(x3),1", two tasks on each of three machines and one, the 2."""
    digits = environment.get(name, "").partition("(")[0].partition(",")[0]
    return int(digits) if digits.isdecimal() else None
