"""The commands that restore what was deleted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostrouting.kernel.neighbours import Neighbour
from hostrouting.model.prefix import Prefix, ip_at
from hostrouting.model.route import Route
from hostrouting.tasks.cleanup.plan import UndoLog
from tests.support.azure_leftovers import R1, R2, R3


def as_mac(number: int) -> str:
    """A MAC address of a single device: the group bit is not set."""
    digits = f"{number & ~(1 << 40):012x}"
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


MACS = st.integers(0, 2**48 - 1).map(as_mac)
DEVS = st.sampled_from(["azure0", "azv1234", "e;reboot", "a'b", "$x"])
IPV4 = st.integers(0, 2**32 - 1).map(lambda it: ip_at(4, it))
IPV6 = st.integers(0, 2**128 - 1).map(lambda it: ip_at(6, it))
RULES = st.builds(str.format, st.sampled_from([R1, R2]), IPV4, MACS) | st.builds(R3.format, IPV6, MACS)


def routes(ips: st.SearchStrategy[object], **more: st.SearchStrategy[object]) -> st.SearchStrategy[Route]:
    """Routes to single addresses."""
    numbers = {name: st.none() | st.integers(1, 65535) for name in ("mtu", "advmss")}
    shape = {"protocol": st.integers(0, 255), "metric": st.integers(0, 2**32 - 1), **numbers, **more}
    return st.builds(
        lambda ip, dev, **rest: Route(Prefix.of(ip), Route.to("0.0.0.0/0", dev=dev).legs, **rest),
        ips,
        DEVS,
        prefsrc=st.none() | ips,
        **shape,
    )


ROUTES = routes(IPV4, scope=st.sampled_from([0, 200, 253])) | routes(IPV6)
LOGS = st.builds(
    lambda program, rules, near, routes: UndoLog(rules, near, routes, program if rules else "ebtables"),
    st.sampled_from(["ebtables", "ebtables-nft", "ebtables-legacy"]),
    st.lists(RULES, max_size=3).map(tuple),
    st.lists(st.builds(Neighbour, IPV4 | IPV6, MACS, DEVS), max_size=3).map(tuple),
    st.lists(ROUTES, max_size=3).map(tuple),
)


@given(LOGS)
def test_there_and_back(log: UndoLog) -> None:
    """A log that is written is read back the same, in the same order, whatever characters device names have."""
    assert UndoLog.parse(str(log)) == log


def test_how_it_reads() -> None:
    """Each line is a shell command, with numbers instead of names that are configured on each host."""
    log = UndoLog(
        (R1.format("10.240.0.5", "02:00:00:00:00:05"),),
        (Neighbour("fd00::5", "02:00:00:00:00:05", "azure0"),),
        tuple(Route.to(it, dev="azure0", protocol=213, metric=7) for it in ("10.240.0.5/32", "fd00::5/128")),
        "ebtables-nft",
    )
    commands = [line for line in str(log).splitlines() if not line.startswith("#")]
    assert commands == [
        f"ebtables-nft -t nat -A {log.rules[0]}",
        "ip neigh add fd00::5 lladdr 02:00:00:00:00:05 dev azure0 nud permanent",
        "ip -4 route add 10.240.0.5/32 dev azure0 table 254 proto 213 scope 253 metric 7",
        "ip -6 route add fd00::5/128 dev azure0 table 254 proto 213 metric 7",
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("rm -rf /", "it is not a command of an undo file"),
        ("ebtables -t nat -F", "it is not a command of an undo file"),
        ("ebtables -t nat -A", "it is not a rule"),
        (f"ebtables-other -t nat -A {R1.format('10.0.0.1', '02:00:00:00:00:05')}", "it is not a command"),
        ("ip neigh add 10.0.0.1 lladdr nothing dev azure0 nud permanent", "is not a MAC address"),
        ("ip -4 route add 10.0.0.0/8 dev azure0 table 254 proto 3 metric 0", "it is not a route to a single address"),
        ("ip -4 route add 10.0.0.1 dev azure0 table 255 proto 3 metric 0", "it is not a route to a single address"),
        ("ip -4 route add 10.0.0.1 via 10.0.0.2", "it is not a route in the form that an undo file has"),
        ("ip -4 route add 10.0.0.1 dev", "it is not a route in the form that an undo file has"),
        ("ip 'neigh", "No closing quotation"),
    ],
)
def test_what_is_not_an_undo_file(line: str, why: str) -> None:
    """A line for something that a clean-up does not delete is refused, with its number."""
    with pytest.raises(ValueError, match=r"line 2: ") as caught:
        UndoLog.parse(f"# a comment\n{line}\n")
    assert why in str(caught.value)


def test_rules_of_two_backends() -> None:
    """A file with rules for two programs is refused, because a clean-up deletes the rules of only one backend."""
    rule = R1.format("10.0.0.1", "02:00:00:00:00:05")
    with pytest.raises(ValueError, match="line 2: it names a second ebtables program"):
        UndoLog.parse(f"ebtables-nft -t nat -A {rule}\nebtables-legacy -t nat -A {rule}\n")
