# From the static routes that are wanted, and what is there, to the steps between: hostrouting.plan once more.
# Prints "change" and "remove" with a command of `ip`, "missing" and "refused" with a sentence.

$1 == "setting" && $2 == "route" { want($3, $4, $5, $6); next }
$1 == "setting" { next }
$1 == "state" { next }
/^[0-9]+:\t/ { read_rule(); next }
/^[0-9]+: / { read_link(); next }
$1 == "inet" { read_netconf(); next }
/^[0-9]/ { if (is_of_interest()) read_route(++routes); next }
# What `ip` complains of; the last line says most.
{ complaint = $0 }

function value_of(word) { return substr(word, index(word, "=") + 1) }

function want(destination, gateway, dev, metric) {
  wishes++
  w_destination[wishes] = destination
  w_gateway[wishes] = value_of(gateway); w_dev[wishes] = value_of(dev); w_metric[wishes] = value_of(metric)
  read_prefix(destination)
  w_net[wishes] = network; w_len[wishes] = prefix_length
  wanted_prefix[destination] = 1
  if (prefix_length == 32) return
  wanted_prefix[prefix_text(network, prefix_length + 1)] = 1
  wanted_prefix[prefix_text(network + size[prefix_length + 1], prefix_length + 1)] = 1
}

# Of a hundred thousand routes, those that could matter: default routes, ours, those that lead to neighbours, and those
# that hold a prefix that is wanted.
function is_of_interest() {
  return $2 == "default" || index($0, " proto " ours " ") || (($1 == UNICAST || $1 == LOCAL || $1 == BROADCAST) && !index($0, " via ")) \
    || ((index($2, "/") ? $2 : $2 "/32") in wanted_prefix)
}

END {
  # `ip` ends with the first command that fails, so that the last one tells of all.
  if (!links || complaint ~ /interrupted/) { print "ip failed: " complaint; exit 1 }
  read_all()
  for (r = 1; r <= routes; r++) if (r_len[r] == 0) add_to_table(r)
  make_programs()
  list_defaults()
  for (r = 1; r <= routes; r++) if (r_table[r] == MAIN) {
    key = r_net[r] SUBSEP r_len[r] SUBSEP r_metric[r] SUBSEP r_tos[r]
    holders[key]++
    holder[key, holders[key]] = r
  }
  # What is on-link may lead to the gateways of the others.
  for (w = 1; w <= wishes; w++) if (resolve(w) && !through[w]) beside[++besides] = w
  for (w = 1; w <= wishes; w++) if (!resolve(w)) {
    settled[key_of(w)] = 1
    print "missing " wish_text(w) ": waiting for " missing " (given up after " waited " s)"
  } else if (!through[w]) settle(w)
  for (w = 1; w <= wishes; w++) if (resolve(w) && through[w]) settle(w)
  for (pass = 0; pass < 2; pass++)
    for (r = 1; r <= routes; r++)
      if (r_proto[r] == ours && has_gateway(r) != pass && (is_stale[r] || !((r_table[r] SUBSEP key_of_route(r)) in settled)))
        print "remove " removal(r)
}

function key_of_route(r) { return r_net[r] SUBSEP r_len[r] SUBSEP r_metric[r] SUBSEP r_tos[r] }

function key_of(w) { return MAIN SUBSEP w_net[w] SUBSEP w_len[w] SUBSEP w_metric[w] SUBSEP "0" }

function has_gateway(r,   leg) {
  for (leg = 1; leg <= r_legs[r]; leg++) if (r_gateway[r, leg] != "") return 1
  return 0
}

function wish_text(w) {
  return w_destination[w] (w_gateway[w] == "" ? "" : " via " w_gateway[w]) (w_dev[w] == "" ? "" : " dev " w_dev[w]) \
    (w_metric[w] == 0 ? "" : " metric " w_metric[w])
}

