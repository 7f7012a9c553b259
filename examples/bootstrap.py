"""A small node bootstrap agent: it configures the host's routing, checks it, and only then starts
the machine.

It uses a fake host: an H200 node whose InfiniBand devices capture the cluster's 172.16.0.0/16. With
`--broken`, the configuration does not contain the repair, so the check fails and the machine is not
started. `--plan` only prints what would be done, and exits with 1 if the run would fail. `--host
FILE` uses this computer, as root, with the configuration in that file. If you name steps, only
these steps are run.
"""

import argparse
import logging
import subprocess
import sys

import phases
from hostrouting import ConfigError, Configure, Host, HostRoutingConfig, exit_code
from hostrouting.testing import FakeHost, h200

CHECK = {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"}
ROUTES = [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]
BROKEN = HostRoutingConfig.from_mapping({"routeOverlap": CHECK})
REPAIRED = HostRoutingConfig.from_mapping(
    {"routeOverlap": CHECK, "staticRoutes": {"enabled": True, "routes": ROUTES}}
)


class StartMachine:
    """Start a machine, and wait until it runs."""

    name = "start-machine"

    def __init__(self, machine: str, *, command: tuple[str, ...]) -> None:
        self.machine, self.command = machine, command

    def do(self, ctx: phases.Context) -> None:
        """Start the machine. If the task is cancelled, by a signal or the deadline, stop waiting
        for it.
        """
        with (
            subprocess.Popen([*self.command, self.machine]) as process,  # noqa: S603  the caller's own
            ctx.on_cancel(process.terminate),
        ):
            code = process.wait()
        if code:
            raise RuntimeError(
                f"{self.command[0]} exited with {code}; see journalctl -u "
                f"systemd-nspawn@{self.machine}"
            )
        ctx.log.info("%s runs", self.machine)

    def plan(self, _ctx: phases.Context) -> str:
        """The text for the dry run."""
        return f"would start the machine {self.machine}"


def agent(config: HostRoutingConfig, host: Host, *, start: tuple[str, ...]) -> phases.Task[object]:
    """The whole bootstrap of a node."""
    return phases.serial(
        Configure(config, host=host),
        phases.deadline(StartMachine("kube1", command=start), 90),
        name="bootstrap",
    )


def main() -> int:
    """Choose the host and the configuration, and run the agent."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "steps",
        metavar="STEP",
        nargs="*",
        help="a step to run alone, such as configure-host-routing",
    )
    parser.add_argument("--plan", action="store_true", help="only print what would be done")
    parser.add_argument(
        "--broken", action="store_true", help="use a configuration without the repair"
    )
    parser.add_argument(
        "--host", metavar="FILE", help="use this computer, with the configuration in FILE"
    )
    given = parser.parse_args()
    if given.host:
        config = HostRoutingConfig.load(given.host, required=True)
        bootstrap = agent(config, Host.local(), start=("/usr/bin/machinectl", "start"))
    else:
        # A fake host has no machine to start, so `true` replaces machinectl.
        in_memory = FakeHost(kernel=h200())
        bootstrap = agent(BROKEN if given.broken else REPAIRED, in_memory, start=("true",))
    if given.plan:
        dry_run = phases.plan(bootstrap)
        print(dry_run)
        return dry_run.exit_code
    report = phases.run(bootstrap, only=given.steps)
    if report.ok:  # why a run failed is in the log
        print(report)
    return exit_code(report)  # 3: try again later


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        sys.exit(main())
    except (phases.UnknownTask, ConfigError) as error:
        sys.exit(str(error))
