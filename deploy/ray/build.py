"""One build by machines of a Ray cluster, a rank on each of them.

python deploy/ray/build.py MACHINES PROCESSORS bert --input ... --output ... --resume
"""

import subprocess
import sys

import ray
from ray.util import get_node_ip_address
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy as Place

machines, processors = map(int, sys.argv[1:3])
command = ["corpusmill", *sys.argv[3:], "--ranks", str(machines), "--workers", str(processors)]


def run(rank: int) -> int:
    """Run one rank, which ends when Ray ends this process, and return its exit status."""
    own = ["--rank", str(rank), "--rank-address", get_node_ip_address()]
    return subprocess.call(["setpriv", "--pdeathsig", "TERM", *command, *own])  # noqa: S603, S607


ray.init()
group = placement_group([{"CPU": processors}] * machines, strategy="STRICT_SPREAD")
ray.get(group.ready())
task = ray.remote(num_cpus=processors, max_retries=0)(run)
ranks = [
    task.options(scheduling_strategy=Place(group, placement_group_bundle_index=rank)).remote(rank)
    for rank in range(machines)
]
# Rank 0 goes on without others that are lost.
sys.exit(ray.get(ranks[0]))
