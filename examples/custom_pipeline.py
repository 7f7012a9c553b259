"""A custom pipeline: hostrouting's tasks together with your own, with a retry, a parallel group and
undo.

It uses a fake host, and changes nothing else. `--plan` prints what would be done, and what would
make it fail. With `--fail`, the last step fails. Then every finished step is undone, the last step
first.
"""

import argparse
import itertools
import logging
import sys

import phases
from hostrouting import CheckRouteOverlap, ConfigureStaticRoutes, HostRoutingConfig
from hostrouting.testing import FakeHost, h200

ATTEMPTS = itertools.count(1)


@phases.task("download", plan=lambda _ctx: "would fetch the machine's image")
def download(ctx: phases.Context) -> str:
    """Fetch the image; the network is not up at the first attempt."""
    ctx.sleep(0.1)
    if next(ATTEMPTS) == 1:
        raise ConnectionError("network is unreachable")
    return "image.raw"


@phases.task("unpack")
def unpack(ctx: phases.Context) -> None:
    """Unpack it without interruption: if the run is stopped, this step finishes first."""
    with ctx.shielded(grace=30) as safe:
        safe.sleep(0.2)


class LabelNode:
    """A task is any object with a name and a method `do`. This one also has `plan` and `undo`."""

    name = "label-node"

    def __init__(self, labels: set[str]) -> None:
        self.labels = labels

    def do(self, ctx: phases.Context) -> None:
        """Add the label."""
        self.labels.add("rdma")
        ctx.log.info("labelled", extra={"labels": len(self.labels)})

    def plan(self, _ctx: phases.Context) -> str:
        """The text for the dry run."""
        return "would add the label rdma to this node"

    def undo(self, _ctx: phases.Context) -> None:
        """Remove the label."""
        self.labels.discard("rdma")


@phases.task("start-machine")
def start_machine(_ctx: phases.Context) -> None:
    """Start the machine."""


@phases.task("start-machine")
def start_broken_machine(_ctx: phases.Context) -> None:
    """Start a machine that fails."""
    raise RuntimeError("machine kube1 exited with code 1")


SECTIONS = {
    "staticRoutes": {
        "enabled": True,
        "routes": [{"destination": "172.16.0.0/17"}, {"destination": "172.16.128.0/17"}],
    },
    "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"},
}
CONFIG = HostRoutingConfig.from_mapping(SECTIONS)


def pipeline(
    host: FakeHost,
    labels: set[str],
    *,
    start: phases.Task[None],
    config: HostRoutingConfig = CONFIG,
) -> phases.Task[object]:
    """The two tasks of hostrouting are ordinary steps: they can be used separately, and in parallel
    with others.
    """
    return phases.serial(
        phases.retry(download, attempts=3, delay=0.1, on=ConnectionError),
        phases.parallel(
            unpack, ConfigureStaticRoutes(config, host=host), LabelNode(labels), name="prepare"
        ),
        CheckRouteOverlap(config, host=host),
        phases.deadline(start, 60),
        name="bootstrap",
    )


def main() -> int:
    """Plan or run the pipeline, and undo it if it failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plan", action="store_true", help="only print what would be done")
    parser.add_argument("--fail", action="store_true", help="let the last step fail")
    given = parser.parse_args()
    host, labels = FakeHost(kernel=h200()), set[str]()
    bootstrap = pipeline(host, labels, start=start_broken_machine if given.fail else start_machine)
    if given.plan:
        dry_run = phases.plan(bootstrap)
        print(dry_run)
        return dry_run.exit_code
    # The undo removes the gate, too, if it was not there before. Leave it out to keep machines from
    # starting.
    report = phases.run(bootstrap, undo_on_failure=True)
    print(report)
    print(f"files of hostrouting: {len(host.files.texts)}, labels: {sorted(labels)}")
    return report.exit_code


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    sys.exit(main())
