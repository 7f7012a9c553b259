"""The configuration: documents, keys and paths, single values, and rules about several."""

import copy
import inspect
import io
import json
import math
import pickle
import pydoc
import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest

from hostrouting.config import (
    GateConfig,
    GuardConfig,
    HostRoutingConfig,
    RouteOverlapConfig,
    StaticRoute,
)
from hostrouting.config.settings import StaticRoutesConfig, gated_units
from hostrouting.errors import ConfigError
from hostrouting.host.layout import HostLayout
from hostrouting.reading import must, read, register, section
from hostrouting.reading.types import READERS
from tests.support.sections import expect, static

KEYS = "staticRoutes, routeOverlap, probeRewrite, azureVnetCleanup, guard, gate, manageForeign"
ROUTES = {"staticRoutes": {"enabled": True, "routes": [{"destination": "10.0.0.0/8"}]}}
TWICE = "this key is given more than once; keep one of them"


def faults(document: object) -> list[str]:
    """Every fault of a document, given as text or as parsed JSON."""
    text = document if isinstance(document, str) else json.dumps(document)
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json(text)
    return [str(fault) for fault in caught.value.faults]


def test_the_json_of_the_original() -> None:
    """The original's configuration is read, key by key, into typed values."""
    config = HostRoutingConfig.from_json("""{
        "staticRoutes": {
            "enabled": true,
            "routes": [
                {"destination": "172.16.0.0/17", "gateway": "10.0.0.1", "dev": "eth0",
                 "metric": 50},
                {"destination": "172.16.128.0/17", "gateway": "", "dev": "", "metric": 0}
            ]
        },
        "routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "strict"}
    }""")
    routes = (
        StaticRoute(IPv4Network("172.16.0.0/17"), IPv4Address("10.0.0.1"), "eth0", 50),
        StaticRoute(IPv4Network("172.16.128.0/17")),
    )
    overlap = RouteOverlapConfig((IPv4Network("172.16.0.0/16"),), "STRICT")
    assert config == HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=routes), overlap)


ASK_FOR_NOTHING: dict[str, dict[str, object]] = {
    "empty": {},
    "our key is empty": {"hostRouting": {}},
    "our key is null": {"hostRouting": None, "gate": None, "kubelet": 1},
    "sections and values are null": {
        "hostRouting": {
            "gate": None,
            "staticRoutes": None,
            "routeOverlap": {"mode": None, "expectedDevs": None},
        }
    },
    "only keys of an agent": {"kubelet": {"a": 1}, "nodeName": "a", "name": "b"},
    "faults beside our key": {"hostRouting": {}, "hostrouting": 5, "staticRoutes": 5},
}


@pytest.mark.parametrize("document", ASK_FOR_NOTHING.values(), ids=ASK_FOR_NOTHING)
def test_documents_that_ask_for_nothing(document: dict[str, object]) -> None:
    """Null means the same as absent everywhere; an agent's file without our key is ignored, and so
    is what stands beside our key.
    """
    assert HostRoutingConfig.from_mapping(document) == HostRoutingConfig()


def test_where_ours_is_required(tmp_path: Path) -> None:
    """Whoever needs our settings refuses a file that has none where they are looked for, and null:
    a template that was filled with nothing would remove everything.
    """
    path = tmp_path / "agent.json"
    path.write_text('{"kubelet": {}}')
    assert HostRoutingConfig.load(path) == HostRoutingConfig()
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.load(path, required=True)
    said = f"{path} has none of the keys {KEYS}; in an agent's larger file, put"
    assert str(caught.value).startswith(said)
    with pytest.raises(ConfigError, match="hostRouting: null is not a configuration"):
        HostRoutingConfig.from_json('{"hostRouting": null}', required=True)
    no_flag: Any = "false"
    with pytest.raises(TypeError, match="required is 'false'; it must be True or False"):
        HostRoutingConfig.from_mapping({}, required=no_flag)