# The legs that a wish comes to, given the default route: sets legs[w], through[w] and leg_words[w]; 0, and what is
# missing, when the host is not ready for it. Nothing is concluded from routes of ours, for they may go.
function resolve(w,   d, leg, chosen) {
  legs[w] = through[w] = 0
  d = default_route(w_dev[w], ours)
  if (w_gateway[w] == "") {
    if (!d) { missing = "an IPv4 default route" (w_dev[w] == "" ? "" : " on " w_dev[w]); return 0 }
    for (leg = 1; leg <= r_legs[d]; leg++)
      if (is_way(d, leg, w_dev[w]))
        if (!add_leg(w, r_dev[d, leg], r_gateway[d, leg], r_weight[d, leg], has_flag(d, leg, "onlink"))) return 0
    # One leg alone has no weight.
    if (legs[w] == 1) g_weight[w, 1] = 1
    return 1
  }
  # The default gateway spelled out is the default gateway: on-link where the default route says so.
  if (leg = same_way(d, w_dev[w], w_gateway[w])) return add_leg(w, r_dev[d, leg], w_gateway[w], 1, has_flag(d, leg, "onlink"))
  if (w_dev[w] != "") return add_leg(w, w_dev[w], w_gateway[w], 1, 0)
  if (!d) { missing = "an IPv4 default route"; return 0 }
  for (leg = r_legs[d]; leg >= 1; leg--) if (reaches(r_dev[d, leg], w_gateway[w])) chosen = r_dev[d, leg]
  return add_leg(w, chosen == "" ? r_dev[d, 1] : chosen, w_gateway[w], 1, 0)
}

function add_leg(w, dev, gateway, weight, onlink) {
  if (!(dev in link_up)) missing = "the device " dev
  else if (!link_up[dev]) missing = "the device " dev " to be up"
  else if (gateway != "" && is_taken(gateway)) missing = "another gateway: " gateway " is " taken
  else if (gateway != "" && !onlink && !reaches(dev, gateway))
    missing = "an address or route on " dev " that reaches the gateway " gateway " directly"
  else {
    legs[w]++
    g_dev[w, legs[w]] = dev; g_gateway[w, legs[w]] = gateway; g_weight[w, legs[w]] = weight
    g_words[w, legs[w]] = (gateway == "" ? "" : "via " (index(gateway, ":") ? "inet6 " : "") gateway " ") "dev " dev (onlink ? " onlink" : "")
    if (gateway != "") through[w] = 1
    return 1
  }
  return 0
}

function is_taken(gateway,   r) {
  taken = ""
  if (index(gateway, ":")) return 0
  for (r = 1; r <= routes; r++) note_taken(r, address_number(gateway))
  return taken != ""
}

# Whether the gateway is a neighbour on the device.
function reaches(dev, gateway,   r, w, leg, i, address) {
  if (index(gateway, ":")) return 1
  address = address_number(gateway)
  for (r = 1; r <= routes; r++) {
    if (r_table[r] != MAIN || r_type[r] != UNICAST || r_proto[r] == ours || r_scope[r] + 0 < 253) continue
    if (address < r_net[r] || address >= r_net[r] + size[r_len[r]]) continue
    for (leg = 1; leg <= r_legs[r]; leg++) if (r_dev[r, leg] == dev && r_gateway[r, leg] == "") return 1
  }
  for (i = 1; i <= besides; i++) {
    w = beside[i]
    if (address < w_net[w] || address >= w_net[w] + size[w_len[w]]) continue
    for (leg = 1; leg <= legs[w]; leg++) if (g_dev[w, leg] == dev) return 1
  }
  return 0
}

# Whether a route says exactly what is wanted, whoever it belongs to and whatever state its legs are in.
function says(r, w,   leg) {
  if (r_type[r] != UNICAST || r_more[r] != "" || r_scope[r] != (through[w] ? 0 : 253) || r_legs[r] != legs[w]) return 0
  for (leg = 1; leg <= legs[w]; leg++)
    if (leg_text(r, leg) != g_words[w, leg] || r_weight[r, leg] != g_weight[w, leg]) return 0
  return 1
}

