"""A kernel in a dictionary: Linux's routing, without Linux, for tests and for trying things out.

`FakeKernel` implements the contract of `hostrouting.kernel.base`, and has methods with which a test changes the
fake kernel: devices, addresses and rules are added and deleted, a carrier is lost, another program changes a route. It
is equal to Linux: a property test does the same random things to both and compares every outcome and errno, the whole
table in order after every step, lookups wherever an answer can change, and the text that `ip` prints.

From the bottom: `devices` and `tables` hold the state. `ipv4` and `ipv6` implement what Linux does with it,
each with the same classes: Checks (the conditions for a route), Routes (where it is inserted) and Addresses (the routes
that they add). `backend` connects these, and is the interface for programs. `text` prints the state, and `faults` makes
it fail. `filters` has the fakes of nftables, ebtables and the link layer.

Known limits, where this kernel differs from Linux:

- Nexthop objects do not exist: a route that names one is refused with EINVAL, as by a Linux without any.
- A gateway of the other family (IPv4 via an IPv6 neighbour) is accepted as on-link while the device is up; Linux looks
  it up in its IPv6 tables, and answers EHOSTUNREACH if it is not on-link.
- A lookup reads the FIB only. Linux also chooses a source address, and answers EINVAL if that is impossible: for a
  source that is not an address of this host, or for a unicast route of scope host on a device without an address; here
  the entry is the answer. Linux also answers 0.0.0.0 with EHOSTUNREACH, and ENODEV or ENETUNREACH for an `oif` that
  does not exist or is down; here these are looked up like others. For packets that arrive (`iif`), it does not
  matter here whether forwarding is on, or whether the device accepts their source. A neighbour's reachability is
  ignored (IPv6 prefers reachable routers of one metric).
- IPv6 has unicast routes and those without a next hop (blackhole, unreachable, prohibit, throw); others are only added
  by addresses and devices. A route through lo is a unicast route here; Linux turns it into an unreachable one.
  Link-local addresses, duplicate detection, router advertisements and anycast do not exist: the host behaves like one
  with addrgenmode none and nodad.
- Time stands still, except in `pass_time` and while a watch waits on a clock. Expired routes are deleted 30 s after the
  first route that expires was added, and every 30 s from then on; Linux rounds this to a whole second. A watch hears of
  it when its wait ends. While exactly no time is left, Linux lists a route as one that stays.
- If all IPv6 routes of a prefix are for some sources, and longer prefixes are inside it, Linux may take its addresses
  from another route (`fib6_find_prefix`) after one of its routes was deleted or refused; then lookups may miss the
  prefix. Here they always find it. The random comparison ends each such state with one more route.
- In IPv6 a rule with `suppress_ifgroup` applies to the lookup of a gateway (EHOSTUNREACH); in Linux it does not, and
  the change is done. VRFs, tunnels and several namespaces do not exist.
- For unknown selectors of a rule, only plain packets are decided: they match if every value is zero.
  `flow` makes no difference to them.
- For an IPv4 route with several next hops, `ip` also prints linkdown or dead for the route; here only for the next hop.
- For an IPv6 route without a next hop, `ip` also prints onlink if it was requested; here it is lost.
- The random comparison with Linux has addresses on ordinary devices and without peers; addresses on lo, on two
  devices, and with peers are compared in fixed scenarios.
- Of a route's metrics, only mtu and advmss are kept. Addresses have no lifetimes or labels. An IPv6 address always adds
  its prefix route with metric 256.
"""

from hostrouting.testing.faults import Faults, Moment
from hostrouting.testing.kernel.backend import FakeKernel, MemoryWatch

__all__ = ["Faults", "FakeKernel", "MemoryWatch", "Moment"]
