"""Opinions that were wrong once, on hosts that no file of tests/hosts describes."""

from hostrouting.check.sentences import check_findings
from hostrouting.model.rule import Rule
from tests.support.ip_text import HostRow, host_rows
from tests.support.nodes import with_rules
from tests.support.topologies import address, checked, checked_as, vm_of


@host_rows("""
halves are a capture beside a default route, and one without; of two to a half, the first is used
  overlap, expected eth0 | default via 10.0.0.1 dev eth0; 0.0.0.0/1 dev eth0; 128.0.0.0/1 dev eth1
  ok, expected eth0 eth1 | -default; 0.0.0.0/1 dev eth0; 128.0.0.0/1 dev eth1
a dummy that the configuration names is the uplink, and a card is not
  overlap | link dummy0 dummy; default dev dummy0; 172.16.0.0/17 dev eth0 | dev=dummy0
halves hide the default route of a tunnel, unless Linux asks the table of the tunnel first
+ -default; 0.0.0.0/1 via 10.0.0.1 dev eth0; 128.0.0.0/1 via 10.0.0.1 dev eth0
  ok, expected eth0            | default dev wg1 table 253
  ok, expected eth0            | default dev wg1
  undecided, expected eth0 wg1 | default dev wg1 table 100; rule
two halves of which one refuses packets are not a default route
  no-default-route | -default; 0.0.0.0/1 via 10.0.0.1 dev eth0; blackhole 128.0.0.0/1
a tap is the only way out beside a card that has addresses of the other family alone
+ -default; -addresses; link tap0 tun; default dev tap0; link nic0 nic
  ok        | address 2001:db8::7/64 dev nic0
  undecided | address 192.0.2.7/24 dev nic0
a rule for all but some destinations says nothing about the uplink
  overlap, expected eth0 | default via 10.1.0.1 dev eth1 table 100; rule not to 10.99.0.0/16
a rule for some users leads them where all others go
  ok | default via 10.1.0.1 dev eth1 metric 500; rule uidrange 1000-1999 lookup 254
  ok | rule uidrange 0-99 lookup 254
a default route by InfiniBand is not one
+ -default; 0.0.0.0/1 dev eth0; 128.0.0.0/1 dev eth1; default dev ib0; 0.0.0.0/1 dev ib0
  ok, expected eth0 eth1
a default route by InfiniBand says nothing of the uplink, even if there is no other
  no-default-route | -default; default via 172.16.1.1 dev ib0
of IPv6 default routes with one metric, that of the router with the higher preference is used
+ ipv6; link eth1 nic
  ok, expected eth1             | ::/0 via fe80::2 dev eth1 metric 1024 pref high   | fd96::/108
  undecided, expected eth0 eth1 | ::/0 via fe80::2 dev eth1 metric 1024 pref medium | fd96::/108
  ok, expected eth0             | ::/0 via fe80::2 dev eth1 metric 1024 pref low    | fd96::/108
while a gateway does not answer, IPv4 goes over to an equal default route with a gateway
+ -default
  overlap   | default via 10.0.0.1 dev eth0; default via 10.1.0.1 dev eth1 | dev=eth0
  undecided | default via 10.0.0.1 dev eth0; default dev eth1
  ok        | default via 10.0.0.1 dev eth0; local default dev lo
  ok        | default via 10.0.0.1 dev eth0; \
default nexthop via 10.0.0.2 dev eth0 nexthop via 10.1.0.1 dev eth1 dead | dev=eth0
these look like Ethernet, and all but the bond are tunnels
+ default dev dev0
  undecided | link dev0 vxlan
  undecided | link dev0 batadv
  undecided | link dev0 tun
  ok        | link dev0 bond
what the hidden card leads to a router is not for neighbours, although it lies in its network
+ default dev wg1
  ok      |                                               | 10.0.0.128/25 dev=wg1
  overlap | 10.0.0.128/25 via 10.0.0.1 dev eth0 proto 4   | 10.0.0.128/25 dev=wg1
either of two cards may be the uplink: a third one is not
  overlap | default via 10.1.0.1 dev eth1 metric 100; link nic2 nic; 172.16.0.0/16 dev nic2
a doubt about the host is one for all CIDRs
  undecided, doubts default-routes | default dev wg1 | 172.16.0.0/16 10.96.0.0/12 192.168.0.0/16
allowedDevs names devices beside the uplink; which one the uplink is, expectedDevs says
  undecided | default dev wg1 | allow=wg1
  ok        | default dev wg1; 172.16.0.0/17 via 10.0.0.1 dev eth0 | allow=wg1 dev=eth0
below a tunnel may be any card that is connected or has a router, and no InfiniBand
+ -default; -addresses; default dev wg1; address 172.16.0.4/16 dev dev1
  undecided | link dev1 nic; 172.16.0.0/16 dev dev1 proto 2 | 172.16.5.0/24
  overlap   | link dev1 ib; 172.16.0.0/16 dev dev1 proto 2  | 172.16.5.0/24
  undecided | link dev1 nic; 172.16.0.0/16 proto 2 nexthop dev dev1 nexthop via 172.16.0.1 dev dev1
broadcast and anycast addresses are this host's own; no range is, nor what another program adds
  ok      | broadcast 172.16.5.255/32 dev ib0 proto 2
  overlap | broadcast 172.16.5.255/32 dev ib0 proto 4
  overlap | broadcast 172.16.5.0/24 dev ib0 proto 2
  ok      | anycast fd16::/128 dev ib0 proto 2; address fd16::1/64 dev ib0; ipv6 | fd16::/128
by these, TCP connects in IPv6 alone
  ok        | multicast fd16::/64 via fe80::1 dev eth0 proto 4; ipv6 | fd16::/48
for a route of the scope of the host, Linux finds no source by a device without an address
  ok        | 172.16.5.1/32 dev cali1 scope 254 src 10.0.0.4; address fe80::1/64 dev cali1
one next hop without a gateway loses some connections; DHCP knows who is a neighbour
  undecided | 172.16.0.0/16 proto 4 nexthop via 10.0.0.1 dev eth0 nexthop dev eth0
  ok        | 172.16.0.0/16 proto 16 nexthop via 10.0.0.1 dev eth0 nexthop dev eth0
who sets a default route without a gateway means it; any other may be a mistake
  ok        | default dev eth0 proto 3
  undecided | 172.0.0.0/8 dev eth0 proto 3
a router on one card says where the others of its link are, whatever another card's default says
+ default via 10.1.0.1 dev eth1 metric 500
  ok        | 172.0.0.0/8 via 10.0.0.1 dev eth0 proto 3
  undecided | 172.0.0.0/8 dev eth0 proto 3
  undecided | 172.0.0.0/8 dev eth1 proto 3 | dev=eth1
neighbours are in a network of the device itself
+ 172.16.5.0/24 dev eth0 proto 3
  undecided | address 172.16.1.10/16 dev ib0  | 172.16.5.0/24
  ok        | address 172.16.1.10/16 dev eth0 | 172.16.5.0/24
  ok        |                                 | 172.16.5.0/24 allow=eth0
the bridge of a CNI leads to the pods of its own network, and to single ones
+ address 172.16.1.1/24 dev cni0
  ok        | 172.16.1.128/25 dev cni0; link veth7 veth cni0; link tap7 tun cni0; link a dummy cni0
  ok        | 172.16.2.7/32 dev cni0
a bridge with a card as a port takes packets away if it is not a CNI's
  overlap   | link br1 bridge; link eth1 nic br1; 172.16.5.0/24 dev br1
a bridge's address in the network of the link, which every device has, says nothing of its pods
+ ipv6; -addresses; fd16::/64 dev cni0
  ok        | address fe80::1/64 dev cni0 | fd16::/56
the only address of a bridge, to which Linux has a route in IPv6, is not that of a pod
  ok | ipv6; address fd16::1/128 dev cni0; local fd16::1/128 dev cni0 table 255; \
fd16::1/128 dev cni0 proto 2 | fd16::/48
a default route by a bridge, or a half of one, leads to no pods, and a route to one address does
  ok        | default dev cni0 metric 500
  undecided | 128.0.0.0/1 dev cni0; 172.16.0.0/16 via 10.0.0.1 dev eth0
  overlap   | 172.16.2.7/32 dev cni0; rule; default via 10.0.0.1 dev eth0 table 100
while pods move from one CNI to another, those of both are right
  ok | link lxc1 veth; 172.16.2.7/32 dev cali1; 172.16.2.8/32 dev lxc1
Cilium's device for all pods shows, as that of a single one, whose the pods of this node are
+ link cilium_host veth; link flannel.1 vxlan; 172.16.2.0/24 dev flannel.1
  ok        | local 172.16.1.1/32 dev cilium_host table 255
  undecided | 172.16.1.0/24 dev cilium_host
a CNI's bridge does not lead to the pods of another one
+ link cali1 veth; link cbr0 bridge; 172.16.1.0/24 dev cbr0
  ok
  undecided | 172.16.2.7/32 dev cali1
pods of this node may be hidden by an uplink that is named as a pod's device, or by a rule
+ link veth7 veth; 172.16.5.7/32 dev cali1
  overlap | 172.16.5.0/24 via 10.0.0.1 dev veth7 table 100; rule | 172.16.5.0/24 dev=veth7
  ok      | 172.16.5.9/32 dev veth7 | 172.16.5.9/32 dev=veth7
  overlap | rule to 172.16.5.0/24 prohibit
  overlap | -main; rule; default via 10.0.0.1 dev eth0 table 100
  overlap | 172.16.5.9/32 dev cali1 metric 9; 172.16.5.9/32 via 10.0.0.1 dev eth0 metric 5
  overlap | link cni0 bridge; 172.16.6.0/24 dev cni0; rule; \
blackhole 172.16.6.0/26 proto 80 table 100
what Linux does not use, or only for some packets, leads to no pods and hides none
  ok        | 172.16.5.7/32 dev cali1 dead
  undecided | 172.16.5.7/32 dev cali1 tos 16
  ok | 172.16.5.7/32 dev cali1; rule; \
172.16.5.7/32 table 100 nexthop dev cali1 nexthop dev eth0 dead | 172.16.5.7/32
what is not judged does not hide pods for certain
  undecided | 172.16.5.7/32 dev cali1; rule; \
172.16.5.0/24 dev eth0 encap seg6 table 100 | 172.16.5.0/24
pods of other nodes are not, if they are reached by the uplink, too
  ok | link flannel.1 vxlan; 172.16.5.7/32 dev flannel.1; rule; \
172.16.5.0/24 via 10.0.0.1 dev eth0 table 100
  ok | link cilium_host veth; address 172.16.9.1/32 dev cilium_host; 172.16.5.0/24 dev cilium_host \
; rule; 172.16.5.0/24 via 10.0.0.1 dev eth0 table 100
pods that the plain bridge plugin has attached may be those of any CNI
  ok | link flannel.1 vxlan; link veth7 veth; 172.16.1.0/24 dev flannel.1; 172.16.2.7/32 dev veth7
a next hop without a gateway says nothing of another one
  ok | 172.16.0.0/16 nexthop via 10.0.0.1 dev eth0 nexthop dev ib0 dead
the block of Calico on this node has 4,096 addresses at most
  ok       | link cali1 veth; blackhole 172.16.0.0/20 proto 12; 172.16.1.7/32 dev cali1
  overlap  | link cali1 veth; blackhole 172.16.0.0/19 proto 12; 172.16.1.7/32 dev cali1
multicast is fine by any device, and not if it is refused
  ok      | 224.0.0.0/4 dev ib0               | 224.0.0.0/4
  overlap | blackhole 224.0.0.0/4 proto 4     | 224.0.0.0/4
a route that has the prefix of what is refused does not lie inside
  undecided | blackhole 172.16.5.0/26 proto 12; link cali1 veth; 172.16.5.0/26 dev cali1 metric 9 \
| 172.16.5.0/26
what is refused around a pod may be a block of a CNI, unless it is too wide
+ ipv6
  undecided | prohibit 172.16.0.0/20 proto 4; 172.16.0.0/32 dev cali1 | 172.16.0.0/20
  overlap   | prohibit 172.16.0.0/19 proto 4; 172.16.0.0/32 dev cali1 | 172.16.0.0/19
  undecided | prohibit fd16::/64 proto 4; fd16::/128 dev cali1        | fd16::/64
  overlap   | prohibit fd16::/63 proto 4; fd16::/128 dev cali1        | fd16::/63
a refused range that begins with the address of Flannel's device is its own, unless it is too wide
+ ipv6; -addresses; link flannel.1 vxlan; link cni0 bridge
  ok      | blackhole 172.0.0.0/8 proto 3; address 172.0.0.0/8 dev flannel.1 | 172.0.0.0/8
  overlap | blackhole 172.0.0.0/8 proto 3; address 172.0.0.0/8 dev flannel.1 \
| 172.0.0.0/8 services=172.96.0.0/12
  overlap | blackhole 172.0.0.0/7 proto 3; address 172.0.0.0/7 dev flannel.1 | 172.0.0.0/7
  ok      | blackhole 172.0.0.0/30 proto 3; address 172.0.0.0/30 dev flannel.1 | 172.0.0.0/30
  overlap | blackhole 172.0.0.0/31 proto 3; address 172.0.0.0/31 dev flannel.1 | 172.0.0.0/31
  overlap | blackhole 172.0.0.0/8 proto 3; address 172.0.0.1/8 dev flannel.1; \
address 172.0.0.0/8 dev eth1 | 172.0.0.0/8
  ok      | blackhole fd16::/48 proto 3; address fd16::/48 dev flannel.1     | fd16::/48
  overlap | blackhole fd16::/47 proto 3; address fd16::/47 dev flannel.1     | fd16::/47
only a pod of Calico inside shows that BIRD refuses a block for Calico
+ link cali1 veth; link lxc1 veth; blackhole 172.16.5.0/24 proto 12
  ok        | 172.16.5.7/32 dev cali1 | 172.16.5.128/25
  undecided | 172.16.5.7/32 dev lxc1  | 172.16.5.128/25
  undecided | 172.16.6.7/32 dev cali1; prohibit 172.16.6.0/24 proto 12 | 172.16.6.128/25
after a drain, only the block of another node shows Calico, and it has the same length
+ blackhole 172.16.5.0/26 proto 12
  undecided | 172.16.6.0/26 via 10.0.0.9 dev eth0 proto 12 | 172.16.5.0/24
  overlap   | 172.16.6.9/32 via 10.0.0.9 dev eth0 proto 12 | 172.16.5.0/24
one of Calico's own protocol needs no pod inside, and a rule by source does not matter to it
+ default via 10.0.0.1 dev eth0 table 100; rule from 10.0.0.4/32
  overlap | blackhole 172.16.5.0/24 proto 80
only a single address by a pod's device, not behind a router, is a pod
+ link cali1 veth; blackhole 172.16.5.0/24 proto 4
  undecided | 172.16.5.9/32 dev cali1                                       | 172.16.5.128/25
  overlap   | 172.16.5.9/32 nexthop dev cali1 nexthop via 172.16.9.1 dev cali1 | 172.16.5.128/25
  overlap   | 172.16.5.9/32 dev cali1 table 100; rule to 10.9.0.0/16        | 172.16.5.128/25
  overlap   | 172.16.5.8/32 dev ib0                                         | 172.16.5.128/25
a route of ours, or a typed one, was right until a CNI started, which adds a wider one
+ link ovn-k8s-mp0 openvswitch; 172.16.0.0/14 via 10.128.6.1 dev ovn-k8s-mp0
  undecided, doubts doubtful-route | 172.16.0.0/17 via 10.0.0.1 dev eth0 proto ours
  overlap                          | 172.16.0.0/17 via 10.0.0.1 dev ib0 proto ours
  undecided, doubts doubtful-route doubtful-route | 172.16.0.0/17 via 10.0.0.1 dev eth0; \
172.16.0.0/16 via 10.0.0.1 dev eth0 proto ours
  ok                               | 172.16.0.0/17 dev eth0 proto 2
  ok                               | 172.16.5.9/32 via 10.0.0.1 dev eth0 proto ours
""")
def test_plain_packets(row: HostRow) -> None:
    """The verdict on a plain VM that has these things, too."""
    assert_answer(row)


