"""A kernel in a dictionary: Linux's routing, without Linux, for tests and for trying things out.

`MemoryBackend` keeps the promises of `hostrouting.backends.base`, and has verbs by which a test arranges the world:
links, addresses and rules come and go, a carrier is lost, somebody else changes a route. It is equal to Linux: a
property test lets the same random things happen to both and compares every outcome and errno, the whole table in
order after every step, lookups wherever an answer can change, and the words that `ip` prints.

From the bottom: `devices`, `tables` and `rules` hold the state; `ipv4` and `ipv6` are what Linux does with it, each
with the same rooms: `checks` (what a route has to be like), `routes` (where it is put) and `addresses` (what they
bring); `namespace` is what follows from what; `backend` is how a program meets it, `text` how it is printed, `faults`
and `watch` how it fails and how it is waited for.

Known limits, where this kernel is not Linux:

- Nexthop objects do not exist: a route that names one is refused with EINVAL, as by a Linux that has none.
- A gateway of the other family (IPv4 via an IPv6 neighbour) is taken as on-link while the device is up; Linux looks
  it up in its IPv6 tables, and answers EHOSTUNREACH where it is not.
- A lookup looks at the FIB only. Linux chooses a source address as well, and answers EINVAL when that is impossible:
  for a source that is not the host's own, or for a unicast route of scope host on a device without an address; here
  the entry is the answer. It also answers 0.0.0.0 with EHOSTUNREACH, and ENODEV or ENETUNREACH for an `oif` that is
  not there or down; here these are looked up like others. Forwarded packets (`iif`) are not asked whether forwarding
  is on. A neighbour's reachability plays no part (IPv6 prefers reachable routers of one metric).
- IPv6 has unicast routes and those that lead nowhere (blackhole, unreachable, prohibit, throw); others are made by
  addresses and devices alone. Routes through lo, which Linux makes to lead nowhere, lead to lo. Link-local addresses,
  duplicate detection, router advertisements, anycast and expiring routes do not come by themselves: it is a host with
  addrgenmode none and nodad.
- In IPv6 a rule with `suppress_ifgroup` is heeded when a gateway is looked for (EHOSTUNREACH); Linux finds the
  gateway (done). VRFs, tunnels and several namespaces do not exist.
- Of what a rule selects on besides (`Rule.others`) it is only known whether a plain packet has it: where all that is
  asked for is zero. `flow` makes no difference to it.
- Of an IPv4 route with several legs `ip` also prints linkdown or dead for the whole; here it stands at the legs only.
- Of an IPv6 route that leads nowhere `ip` also prints onlink where it was asked for; here such a route has no legs.
- The random comparison with Linux has addresses on ordinary devices and without peers; those on lo, on two links, and
  with peers are compared in stories.
- Metrics of routes are mtu and advmss, the rest is not kept. Addresses have no lifetimes or labels. An IPv6
  address brings its prefix route with metric 256, whatever it says about that.
"""

from hostrouting.backends.memory.backend import MemoryBackend
from hostrouting.backends.memory.faults import Faults, Moment
from hostrouting.backends.memory.watch import MemoryWatch

__all__ = ["Faults", "MemoryBackend", "MemoryWatch", "Moment"]
