"""Load-balancer probes over IPv6: the rules and the route that let them reach the pods.

How it works. Azure's load balancer sends its IPv6 probes from a link-local address. Linux does not forward packets from
such an address: it replies "beyond scope of source address". So a service whose backends are pods, or are on other
nodes, never receives a probe. Two stateless rules solve this, with a global address that is reserved for it:

- Before routing (and before connection tracking, which is at priority -200), the source of a probe is changed to the
  global address. From then on it is an ordinary packet: it is routed, translated and tracked like any other.
- After routing, if a packet to the global address leaves by the uplink, its destination is changed to the link-local
  address.

A route to the global address sends the replies to the uplink. The neighbour is resolved after the second rule, so the
host asks for the link-local address, and the load balancer answers.

The router sends its own packets from the same link-local address: its advertisements install the default route. So
packets that stay on the link are not changed (a link-local or multicast destination, neighbour discovery, MLD).

When it is there. The rules match nothing on a host without IPv6. So they are loaded whatever the state of the host is,
and they stay loaded: Azure gives the first IPv6 address by DHCPv6, perhaps long after boot. Only the route has to wait,
for its device to exist, to be up and to have IPv6; Linux deletes it when the link goes down. The task, the boot script,
the gate and the guard each add it when they can. No gated unit waits for it.

What is in force. The table is one text, which `boot.probe` renders; the task and the script load the same. nft lists a
table in words of its own. So the listing is recorded right after the load, together with the text, and later the table
is in force if the record has the wanted text and nft lists the same again, apart from the counts. A table without a
comment of ours belongs to another program: it is never changed, only reported.

    config ──> text ──> nft ──> listing ──> record                (task, or the script at boot)
    text + listing now  ==  record's text + listing  ?            (status, plan, guard)

rules    what is wanted, the record, the changes that are needed, and what else keeps probes from the pods
task     RewriteProbeSource
"""
