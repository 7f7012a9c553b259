"""The first line of `status`, `plan` and `apply` has the reason: what differs, what is missing, and
when a run would fail.
"""

import json
from collections.abc import Callable

import pytest

from hostrouting.model.prefix import Prefix
from hostrouting.model.route import Route
from hostrouting.model.rule import Rule
from hostrouting.testing import FakeHost, plain_vm
from tests.support.cli import say
from tests.support.incidents import (
    BY_HAND,
    GUARDED,
    KUBELET,
    add_ib0,
    apply,
    apply_installed,
    config,
    escaping_node,
    node,
    plan,
    plan_installed,
    type_pipeline,
)
from tests.support.tasks import CIDR, LAYOUT, REPAIR, lose_routes, manager_of, type_routes
from tests.support.topologies import ETH1, WithoutIPv6


def stop_guard(host: FakeHost) -> None:
    """Somebody stops the guard."""
    manager_of(host).stop(LAYOUT.guard_unit)


def lose_routes_and_guard(host: FakeHost) -> None:
    """The routes are lost while the guard does not run; nothing escapes here."""
    stop_guard(host)
    lose_routes(host)


def edit_unit(host: FakeHost) -> None:
    """Somebody edits a unit."""
    host.files.texts[LAYOUT.unit_path(LAYOUT.routes_unit)] += "# mine\n"


def delete_program(host: FakeHost) -> None:
    """Somebody deletes two files without which kubelet cannot start."""
    host.files.remove(LAYOUT.program_path)
    host.files.remove(LAYOUT.python_path)


DIFFERENCES: dict[str, Callable[[FakeHost], None]] = {
    "2 routes are missing and the guard does not run": lose_routes_and_guard,
    "the guard does not run": stop_guard,
    f"{LAYOUT.unit_path(LAYOUT.routes_unit)} is not as installed": edit_unit,
    f"{KUBELET} cannot start, and 2 files are not as installed": delete_program,
}


@pytest.mark.parametrize("reason", DIFFERENCES)
def test_what_differs(reason: str) -> None:
    """`status` names the routes, the guard and the files that are not as installed."""
    host = node(config(*REPAIR, guard=GUARDED), plain_vm)
    DIFFERENCES[reason](host)
    assert say("status", host=host).lines[0] == f"DIFFERENT: {reason}"


def test_two_paths_that_others_can_change() -> None:
    """As after a chown of the whole folder. One command repairs both, and then applies: nobody has
    to ask again to learn of the second.
    """
    host = node(config(*REPAIR), plain_vm)
    lose_routes(host)
    scripts = [f"{LAYOUT.gate_directory}/{name}.sh" for name in ("30-a", "40-b")]
    for script in scripts:
        host.files.texts[script] = "exit 0\n"
        host.files.modes[script] = 0o777
    repairs = [f"chown root {script} && chmod go-w {script}" for script in scripts]
    apply_again = f"hostrouting apply --config {LAYOUT.config_path}"
    assert say("status", host=host).lines[1:3] == [
        "To make it match, as root:",
        f"  {' && '.join([*repairs, apply_again])}",
    ]


def test_addresses_escape_and_a_route_is_to_be_deleted() -> None:
    """Apply would delete a route of ours that nobody needs, and does not end the escape."""
    host = node(config(), plain_vm)
    host.kernel.add_rule(Rule(family=4, priority=100, action="prohibit", dst=Prefix.parse(CIDR)))
    type_routes(host, "10.77.0.0/16")
    assert say("status", host=host).lines[0] == "DIFFERENT: addresses escape"


