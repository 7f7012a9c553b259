"""A node bootstrap agent in small: it makes the host's routing right, proves it, and only then starts the machine.

It works on a host in memory, an H200 node whose InfiniBand devices hide the cluster's 172.16.0.0/16. `--broken` leaves
the repair out of the configuration: the check fails, and the machine is not started. `--plan` only says what would be
done. `--host FILE` does it on this machine, as root, with the configuration in that file; any other word is the name
of a step to run alone.
"""

import logging
import subprocess
import sys

import phases
from hostrouting import ConfigError, Configure, Host, HostRoutingConfig
from hostrouting.testing import FakeHost, h200

BROKEN = HostRoutingConfig.from_mapping({"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"}})
REPAIRED = HostRoutingConfig(
    {"enabled": True, "routes": [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}]},
    BROKEN.route_overlap,
)


@phases.task("start-machine", plan=lambda _ctx: "would start the machine kube1")
def start_machine(ctx: phases.Context) -> None:
    """Start it; on the host in memory there is none to start."""
    if "--host" in sys.argv:
        subprocess.run(["/usr/bin/machinectl", "start", "kube1"], check=True)
    ctx.log.info("kube1 runs")


def agent(config: HostRoutingConfig, host: Host) -> phases.Task[object]:
    """The whole bootstrap of a node."""
    return phases.serial(
        Configure(config, host=host),
        phases.deadline(start_machine, 90),
        name="bootstrap",
    )


def main(words: list[str]) -> int:
    """Choose host and configuration, and run it."""
    if "--host" in words:
        at = words.index("--host")
        config, host = HostRoutingConfig.load(words[at + 1]), Host.local()
        del words[at + 1]
    else:
        config, host = BROKEN if "--broken" in words else REPAIRED, FakeHost(kernel=h200())
    bootstrap = agent(config, host)
    if "--plan" in words:
        print(phases.plan(bootstrap))
        return 0
    report = phases.run(bootstrap, only=[word for word in words if not word.startswith("--")])
    print(report)
    return report.exit_code


if __name__ == "__main__":
    handler = logging.StreamHandler()
    handler.setFormatter(phases.LogfmtFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    try:
        sys.exit(main(sys.argv[1:]))
    except (phases.UnknownTask, ConfigError) as error:
        sys.exit(str(error))