def test_sections_beside_ours() -> None:
    """All that stand beside our key are named at once."""
    text = """{"hostRouting": {}, "staticRoutes": {}, "manageForeign": 1,
        "gate": {"units": ["kubelet.service"]}, "guard": {"enabled": true, "own": 1}}"""
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json(text, required=True)
    named = [fault.path for fault in caught.value.faults]
    assert named == ["staticRoutes", "manageForeign", "gate", "guard"]
    assert "is beside hostRouting, where it would be ignored; move it into" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"hostRouting": {}, "gate": {"url": "https://a"}, "guard": true}',
        '{"hostRouting": {}, "gate": [], "guard": {"own": 1}}',
        '{"hostRouting": {}, "routeOverlap": null}',
    ],
    ids=["empty", "an agent's", "also an agent's", "null"],
)
def test_an_empty_configuration_where_ours_is_required(text: str) -> None:
    """An empty object is the empty configuration; a key of the agent that only has the name of a
    section is the agent's.
    """
    assert HostRoutingConfig.from_json(text, required=True) == HostRoutingConfig()


# Each with how its only fault begins, which is indented.
FAULTY_DOCUMENTS = r"""
{"agent": 1, "static_route": {}}
  static_route: unknown key; did you mean staticRoutes?
{"hostrouting": {}}
  hostrouting: unknown key; did you mean hostRouting?
{"guard": {}, "\u001b[2J": 1}
  ["\u001b[2J"]: unknown key; the known keys are staticRoutes,
{"staticRoutes": {"enabled": "yes", "routes": [{"destination": "10.0.0.0/8"}]}}
  staticRoutes.enabled: "yes" is not true or false
{"probeRewrite": {"enabled": "yes", "interfaces": ["eth0"]}}
  probeRewrite.enabled: "yes" is not true or false
{"probeRewrite": {"enabled": true, "interfaces": "eth0"}}
  probeRewrite.interfaces: "eth0" is not a list; write [...], even around a single item
{"guard": {"\u0435nabled": true}}
  guard["\u0435nabled"]: unknown key; did you mean enabled?
{"guard": ""}
  guard: "" is not an object; write {...} with any of the keys enabled
{"hostRouting": []}
  hostRouting: [] is not an object; write {...} with any of the keys staticRoutes,
[]
  [] is not an object; write
{"staticRoutes": {"enabled": true, "routes": [null]}}
  staticRoutes.routes[0]: null is not an object; write
{"azureVnetCleanup": {"managed": null}}
  azureVnetCleanup.managed: missing
{"staticRoutes": {"enabled": true, "routes": [{"destination": "10.0.0.0/8"}]},
"guard": {"enabled": true},
"routeOverlap": {"mode": 1}}
  routeOverlap.mode: 1 is not one of WARN, STRICT
{"guard": {"enabled": true}}
  guard: there is nothing to guard: no routes, no expected CIDRs and no probe rewrite; add
{"staticRoutes": {"routes": [{"destination": "10.0.0.0/8"}]}}
  staticRoutes.enabled: there are routes; set "enabled": true
{"staticRoutes": {"enabled": true, "routes": [{"destination": "10.0.0.0/8", "dev": "a"},
{"destination": "10.0.0.0/8"}]}}
  staticRoutes.routes[1]: "10.0.0.0/8" has the destination and the metric of routes[0]; remove
  one of the two, or
{"gate": {"units": ["a.service"], "steps": [{"name": "a", "script": "b"},
{"name": "a", "script": "c"}]}}
  gate.steps[1].name: a is the name of another step, too
{"probeRewrite": {"enabled": true}}
  probeRewrite.interfaces: no interface is given but enabled=true; name the
{"probeRewrite": {"enabled": true, "interfaces": ["eth0", "eth1"]}}
  probeRewrite.ensureRoute: true requires exactly one interface, but 2 are given; set it to false
  and add the route yourself
{"probeRewrite": {"interfaces": ["eth0", "eth1"]}}
  probeRewrite.enabled: there are interfaces; set "enabled": true
{"probeRewrite": {"enabled": true, "interfaces": ["eth;"]}}
  probeRewrite.interfaces[0]: "eth;" is not a device
"""


A_LONG_KEY = (
    '{"guard": {}, "' + "k" * 61 + '": 1}',
    '["' + "k" * 60 + '"... (61 characters)]: unknown key; the known keys are staticRoutes,',
)


