"""The section `azureVnetCleanup`: the allowed values, and the message for each fault."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network
from typing import Any

import pytest

from hostrouting.config import AzureVnetCleanupConfig, EbtablesChoice, HostRoutingConfig, IfAzureVnetActive
from hostrouting.errors import ConfigError

NAME = 'name the networks of the pods, such as ["10.240.0.0/16"]'
PATTERN = r'write a pattern such as "azure\\d+"; it must match the whole name'


def fault(key: str, value: object) -> str:
    """The single fault of a section with this value, without the path of the section."""
    section: dict[str, Any] = {"managed": ["10.240.0.0/16"], key: value}
    with pytest.raises(ConfigError) as caught:
        HostRoutingConfig.from_mapping({"azureVnetCleanup": section})
    (found,) = caught.value.faults
    return str(found).removeprefix("azureVnetCleanup.")


def test_without_the_section_nothing_is_asked_for() -> None:
    """A configuration without the section has no cleanup, and writes no section."""
    config = HostRoutingConfig.from_json("{}")
    assert config.azure_vnet_cleanup is None
    assert "azureVnetCleanup" not in config.to_mapping()


def test_what_is_cautious_is_the_default() -> None:
    """A section with only the networks deletes nothing: dryRun is the default."""
    config = AzureVnetCleanupConfig(["10.240.0.0/16", "fd00:1::/48", "10.241.0.7"])
    assert config.managed == (IPv4Network("10.240.0.0/16"), IPv6Network("fd00:1::/48"), IPv4Network("10.241.0.7"))
    assert config.dry_run
    assert config.require_dead_mac
    assert config.if_azure_vnet_active is IfAzureVnetActive.FAIL
    assert config.ebtables is EbtablesChoice.AUTO
    assert re.fullmatch(config.bridge_pattern, "azure3")


def test_the_networks_have_to_be_named() -> None:
    """A section without managed networks is a fault, because no default would be right."""
    with pytest.raises(ConfigError, match=r"azureVnetCleanup\.managed: missing; name the networks"):
        HostRoutingConfig.from_mapping({"azureVnetCleanup": {}})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "managed",
            [],
            f"managed: the list is empty, and the clean-up deletes only what is in the listed networks; {NAME}",
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
        ("protect", ["10.0.0.0/33"], 'protect[0]: "10.0.0.0/33" is not a network: the length must be from 0 to 32; '),
        *(
            ("protect", [text], f'protect[0]: "{text}" is not written as address/length; write "10.0.0.0/8"')
            for text in ("10.0.0.0/08", "10.0.0.0/255.0.0.0")
        ),
        ("protect", [7], "protect[0]: 7 is not a string; "),
        ("bridgePattern", "(", f'bridgePattern: "(" is not a regular expression; {PATTERN}'),
        ("bridgePattern", "[[a]", f'bridgePattern: "[[a]" is not a regular expression; {PATTERN}'),
        ("bridgePattern", "", 'bridgePattern: "" is not a pattern: it must have 1 to 255 characters; '),
        ("bridgePattern", ".*", 'bridgePattern: ".*" also matches docker0, which is not a bridge of azure-vnet; '),
        ("uplinks", ["eth 0"], 'uplinks[0]: "eth 0" is not a device name'),
        ("stateFile", "azure-vnet.json", 'stateFile: "azure-vnet.json" is not an absolute path; '),
        ("conflistDir", "/etc/../root", 'conflistDir: "/etc/../root" is not an absolute path; '),
        (
            "ifAzureVnetActive",
            "stop",
            'ifAzureVnetActive: "stop" is not an allowed value; write "fail", "warn" or "ign',
        ),
        ("ebtables", "xt", 'ebtables: "xt" is not an ebtables program; write "auto", "nft" or "legacy"'),
        ("maxDeletions", 0, "maxDeletions: 0 is out of range; write an integer from 1 to 1000000"),
        ("dryRun", "no", 'dryRun: "no" is not true or false'),
        ("what", {"neigh": 1}, "what.neigh: 1 is not true or false"),
        ("flush", True, "flush: unknown key; "),
    ],
)
def test_what_is_refused(key: str, value: object, said: str) -> None:
    """Each invalid value is refused with a message that states the rule and the remedy."""
    assert fault(key, value).startswith(said)
