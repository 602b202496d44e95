"""Simulated machines: namespaces with their own network, name, processes and root folder.

A host has the system, Python, the installed packages except the project, and one folder that all
hosts share. It sees neither the checkout nor any other folder of this machine, and its network is a
cable to the driver.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from corpusmill.arrays.kernel_cache import kernel_folder
from tests.conftest import CHECKOUT
from tests.tools.launching import add_network, ip, report_missing

POOL_PORT = 50000
# The two ends of a host's cable. Every host can reach all of the driver's ends.
_DRIVER_ADDRESS, _HOST_ADDRESS = "10.0.{number}.1", "10.0.{number}.2"
DRIVER_ADDRESS = _DRIVER_ADDRESS.format(number=0)

_ENVIRONMENT, _PACKAGES, _BOOT = "/venv", "/opt/packages", "/opt/apache/beam/boot"
_KERNELS = "/opt/corpusmill/kernels"
_SYSTEM = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "etc", "dev")

# The environment variables of Beam's images, without a package index.
_VARIABLES = {
    "PATH": f"{_ENVIRONMENT}/bin:/usr/bin:/bin",
    "RUN_PYTHON_SDK_IN_DEFAULT_ENVIRONMENT": "1",
    "PIP_NO_INDEX": "1",
    "NUMBA_CACHE_DIR": _KERNELS,
}


@dataclass(frozen=True)
class Host:
    """A machine with a pool of workers.

    Attributes:
        name: within the host.
        address: for the driver.
        root: the root folder, as seen from outside.
        log: of the pool.
    """

    name: str
    address: str
    root: Path
    log: Path


@dataclass(frozen=True)
class Network:
    """Hosts and a driver, which is this machine with another network.

    Attributes:
        driver: name of the driver's network.
        hosts: machines with pools of workers.
    """

    driver: str
    hosts: tuple[Host, ...]

    @property
    def pools(self) -> list[str]:
        """The addresses of the pools."""
        return [f"{host.address}:{POOL_PORT}" for host in self.hosts]

    def start(self, *arguments: str | Path, log: Path) -> "subprocess.Popen[str]":
        """Start a Python program of the checkout on the driver; its output goes to a file."""
        with log.open("w") as stream:
            return subprocess.Popen(
                ["ip", "netns", "exec", self.driver, sys.executable, *map(str, arguments)],
                cwd=CHECKOUT, stdout=stream, stderr=subprocess.STDOUT, text=True,
            )  # fmt: skip


def find_boot() -> Path:
    """Return the program that starts Beam's containers."""
    boot = Path(os.environ.get("BEAM_BOOT") or Path(sys.prefix, "bin", "beam-boot"))
    if not boot.is_file():
        report_missing("Beam's boot program is missing: `make test-hosts` installs it with Go")
    return boot


@contextmanager
def connect_hosts(folder: Path, shared: Path, names: tuple[str, ...]) -> Iterator[Network]:
    """Create hosts with a running pool of workers; the end of the block removes them.

    Args:
        folder: for the hosts' root folders and logs.
        shared: the folder that all hosts have, at the same path.
        names: of the hosts.
    """
    boot = find_boot()
    if not shutil.which("ip") or not shutil.which("unshare"):
        report_missing("`ip` or `unshare` is missing: install iproute2 and util-linux")
    driver = f"corpusmill-{os.getpid()}"
    with ExitStack() as stack:
        add_network(driver, stack)
        hosts = []
        for number, name in enumerate(names):
            network, root = f"{driver}-{name}", folder / name
            add_network(network, stack)
            _lay_cable(driver, network, number)
            _make_root(root, boot, shared)
            address = _HOST_ADDRESS.format(number=number)
            hosts.append(Host(name, address, root, folder / f"{name}.log"))
            stack.enter_context(_start_pool(hosts[-1], network, shared))
        yield Network(driver, tuple(hosts))


def _lay_cable(driver: str, host: str, number: int) -> None:
    ours, theirs = f"host{number}", "driver"
    ip("-n", driver, "link", "add", ours, "type", "veth", "peer", "name", theirs, "netns", host)
    for network, device, address in (
        (driver, ours, _DRIVER_ADDRESS),
        (host, theirs, _HOST_ADDRESS),
    ):
        ip("-n", network, "address", "add", f"{address.format(number=number)}/24", "dev", device)
        ip("-n", network, "link", "set", device, "up")
    ip("-n", host, "route", "add", "default", "via", _DRIVER_ADDRESS.format(number=number))


def _make_root(root: Path, boot: Path, shared: Path) -> None:
    """Make a root folder with a Python that has all packages except the project's."""
    environment = root / _ENVIRONMENT[1:]
    venv.create(environment, symlinks=True)
    packages = environment / _site_packages().relative_to(sys.prefix)
    # .pth files within a folder that a .pth file names are ignored, and so the editable install is.
    (packages / "packages.pth").write_text(f"{_PACKAGES}\n")
    # Images have compiled kernels, too.
    shutil.copytree(kernel_folder(), root / _KERNELS[1:] / kernel_folder().name)
    for name in ("/proc", "/tmp", _PACKAGES, str(shared)):  # noqa: S108  the host's own
        (root / name[1:]).mkdir(parents=True)
    target = root / _BOOT[1:]
    target.parent.mkdir(parents=True)
    shutil.copy(boot, target)


def _site_packages() -> Path:
    return Path(sysconfig.get_path("purelib"))


@contextmanager
def _start_pool(host: Host, network: str, shared: Path) -> Iterator[None]:
    pool = ("python", "-m", "apache_beam.runners.worker.worker_pool_main")
    flags = (f"--service_port={POOL_PORT}", f"--container_executable={_BOOT}")
    variables = (f"{name}={value}" for name, value in _VARIABLES.items())
    inside = ("chroot", str(host.root), "env", "--ignore-environment", *variables, *pool, *flags)
    script = [
        "set -e",
        f"hostname {host.name}",
        "mount --make-rprivate /",
        *_system_mounts(host.root),
        f"mount --bind {_site_packages()} {host.root}{_PACKAGES}",
        f"mount --bind {shared} {host.root}{shared}",
        f"mount -t proc proc {host.root}/proc",
        f"cd / && exec {' '.join(inside)}",
    ]
    alone = ("unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child")
    with host.log.open("w") as log:
        started = subprocess.Popen(
            ["ip", "netns", "exec", network, *alone, "sh", "-c", "\n".join(script)],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield
    finally:
        # The end of the host's first process ends all others.
        started.kill()
        started.wait()


def _system_mounts(root: Path) -> Iterator[str]:
    for path in (Path("/", name) for name in _SYSTEM):
        if path.is_symlink():
            yield f"ln -s {path.readlink()} {root}{path}"
        elif path.is_dir():
            yield f"mkdir {root}{path} && mount --rbind {path} {root}{path}"
    python = Path(sys.base_prefix)
    if not python.is_relative_to("/usr"):
        yield f"mkdir -p {root}{python} && mount --bind {python} {root}{python}"
