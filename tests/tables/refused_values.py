"""Values of a configuration that are refused: where each stands, and what is said of it after its path.

Readers: the configuration, and the command that reads it.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Network
from typing import Any

from tests.support.config_keys import COMPLETE

RIGHT = COMPLETE | {"probeRewrite": {"enabled": True, "interfaces": ["eth0"]}}
"""A configuration without a fault, into which each value is put."""

METRICS = "write an integer from 0 to 4294967295, without quotes or decimal point"
NETWORK = 'write an address, a slash and a length, such as "10.0.0.0/8" or "fd00::/8"'
NULL = "null is not a value; leave out the key, or give it a value"
LEADS = ", which cannot have a static route; remove this route"
ADDRESS = 'write an address such as "10.0.0.1" or "fe80::1", or leave it out for the default gateway'
ROUTER = "write the address of a router next to this host, or leave it out for the default gateway"
LOOK = "write the name as `ip link` shows it, without '@' and what follows"
ITS_NETWORK = "or its network, such as"
LETTERS = f"is not a device name: use only letters, digits, '_', '.' and '-'; {LOOK}"
MODES = 'write "WARN" to log overlaps, "STRICT" to keep the gated unit from starting, or "" for WARN'
ADDRESS_6 = 'write an IPv6 address such as "fe80::1234:5678:9abc", without a prefix length'
LINK_LOCAL = (
    "is not a link-local address: it must be in fe80::/10; write the source address of the load balancer's probes"
)
GLOBAL = (
    "is not a global unicast address: it must be in 2000::/3; "
    'write an address that no host has, such as "2603:1062:0:1:fe80:1234:5678:9abc"'
)
UNIT = 'write the name of a service, such as "kubelet.service" or "systemd-nspawn@.service"'
NEEDED = (
    "is needed for the network, and the gate waits for the network: each would wait for the other; "
    "name the unit that needs the network, such as kubelet.service"
)
NAME = 'name the networks of the pods, such as ["10.240.0.0/16"]'


def _of(key: str, rows: Iterable[tuple[Any, str]], *, within: str = ": ") -> list[tuple[str, Any, str]]:
    return [(key, value, f"{within}{said}") for value, said in rows]


# A text that ends with "…" is the beginning of what is said.
REFUSED: list[tuple[str, Any, str]] = [
    *_of(
        "gate.units",
        [
            (
                ["kubelet.socket"],
                f'"kubelet.socket" does not end with .service, and only a service runs a command before it starts; {UNIT}',
            ),
            (["a/kubelet.service"], f'"a/kubelet.service" is not the name of a service; {UNIT}'),
            (["@.service"], f'"@.service" is not the name of a service; {UNIT}'),
            (["kubelet*.service"], f'"kubelet*.service" is not the name of a service; {UNIT}'),
            (["%n.service"], f'"%n.service" is not the name of a service; {UNIT}'),
            ([f"{'k' * 250}.service"], "…"),
            (
                ["hostrouting-guard.service"],
                '"hostrouting-guard.service" is one of hostrouting\'s own units: each would wait for the other; remove it',
            ),
            (["systemd-networkd.service"], f'"systemd-networkd.service" {NEEDED}'),
            (["NetworkManager-wait-online.service"], f'"NetworkManager-wait-online.service" {NEEDED}'),
            (["nftables.service"], f'"nftables.service" {NEEDED}'),
            ([5], f"5 is not a string; {UNIT}"),
        ],
        within="[0]: ",
    ),
    ("gate.units", [], f": the list is empty, and the gate needs a unit that waits for it; {UNIT}"),
    *_of(
        "staticRoutes.routes[0].destination",
        [
            (
                "172.16.5.4/16",
                (
                    '"172.16.5.4/16" has host bits set: the network meant is 172.16.0.0/16; '
                    'write "172.16.0.0/16", or "172.16.5.4/32" for that one address'
                ),
            ),
            (
                "10.0.0.1",
                f'"10.0.0.1" has no prefix length; write "10.0.0.1/32" for that one address, {ITS_NETWORK} "10.0.0.0/24"',
            ),
            ("10.0.0.0/255.0.0.0", '"10.0.0.0/255.0.0.0" is not written as address/length; write "10.0.0.0/8"'),
            ("10.0.0.0/08", '"10.0.0.0/08" is not written as address/length; write "10.0.0.0/8"'),
            (" 10.0.0.0/8\n", r'" 10.0.0.0/8\n" is not written as address/length; write "10.0.0.0/8"'),
            ("010.0.0.0/8", f'"010.0.0.0/8" is not a network; {NETWORK}'),
            ("10.0.0.0/33", f'"10.0.0.0/33" is not a network: the length must be from 0 to 32; {NETWORK}'),
            (
                "172.16.0.0/16,fd00::/64",
                '"172.16.0.0/16,fd00::/64" is several networks in one text; write each by itself, without the comma',
            ),
            ("fd00::/129", f'"fd00::/129" is not a network: the length must be from 0 to 128; {NETWORK}'),
            ("fd00::/", f'"fd00::/" is not a network: the length must be from 0 to 128; {NETWORK}'),
            ("10/8", f'"10/8" is not a network; {NETWORK}'),
            ("10.0.0.0/\u0668", rf'"10.0.0.0/\u0668" is not a network: the length must be from 0 to 32; {NETWORK}'),
            ("10.0.0.0:80", f'"10.0.0.0:80" is not a network; {NETWORK}'),
            ("", f'"" is not a network; {NETWORK}'),
            ("$(reboot)/8", f'"$(reboot)/8" is not a network; {NETWORK}'),
            ("9" * 90, f'"{"9" * 60}"... (90 characters) is not a network; {NETWORK}'),
            ("fd00::/010", '"fd00::/010" is not written as address/length; write "fd00::/10"'),
            ("fd00::x/8", f'"fd00::x/8" is not a network; {NETWORK}'),
            ("fe80::1%eth0/64", '"fe80::1%eth0/64" has a zone, but the device is a separate setting; write "fe80::1"'),
            (
                "fd00::1/64",
                (
                    '"fd00::1/64" has host bits set: the network meant is fd00::/64; '
                    'write "fd00::/64", or "fd00::1/128" for that one address'
                ),
            ),
            (
                "fd00::1:0:0:9",
                (
                    f'"fd00::1:0:0:9" has no prefix length; write "fd00::1:0:0:9/128" for that one address, {ITS_NETWORK} '
                    '"fd00::/64"'
                ),
            ),
            (
                IPv6Network("::/0"),
                '"::/0" is the default route, which cannot be a static route here; list the networks that need one',
            ),
            ("::1/128", f'"::1/128" lies in ::/127 (the host itself){LEADS}'),
            ("fe80::/64", f'"fe80::/64" lies in fe80::/10 (the addresses of each single link){LEADS}'),
            ("ff02::/16", f'"ff02::/16" lies in ff00::/8 (multicast){LEADS}'),
            (
                "0.0.0.0/0",
                (
                    '"0.0.0.0/0" is the default route, which cannot be a static route here; list the networks that need one'
                ),
            ),
            ("0.1.0.0/16", f'"0.1.0.0/16" lies in 0.0.0.0/8 ("this network"){LEADS}'),
            ("127.0.0.0/8", f'"127.0.0.0/8" lies in 127.0.0.0/8 (the host itself){LEADS}'),
            (IPv4Network("127.0.0.0/9"), f'"127.0.0.0/9" lies in 127.0.0.0/8 (the host itself){LEADS}'),
            ("224.0.0.0/3", f'"224.0.0.0/3" lies in 224.0.0.0/4 (multicast){LEADS}'),
            ("255.255.255.255/32", f'"255.255.255.255/32" lies in 240.0.0.0/4 (reserved){LEADS}'),
            (5, f"5 is not a string; {NETWORK}"),
            (["10.0.0.0/8"], f"a list is not a string; {NETWORK}"),
            (b"10.0.0.0/8", f"bytes is not a string; {NETWORK}"),
            (None, NULL),
        ],
    ),
    *_of(
        "staticRoutes.routes[0].gateway",
        [
            ("10.0.0.256", f'"10.0.0.256" is not an address; {ADDRESS}'),
            ("10.0.0.1/24", f'"10.0.0.1/24" has a prefix length, but must be a single address; {ADDRESS}'),
            (
                IPv4Interface("10.0.0.1/25"),
                f'"10.0.0.1/25" has a prefix length, but must be a single address; {ADDRESS}',
            ),
            (
                "fd00::1",
                (
                    '"fd00::1" is IPv6, but the destination is IPv4; write an IPv4 address, or leave it out for the '
                    "default gateway"
                ),
            ),
            (IPv6Address("::1"), f'"::1" lies in ::/127 (the host itself), which has no routers; {ROUTER}'),
            ("ff02::1", f'"ff02::1" lies in ff00::/8 (multicast), which has no routers; {ROUTER}'),
            ("fe80::1%eth0", '"fe80::1%eth0" has a zone, but the device is a separate setting; write "fe80::1"'),
            (IPv4Address(0), f'"{IPv4Address(0)}" lies in 0.0.0.0/8 ("this network"), which has no routers; {ROUTER}'),
            ("127.0.0.1", f'"127.0.0.1" lies in 127.0.0.0/8 (the host itself), which has no routers; {ROUTER}'),
            ("224.0.0.5", f'"224.0.0.5" lies in 224.0.0.0/4 (multicast), which has no routers; {ROUTER}'),
            ("255.255.255.255", f'"255.255.255.255" lies in 240.0.0.0/4 (reserved), which has no routers; {ROUTER}'),
            (1, f"1 is not a string; {ADDRESS}"),
        ],
    ),
    *_of(
        "staticRoutes.routes[0].dev",
        [
            ("eth0;reboot", f'"eth0;reboot" {LETTERS}'),
            ("$(reboot)", f'"$(reboot)" {LETTERS}'),
            ("`reboot`", f'"`reboot`" {LETTERS}'),
            ("eth0|x", f'"eth0|x" {LETTERS}'),
            ("eth 0", f'"eth 0" {LETTERS}'),
            ("eth0\n", rf'"eth0\n" {LETTERS}'),
            ("\x1b[2J", rf'"\u001b[2J" {LETTERS}'),
            ("\ud800", rf'"\ud800" {LETTERS}'),
            ("\u0435th0", rf'"\u0435th0" {LETTERS}'),  # a Cyrillic letter that looks like e
            ("a/b", f'"a/b" {LETTERS}'),
            ("eth0:1", f'"eth0:1" {LETTERS}'),
            ("e" * 16, f'"{"e" * 16}" is not a device name: it must have 1 to 15 characters; {LOOK}'),
            (".", f'"." is not a device name: the kernel reserves it; {LOOK}'),
            ("..", f'".." is not a device name: the kernel reserves it; {LOOK}'),
            (7, '7 is not a string; write the name of a device, such as "eth0"'),
        ],
    ),
    *_of(
        "staticRoutes.routes[0].metric",
        [
            (-1, f"-1 is out of range; {METRICS}"),
            (2**32, f"4294967296 is out of range; {METRICS}"),
            (10**4000, f"an integer of 13288 bits is out of range; {METRICS}"),
            (True, f"true is not an integer; {METRICS}"),
            (False, f"false is not an integer; {METRICS}"),
            (100.0, f"100.0 is not an integer; {METRICS}"),
            (float("nan"), f"NaN is not an integer; {METRICS}"),
            (float("-inf"), f"-Infinity is not an integer; {METRICS}"),
            ("100", f'"100" is not an integer; {METRICS}'),
            ({}, f"an object is not an integer; {METRICS}"),
            ({1}, f"a Python set is not an integer; {METRICS}"),
            (None, NULL),
        ],
    ),
    *_of(
        "routeOverlap.expectedCidrs",
        [
            (
                ["10.0.0.0"],
                f'[0]: "10.0.0.0" has no prefix length; write "10.0.0.0/32" for that one address, {ITS_NETWORK} "10.0.0.0/8"',
            ),
            (
                ["10.0.0.0/8", "fd00::/x"],
                f'[1]: "fd00::/x" is not a network: the length must be from 0 to 128; {NETWORK}',
            ),
            ("10.0.0.0/8", ': "10.0.0.0/8" is not a list; write [...], even around a single item'),
            (5, ": 5 is not a list; write [...], even around a single item"),
            (b"10.0.0.0/8", ": bytes is not a list; write [...], even around a single item"),
            ({}, ": an object is not a list; write [...], even around a single item"),
        ],
        within="",
    ),
    *(
        ("routeOverlap.allowedDevs", [value], f'[0]: "{value}" {said}; write a pattern such as "cali*"')
        for value, said in [
            ("*", "allows every device, so no overlap would ever be found"),
            ("??*", "allows every device, so no overlap would ever be found"),
            ("", "matches no device"),
            ("a" * 16, "matches no device: a name has at most 15 characters"),
            ("eth[0-9]", "is not a device pattern: use only letters, digits, '_', '.', '-', '*' and '?'"),
        ]
    ),
    *(
        (
            "routeOverlap.allowedDevs",
            [f"wg* {kind}"],
            (
                f'[0]: "wg* {kind}" is not a device pattern: after one space, it needs the kind that '
                '`ip -details link` prints; write a pattern such as "wg* wireguard"'
            ),
        )
        for kind in ["", " veth", "wire guard", "wire*"]
    ),
    *(
        ("routeOverlap.mode", value, f": {shown} is not a mode; {MODES}")
        for value, shown in [
            *[("LOUD", '"LOUD"'), (" WARN", '" WARN"'), ("off", '"off"'), ("\u017ftrict", r'"\u017ftrict"')]
        ]
    ),
    ("routeOverlap.mode", True, ': true is not a string; write "WARN" or "STRICT"'),
    *(
        (f"probeRewrite.{key}", value, said)
        for key, value, said in [
            ("enabled", 1, ": 1 is not true or false; write true or false, without quotes"),
            ("interfaces", "eth0", ': "eth0" is not a list; write [...], even around a single item'),
            (
                "interfaces",
                ["eth*"],
                (
                    "[0]: \"eth*\" is not a device name: use only letters, digits, '_', '.' and '-'; "
                    "write the name as `ip link` shows it, without '@' and what follows"
                ),
            ),
            ("interfaces", ["lo"], '[0]: "lo" is the loopback device, where no probe arrives; name the uplink'),
            ("linkLocal", "fec0::1", f': "fec0::1" {LINK_LOCAL}'),
            ("linkLocal", "169.254.0.1", f': "169.254.0.1" is not an IPv6 address; {ADDRESS_6}'),
            (
                "linkLocal",
                "fe80::1/64",
                f': "fe80::1/64" has a prefix length, but must be a single address; {ADDRESS_6}',
            ),
            ("linkLocal", 1, f": 1 is not a string; {ADDRESS_6}"),
            (
                "linkLocal",
                "fe80::1%eth0",
                ': "fe80::1%eth0" has a zone, but the device is a separate setting; write "fe80::1"',
            ),
            *[
                ("globalAddress", value, f': "{value}" {GLOBAL}')
                for value in ("fe80::1", "ff02::1", "fd00::1", "::1", "::", "::ffff:10.0.0.1")
            ],
            ("ensureRoute", "no", ': "no" is not true or false; write true or false, without quotes'),
        ]
    ),
    *(
        (f"azureVnetCleanup.{key}", value, f"{said.removeprefix(key)}…")
        for key, value, said in [
            (
                "managed",
                [],
                f"managed: the clean-up deletes only what is in the listed networks, so an empty list deletes nothing; {NAME}",
            ),
            (
                "managed",
                ["10.240.0.5/16"],
                'managed[0]: "10.240.0.5/16" has host bits set: the network meant is 10.240.0.0/16; write "10.240.0.0/16", or',
            ),
            *(
                ("managed", [wide], f'managed[0]: "{wide}" is wider than a /{most}: too wide for a pod network; ')
                for wide, most in (("0.0.0.0/0", 8), ("10.0.0.0/7", 8), ("::/0", 32), ("fd00::/31", 32))
            ),
            ("protect", ["x"], 'protect[0]: "x" is not a network; write '),
            ("protect", ["fe80::1%eth0"], 'protect[0]: "fe80::1%eth0" has a zone'),
            (
                "protect",
                ["10.0.0.0/33"],
                'protect[0]: "10.0.0.0/33" is not a network: the length must be from 0 to 32; ',
            ),
            *(
                ("protect", [text], f'protect[0]: "{text}" is not written as address/length; write "10.0.0.0/8"')
                for text in ("10.0.0.0/08", "10.0.0.0/255.0.0.0")
            ),
            ("protect", [7], "protect[0]: 7 is not a string; "),
            ("uplinks", ["eth 0"], 'uplinks[0]: "eth 0" is not a device name'),
            ("dryRun", "no", 'dryRun: "no" is not true or false'),
            ("flush", True, "flush: unknown key; "),
        ]
    ),
]