# What to do about one route that is wanted, given those that hold its key; the kernel takes the first.
function settle(w,   key, i, r, first_stale, standing) {
  key = key_of(w)
  settled[key] = 1
  key = substr(key, length(MAIN SUBSEP) + 1)
  for (i = 1; i <= holders[key]; i++) {
    r = holder[key, i]
    if (r_proto[r] == ours && !says(r, w)) {
      is_stale[r] = 1
      if (!first_stale) first_stale = r
    } else if (!standing) standing = r
  }
  if (standing && says(standing, w)) return
  if (first_stale && first_stale == holder[key, 1]) {
    is_stale[first_stale] = 0
    print "change route replace " route_words(w)
  } else if (standing) print "refused " wish_text(w) ": its key is held by [" route_text(standing) "], which is not ours: " way_out(standing)
  else print "change route add " route_words(w)
}

function route_words(w,   text, leg) {
  text = w_destination[w] " table " MAIN " proto " ours " scope " (through[w] ? 0 : 253) " metric " w_metric[w]
  if (legs[w] == 1) return text " " g_words[w, 1]
  for (leg = 1; leg <= legs[w]; leg++) text = text " nexthop " g_words[w, leg] " weight " g_weight[w, leg]
  return text
}

# The whole key, so that nothing else of the same prefix can go in its place.
function removal(r,   text, leg) {
  text = "route del " (r_type[r] == UNICAST ? "" : type_name[r_type[r]] " ") prefix_text(r_net[r], r_len[r])
  text = text " table " r_table[r] " proto " ours " scope " r_scope[r] " metric " r_metric[r]
  if (r_tos[r] != "0") text = text " tos " r_tos[r]
  if (r_legs[r] == 1) return text " " leg_text(r, 1)
  for (leg = 1; leg <= r_legs[r]; leg++) text = text " nexthop " leg_text(r, leg) " weight " r_weight[r, leg]
  return text
}

# A route in the words of the engine.
function route_text(r,   text, leg, flags) {
  text = (r_type[r] == UNICAST ? "" : type_name[r_type[r]] " ") (r_len[r] ? prefix_text(r_net[r], r_len[r]) : "default")
  if (r_legs[r] == 1) text = text " " leg_text(r, 1) state_text(r, 1)
  text = text " proto " name_of_protocol(r_proto[r])
  if (r_scope[r] != 0) text = text " scope " (r_scope[r] in scope_name ? scope_name[r_scope[r]] : r_scope[r])
  if (index(r_more[r], " src ") == 1) { split(r_more[r], flags, " "); text = text " src " flags[2] }
  if (r_metric[r] != 0) text = text " metric " r_metric[r]
  for (leg = 1; r_legs[r] > 1 && leg <= r_legs[r]; leg++)
    text = text " nexthop " leg_text(r, leg) state_text(r, leg) " weight " r_weight[r, leg]
  return text
}

function state_text(r, leg,   text) {
  text = r_flags[r, leg]
  sub(/ onlink/, "", text)
  return text
}

# What wins without touching the holder: one route that comes before all others of its prefix is less than two longer ones.
function way_out(r,   half, left, right) {
  if (r_metric[r] > 0 && !is_held(r_net[r], r_len[r])) return "a route with metric 0 wins without touching it"
  if (r_len[r] == 32) return "remove it: no longer prefix is there to win, and no better metric"
  half = r_net[r] + size[r_len[r] + 1]
  left = prefix_text(r_net[r], r_len[r] + 1); right = prefix_text(half, r_len[r] + 1)
  if (!is_held(r_net[r], r_len[r] + 1) && !is_held(half, r_len[r] + 1)) return left " and " right " win without touching it"
  return "longer prefixes win without touching it, where they are free (" left " and " right " are not both)"
}

# Whether a route to the prefix with the best metric is there already.
# Whether the best key of a prefix is held by others; what is ours can be had.
function is_held(net, length_,   key, i) {
  key = net SUBSEP length_ SUBSEP 0 SUBSEP "0"
  for (i = 1; i <= holders[key]; i++) if (r_proto[holder[key, i]] != ours) return 1
  return 0
}