@pytest.mark.parametrize(
    ("opened", "shut", "first"),
    [
        ("pods", "kubelet", "pods.service can start unchecked and kubelet.service cannot start"),
        (
            "pods",
            "kubelet systemd-nspawn@",
            "pods.service can start unchecked and the other units cannot start",
        ),
        (
            "d c b a",
            "kubelet",
            (
                "a.service, b.service, c.service and d.service can start unchecked and "
                "kubelet.service cannot start"
            ),
        ),
    ],
    ids=["one is open", "several are shut", "several are open"],
)
def test_some_units_are_open_and_the_gate_is_shut(opened: str, shut: str, first: str) -> None:
    """`status` says which units start unchecked, and which ones cannot start."""
    gated = [f"{name}.service" for name in f"{opened} {shut}".split()]
    host = node(config(*REPAIR, gate={"units": gated}), plain_vm)
    counts_as_success = {"LoadState": "loaded", "SuccessExitStatus": "255"}
    for name in opened.split():
        manager_of(host).properties[f"{name}.service"] = counts_as_success
    host.files.remove(LAYOUT.program_path)
    missing = f"{LAYOUT.program_path} is not as installed"
    assert say("status", host=host).lines[0] == f"DIFFERENT: {first}, and {missing}"


def test_an_instance_is_open_and_the_gate_is_shut() -> None:
    """The configuration names the instance: no other unit of its template is gated."""
    instance = "machine@a.service"
    host = node(config(*REPAIR, gate={"units": [KUBELET, instance]}), plain_vm)
    counts_as_success = {"LoadState": "loaded", "SuccessExitStatus": "255"}
    manager_of(host).properties[instance] = counts_as_success
    host.files.remove(LAYOUT.program_path)
    first = f"{instance} can start unchecked and {KUBELET} cannot start"
    assert say("status", host=host).lines[0].startswith(f"DIFFERENT: {first}")


def test_a_plan_of_an_ipv6_route_on_a_kernel_without_ipv6() -> None:
    """`apply` would not wait for what cannot come, but fail, and say why."""
    wanted = {"staticRoutes": {"enabled": True, "routes": [{"destination": "fd77::/48"}]}}
    host = FakeHost(kernel=WithoutIPv6())
    planned = plan(host, json.dumps(wanted))
    would = "WOULD FAIL: apply would change nothing, because fd77::/48 needs IPv6, "
    assert planned.lines[0].startswith(would)
    assert plan(host, json.dumps(wanted), "--json").json["wouldFail"].count("needs IPv6") == 1


def start_clone(host: FakeHost) -> None:
    """The node is started with the configuration of another one, in whose network the gateway is:
    nothing escapes here, but the routes wait.
    """
    installed = json.loads(host.files.texts[LAYOUT.config_path])["hostRouting"]
    for route in installed["staticRoutes"]["routes"]:
        route["gateway"] = "10.9.9.1"
    lose_routes(host)
    apply(host, json.dumps(installed))


def test_a_configuration_of_another_node() -> None:
    """Below the first line stand the default route of this one, the file, and what to type then.
    `repair` has nothing to repair.
    """
    host = node(config(*REPAIR), plain_vm)
    start_clone(host)
    lines = say("status", host=host).lines
    needs = "need an address or route on eth0 that reaches the gateway 10.9.9.1 directly"
    assert lines[0].startswith(f"NOT READY: {KUBELET} cannot start: 2 routes")
    assert lines[0].endswith(needs)
    default = "[default via 10.0.0.1 dev eth0 proto dhcp metric 100]"
    assert lines[1] == f"  add it, or correct the configuration: the default route is {default}"
    command = f"hostrouting apply --config {LAYOUT.config_path}"
    assert lines[2] == f"  when {LAYOUT.config_path} is corrected, as root: {command}"


