"""check-route-overlap.sh, run in private namespaces: its verdict and its findings equal the engine's."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostrouting.config import HostRoutingConfig, RouteOverlapConfig
from hostrouting.fib import Fib
from hostrouting.model import IPV4, Link, Prefix, Snapshot
from hostrouting.overlap import check_overlap
from hostrouting.render import render_check_script
from hostrouting.repair import propose_repair
from hostrouting.wording import check_document, finding_line
from tests.hostrouting.test_fib_against_kernel import devices, furnish, route_command, rule_command, wishes
from tests.support.namespace import Namespace, private_namespace
from tests.support.strategies import blocks, prefixes

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(os.geteuid() != 0, reason="a private network namespace takes root"),
]

BLOCK = Prefix.parse("172.16.0.0/28")


class Checked:
    """One run of the script: its exit status, what it said, and what it left."""

    def __init__(self, namespace: Namespace, config: HostRoutingConfig, directory: Path, *, wait: int = 0) -> None:
        """Render the script, run it."""
        script = directory / "check.sh"
        script.write_text(render_check_script(config, wait=wait))
        done = namespace.run("bash", str(script), RUNTIME_DIRECTORY=str(directory / "state"))
        self.status, self.said = done.returncode, done.stderr
        state = directory / "state"
        self.left = {path.name: path.read_text() for path in state.iterdir()} if state.is_dir() else {}
        self.document: dict[str, Any] = json.loads(self.left.get("route-overlap.json", "{}"))


def engine(snapshot: Snapshot, config: HostRoutingConfig) -> dict[str, Any]:
    """The same check by the engine, as its JSON."""
    check = config.route_overlap
    fib = Fib(snapshot)
    cidrs = [Prefix.of(cidr) for cidr in check.expected_cidrs]
    report = check_overlap(fib, cidrs, devs=check.expected_devs, allowed=check.allowed_devs)
    document = check_document(report, propose_repair(fib, report, protocol=config.protocol), mode=check.mode)
    document["lines"] = [finding_line(finding, report.expected_devs) for finding in report.findings]
    return document


def configs(block: Prefix) -> st.SearchStrategy[HostRoutingConfig]:
    """Checks of one to three prefixes in the block or around it."""
    return st.builds(
        lambda cidrs, mode, devs: HostRoutingConfig(
            route_overlap=RouteOverlapConfig([str(cidr) for cidr in cidrs], mode, devs, ["wg*"])
        ),
        st.lists(prefixes(block, wider=True), min_size=1, max_size=3),
        st.sampled_from(["WARN", "STRICT"]),
        st.sampled_from([[], [], ["eth0"], ["eth0", "eth1"]]),
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
@given(data=st.data())
def test_the_script_equals_the_engine(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """On any host, verdict, findings, repair and notes are those of the engine, word for word."""
    block = data.draw(blocks(IPV4))
    wanted_rules, wanted_routes = data.draw(wishes(block))
    config = data.draw(configs(block))
    lost = data.draw(st.sets(st.sampled_from(["ib0", "wg0"])))
    (links,) = devices()
    with private_namespace() as namespace:
        furnish(namespace, links, lost)
        uplink = data.draw(st.sampled_from(UPLINKS))
        batch = [*uplink, *map(route_command, wanted_routes), *map(rule_command, wanted_rules)]
        namespace.batch(batch, force=True, family=IPV4)
        snapshot = namespace.snapshot()
        checked = Checked(namespace, config, tmp_path_factory.mktemp("check"))
    expected = engine(snapshot, config)
    lines = expected.pop("lines")
    told = "\n".join([checked.said, *map(str, [*snapshot.rules, *snapshot.routes])])
    assert checked.document.keys() == expected.keys(), told
    for key, value in expected.items():
        assert checked.document[key] == value, f"{key}: {checked.document[key]}\ninstead of {value}\n{told}"
    mode = config.route_overlap.mode
    if expected["verdict"] == "overlap":
        assert checked.left["route-overlap.detected"].splitlines() == lines
    assert checked.status == (mode == "STRICT" and expected["verdict"] in {"overlap", "no-default-route"})


UPLINKS = (
    ["route add default via 10.0.0.1 dev eth0"],
    ["route add default via 10.0.0.1 dev eth0"],
    ["route add default nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.2 dev eth1 onlink"],
    ["route add default dev wg0 metric 5", "route add default via 10.0.0.1 dev eth0 metric 9"],
    ["route add default dev eth1"],
    [],
)
