"""Configure the routing of another network namespace, such as that of a container, from outside.

NAMESPACE is a name of `ip netns`, or a path such as /proc/PID/ns/net, and DIR is where the root of
the container is mounted: the files are written there. Run this as root.
"""

import argparse
import logging
import sys
from contextlib import nullcontext
from pathlib import Path

import pyroute2

import phases
from hostrouting import Configure, Host, HostRoutingConfig, Pyroute2Backend, exit_code
from hostrouting.host import LocalFiles

SECTIONS = {
    "staticRoutes": {"enabled": True, "routes": [{"destination": "172.16.0.0/16"}]},
    "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
}
CONFIG = HostRoutingConfig.from_mapping(SECTIONS)


def main() -> int:
    """Configure the namespace, and report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("namespace", metavar="NAMESPACE")
    parser.add_argument("root", metavar="DIR", type=Path)
    given = parser.parse_args()
    # With flags=0, a namespace that does not exist is an error, and is not made.
    with pyroute2.NetNS(given.namespace, flags=0) as handle, Pyroute2Backend(handle) as backend:
        host = Host(
            backend=lambda: nullcontext(backend),  # one for all tasks, which would close it
            files=LocalFiles(given.root.resolve()),
            manager=None,  # no systemd runs there: units are enabled by their links
        )
        report = phases.run(Configure(CONFIG, host=host))
    print(report)
    return exit_code(report)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    sys.exit(main())