@pytest.mark.parametrize(
    ("document", "fault"),
    [A_LONG_KEY, *re.findall(r"((?m:^\S.*\n)+)((?m:^  .*\n)+)", FAULTY_DOCUMENTS)],
)
def test_faults_of_documents(document: str, fault: str) -> None:
    """The one fault has its path in the operator's file, the value, the rule, and a remedy if there
    is one.
    """
    [only] = faults(document)
    assert only.startswith(" ".join(fault.split()))


def test_rules_about_several_values_beside_other_faults() -> None:
    """A faulty value does not hide what is wrong with the others together."""
    routes: list[dict[str, object]] = [
        {"destination": "fd00::/8", "gateway": "x"},
        {"destination": "fd01::/16"},
        {"destination": "fd01::/16", "metric": 1024},
    ]
    document = {"staticRoutes": {"routes": routes}, "gaurd": 1}
    paths = [fault.split(": ")[0] for fault in faults(document)]
    assert paths == [
        "staticRoutes.routes[0].gateway",
        "staticRoutes.routes[2]",
        "staticRoutes.enabled",
        "gaurd",
    ]


def test_what_is_written() -> None:
    """What has its default value is left out."""
    config = HostRoutingConfig(StaticRoutesConfig(enabled=True, routes=(static("10.0.0.0/8"),)))
    assert config.to_mapping() == ROUTES


def test_defaults_do_not_change() -> None:
    """config.json leaves them out: with another default, what is installed on hosts would ask for
    something else.
    """
    assert str(static("10.0.0.0/8")) == "10.0.0.0/8"
    config = HostRoutingConfig.from_mapping({"azureVnetCleanup": {"managed": ["10.240.0.0/16"]}})
    assert [str(section) for section in config] == [
        "StaticRoutesConfig(enabled=False, routes=())",
        (
            "RouteOverlapConfig(expected_cidrs=(), mode='WARN', expected_devs=(), allowed_devs=(), "
            "service_cidrs=(), pod_cidrs=(), intended_rules=())"
        ),
        (
            "ProbeRewriteConfig(enabled=False, interfaces=(), "
            "link_local=IPv6Address('fe80::1234:5678:9abc'), "
            "global_address=IPv6Address('2603:1062:0:1:fe80:1234:5678:9abc'), ensure_route=True)"
        ),
        (
            "AzureVnetCleanupConfig(managed=(IPv4Network('10.240.0.0/16'),), "
            "protect=(), uplinks=(), dry_run=True)"
        ),
        "GuardConfig(enabled=False)",
        "None",
        "leave",
    ]
    assert HostRoutingConfig().azure_vnet_cleanup is None


def test_units_that_wait_unless_named() -> None:
    """Machines wait if a step or a check of service networks is there to wait for."""
    guarded = HostRoutingConfig(
        guard=GuardConfig(enabled=True), route_overlap=expect(service_cidrs=["10.0.0.0/8"])
    )
    assert gated_units(guarded) == ("systemd-nspawn@.service",)
    assert gated_units(HostRoutingConfig()) == ()


def test_repeated_keys() -> None:
    """A key given twice is a fault at any depth of our section, whichever of the two is right."""
    text = """{"agent": 1, "agent": 2, "hostRouting": {
        "staticRoutes": {
            "enabled": true,
            "routes": [{"destination": "10.0.0.0/8", "destination": "11.0.0.0/8"}]
        },
        "manageForeign": "x", "manageForeign": "keep"
    }}"""
    assert faults(text) == [
        f"hostRouting.staticRoutes.routes[0].destination: {TWICE}",
        f"hostRouting.manageForeign: {TWICE}",
    ]
    assert faults('{"hostRouting": {}, "hostRouting": {}}') == [f"hostRouting: {TWICE}"]


NOT_JSON: dict[str, tuple[str | bytes, str]] = {
    "nothing": ("", "is empty; write one JSON object in UTF-8"),
    "blanks": (b" \n", "is empty; write one JSON object"),
    "a missing comma": (
        '{"secret": "hunter2" "b"}',
        "is not JSON: Expecting ',' delimiter: line 1 column 22 (char 21), where '\"' is; write",
    ),
    "a quote of a word processor": (
        "\u201cguard\u201d",
        r"is not JSON: Expecting value: line 1 column 1 (char 0), where '\u201c' is",
    ),
    "UTF-16": (
        "{}".encode("utf-16"),
        "is not JSON: 'utf-8' codec can't decode byte 0xff in position 0",
    ),
    "200,000 lists": ("[" * 200_000, "is not JSON: maximum recursion depth"),
    "a number of 5,001 digits": ('{"a": 1' + "0" * 5000 + "}", "is not JSON: "),
}


