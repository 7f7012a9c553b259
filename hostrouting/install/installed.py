"""The configuration that is installed on a host, which is what config.json says."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from hostrouting.boot.enforced import read_enforced
from hostrouting.boot.files import asks_for_nothing
from hostrouting.boot.on_disk import owned_paths, steps_of_gate
from hostrouting.config.settings import HostRoutingConfig
from hostrouting.errors import ConfigError, Fault, HostRoutingError
from hostrouting.finding import Remedy
from hostrouting.host.layout import HostLayout
from hostrouting.install.typed_commands import APPLY_PIPED

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hostrouting.config.settings import Mode
    from hostrouting.host.host import Host


def read_installed(host: Host) -> HostRoutingConfig:
    """The configuration that is installed on this host, which asks for nothing if none is.

    Raises ConfigError if files of ours exist, but config.json is missing, unusable or empty. An
    empty configuration would be wrong then: a run would remove all that is installed.
    """
    path = HostLayout.config_path
    text = host.files.read(path)
    if text is None:
        ours = owned_paths(host.files)
        if not ours:
            return HostRoutingConfig()
        # Another run may have installed it since: it writes config.json first.
        text = host.files.read(path)
        if text is None:
            raise _unknown(host, "is missing", ours)
    try:
        config = HostRoutingConfig.from_json(text, required=True)
    except ConfigError as error:
        raise _unusable(host, error.faults) from error
    if asks_for_nothing(config):  # apply writes no such file: somebody has emptied it
        no_proof = {path, HostLayout.opening_path}
        others = [owned for owned in owned_paths(host.files) if owned not in no_proof]
        if others:
            raise _unknown(host, "configures nothing", others)
    return config


def installed_or_none(host: Host) -> HostRoutingConfig | None:
    """The same, but None if it cannot be read."""
    try:
        return read_installed(host)
    except HostRoutingError:
        return None


def _unknown(host: Host, what: str, ours: Sequence[str]) -> ConfigError:
    """The error for a config.json that does not say what these files are for."""
    rule = f"{what}, although {ours[0]} is still there"
    fault = Fault("", "", f"{rule}, so the installed configuration is unknown")
    return _unusable(host, [fault])


def _unusable(host: Host, faults: Iterable[Fault]) -> ConfigError:
    """The error for config.json: what to do about it is the same for all faults."""
    faults = [fault._replace(remedy="") for fault in faults]
    options = ""
    if not read_enforced(host.files).route_overlap.cidrs:
        options = " CIDR"
    remedy = remedy_without_config(host, options)
    return ConfigError(faults, HostLayout.config_path, remedy=remedy)


def remedy_without_config(host: Host, options: str) -> Remedy:
    """What to do about a config.json that cannot be used, or is not there; `repair` gets these
    options.

    A correction or a copy of the file brings all of it back. Without one, a new file is made of
    what the scripts and the drop-ins say, which is most of it.
    """
    known = read_enforced(host.files)
    kept = "the installed scripts say, and gives up podCidrs, azureVnetCleanup and manageForeign"
    mode = _mode_of_lost_check(host, known)
    if mode is not None:
        known = _with_device_of_routes(known, mode)
        kept = (
            "the other installed scripts say, and gives up podCidrs, azureVnetCleanup and "
            "manageForeign, and of the check, whose script is lost, too, all but the mode"
        )
    text = shlex.quote(json.dumps(known.to_mapping()))
    apply = f"{APPLY_PIPED} --allow-removal"
    removal = Remedy(
        "to remove hostrouting (the routes go, nothing holds units back, and addresses may escape)",
        "hostrouting remove",
    )
    new_file = Remedy(
        f"without one (this keeps what {kept})",
        f"echo {text} | hostrouting repair{options} --config - | {apply}",
        otherwise=removal,
    )
    backup = Remedy(
        "with a backup, or another file (--allow-removal, because nothing says what the new file "
        "would take away)",
        f"hostrouting repair --config BACKUP | {apply}",
        otherwise=new_file,
    )
    if host.files.look(HostLayout.config_path) is None:
        return backup
    words = f"correct {HostLayout.config_path}, then"
    return Remedy(words, "hostrouting status", needs_root=False, otherwise=backup)


def _mode_of_lost_check(host: Host, known: HostRoutingConfig) -> Mode | None:
    """The mode of a check whose script does not say any more what it checks, while gate.sh still
    has to run it; None if there is no such check.
    """
    steps = steps_of_gate(host.files)
    if known.route_overlap.cidrs or steps is None:
        return None
    required, wanted = steps
    if HostLayout.check_step in required:
        return "STRICT"
    return "WARN" if HostLayout.check_step in wanted else None


def _with_device_of_routes(known: HostRoutingConfig, mode: Mode) -> HostRoutingConfig:
    """With this mode, and with the device that the routes name as the expected one. Otherwise, a
    repair would lead the addresses to the device of the default route. Where the routes name
    several, nobody knows which ones were expected.
    """
    devs = {route.dev for route in known.static_routes.routes if route.dev is not None}
    check = known.route_overlap._replace(mode=mode)
    if len(devs) == 1:
        check = check._replace(expected_devs=tuple(devs))
    return known._replace(route_overlap=check)
