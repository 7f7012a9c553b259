# By which ways a host leaves: its default routes, and what is missing while one of them cannot be used.
# Nothing is concluded from routes of ours, for they may go.

# To be called when the tables are built.
function find_uplinks() {
  default_routes = near_count = 0
  list_defaults()
  list_near()
}

# The default routes in the order in which the plain packet meets them; what suppresses them is passed over.
function list_defaults(   s, rule, all, key, i, r) {
  for (s = 1; s <= steps["plain"]; s++) {
    rule = s_rule["plain", s]
    all = s_low["plain", s] < 0 || (s_low["plain", s] == 0 && u_high[rule] == 4294967295)
    if (all == s_not["plain", s] || (!all && u_table[rule] == "")) continue
    if (target_of("plain", rule)) s = target_of("plain", rule) - 1
    else if (u_table[rule] != "") {
      key = u_table[rule] SUBSEP 0 SUBSEP 0
      for (i = 1; (key in standing) && i <= standing[key]; i++) {
        r = stands[key, i]
        if (hex_number(r_tos[r]) >= 4) continue
        if (r_type[r] == THROW) break
        default_list[++default_routes] = r
      }
    } else if (ends_it(rule)) return
  }
}

# The default route that packets take, or the first of those by `dev`, but none of protocol `besides`; 0: none.
# One that refuses packets hides those after it.
function default_route(dev, besides,   r, i, leg) {
  for (i = 1; i <= default_routes; i++) {
    r = default_list[i]
    if (r_proto[r] == besides) continue
    if (dev == "") return r_type[r] == UNICAST ? r : 0
    for (leg = 1; leg <= e_legs[r] && r_type[r] == UNICAST; leg++) if (e_dev[r, leg] == dev) return r
  }
  return 0
}

function no_default_route(dev) {
  if (dev != "" && !(dev in link_up)) return "the device " dev
  return "an IPv4 default route" (dev == "" ? "" : " on " dev)
}

# Whether an automatic route by `dev` goes by this leg of the default route: not while its link is down and another up.
function is_way(r, leg, dev,   i, up) {
  if (dev != "" && r_dev[r, leg] != dev) return 0
  for (i = 1; i <= r_legs[r]; i++) if ((dev == "" || r_dev[r, i] == dev) && is_up(r_dev[r, i])) up = 1
  return !up || is_up(r_dev[r, leg])
}

function is_up(dev) { return (dev in link_up) && link_up[dev] }

# The leg of the default route r that has this gateway, by this device where one is named; 0: none.
function same_way(r, dev, gateway,   leg) {
  for (leg = 1; r && leg <= r_legs[r]; leg++)
    if ((dev == "" || r_dev[r, leg] == dev) && r_gateway[r, leg] == gateway) return leg
  return 0
}

# What is missing for a route that goes by this device and gateway; "" when nothing is.
function obstacle(dev, gateway, onlink,   address, is_what) {
  if (!(dev in link_up)) return "the device " dev
  if (!link_up[dev]) return "the device " dev " to be up"
  # A neighbour of the other family is nothing that IPv4 could say anything about.
  if (gateway == "" || index(gateway, ":")) return ""
  address = address_number(gateway)
  is_what = no_router(address)
  if (is_what != "") return gateway " to be a router next to this host (it is " is_what ")"
  if (onlink || reaches(dev, address)) return ""
  return "an address or route on " dev " that reaches the gateway " gateway " directly"
}

# What the address is when it is none of a router next to this host: the longest prefix says most.
function no_router(address,   r, best) {
  for (r = 1; r <= routes; r++)
    if (r_table[r] == LOCAL_TABLE && (r_type[r] == LOCAL || r_type[r] == BROADCAST) && r_proto[r] != ours)
      if (covers(r, address) && (!best || r_len[r] > r_len[best])) best = r
  if (!best) return ""
  return r_type[best] == LOCAL ? "this host\047s own address" : "a broadcast address"
}

# --- Which addresses are neighbours, and on which device.

function list_near(   r, leg) {
  for (r = 1; r <= routes; r++)
    if (r_table[r] == MAIN && r_type[r] == UNICAST && r_proto[r] != ours && r_scope[r] >= 253)
      for (leg = 1; leg <= r_legs[r]; leg++) if (r_gateway[r, leg] == "") add_near(r_dev[r, leg], r_net[r], r_len[r])
}

function add_near(dev, net, length_) {
  near_dev[++near_count] = dev; near_first[near_count] = net; near_last[near_count] = net + size[length_] - 1
}

function reaches(dev, address,   i) {
  for (i = 1; i <= near_count; i++)
    if (near_dev[i] == dev && near_first[i] <= address && address <= near_last[i]) return 1
  return 0
}
