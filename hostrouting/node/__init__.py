"""What runs on a node: `run_gate` before each start of a gated unit, `run_boot` in a service at
boot, and `run_guard` for as long as the host runs. Each is called by a unit of `boot.units`, from
hostrouting.pyz, and ends its process.

The program is open as descriptor 3, and its modules are imported from there, so that all are of one
release, whatever replaces the file meanwhile. (A start that began before an upgrade is refused
once, if config.json then has a key that only the new release knows.) Old versions of Python can
read this file, so that it can say that they are too old.
"""

import os
import sys

from hostrouting.release import OLDEST_PYTHON, PASSED


def run_gate() -> None:
    """Decide whether the unit in the first argument may start."""
    _require_python()
    from hostrouting.node.start import decide_start  # noqa: PLC0415  an older Python cannot read it

    _exit(decide_start(sys.argv[1]))


def run_boot() -> None:
    """Run by a service at boot: do what the first argument names, which is to set the static
    routes, to load the table for probes, or to check.
    """
    _require_python()
    from hostrouting.node.boot import run_service  # noqa: PLC0415  an older Python cannot read it

    _exit(run_service(sys.argv[1]))


def run_guard() -> None:
    """Keep the routing right until a signal ends this process."""
    _require_python()
    from hostrouting.node.guard import guard_host  # noqa: PLC0415  an older Python cannot read it

    _exit(guard_host())


def run_trial() -> None:
    """Try whether this interpreter can run the gate: load what the gate loads, and exit with
    PASSED if that works. An install and `status` run this.
    """
    if sys.version_info < OLDEST_PYTHON:
        sys.exit("it is Python {}.{}".format(*sys.version_info[:2]))
    import hostrouting.kernel.netlink.backend  # noqa: PLC0415  an older Python cannot read it
    import hostrouting.node.start  # noqa: F401, PLC0415

    _exit(PASSED)


def _require_python() -> None:
    # If this Python is too old to import the library, log what to do, and exit. In the journal, the
    # line is an error (<3>).
    if sys.version_info >= OLDEST_PYTHON:
        return
    needed = "{}.{}".format(*OLDEST_PYTHON)
    present = "{}.{}".format(*sys.version_info[:2])
    line = (
        f"<3>hostrouting: Python {needed} or newer is needed, and /etc/hostrouting/python is "
        f"Python {present}; install a newer one, and then, as root: $(ls /usr/bin/python3.?? | "
        "tail -1) /etc/hostrouting/hostrouting.pyz apply --config /etc/hostrouting/config.json\n"
    )
    os.write(2, line.encode())  # print would only fill a buffer, which _exit does not write
    # Not REFUSED: with that status, the gate's shell script says nothing more. With any other but
    # PASSED, it also says how to start units without the gate.
    _exit(1)


def _exit(status: int) -> None:
    """End the process at once: no thread or atexit handler delays that or changes the status."""
    os._exit(status)