@host_rows("""
a proxy takes in what a mark selects, if the rule selects by nothing else
+ local 0.0.0.0/0 dev lo table 100
  ok        | rule fwmark 1/1
  undecided | rule fwmark 1/1 uidrange 1000-1999
  overlap, doubts | rule fwmark 1/1; rule pref 200
the table of a user's network is for marked packets alone, and not for all that others leave
+ link flannel.1 vxlan
+ 10.244.0.0/16 dev flannel.1; -default; unreachable default; default dev eth0 table 100
  undecided | rule not fwmark 1/1
  undecided | rule not fwmark 1/1; rule pref 90 fwmark 1/1 lookup 254
  ok        | rule; rule pref 90 fwmark 1/1 lookup 200; unreachable default table 200; \
10.200.0.0/16 dev flannel.1 table 200
  undecided | rule; rule pref 90 fwmark 1/1 lookup 200; unreachable default table 200
  undecided | rule; rule pref 90 fwmark 1/1 lookup 200; rule pref 91 to 192.0.2.0/24 lookup 200; \
unreachable default table 200; 10.200.0.0/16 dev flannel.1 table 200
  undecided | rule; rule pref 90 fwmark 1/1 lookup 200; unreachable 172.16.0.0/16 table 200; \
10.200.0.0/16 dev flannel.1 table 200
by an uplink without an address, Linux writes that of lo, even if it lists another one first
+ -addresses; address 10.1.0.4/24 dev eth1; address 10.9.9.4/32 dev lo; rule from 10.9.9.4/32
  overlap | default via 10.1.0.1 dev eth1 table 100
a socket may have any address of a `local` range, so a `from` in it is about this host
+ elsewhere; rule from 10.9.3.0/24
  undecided | local 10.9.0.0/16 dev lo table 255
  ok        | local 10.9.0.0/24 dev lo table 255
  ok        | local 0.0.0.0/0 dev lo table 101
intendedRules names each rule by its selectors, and says nothing about others
+ elsewhere; rule fwmark 1/1
  undecided
  ok        | | intended=fwmark 0x1/0x1
  undecided | | intended=fwmark 0x2/0x2
a VPN marks its own packets, which leave by the card below the tunnel, and by no other device
+ default dev wg1 table 100; rule pref 200 fwmark 1/1 lookup 200; rule pref 201 not fwmark 1/1
  undecided | default table 200 nexthop via 10.0.0.1 dev eth0 nexthop via 10.0.0.1 dev ib0 | dev=wg1
+ default via 10.0.0.1 dev eth0 table 200
  ok        |                                           | dev=wg1
  undecided | default via 10.0.0.1 dev ib0 table 200    | dev=wg1
  undecided | multicast 172.16.0.0/16 dev eth0 table 200 | dev=wg1
  undecided | rule pref 150 uidrange 1000-1999 lookup 200 | dev=wg1
a doubt about an address of this host alone is named beside another doubt
  undecided, doubts other-packets other-packets | elsewhere; rule pref 0 fwmark 1/1; \
rule pref 0 to 10.0.0.4/32 uidrange 1000-1000 | 10.0.0.0/24
nobody can know of which sockets these packets are
+ elsewhere
  undecided | rule [iif lo] fwmark 1/1
  undecided | rule [iif lo] uidrange 1000-1999
  undecided | rule [iif lo] ipproto tcp dport 443
  undecided | rule [iif lo] oif eth0 prohibit
  undecided | rule [iif lo] from 10.0.0.4/32 uidrange 1000-1999
sockets that are bound to a device pass over routes by others, and loopback never leaves
+ elsewhere
  ok | rule [iif lo] oif ib0
  ok | rule [iif lo] from 127.0.0.0/8
  ok | rule [iif lo] from 10.0.0.4/32 oif ib0
where another rule decides the plain packets, a `not from` is about others of this host
  undecided | elsewhere; rule pref 90 uidrange 0-0 lookup 254; rule not from 10.244.0.0/16
behind a rule for all that this host sends, a rule may select packets of pods
+ elsewhere; 10.244.0.0/24 dev cni0; address 10.244.0.1/24 dev cni0; rule pref 90 iif lo lookup 254
  undecided | rule iif cni0
  ok        | rule iif cni0 lookup 7; 172.16.0.0/16 dev eth0 proto 3 table 7
  ok        | rule pref 95 iif cni0 lookup 254; rule iif cni0
  ok        | rule pref 93 iif lo lookup 254; rule pref 95 lookup 254; rule iif cni0
by one of several devices, packets may leave through another than the one that has their source
+ address 10.9.1.4/24 dev eth0; address 10.9.2.4/24 dev ib0; rule from 10.9.0.0/16
  ok        | default dev eth0 table 100
  undecided | elsewhere
  undecided | default table 100 nexthop dev eth0 nexthop dev ib0
what is known of packets excuses the device of a route, and no type that keeps or loses them
+ address 10.9.0.4/24 dev ib0
  ok        | 172.16.0.0/16 dev ib0 table 100 proto 4; rule from 10.9.0.4/32
  undecided | default table 100 nexthop dev ib0 nexthop dev wg1; rule from 10.9.0.4/32
  undecided | local 172.16.0.0/16 dev ib0 table 100 proto 4; rule from 10.9.0.4/32
  undecided | multicast 172.16.0.0/16 dev ib0 table 100 proto 4; rule from 10.9.0.4/32
  ok        | 172.16.0.0/16 dev ib0 table 100 proto 4; rule oif ib0
  undecided | local 172.16.0.0/16 dev ib0 table 100 proto 4; rule oif ib0
by the right device, packets are lost all the same if the link is asked for them
+ address 10.0.0.9/24 dev eth0
  undecided | 172.16.0.0/16 dev eth0 table 100; rule from 10.0.0.9/32
  ok        | 172.16.0.0/16 via 10.0.0.1 dev eth0 table 100; rule from 10.0.0.9/32
  undecided | 172.16.0.0/16 dev eth0 table 100; rule oif eth0
pods here may have addresses in a part; Cilium names an address of its own as the gateway to all
+ elsewhere; address 10.9.0.1/32 dev cni0; rule from 10.9.0.128/25
  ok        | 10.9.0.0/25 dev cni0
  ok        | default dev cni0 table 100 metric 9
a CNI's rule for a pod names the pod's device, too, and leads to a card
+ address 10.9.0.4/32 dev eth0; default via 10.1.0.1 dev eth1 table 100; default dev ib0 table 7
  undecided | rule pref 2048 from 10.9.0.4/32
of the packets to pods of this node, a rule may lead out some that have a source of this host
+ address 10.244.1.1/24 dev cni0; 10.244.1.0/24 dev cni0 proto 2
+ default via 10.0.0.1 dev eth0 table 100; address 10.0.32.4/24 dev eth1
  undecided | rule from 10.0.0.4/32 fwmark 0/0xff | 10.244.0.0/16
  undecided | rule from 10.0.0.4/32 ipproto tcp   | 10.244.0.0/16
  undecided | rule from 10.0.0.4/32 uidrange 0-0  | 10.244.0.0/16
  undecided | rule from 10.244.1.1/32 ipproto udp | 10.244.0.0/16
  overlap   | rule from 10.244.1.1/32             | 10.244.0.0/16
  ok        | rule from 10.244.1.2/32 ipproto udp | 10.244.0.0/16
  ok        | rule from 10.0.0.4/32 ipproto tcp   | 10.245.0.0/16
  ok        | rule from 10.0.0.4/32 oif eth0      | 10.244.0.0/16
  ok        | default dev eth1 table 7; rule from 10.0.32.4/32 ipproto tcp lookup 7 | 10.244.0.0/16
what a service sends from an address of lo leaves by a card
+ address 10.9.0.4/32 dev lo; rule from 10.9.0.0/24
  undecided | default table 100 nexthop dev eth1 nexthop dev ib0
  undecided | default dev eth1 table 100; address 10.9.0.5/32 dev ib0
only IPv6 chooses a source without a route, and looks up again
  overlap | throw 172.16.0.0/16; default via 10.0.0.1 dev eth0 table 100; rule from 10.0.0.4/32
an intended rule is about connections, too, and never about plain packets
  overlap | elsewhere; rule uidrange 0-0 | intended=uidrange 0-0
  overlap | elsewhere; rule from 10.0.0.4/32
connections take an intended rule in either of two lookups
+ 172.16.0.0/16 via 10.0.0.1 dev eth0 table 101; rule pref 101 to 172.16.0.0/16 lookup 101
+ 172.16.0.0/16 dev ib0 table 100; rule from 10.0.0.4/32
  overlap, escape ib0
what connections lose is one range across the parts and own addresses inside
+ 172.16.0.0/17 via 10.0.0.1 dev eth0; local 172.16.5.5/32 dev lo table 255
  overlap, escape ib0 | 172.16.0.0/16 dev ib0 table 100; rule from 10.0.0.4/32
what escapes both as plain packets and as connections is named as plain packets
+ link ib1 ib; 172.16.0.0/16 dev ib0
  overlap, escape ib0 | 172.16.0.0/16 dev ib1 table 100; rule from 10.0.0.4/32
IPv4 writes the address as the source whose network has the gateway, or else the first
+ link flannel.1 vxlan; address 10.9.0.4/32 dev flannel.1; address 10.8.0.4/24 dev flannel.1
+ default via 10.0.0.1 dev eth0 table 100; rule from 10.8.0.4/32
  undecided | 172.16.0.0/16 via 10.8.0.1 dev flannel.1
  ok        | 172.16.0.0/16 via 10.9.0.1 dev flannel.1 onlink
  ok        | 172.16.0.0/16 dev flannel.1
  undecided | 172.16.0.0/16 nexthop dev flannel.1 nexthop via 10.8.0.1 dev flannel.1
packets from the address of the uplink are no connections, if Linux writes another
  undecided | elsewhere; rule from 10.0.0.4/32; link flannel.1 vxlan; 172.16.0.0/16 dev flannel.1; \
address 10.9.0.4/32 dev flannel.1
a rule for all but what this host sends selects none of it
  ok | elsewhere; rule not iif lo
nothing is expected of packets that pods send
+ link cali1 veth; default dev eth1 table 7; rule from 10.244.1.0/24 lookup 7
  ok
of packets of pods, the source is known; the rest of a rule can still lead elsewhere
+ elsewhere; rule from 10.244.0.0/16 fwmark 0x80/0x80
  ok
a `from` that only an address on a pods' bridge fulfils is about pods, unless Linux may write that
+ elsewhere; 10.244.1.0/24 dev cni0; address 10.244.1.1/24 dev cni0
  overlap   | -addresses; rule from 10.244.1.0/24
a route by a CNI's device says that a `from` selects packets of pods; one for a single pod is fine
+ elsewhere
  ok        | 10.245.1.5/32 dev cali1; rule from 10.244.0.0/16
  ok        | 10.244.1.5/32 dev cali1; rule from 10.244.1.5/32
  ok        | 0.0.0.0/1 dev cali1; rule from 10.244.0.0/16
""")
def test_packets_that_a_rule_selects(row: HostRow) -> None:
    """Usually a rule sends them by InfiniBand, which is wrong if they may be this host's own."""
    assert_answer(row)


