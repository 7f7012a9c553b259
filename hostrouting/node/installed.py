"""The configuration that is in force: config.json, as it is now. Where it cannot be read, the
markers go, because no verdict is better than an old one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.errors import ConfigError, HostError
from hostrouting.host.layout import HostLayout

if TYPE_CHECKING:
    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.host import Host

_PATH = HostLayout.config_path


def read_config(host: Host) -> str:
    """The text of the file. HostError if it is not there."""
    try:
        text = host.files.read(_PATH)
    except HostError:
        _forget_verdict(host)
        raise
    if text is not None:
        return text
    _forget_verdict(host)
    sentence = (
        f"{_PATH} is missing: hostrouting has just been removed, or somebody has deleted the file; "
        f"to see which, as root: {HostLayout.node_command} status"
    )
    raise HostError(sentence, what="file", target=_PATH)


def parse_config(host: Host, text: str) -> HostRoutingConfig:
    """The configuration of this text. ConfigError if it is none of ours."""
    from hostrouting.config.settings import HostRoutingConfig  # noqa: PLC0415  a shared pass needs none

    try:
        return HostRoutingConfig.from_json(text, required=True)
    except ConfigError as error:
        _forget_verdict(host)
        raise ConfigError(error.faults, _PATH) from error


def _forget_verdict(host: Host) -> None:
    from hostrouting.check.marker import remove_markers  # noqa: PLC0415  only after a failure

    remove_markers(host.files)
