"""Reads the configuration that is installed on a host, which is what config.json says.

The gate and every check of a host do that, so this module imports only what loads fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault
from hostrouting.finding import Remedy
from hostrouting.host.layout import HostLayout
from hostrouting.release import our_command

if TYPE_CHECKING:
    from hostrouting.host.host import Host

_NEW_FILE = Remedy(
    f"with a backup, or a new file (echo '{{}}' | {our_command('repair CIDR --config -')} > FILE; "
    "then add gate.units, guard and mode), as root: "
    f"{our_command('apply --allow-removal --config FILE')}",
    otherwise=Remedy(
        "to remove hostrouting (the routes go, and nothing holds units back)",
        our_command("remove"),
    ),
)
_REMEDY = Remedy(
    "correct the file; then",
    our_command("status"),
    needs_root=False,
    otherwise=Remedy(
        "if a newer hostrouting wrote it",
        f"{HostLayout.node_command} status",
        needs_root=False,
        otherwise=_NEW_FILE,
    ),
)
"""What to do about a config.json that cannot be used, or is missing. hostrouting cannot make it
again, because nothing else says what was installed.
"""


def read_installed(host: Host) -> HostRoutingConfig:
    """Return the configuration that is installed on this host; an empty one if none is.

    Raises ConfigError if config.json is unusable; or if it is missing or configures nothing while
    files of ours show that something is installed. If that counted as an empty configuration, a run
    would remove all these files.
    """
    path = HostLayout.config_path
    text = host.files.read(path)
    config = HostRoutingConfig()
    if text is not None:
        try:
            config = HostRoutingConfig.from_json(text)
        except ConfigError as error:
            raise ConfigError(error.faults, path, remedy=_REMEDY) from error
    if not config.asks_for_nothing:
        return config

    from hostrouting.boot.on_disk import proof_of_installation  # noqa: PLC0415  rarely needed

    other_files = proof_of_installation(host.files)
    if not other_files:
        return config
    if text is None and host.files.read(path) is not None:
        return read_installed(host)  # a run has just written config.json and the other files
    problem, remedy = "configures nothing", _REMEDY
    if text is None:
        problem, remedy = "is missing", _NEW_FILE
    fault = Fault("", "", f"{problem}, although {other_files[0]} is still there")
    raise ConfigError([fault], path, remedy=remedy)
