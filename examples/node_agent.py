"""A whole node agent: it downloads files side by side, configures the routing, tells kubelet the
node's address, starts kubelet, and waits until it runs. If that fails, what this run did is undone,
and what an earlier run did stays.

The run is a part of an asyncio program. The report is JSON. `--plan` only prints what would be
done. With `--here`, the agent configures this computer, as root. Without it, the host is a fake
one: an H200 node whose InfiniBand devices capture 172.16.0.0/16. FILE is the agent's own
configuration:

    {"downloads": [{"path": "/opt/kubelet", "url": "https://…"}], "hostRouting": {"gate": …}}
"""

import argparse
import asyncio
import logging
import os
import sys
import urllib.request
from pathlib import Path
from typing import Annotated, NamedTuple

import phases
from hostrouting import (
    CheckResult,
    ConfigError,
    Configure,
    Host,
    HostRoutingConfig,
    Plan,
)
from hostrouting.reading import must, read_file, section
from hostrouting.testing import FakeHost, h200

UNIT = "kubelet.service"
DROP_IN = f"/etc/systemd/system/{UNIT}.d/50-node-ip.conf"


@section
class File(NamedTuple):
    """A file that a node needs."""

    path: Annotated[str, must(os.path.isabs, "is not an absolute path")]
    url: str


@section
class Settings(NamedTuple):
    """The agent's configuration. All faults are reported at once, those of hostrouting, too."""

    host_routing: HostRoutingConfig
    downloads: tuple[File, ...] = ()


class Download:
    """A file from the network, which is there whole, or not at all."""

    def __init__(self, path: str, url: str) -> None:
        self.path, self.url = Path(path), url
        self.part = self.path.with_name(f"{self.path.name}.part")
        self.name = "download" + path.replace("/", "-")  # no two files have one path

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

    def plan(self, _ctx: phases.Context) -> str | phases.Skip:
        """The text for the dry run."""
        if self.path.exists():
            return phases.Skip("it is there")
        return f"would download {self.url}"

    def undo(self, _ctx: phases.Context) -> None:
        """Remove it, and what is left of a download that failed."""
        self.path.unlink(missing_ok=True)
        self.part.unlink(missing_ok=True)


def drop_in_with_address(ctx: phases.Context) -> str | None:
    """The drop-in with kubelet's option; None without exactly one address: kubelet then chooses.

    In a dry run, the result of the earlier task is its Plan, which has the check as it would be.
    """
    result = ctx.find(Configure.name).result
    if not isinstance(result, CheckResult | Plan) or result.report is None:
        return None
    address = result.report.node_ips.get(4)
    if address is None:
        return None
    return f'[Service]\nEnvironment="KUBELET_EXTRA_ARGS=--node-ip={address}"\n'


class StartKubelet:
    """Start kubelet with the address that the check has found."""

    name = "start-kubelet"

    def __init__(self, host: Host) -> None:
        if host.running_manager is None:
            raise ValueError("systemd does not run on this host")
        self.files, self.manager = host.files, host.running_manager
        self.former: tuple[str | None, bool] | None = None
        """The drop-in before do(), and whether kubelet ran: undo() restores this. It is None until
        do() changes something.
        """

    def do(self, ctx: phases.Context) -> phases.Skip | None:
        """A kubelet that runs is left alone, unless its option changes.

        After a Skip, there is nothing to undo.
        """
        drop_in = drop_in_with_address(ctx)
        former = self._find()
        if former == (drop_in, True):
            return phases.Skip("it runs with this address")
        self.former = former
        self._stop_and_set(drop_in)
        self.manager.start(UNIT, timeout=60)
        return None

    def plan(self, ctx: phases.Context) -> str | phases.Skip:
        """The text for the dry run."""
        drop_in = drop_in_with_address(ctx)
        if self._find() == (drop_in, True):
            return phases.Skip("it runs with this address")
        return f"would start {UNIT} with this drop-in:\n{drop_in}"

    def undo(self, _ctx: phases.Context) -> None:
        """Stop it and restore the drop-in; a kubelet that ran before runs again."""
        if self.former is None:
            return
        drop_in, ran = self.former
        self._stop_and_set(drop_in)
        if ran:
            self.manager.start(UNIT, timeout=60)

    def _find(self) -> tuple[str | None, bool]:
        [state] = self.manager.show(("ActiveState",), UNIT)
        return self.files.read(DROP_IN), state["ActiveState"] == "active"

    def _stop_and_set(self, drop_in: str | None) -> None:
        self.manager.stop(UNIT)
        if drop_in is None:
            self.files.remove(DROP_IN)
        else:
            self.files.write(DROP_IN, drop_in)
        self.manager.reload()


def agent(settings: Settings, host: Host) -> phases.AnyTask:
    """The whole bootstrap of a node."""
    downloads = [Download(file.path, file.url) for file in settings.downloads]
    start = StartKubelet(host)

    @phases.task("wait-until-it-runs", plan=lambda _ctx: f"would wait until {UNIT} runs")
    def require_running(_ctx: phases.Context) -> None:
        [state] = start.manager.show(("ActiveState",), UNIT)
        if state["ActiveState"] != "active":
            raise RuntimeError(f"{UNIT} is {state['ActiveState']}")

    return phases.serial(
        phases.parallel(*map(phases.retry, downloads), name="downloads", at_once=4),
        phases.retry(Configure(settings.host_routing, host=host)),
        start,
        phases.deadline(phases.retry(require_running, attempts=None), 300),
        name="bootstrap",
    )


async def run(bootstrap: phases.AnyTask) -> phases.Step:
    """Run it beside the agent's other coroutines; SIGTERM cancels it, and what it did is undone."""
    return await phases.run_async(bootstrap, undo_on_failure=True)


if __name__ == "__main__":
    logging.basicConfig(level="INFO", format="%(levelname)s %(message)s")
    parser = argparse.ArgumentParser(description="prepare this node, and start kubelet")
    parser.add_argument("config", metavar="FILE", type=Path, help="the agent's configuration")
    parser.add_argument("--here", action="store_true", help="on this computer, not on a fake host")
    parser.add_argument("--plan", action="store_true", help="only print what would be done")
    given = parser.parse_args()
    try:
        settings = read_file(Settings, given.config)
    except ConfigError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
    bootstrap = agent(settings, Host.local() if given.here else FakeHost(kernel=h200()))
    if given.plan:
        dry_run = phases.plan(bootstrap)
        print(dry_run)
        sys.exit(dry_run.exit_code)
    report = asyncio.run(run(bootstrap))
    print(report.to_json())
    sys.exit(report.exit_code)