def assert_answer(row: HostRow) -> None:
    """A verdict, perhaps the expected devices, the device of each escape, and the doubts."""
    report = checked_as(vm_of(row.host), row.asked)
    verdict, *more = row.answer.split(", ")
    said = "\n".join(map(str, check_findings(report)))
    assert report.verdict == verdict, said
    for each in more:
        word, *names = each.split()
        if word == "expected":
            assert list(report.families[0].expected_devs) == names
        elif word == "escape":
            assert [escape.devs for escape in report.escapes] == [(dev,) for dev in names]
        else:
            assert [doubt.name for doubt in report.doubts] == names


def test_a_route_for_some_sources_is_not_one_to_pods() -> None:
    """It is not judged, so nothing hides it."""
    to_pod = "fd16::7/128 from fd00::/8 dev cali1"
    host = vm_of(f"ipv6; {to_pod}; fd16::/64 via fe80::1 dev eth0 table 100")
    assert checked(with_rules(host, [Rule(6, 100, table=100)]), "fd16::/64").verdict == "undecided"


def test_a_default_route_that_every_rule_suppresses() -> None:
    """Linux uses it for nothing, so it is not said to be worse than another one."""
    host = vm_of("-main; rule pref 32766 lookup 254 suppress 0")
    report = checked(host)
    assert report.verdict == "no-default-route"
    [finding] = check_findings(report)
    assert (finding.name, finding.can_retry) == ("no-default-route", True)


def test_a_device_that_vanished_while_it_was_read() -> None:
    """Routes and addresses may name a device that is not listed, or not yet."""
    host = vm_of("172.16.0.0/16 via 10.0.0.9 dev gone proto 80; link cali1 veth")
    host = host._replace(addresses=(*host.addresses, address("10.96.0.9/24", "gone")))
    report = checked(host, service_cidrs=["10.96.0.0/16"])
    assert report.verdict == "overlap"
    assert check_findings(report, mode="WARN")[0].facts["mayAllow"] == {}


def test_the_neighbours_on_a_card_that_a_tunnel_hides_are_named() -> None:
    """They are reached directly."""
    host = vm_of("default dev wg1 metric 200")
    every = "OK: every address of 10.0.0.0/24 leaves through"
    allowance = "or through eth0 (its own network), or is this host's own"
    for devs in (["wg1"], ["eth0", "wg1"]):
        report = checked(host, "10.0.0.0/24", expected_devs=devs)
        assert str(report) == f"{every} {' or '.join(devs)}, {allowance}"