@pytest.mark.parametrize(("text", "said"), NOT_JSON.values(), ids=NOT_JSON)
def test_text_that_is_not_json(text: str | bytes, said: str) -> None:
    """What is not JSON is refused with its place and the character there. No more is quoted: an
    agent's file contains secrets.
    """
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_json(text)
    assert str(caught.value).startswith(f"the configuration {said}")
    assert "hunter2" not in str(caught.value)


def test_what_cannot_be_read() -> None:
    """What is read already, or not yet, is refused by the name of its type, with what reads it."""
    no_path: Any = None
    with pytest.raises(TypeError, match=r"^path must be a str or a Path, not a NoneType: load"):
        HostRoutingConfig.load(no_path)
    no_text: Any = {"secret": 1}
    said = (
        "text must be JSON, as str or bytes, not a dict; "
        "from_mapping takes parsed JSON, and load reads a file"
    )
    with pytest.raises(TypeError, match=f"^{said}$"):
        HostRoutingConfig.from_json(no_text)


def test_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is read like its text, with a byte order mark or without; its path may be a text, or
    `-`, the standard input.
    """
    path = tmp_path / "right.json"
    path.write_text("\ufeff" + json.dumps({"hostRouting": ROUTES}))
    expected = HostRoutingConfig.from_mapping(ROUTES)
    assert HostRoutingConfig.load(path) == expected
    assert HostRoutingConfig.load(str(path)) == expected
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        assert HostRoutingConfig.load("-") == expected


def test_load_without_a_standard_input(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever has none, or has closed it, reads that, and not that `-` is not a path; files can be
    read.
    """
    path = tmp_path / "right.json"
    path.write_text(json.dumps(ROUTES))
    closed = io.TextIOWrapper(io.BytesIO())
    closed.close()
    for standard_input in (None, closed):
        monkeypatch.setattr("sys.stdin", standard_input)
        with pytest.raises(ConfigError, match="standard input is closed"):
            HostRoutingConfig.load("-")
        assert HostRoutingConfig.load(path) == HostRoutingConfig.from_mapping(ROUTES)


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    """The error begins with the name of the file, once; what no file can be is shown in quotes,
    without its control characters.
    """
    texts = {"not JSON": "{]", "empty": "", "faulty": '{"manageForeign": 2}'}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    said = {
        f"{tmp_path}/not JSON": f"{tmp_path}/not JSON is not JSON: ",
        f"{tmp_path}/empty": f"{tmp_path}/empty is empty; write one JSON object",
        f"{tmp_path}/faulty": f"{tmp_path}/faulty: manageForeign: 2 is not one of leave, keep",
        f"{tmp_path}/absent": f"{tmp_path}/absent cannot be read: No such file or directory",
        f"{tmp_path}": f"{tmp_path} cannot be read: Is a directory",
        "a\0b": r'"a\u0000b" is not a path',
        "": '"" cannot be read: No such file',
    }
    for path, beginning in said.items():
        with pytest.raises(ConfigError) as caught:
            HostRoutingConfig.load(path)
        assert str(caught.value).startswith(beginning)


CONSTRUCT: Any = HostRoutingConfig
"""The constructor, for arguments that its types do not allow."""


def test_constructors_take_what_json_has() -> None:
    """A section may be given as its JSON object."""
    config = CONSTRUCT({"enabled": True, "routes": [{"destination": "10.0.0.0/8"}]}, gate=None)
    assert config.static_routes.routes == (static("10.0.0.0/8"),)
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301  our own bytes


def test_faults_of_a_section_that_is_constructed() -> None:
    """Their paths start at the section."""
    with pytest.raises(ConfigError, match=r"^staticRoutes\.routes\[0\]\.destination: missing"):
        CONSTRUCT({"enabled": True, "routes": [{}]})
    no_list = r"^staticRoutes\.routes: a Python StaticRoute is not a list; write \[...\]"
    with pytest.raises(ConfigError, match=no_list):
        CONSTRUCT({"enabled": True, "routes": static("10.0.0.0/8")})
    with pytest.raises(ConfigError, match=r"^manageForeign: true is not one of leave, keep"):
        CONSTRUCT()._replace(manage_foreign=True)


