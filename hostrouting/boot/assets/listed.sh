# What `ip` lists: names for its numbers, and what a device is. A text for programs of awk.
#
#   names scope 0 global 200 site 253 link 254 host 255 nowhere
#                                        the names of numbers, also of a type, proto, table and
#                                        ipproto: a host can have others, so `ip -N` prints numbers
#   kind tap tun                         the class of devices of these kinds
#   link-type card 1 ether               the class of devices of this link type, which is a number
#                                        or a word
#
# The classes:
#   card      Ethernet, wwan                leads to the network
#   bridge    bridge                        leads to the network, or only to guests or pods
#   tunnel    wireguard, vxlan, tun         its packets leave by another device: a VPN
#   line      ppp                           a VPN, or the line of a provider
#   tap       tun that looks like Ethernet  a VPN, or the network card of a virtual machine
#   dummy     dummy                         sends nothing out
#   dead-end  ifb, vrf, lo, InfiniBand      sends nothing to the network
# The fabric of InfiniBand does not lead to the network, so such a device has to be named.
#
# Variables: name_of, class_of_kind, class_of_link_type; is_up, kind_of, class
listed='
function read_listed_setting(   i) {
  if ($1 == "names") for (i = 3; i < NF; i += 2) name_of[$2, $i] = $(i + 1)
  if ($1 == "kind") for (i = 3; i <= NF; i++) class_of_kind[$i] = $2
  if ($1 == "link-type") for (i = 3; i <= NF; i++) class_of_link_type[$i] = $2
}
function name_for(list, number) {
  return (list, number) in name_of ? name_of[list, number] : number
}

# 2: eth0@if3: <BROADCAST,UP> mtu 1500 ...\    link/[1] ...\    veth ...
# Reads a device, and returns its name. With -N, `ip` prints the number of the link type (ARPHRD_...
# in Linux); some versions print its name. Behind an @ is the device that this one is on; a name
# that has an @ of its own is not told from that, and is cut.
function read_device(   dev, piece, link_type, kind) {
  dev = $2
  sub(/(@[^@]*)?:$/, "", dev)
  split($0, piece, /\\ +/) # where -o joins lines
  link_type = piece[2] # link/[1], or link/ether
  sub(/ .*/, "", link_type)
  gsub(/link\/|[][]/, "", link_type)
  kind = piece[3] "" # there may be none, and gawk 5.2.1 crashes without a text
  sub(/ .*/, "", kind)
  if (kind ~ /^(alias|altname|vf|prog\/xdp|.*_slave)$/) kind = "" # a card has no kind before these
  is_up[dev] = $3 ~ /[<,]UP[,>]/
  kind_of[dev] = kind
  class[dev] = class_of(kind, link_type)
  return dev
}
# A kind that is not in the settings is a tunnel, unless the link type is that of a card. So a card
# stays one if a word is wrongly taken for its kind.
function class_of(kind, link_type,   by_kind, by_type) {
  by_kind = class_of_kind[kind]
  by_type = class_of_link_type[link_type]
  if (by_type == "dead-end") return "dead-end" # InfiniBand, and lo
  if (by_kind == "tap" && by_type != "card") return "tunnel" # a tun
  if (by_kind != "") return by_kind
  if (by_type == "card" || kind == "") return "card"
  return "tunnel"
}
'
