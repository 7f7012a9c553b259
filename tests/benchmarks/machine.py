"""The machine that was measured: what figures depend on, and nothing that tells whose it is."""

import os
import platform
import re

import attrs

__all__ = ["Machine", "this_machine"]


@attrs.frozen
class Machine:
    """Cores, kernel and interpreter."""

    cores: int
    kernel: str
    python: str

    def __str__(self) -> str:
        return f"Linux {self.kernel} on {self.cores} cores, Python {self.python}"


def this_machine() -> Machine:
    """The machine of this run; of the kernel's release only the numbers, because the rest is its builder's."""
    numbers = re.match(r"[\d.]+", platform.release())
    return Machine(os.cpu_count() or 1, numbers.group().rstrip(".") if numbers else "", platform.python_version())