def test_a_configuration_does_not_change() -> None:
    """It has no other sections, and no field can be set."""
    with pytest.raises(TypeError, match="unexpected keyword argument 'static_route'"):
        CONSTRUCT(static_route={})
    with pytest.raises(AttributeError, match="can't set attribute"):
        CONSTRUCT().guard.enabled = True


def test_what_help_shows() -> None:
    """The settings of a section with their keys, and the arguments with their types and defaults;
    not the rules, and not what each tuple has.
    """
    page = re.sub("\b.", "", pydoc.render_doc(StaticRoute))
    assert "destination\n |      destination in JSON" in page
    assert "to_mapping(self)" in page
    assert "index" not in dir(StaticRoute)
    assert len(page.splitlines()) < 60
    parameters = inspect.signature(StaticRoute).parameters
    assert {name: value.annotation for name, value in parameters.items()} == {
        "destination": IPv4Network | IPv6Network,
        "gateway": IPv4Address | IPv6Address | None,
        "dev": str | None,
        "metric": int,
    }
    assert str(parameters["metric"]) == "metric: int = 0"


def test_a_key_that_is_not_a_text() -> None:
    """A mapping made in Python can have values that JSON cannot; they are faults like any other."""
    no_json: dict[Any, object] = {1: 2, "manageForeign": {3}}
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_mapping(no_json)
    assert [fault.path for fault in caught.value.faults] == ["[1]", "manageForeign"]


# Single values.

