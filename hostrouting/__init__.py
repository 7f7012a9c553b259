"""Correct a host's routing before its systemd-nspawn machine starts, and prove that it is correct.

This is a tour of the names. To write an agent, you need 1 to 3; to ask questions about a host, 4 and 5; to change a
host without the tasks, 6. `hostrouting.testing` is the test kit, `hostrouting.check.report` has the sentences and the
JSON documents, and `hostrouting.cli` is the command line. You can try all of it on a host in memory::

    import phases
    from hostrouting import Configure, HostRoutingConfig
    from hostrouting.testing import FakeHost, h200

    config = HostRoutingConfig.from_json('{"routeOverlap": {"expectedCidrs": ["172.16.0.0/16"], "mode": "STRICT"}}')
    configure = Configure(config, host=FakeHost(kernel=h200()))
    print(phases.plan(configure))  # the dry run
    print(phases.run(configure))  # fails, and says which routes repair it
"""

# The stub beside has each name once, with its module and its row of the tour. It is read by lines: parsing would take
# 7 ms. A name is loaded when it is first used.
_HOMES = {}
_ROWS = []
for _line in __loader__.get_data(__path__[0] + "/__init__.pyi").decode().splitlines():
    _code, _, _words = _line.partition("  # ")
    if _code.startswith("from "):
        _, _home, _, _names = _code.split(None, 3)
        _names = [_name.split()[0] for _name in _names.split(", ")]
        _HOMES.update(dict.fromkeys(_names, _home))
        _ROWS.append("    {:<23}  {}".format(", ".join(_names), _words) if _words else "")
    elif _line[2:3].isdigit():
        _ROWS.append("\n" + _line[2:] + "\n")
__doc__ = "\n".join([__doc__ or "", *_ROWS[1:], ""])
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    """Load the name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  any interpreter has it loaded already

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