def test_a_renamed_card_beside_a_second_one() -> None:
    """Below the first line stand both default routes, because that of the renamed card need not be
    the one that Linux prefers.
    """
    host = node(config(*REPAIR, mode="WARN"), plain_vm)
    lose_routes(host)
    settings = json.loads(host.files.texts[LAYOUT.config_path])["hostRouting"]
    for route in settings["staticRoutes"]["routes"]:
        route["dev"] = "ens5"
    apply(host, json.dumps(settings))
    host.kernel.add_link(ETH1)
    host.kernel.add_address("eth1", "10.1.0.4/24")
    second = Route.to("0.0.0.0/0", dev="eth1", gateway="10.1.0.1", protocol=BY_HAND, metric=50)
    host.kernel.ip_route("add", second)
    lines = say("status", host=host).lines
    assert "need the device ens5, which this host does not have" in lines[0]
    assert lines[1] == (
        "  add it, or correct the configuration: the default routes are "
        "[default via 10.1.0.1 dev eth1 proto boot metric 50] and "
        "[default via 10.0.0.1 dev eth0 proto dhcp metric 100]"
    )


def test_a_default_route_that_is_missing() -> None:
    """It comes by DHCP or from a router, so the page does not lead to the file."""
    host = node(config(*REPAIR), plain_vm)
    lose_routes(host)
    for default in host.kernel.snapshot().default_routes(4):
        host.kernel.ip_route("delete", default)
    page = say("status", host=host)
    assert page.lines[0].endswith("2 routes, such as 172.16.0.0/17, need an IPv4 default route")
    assert page.lines[1] == "  add it, or correct the configuration"
    assert "is corrected" not in page.out


def test_a_configuration_of_another_node_that_a_repair_corrects() -> None:
    """Where addresses escape, the page has the line that repairs that and corrects the file."""
    host = node(config(*REPAIR))
    start_clone(host)
    page = say("status", host=host)
    assert "is corrected" not in page.out
    assert type_pipeline(host, "hostrouting repair | hostrouting apply --config -").code == 0
    assert say("status", host=host).code == 0


NO_IPV6_ROUTE = "there is no IPv6 default route"


def of_both_families(mode: str) -> str:
    """A configuration that expects CIDRs of IPv4 and IPv6;
    the node has no default route for IPv6.
    """
    both = {"expectedCidrs": [CIDR, "fd00::/64"], "mode": mode}
    return json.dumps(config(*REPAIR, routeOverlap=both))


@pytest.mark.parametrize(("mode", "end"), [("STRICT", ", and then fail"), ("WARN", "")])
def test_a_plan_without_a_default_route(mode: str, end: str) -> None:
    """`plan` says which family has no default route, and what `apply` would do before it waits."""
    host = node(config(mode=mode), plain_vm)
    planned = plan(host, of_both_families(mode))
    would = f"so apply would make the changes below, wait for one{end}"
    assert planned.code == 3
    assert planned.lines[0] == f"NOT READY: {NO_IPV6_ROUTE}, {would}"


def require_attention(host: FakeHost, end: str) -> None:
    """Fail unless `plan` and `status` say what is missing after `apply`, too."""
    planned = say("plan", host=host).lines[0]
    assert planned == f"NOT READY: {NO_IPV6_ROUTE}, so apply would wait for one{end}"
    assert say("status", host=host).lines[0] == f"ATTENTION: {NO_IPV6_ROUTE}"


def test_an_apply_without_a_default_route() -> None:
    """In mode STRICT, `apply` fails because of the family that has no default route."""
    host = node(config(mode="STRICT"), plain_vm)
    first = apply(host, of_both_families("STRICT")).lines[0]
    assert first.startswith(f"FAILED: {NO_IPV6_ROUTE}, and the mode is STRICT")
    require_attention(host, ", and then fail")


def test_an_apply_that_only_warns() -> None:
    """In mode WARN, `apply` is done, and names the family that has no default route."""
    host = node(config(mode="WARN"), plain_vm)
    first = apply(host, of_both_families("WARN")).lines[0]
    assert first.endswith(f", but {NO_IPV6_ROUTE}")
    require_attention(host, "")