RIGHT: dict[str, Any] = {
    "staticRoutes": {"enabled": True, "routes": [{"destination": "10.1.0.0/16"}]},
    "routeOverlap": {
        "expectedCidrs": ["10.0.0.0/8"],
        "serviceCidrs": ["10.0.0.0/8"],
        "podCidrs": ["10.0.0.0/8"],
        "expectedDevs": ["eth0"],
        "allowedDevs": ["wg*"],
        "intendedRules": ["fwmark 0x1"],
    },
    "probeRewrite": {"enabled": True, "interfaces": ["eth0"]},
    "azureVnetCleanup": {
        "managed": ["10.0.0.0/8", "fd00::/32"],
        "protect": ["10.0.0.1"],
        "uplinks": ["eth0"],
    },
    "guard": {},
    "gate": {"units": ["kubelet.service"], "steps": [{"name": "a", "script": "true"}]},
}
# Where a value is put; how its fault begins after the path and the value; and the values.
VALUES: dict[str, dict[str, list[Any]]] = {
    "staticRoutes.routes[0].dev": {
        "is not a device name: 1 to 15 letters, digits, '_', '.' and '-'": [
            *("$(reboot)", "eth 0", "eth0\n", "\u001b[2J", "\u0435th0", "a/b", "..", "e" * 16)
        ],
        "is not a string of up to 255": ["\ud800", "e" * 256],
    },
    "staticRoutes.routes[0].metric": {
        "is not an integer from 0 to 4294967295": [-1, 4294967296, True, 1.0, math.nan, "1", {1}],
    },
    "staticRoutes.routes[0].destination": {
        "is not a network; write an address, a slash and a length": [
            *("10/8", "010.0.0.0/8", "10.0.0.0/08", "10.0.0.0/255.0.0.0", " 10.0.0.0/8", "fd00::/"),
            *("10.0.0.0/\u0668", "fe80::1%eth0/64"),
        ],
        "has too long a prefix; the length is at most 32": ["10.0.0.0/33"],
        'has no prefix length; write "10.0.0.1/32" for that one address': ["10.0.0.1"],
        'has host bits set; write "172.16.0.0/16", or "172.16.5.4/32" for that one address': [
            "172.16.5.4/16"
        ],
        "is the default route; list the networks": ["0.0.0.0/0", "::/0"],
        "lies in a reserved range": ["127.0.0.0/8", "224.0.0.0/3", "fe80::/64"],
        "is not a string": [5, b"10.0.0.0/8"],
    },
    "staticRoutes.routes[0].gateway": {
        "is not an address": ["10.0.0.256", "10.0.0.1/24", IPv4Interface("10.0.0.1/25")],
        "lies in a reserved range, which has no routers": ["::1", "ff02::1", "127.0.0.1"],
        "is IPv6, and the destination is not": ["fd00::1"],
    },
    "routeOverlap.expectedCidrs": {"is not a list; write [...]": ["10.0.0.0/8", {}, b"x"]},
    "routeOverlap.expectedCidrs[0]": {
        "has no prefix length": ["10.0.0.0"],
        "is the loopback network, which never leaves a host": ["127.0.0.0/8", "::1/128"],
    },
    "routeOverlap.expectedDevs[0]": {"is not a device name: 1 to 15 letters": ["eth 0", ""]},
    "routeOverlap.allowedDevs[0]": {
        "allows every device": ["*", "??*"],
        "is not a device pattern; write one such as": ["", "a" * 16, "eth[0-9]", "wg* wireguard"],
    },
    "routeOverlap.mode": {"is not one of WARN, STRICT": [True, " WARN", "\u017ftrict"]},
    "routeOverlap.intendedRules[0]": {
        "is not a list of selectors; write it as": ["fwmark", "foo bar", "iif $(id)", "iif  lo"],
    },
    "manageForeign": {"is not one of leave, keep": ["no"]},
    "gate.units": {"is empty: no unit would wait": [[]]},
    "gate.steps[0].name": {
        "is not of the letters a-z, digits and -": ["", "50_rails", "-a", "Licence", "a" * 64],
    },
    "gate.steps[0].script": {
        "is not the text of a script of up to 100,000 bytes": [" \n", "a\0b", "é" * 50_001, 7],
    },
    "gate.steps[0].when": {"is not one of before, after": ["during"]},
    "gate.units[0]": {
        "is not the name of a service; write one": [
            *("a.socket", "a/b.service", "@.service", "%n.service", f"{'k' * 244}.service")
        ],
        "is needed for the network, or by the gate": [
            f"{name}.service"
            for name in (
                *("systemd-networkd", "udev", "dbus-broker", "messagebus", "NetworkManager"),
                *("networking", "network", "netplan-ovs-cleanup", "ifup@eth0", "dhcpcd@eth0"),
                *("dhclient", "wpa_supplicant", "iwd", "connman", "wicked", "frr", "bird"),
                *("bird6", "openvswitch-switch", "ovs-vswitchd", "ovsdb-server", "openibd"),
                *("cloud-init-local", "rdma-ndd", "nftables", "iptables", "ip6tables"),
                *("firewalld", "ufw", "netfilter-persistent"),
            )
        ],
        "is how an operator logs in to repair the host": [
            *("ssh.service", "ssh@7.service", "sshd.service", "sshd@7.service"),
            *("dropbear.service", "getty@tty1.service", "serial-getty@ttyS0.service"),
        ],
        "starts the containers of the whole host; name the unit that must wait, such as "
        "kubelet.service": [
            *("containerd.service", "crio.service", "snap.microk8s.daemon-containerd.service")
        ],
    },
    "guard.enabled": {"is not true or false": [1, "yes"]},
    "probeRewrite.interfaces[0]": {"is the loopback device": ["lo"]},
    "probeRewrite.linkLocal": {"is not in fe80::/10": ["fec0::1", "169.254.0.1"]},
    "probeRewrite.globalAddress": {"is not in 2000::/3": ["fe80::1", "::ffff:10.0.0.1"]},
    "azureVnetCleanup.managed": {"is empty, so nothing would be deleted": [[]]},
    "azureVnetCleanup.managed[0]": {
        "has host bits set": ["172.16.5.4/16"],
        "is too wide for a network of pods": ["10.0.0.0/7", "fd00::/31"],
    },
}


def steps_of(key: str) -> list[str | int]:
    """The keys and indices of a path: `routes[0].dev` is routes, 0, dev."""
    return [int(step) if step.isdigit() else step for step in re.findall(r"\w+", key)]


def with_value(key: str, value: object) -> dict[str, Any]:
    """The right configuration with another value of this key."""
    document = copy.deepcopy(RIGHT)
    *parents, last = steps_of(key)
    place: Any = document
    for step in parents:
        place = place[step]
    place[last] = value
    return document


