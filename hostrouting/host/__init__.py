"""A host without its kernel: files, systemd, paths, and the effects of a task. Tasks decide what to
do with them.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hostrouting.host.base import Files as Files
    from hostrouting.host.files import Entry as Entry, LocalFiles as LocalFiles
    from hostrouting.host.host import Host as Host
    from hostrouting.host.layout import HostLayout as HostLayout
    from hostrouting.host.systemd import Manager as Manager, SystemdManager as SystemdManager
    from hostrouting.kernel.rights import Rights as Rights
else:

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415  any interpreter has it loaded already

        value = globals()[name] = getattr(import_module(f"hostrouting.{_MODULES[name]}"), name)
        return value


_MODULES = {
    "Host": "host.host",
    "HostLayout": "host.layout",
    "Files": "host.base",
    "LocalFiles": "host.files",
    "Entry": "host.files",
    "Manager": "host.systemd",
    "SystemdManager": "host.systemd",
    "Rights": "kernel.rights",
}
"""Each name, with the module that it is loaded from when it is first used: a start of a gated unit
has no time to load them all.
"""
__all__ = list(_MODULES)
