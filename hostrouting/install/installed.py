"""Reads the configuration that is installed on a host, which is what config.json says.

Every check of a host does that, so this module imports only what loads fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.boot.on_disk import proof_of_installation
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault
from hostrouting.finding import Remedy
from hostrouting.host.layout import HostLayout
from hostrouting.release import call

if TYPE_CHECKING:
    from hostrouting.host.host import Host

_REMEDY = Remedy(
    f"correct {HostLayout.config_path}, or put it back; then",
    call("status"),
    needs_root=False,
    otherwise=Remedy(
        "with a backup, or another file",
        call("apply --allow-removal --config FILE"),
        otherwise=Remedy(
            "to remove hostrouting (the routes go, and nothing holds units back)", call("remove")
        ),
    ),
)
"""What to do about a config.json that cannot be used, or is missing. hostrouting cannot make it
again, because nothing else says what was installed.
"""


def read_installed(host: Host) -> HostRoutingConfig:
    """Return the configuration that is installed on this host; an empty one if none is.

    Raises ConfigError if files of ours exist, but config.json is missing, unusable or empty: if
    that counted as an empty configuration, a run would remove all that is installed.
    """
    files = host.files
    path = HostLayout.config_path
    text = files.read(path)
    if text is None and not proof_of_installation(files):
        return HostRoutingConfig()
    if text is None:  # a run that has just left the files may have written config.json before them
        text = files.read(path)
    if text is None:
        raise _unusable("is missing, although files of hostrouting are still there")
    try:
        config = HostRoutingConfig.from_json(text)
    except ConfigError as error:
        raise ConfigError(error.faults, path, remedy=_REMEDY) from error
    if config.asks_for_nothing:  # `apply` writes no such file: somebody has emptied it
        installed = proof_of_installation(files)
        if installed:
            raise _unusable(f"configures nothing, although {installed[0]} is still there")
    return config


def _unusable(rule: str) -> ConfigError:
    return ConfigError([Fault("", "", rule)], HostLayout.config_path, remedy=_REMEDY)