def test_a_plan_of_what_is_installed_where_addresses_escape() -> None:
    """`apply` would change nothing, and fail; the last line of the page repairs that."""
    host = escaping_node()
    lines = say("plan", host=host).lines
    assert lines[0] == "WOULD FAIL: addresses escape, and the mode is STRICT"
    assert lines[-2:] == [
        "To repair that, as root:",
        "  hostrouting repair | hostrouting apply --config -",
    ]
    of_a_file = plan_installed(host).lines
    assert of_a_file[-1] == "  hostrouting repair --config FILE | hostrouting apply --config -"


def test_a_plan_that_is_refused_proposes_nothing_that_is_refused_as_well() -> None:
    """Neither to gate kubelet nor to repair the host: `apply` of this file has to be allowed."""
    machines = {"units": ["systemd-nspawn@.service"]}
    host = node(config(gate=machines), plain_vm)
    add_ib0(host)
    half = {"expectedCidrs": [REPAIR[0]], "mode": "STRICT"}
    planned = plan(host, json.dumps(config(gate=machines, routeOverlap=half)))
    assert planned.lines[0].startswith("WOULD FAIL: apply would change nothing, because ")
    assert "UNIT-NOT-GATED: kubelet.service" in planned.out
    assert "hostrouting apply" not in planned.out


@pytest.mark.parametrize("name", ["plan", "check"])
def test_a_unit_to_gate_beside_a_configuration_from_a_pipe(name: str) -> None:
    """The proposed line names a file: where it is typed, nothing is on standard input."""
    host = node(config(*REPAIR, gate={"units": ["systemd-nspawn@.service"]}))
    settings = json.dumps(config(*REPAIR, gate={"units": ["systemd-nspawn@.service"]}))
    said = say(name, "--config", "-", host=host, stdin=settings.encode())
    assert f"as root: hostrouting apply --config FILE --gate {KUBELET}\n" in said.out


def test_a_plan_says_when_apply_fails_only_after_its_changes() -> None:
    """WOULD FAIL does not mean that nothing is changed."""
    host = escaping_node()
    type_routes(host, *REPAIR)
    lost = "staticRoutes.routes: 172.16.0.0/16 would escape, and does not escape now"
    refused = f"WOULD FAIL: apply would change nothing, because {lost}"
    assert plan_installed(host).lines[0].startswith(refused)

    allowed = plan_installed(host, "--allow-removal")
    changes = "so apply would make the changes below, and then fail"
    assert allowed.lines[0] == f"WOULD FAIL: addresses escape, and the mode is STRICT, {changes}"
    assert "Nothing was changed." not in apply_installed(host, "--allow-removal").out


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
def test_apply_ends_with_what_status_says(mode: str) -> None:
    """After its own first line, the page of `apply` is that of `status`."""
    host = node(config(mode=mode), plain_vm)
    assert apply_installed(host).lines[1:] == say("status", host=host).lines[1:]


def test_a_failed_apply_ends_with_what_status_says() -> None:
    """In mode STRICT, an apply fails where addresses escape: its page ends with that of `status`,
    with the first line.
    """
    host = escaping_node()
    applied = apply_installed(host)
    page = say("status", host=host).lines
    assert applied.code == 1
    assert applied.lines[-len(page) :] == page


def test_an_apply_that_only_warns_ends_with_what_status_says() -> None:
    """In mode WARN, it has a first line of its own, and not that of `status`."""
    host = node(config(mode="WARN"), plain_vm)
    add_ib0(host)
    applied = apply_installed(host)
    headline, *page = say("status", host=host).lines
    assert applied.code == 0
    assert applied.lines[-len(page) :] == page
    assert headline not in applied.lines


@pytest.mark.parametrize("mode", ["STRICT", "WARN"])
def test_the_document_of_apply_has_what_status_finds(mode: str) -> None:
    """The findings and the check are those of `status --json`."""
    host = node(config(mode=mode), plain_vm)
    add_ib0(host)
    document = apply_installed(host, "--json").json
    now = say("status", "--json", host=host).json
    assert document["findings"] == now["findings"]
    assert document["check"] == now["check"]
    assert document["check"]["verdict"] == "overlap"
