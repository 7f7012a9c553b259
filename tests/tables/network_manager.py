"""What NetworkManager deletes, for the tests of the real one and of the simulated one."""

_VIA = "via 10.0.0.1 dev eth0"
ROUTES = {
    "ours": f"172.16.0.0/17 {_VIA} proto 213",
    "an administrator's": f"172.16.128.0/17 {_VIA} proto static",
    "in another table": f"10.9.0.0/16 {_VIA} table 100",
    "of another device": "172.17.0.0/17 dev ib0",
}
"""Routes that it does not know."""

_FAR = {"in another table", "of another device"}
KEPT = {
    "is restarted": {30: {*ROUTES}, 42: {*ROUTES}},
    "applies eth0 again": {30: _FAR, 42: {"ours", *_FAR}},
    "activates eth0": {30: {"of another device"}, 42: {"of another device"}},
}
"""The routes that it leaves, by what it does, and the minor version from which this is so."""
