"""A whole node agent: it downloads files side by side, configures the routing, tells kubelet the
node's address, starts kubelet, and waits until it runs. If that fails, all of it is undone.

The run is a part of an asyncio program, which cancels it on SIGINT and SIGTERM. The report is JSON.
With `--here`, the agent configures this computer, as root. Without it, the host is a fake one: an
H200 node whose InfiniBand devices capture 172.16.0.0/16. FILE is the agent's own configuration:

    {"downloads": {"/opt/kubelet": "https://…"}, "hostRouting": {"gate": …, "routeOverlap": …}}
"""

import argparse
import asyncio
import json
import logging
import signal
import sys
import urllib.request
from pathlib import Path

import phases
from hostrouting import CheckResult, Configure, Host, HostRoutingConfig, exit_code
from hostrouting.testing import FakeHost, h200

UNIT = "kubelet.service"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/50-node-ip.conf"


class Download:
    """A file from the network, which is there whole, or not at all."""

    def __init__(self, path: str, url: str) -> None:
        self.path, self.url = Path(path), url
        self.part = self.path.with_suffix(".part")
        self.name = f"download-{self.path.name}"

    def do(self, ctx: phases.Context) -> phases.Skip | None:
        """Fetch it in pieces: in between, the run can be cancelled.

        After a Skip, there is nothing to undo: what an earlier run has downloaded stays.
        """
        if self.path.exists():
            return phases.Skip("it is there")
        with urllib.request.urlopen(self.url, timeout=30) as answer, self.part.open("wb") as file:  # noqa: S310  the operator's own
            while piece := answer.read(1 << 16):
                ctx.check()
                file.write(piece)
        self.part.rename(self.path)
        return None

    def undo(self, _ctx: phases.Context) -> None:
        """Remove it, and what is left of a download that failed."""
        self.path.unlink(missing_ok=True)
        self.part.unlink(missing_ok=True)


class StartKubelet:
    """Start kubelet with the address that the check has found."""

    name = "start-kubelet"

    def __init__(self, host: Host) -> None:
        if host.manager is None:
            raise ValueError("an image has no service manager")
        self.files, self.manager = host.files, host.manager

    def do(self, ctx: phases.Context) -> None:
        """A drop-in has the option. Without exactly one address, kubelet chooses.

        A kubelet that runs is left alone, unless its option changes.
        """
        result = ctx.find(Configure.name).result
        if isinstance(result, CheckResult) and 4 in result.node_ips:
            option = f"KUBELET_EXTRA_ARGS=--node-ip={result.node_ips[4]}"
            drop_in = f'[Service]\nEnvironment="{option}"\n'
            if self.files.read(DROP_IN) != drop_in:
                self.files.write(DROP_IN, drop_in)
                self.manager.reload()
                self.manager.stop(UNIT)
        self.manager.start(UNIT, timeout=60)  # does nothing if it runs

    def undo(self, _ctx: phases.Context) -> None:
        """Stop it, and remove the drop-in."""
        self.manager.stop(UNIT)
        if self.files.remove(DROP_IN):
            self.manager.reload()


def agent(document: dict[str, dict[str, str]], host: Host) -> phases.AnyTask:
    """The whole bootstrap of a node."""
    downloads = [Download(path, url) for path, url in document.get("downloads", {}).items()]
    start = StartKubelet(host)

    @phases.task("wait-until-it-runs")
    def require_running(_ctx: phases.Context) -> None:
        [state] = start.manager.show(("ActiveState",), UNIT)
        if state["ActiveState"] != "active":
            raise RuntimeError(f"{UNIT} is {state['ActiveState']}")

    return phases.serial(
        phases.parallel(*map(phases.retry, downloads), name="downloads", at_once=4),
        phases.retry(Configure(HostRoutingConfig.from_mapping(document, required=True), host=host)),
        start,
        phases.deadline(phases.retry(require_running, attempts=None), 300),
        name="bootstrap",
    )


async def run(bootstrap: phases.AnyTask) -> phases.Step:
    """The report of a run that this program can cancel."""
    ctx = phases.Context()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ctx.cancel, number.name)
    return await asyncio.to_thread(phases.run, bootstrap, ctx=ctx, undo_on_failure=True)


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(levelname)s %(message)s")
    parser = argparse.ArgumentParser(description="prepare this node, and start kubelet")
    parser.add_argument("config", metavar="FILE", type=Path, help="the agent's configuration")
    parser.add_argument("--here", action="store_true", help="on this computer, not on a fake host")
    given = parser.parse_args()
    host = Host.local() if given.here else FakeHost(kernel=h200())
    report = asyncio.run(run(agent(json.loads(given.config.read_text()), host)))
    print(report.to_json())
    sys.exit(exit_code(report))
