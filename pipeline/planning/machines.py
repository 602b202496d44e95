"""Machines and their prices, as options of a plan."""

from dataclasses import dataclass, fields

from corpusmill.errors import check_option

# The day of the price lists of Dataflow and Cloud Storage from which the defaults are.
PRICES_OF = "2025-06-01"


@dataclass(frozen=True)
class MachineOptions:
    """Workers, what they cost, and how fast they are.

    The defaults are the list prices of batch jobs on Dataflow and of Cloud Storage in us-central1
    on 2025-06-01, in US dollars, without discounts. Prices change, and none of these were checked
    since: set yours.
    """

    machine_type: str = "n2-standard-4"
    """Name of the workers' machine, for the output; its sizes and prices are options of their
    own."""
    region: str = "us-central1"
    """Region of the prices, for the output."""
    vcpus_per_machine: int = 4
    """Processors of a machine; each runs one worker."""
    memory_per_vcpu: float = 4.0
    """GB of memory for each processor."""
    disk_per_vcpu: float = 12.5
    """GB of local disk for each processor."""
    vcpu_price: float = 0.056
    """Price of a processor for an hour."""
    memory_price: float = 0.003557
    """Price of a GB of memory for an hour."""
    disk_price: float = 0.000054
    """Price of a GB of local disk for an hour."""
    shuffle_price: float = 0.011
    """Price of a GB that Dataflow's shuffle service moves; only with --runner DataflowRunner."""
    write_price: float = 0.05
    """Price of 10,000 requests that write, copy or list objects."""
    read_price: float = 0.004
    """Price of 10,000 requests that read objects."""
    storage_price: float = 0.02
    """Price of a GB in the object store for a month."""
    soft_delete_days: float = 7.0
    """For how many days the store keeps, and bills, temporary files that were deleted; 0 where
    soft delete is off, as it should be for such a bucket."""
    vcpu_speed: float = 1.0
    """Speed of such a processor relative to this machine's, on which the rates are measured."""
    request_seconds: float = 0.03
    """Time that a worker waits for a small read from the object store."""
    element_seconds: float = 60e-6
    """Processor time of the engine for each element that it shuffles."""
    start_seconds: float = 180.0
    """Time until the workers of a cluster or a service have started."""

    def __post_init__(self) -> None:
        """Check each value.

        Raises:
            UserError: a value is not valid.
        """
        for option in fields(self):
            value, flag = getattr(self, option.name), option.name.replace("_", "-")
            if isinstance(value, int | float):
                above_zero = option.name in {"vcpus_per_machine", "vcpu_speed"}
                is_valid = value > 0 if above_zero else 0 <= value < float("inf")
                check_option(flag, value, is_valid, "more than 0" if above_zero else "0 or more")
