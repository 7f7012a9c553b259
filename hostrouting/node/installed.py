"""What a pass needs: the configuration that is in force, which is config.json as it is now, and the
kernel. Where one of them cannot be had, the markers go, because no verdict is better than an old
one.
"""

from __future__ import annotations

from hostrouting.host.layout import HostLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from hostrouting.config.settings import HostRoutingConfig
    from hostrouting.host.base import Files
    from hostrouting.host.host import Host
    from hostrouting.kernel.base import RouteBackend

_PATH = HostLayout.config_path


def read_config(files: Files) -> str:
    """The text of the file. HostError if it is not there, or cannot be read."""
    try:
        text = files.read(_PATH)
    except Exception:
        _forget_verdict(files)
        raise
    if text is not None:
        return text
    _forget_verdict(files)
    from hostrouting.errors import HostError  # noqa: PLC0415  only after a failure

    sentence = (
        f"{_PATH} is missing: hostrouting has just been removed, or somebody has deleted the file; "
        f"to see which, as root: {HostLayout.node_command} status"
    )
    raise HostError(sentence, what="file")


def parse_config(files: Files, text: str) -> HostRoutingConfig:
    """The configuration of this text. ConfigError if it is none of ours."""
    from hostrouting.config.settings import HostRoutingConfig  # noqa: PLC0415  a shared pass needs none
    from hostrouting.errors import ConfigError  # noqa: PLC0415  as above

    try:
        return HostRoutingConfig.from_json(text, required=True)
    except ConfigError as error:
        _forget_verdict(files)
        raise ConfigError(error.faults, _PATH) from error


def open_kernel(host: Host) -> AbstractContextManager[RouteBackend]:
    """Connect to the kernel. BackendError if that is not possible, for example because a sandbox
    forbids it.
    """
    from hostrouting.errors import BackendError  # noqa: PLC0415  a shared pass needs none

    try:
        return host.open_kernel()
    except BackendError:
        _forget_verdict(host.files)
        raise


def _forget_verdict(files: Files) -> None:
    from hostrouting.check.marker import remove_markers  # noqa: PLC0415  only after a failure

    remove_markers(files)
