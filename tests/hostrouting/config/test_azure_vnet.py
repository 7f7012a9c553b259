"""The section `azureVnetCleanup`: the allowed values, and the message for each fault."""

from ipaddress import IPv4Network, IPv6Network

import pytest

from hostrouting.config.azure_vnet import AzureVnetCleanupConfig
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError


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


def test_the_networks_have_to_be_named() -> None:
    """A section without managed networks is a fault, because no default would be right."""
    with pytest.raises(ConfigError, match=r"azureVnetCleanup\.managed: missing; name the networks"):
        HostRoutingConfig.from_mapping({"azureVnetCleanup": {}})