def rows_of_values() -> Iterator[pytest.ParameterSet]:
    """A row for each rule of each place."""
    for key, rules in VALUES.items():
        for rule, values in rules.items():
            yield pytest.param(key, rule, values, id=f"{key} {rule}")


@pytest.mark.parametrize(("key", "rule", "values"), [*rows_of_values()])
def test_refused(key: str, rule: str, values: list[Any]) -> None:
    """A value that breaks its rule is the only fault, with its path, the value, the rule and
    perhaps a remedy.
    """
    for value in values:
        with pytest.raises(ConfigError) as caught:
            HostRoutingConfig.from_mapping(with_value(key, value))
        [fault] = caught.value.faults
        assert str(fault).startswith(f"{key}: {fault.value} {rule}")
        assert str(fault).isascii()
        assert str(fault).isprintable()


MAPPED = {
    "staticRoutes.routes[0].destination": ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
    "staticRoutes.routes[0].gateway": ("::ffff:10.0.0.1", "10.0.0.1"),
    "routeOverlap.expectedCidrs[0]": ("::ffff:a00:1/104", "10.0.0.0/8"),
    "routeOverlap.serviceCidrs[0]": ("::ffff:0:0/96", "0.0.0.0/0"),
    "routeOverlap.podCidrs[0]": ("::ffff:10.244.0.0/112", "10.244.0.0/16"),
    "azureVnetCleanup.managed[0]": ("::FFFF:10.1.0.0/112", "10.1.0.0/16"),
    "azureVnetCleanup.protect[0]": ("::ffff:10.1.0.9", "10.1.0.9/32"),
}


@pytest.mark.parametrize("key", MAPPED)
def test_ipv4_mapped(key: str) -> None:
    """What is IPv4 has to be written as IPv4, in every field: Linux routes no IPv4 packet by it."""
    written, right = MAPPED[key]
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_mapping(with_value(key, written))
    [fault] = caught.value.faults
    assert str(fault) == f'{key}: "{written}" is IPv4, written as IPv6; write "{right}"'


def test_wider_than_mapped() -> None:
    """A network of IPv6 that contains those addresses is one of IPv6."""
    assert expect("::/0", "::/64", "::fffe:0:0/95").expected_cidrs[0].prefixlen == 0


def test_our_own_units() -> None:
    """None of them can wait for the gate."""
    units = [name for setting, name in vars(HostLayout).items() if setting.endswith("_unit")]
    assert len(units) == 4
    for unit in units:
        with pytest.raises(ConfigError, match="is needed for the network, or by the gate itself"):
            GateConfig([unit])  # type: ignore[arg-type]  # as in JSON


@pytest.mark.parametrize("text", ["WARN", "Strict", ""])
def test_mode(text: str) -> None:
    """A mode can be in upper or lower case; empty means the default."""
    assert expect("10.0.0.0/8", mode=text).mode == (text.upper() or "WARN")


def test_a_mode_that_protects_nothing() -> None:
    """STRICT without CIDRs is a fault; those of services are enough."""
    with pytest.raises(ConfigError) as caught:
        expect(mode="STRICT")
    assert str(caught.value) == (
        "mode: STRICT, but no CIDRs are given, so nothing is checked; add expectedCidrs or "
        "serviceCidrs"
    )
    assert expect(mode="STRICT", service_cidrs=["10.0.0.0/8"]).is_strict
    assert len(expect("10.0.0.0/8", service_cidrs=["10.0.0.0/8"]).cidrs) == 1, "it is judged once"


def test_a_guard_that_has_nothing_left_to_guard() -> None:
    """If the last section with a step is replaced by an empty one, the guard is turned off."""
    guarded = HostRoutingConfig.from_mapping({**ROUTES, "guard": {"enabled": True}})
    nothing = HostRoutingConfig()
    assert guarded.replaced("static_routes", nothing) == nothing
    with_check = guarded._replace(route_overlap=expect("10.0.0.0/8"))
    assert with_check.replaced("static_routes", nothing).guard.enabled


def test_a_link_local_gateway() -> None:
    """It is reached through a device, which has to be given."""
    route = static("fd00::/8", "fe80::1", "eth0")
    assert str(route) == "fd00::/8 via fe80::1 dev eth0"
    with pytest.raises(
        ConfigError, match=r'^gateway: "fe80::1" is link-local, .*; add dev: the device'
    ):
        static("fd00::/8", "fe80::1")


def test_settings_that_cannot_be_read() -> None:
    """An agent's own section says what is wrong with it when it is made."""

    class Plain:
        name: str

    class Child(StaticRoute):
        other: int = 1

    class Free(NamedTuple):
        texts: dict[str, str]

    class Around(NamedTuple):
        inner: tuple[Free, ...] = ()

    class Few(NamedTuple):
        path: Annotated[str, must(str.isupper, "is not in capitals")] = "rel"

    class Noted(NamedTuple):
        unit: Annotated[str, "the unit"]

    class Unruled(NamedTuple):
        timeout: Annotated[int, lambda number: number < 600]

    class Pair(NamedTuple):
        low: int = 0

        def fault_between(self) -> object:
            """Would never be called."""

    read_by_nothing = r"nothing reads dict\[str, str\] .* register\(dict\[str, str\], reader\)"
    no_section = r"a section must be a NamedTuple; write class {}\(NamedTuple\), with all fields"
    no_rule = r"is not a rule; write must\(condition, 'is not …'\)$"
    refused: dict[type[Any], str] = {
        Plain: no_section.format("Plain"),
        Child: no_section.format("Child"),
        Free: f"Free.texts: {read_by_nothing}",
        Around: f"Around.inner: Free.texts: {read_by_nothing}",
        Few: "Few.path: its default 'rel' is not in capitals; give",
        Noted: f"Noted.unit: 'the unit' {no_rule}",
        Unruled: f"Unruled.timeout: <function .* {no_rule}",
        Pair: "Pair has fault_between; write faults_between, or rename it",
    }
    for kind, said in refused.items():
        with pytest.raises(TypeError, match=f"^{said}"):
            section(kind)

    rule: Any = "[a-z]+"
    with pytest.raises(TypeError, match=r"must: condition .*'\[a-z\]\+'; .* matches\("):
        must(rule, "is not a name")
    with pytest.raises(ValueError, match=r"^must: rule is empty; say what is wrong"):
        must(bool, "")
    with pytest.raises(TypeError, match=r"^register: reader is <class 'complex'>; .* a function"):
        register(complex, complex)
    with pytest.raises(TypeError, match=r"^register: kind is 5; it must be a type, and the reader"):
        register(5, str.strip)


def test_a_rule_that_raises_another_error() -> None:
    """It is a fault of its value like any other, so the operator sees the key, and all faults."""

    class Share(NamedTuple):
        parts: Annotated[int, must(lambda number: 600 / number > 1, "is too large")]
        unit: Annotated[str, must(lambda: True, "is odd")]

    made: Any = section(Share)
    with pytest.raises(ConfigError) as caught:
        read(made, {"parts": 0, "unit": "a"})
    parts, unit = map(str, caught.value.faults)
    assert parts.startswith("parts: 0 cannot be read: its rule raised ZeroDivisionError: division")
    assert unit.startswith('unit: "a" cannot be read: its rule raised TypeError: ')

    class Free(NamedTuple):
        t: complex

    register(complex, lambda value: complex(value))  # noqa: PLW0108  a reader is not a type
    try:
        with pytest.raises(
            ConfigError, match=r"^t: a list cannot be read: its rule raised TypeErr"
        ):
            read(Free, {"t": [1]})
    finally:
        del READERS[complex]


def test_annotations_that_are_texts() -> None:
    """They are read as what they name: so are all with `from __future__ import annotations`."""

    class Texts(NamedTuple):
        node: "str"
        metric: "Annotated[int, range(9)] | None"

    made: Any = section(Texts)
    assert read(made, {"node": "a", "metric": 8}) == ("a", 8)
    with pytest.raises(ConfigError, match="metric: 9 is not an integer from 0 to 8"):
        read(made, {"node": "a", "metric": 9})


def test_a_list_of_a_fixed_length() -> None:
    """It has just as many items as its type."""

    class Pair(NamedTuple):
        ends: tuple[str, str]

    made: Any = section(Pair)
    assert read(made, {"ends": ["a", "b"]}) == (("a", "b"),)
    for ends in (["a"], ["a", "b", "c"]):
        with pytest.raises(ConfigError, match=r"^ends: a list is not of the right length"):
            read(made, {"ends": ends})
