# The fewest static routes that close the escapes without touching a route that is not ours: hostrouting.repair once
# more. Ranges that are open have to be taken by a chosen prefix, ranges that are kept must not be, and the rest is
# free; each says from which length on a prefix that covers it takes it. Which prefixes to choose is for cover.awk.

function repair(   b, i, f) {
  find_way()
  if (way_missing != "") {
    for (f = 1; f <= findings; f++) leave(f_first[f], f_last[f], "no-way", f_rule[f], f_route[f], "")
    return
  }
  for (b = 1; b <= blocks; b++) {
    blocks_between(b_first[b], b_last[b])
    for (i = 1; i <= between; i++) close_block(between_net[i], between_len[i])
  }
  # More routes than this are no repair that an operator would want to see.
  if (repairs > 1024) {
    repair_list = ""; repairs = unsafe_count = diverted = 0
    for (f = 1; f <= findings; f++) leave(f_first[f], f_last[f], "too-many", f_rule[f], f_route[f], "")
  }
}

# A route like those of the repair: spelled out where it can be, automatic where the default is ECMP.
function find_way(   r, leg, all, i) {
  way_dev = way_gateway = way_missing = ""
  r = default_route("", -1)
  all = r && r_legs[r] > 1
  for (leg = 1; r && leg <= r_legs[r]; leg++) all = all && (r_dev[r, leg] in is_expected)
  if (!all) {
    way_dev = expected[1]
    for (i = 1; i <= expected_count; i++) if (r = default_route(expected[i], -1)) {
      way_dev = expected[i]
      for (leg = 1; r_dev[r, leg] != way_dev; leg++) ;
      # A neighbour of the other family is no gateway that a static route of ours can spell out.
      way_gateway = index(r_gateway[r, leg], ":") ? "" : r_gateway[r, leg]
      break
    }
  }
  ways = 0
  r = default_route(way_dev, ours)
  if (way_gateway != "") {
    leg = same_way(r, way_dev, way_gateway)
    add_way(way_dev, way_gateway, leg && has_flag(r, leg, "onlink"))
  } else if (r) {
    for (leg = 1; leg <= r_legs[r]; leg++)
      if (is_way(r, leg, way_dev)) add_way(r_dev[r, leg], r_gateway[r, leg], has_flag(r, leg, "onlink"))
  } else way_missing = no_default_route(way_dev)
  if (!(way_dev in link_up) && index(way_missing, "the device " way_dev) == 1)
    way_missing = "the device " way_dev ", which expectedDevs names; this host has " devices_text()
}

# A name that is not there may be a slip: those that are.
function devices_text(   i, n, text) {
  for (i = 1; i <= links; i++) if (link_name[i] != "lo" && ++n <= 9) text = text (n > 1 ? ", " : "") link_name[i]
  return n > 9 ? text " and " (n - 9) " more" : n ? text : "none"
}

function add_way(dev, gateway, onlink) {
  ways++
  w_dev[ways] = dev; w_gateway[ways] = gateway
  way[dev, gateway] = way_devs[dev] = 1
  if (way_missing == "") way_missing = obstacle(dev, gateway, onlink)
}

# --- What each range means.

function close_block(net, length_,   i, last) {
  last = net + size[length_] - 1
  for (i = first_place(net); i <= places && place[i] <= last; i++) mean(i)
  solve(net, length_, last, 0)
  # Only where no static route may lead can there be no choice: that steers the others no more.
  if (best_number < 0) {
    solve(net, length_, last, 1)
    for (i = first_place(net); i <= places && place[i] <= last; i++)
      if (m_kind[i] == "open" && is_reserved(place[i], place_end[i]) && !is_chosen(i))
        leave(place[i], place_end[i], "reserved", d_rule[i], d_route[i], d_key[i])
  }
  if (best_number <= 0) return
  repairs += best_number
  repair_list = repair_list best_prefixes
}

function solve(net, length_, last, sparing,   i, kind) {
  zone_count = 0
  for (i = first_place(net); i <= places && place[i] <= last; i++) {
    kind = sparing && m_kind[i] == "open" && is_reserved(place[i], place_end[i]) ? "free" : m_kind[i]
    if (!zone_count || zone_kind[zone_count] != kind || zone_length[zone_count] != m_length[i]) {
      zone_first[++zone_count] = place[i]
      zone_kind[zone_count] = kind; zone_length[zone_count] = m_length[i]
    }
    zone_last[zone_count] = place_end[i]
  }
  choose(net, length_)
}

# Whether one of the chosen prefixes takes place i.
function is_chosen(i,   part, n, first, length_) {
  for (n = split(best_prefixes, part, " "); n > 0; n--) {
    first = chosen_network(part[n]); length_ = chosen_length(part[n])
    if (length_ >= m_length[i] && first <= place[i] && place_end[i] < first + size[length_]) return 1
  }
  return 0
}

# Where no static route may lead: this network, the host itself, and from 224.0.0.0 on multicast and what is reserved.
function is_reserved(first, last) {
  return last < 16777216 || (first >= 2130706432 && last < 2147483648) || first >= 3758096384
}

# What place i means: m_kind, and from which length on a new prefix takes it: m_length.
function mean(i,   length_, reason) {
  # What nobody can tell, no route can close.
  length_ = (i in surprise) ? 33 : length_to_decide(place[i])
  m_kind[i] = "free"; m_length[i] = 0
  judge_escape(d_kind[i], d_route[i])
  if (escape_kind == "") {
    # What an address is by itself it stays, whichever route takes it.
    if (length_ > 32 || !d_route[i] || r_type[d_route[i]] != d_kind[i] || is_alike(d_route[i])) return
    m_kind[i] = "keep"
  } else {
    reason = reason_against(i, length_)
    if (reason != "") { leave(place[i], place_end[i], reason, d_rule[i], d_route[i], d_key[i]); return }
    divert(d_route[i])
    m_kind[i] = "open"
  }
  m_length[i] = length_
}

# Whether the route leads where ours would.
function is_alike(r,   leg, n, seen) {
  for (leg = 1; leg <= r_legs[r]; leg++) {
    if (!((r_dev[r, leg], r_gateway[r, leg]) in way)) return 0
    seen[r_dev[r, leg], r_gateway[r, leg]] = 1
  }
  for (n = 1; n <= ways; n++) if (!((w_dev[n], w_gateway[n]) in seen)) return 0
  return 1
}

# Why no route of ours can close the range, if none can.
function reason_against(i, length_,   r, longer) {
  r = d_route[i]
  if (length_ > 32) return r && r_table[r] == MAIN && r_len[r] == 32 ? "longest-prefix" : "earlier-rule"
  if (int((place_end[i] - place[i]) / size[length_]) >= 1024) return "too-many"
  if (place[i] != place_end[i] || is_reserved(place[i], place_end[i])) return ""
  for (longer = 32; longer >= length_; longer--) if (is_usable(network_around(place[i], longer), longer)) return ""
  return "longest-prefix"
}

# Whether a static route may lead to the prefix, and its key is not held by somebody else.
function is_usable(net, length_) {
  return length_ > 0 && !((net, length_) in held) && !is_reserved(net, net + size[length_] - 1)
}

# Neighbours that are given up for the same reason and with the same decision are one.
function leave(first, last, reason, rule, r, key) {
  if (key != "" && unsafe_count && x_last[unsafe_count] + 1 == first && x_reason[unsafe_count] == reason \
      && x_key[unsafe_count] == key) { x_last[unsafe_count] = last; return }
  unsafe_count++
  x_key[unsafe_count] = key
  x_first[unsafe_count] = first; x_last[unsafe_count] = last
  x_reason[unsafe_count] = reason; x_rule[unsafe_count] = rule; x_route[unsafe_count] = r
}

# Note the networks of other devices that will be reached by ours instead.
function divert(r,   leg, i, key, seen) {
  for (leg = 1; r && leg <= r_legs[r]; leg++) if (r_gateway[r, leg] == "") break
  if (!r || leg > r_legs[r]) return
  key = r_net[r] SUBSEP r_len[r]
  if (key in is_diverted) return
  is_diverted[key] = ++diverted
  diverted_prefix[diverted] = prefix_text(r_net[r], r_len[r])
  for (i = 1; i <= routes; i++) {
    if (r_net[i] != r_net[r] || r_len[i] != r_len[r] || r_table[i] != r_table[r] || r_type[i] != UNICAST) continue
    # The kernel itself makes a route for the network of each address.
    if (r_proto[i] == 2) is_connected[diverted] = 1
    for (leg = 1; leg <= r_legs[i]; leg++) if (!(r_dev[i, leg] in way_devs) && !(r_dev[i, leg] in seen)) {
      seen[r_dev[i, leg]] = 1
      diverted_devs[diverted] = diverted_devs[diverted] (diverted_devs[diverted] == "" ? "" : ", ") r_dev[i, leg]
    }
  }
}

# --- Words.

function unsafe_reason_text(i,   who) {
  who = holder(x_rule[i], x_route[i])
  if (x_reason[i] == "earlier-rule" && !x_rule[i])
    return "is led to the table main by no policy rule, so that no route there can help: see \047ip rule\047"
  if (x_reason[i] == "earlier-rule")
    return "is decided before the table main is asked, by " who "; no route in main can change that"
  if (x_reason[i] == "longest-prefix")
    return "is held by " who ", and no longer prefix is free; that route is not ours to replace"
  if (x_reason[i] == "no-way") return "cannot be led back: that takes " way_missing
  if (x_reason[i] == "reserved") return "is held by " who ", and no static route may lead there"
  return "would take more than 1024 routes, because of " who
}

function unsafe_text(i) { return span_text(x_first[i], x_last[i]) " " unsafe_reason_text(i) }

function unsafe_json(i) {
  return "{\"first\": " quoted(address_text(x_first[i])) ", \"last\": " quoted(address_text(x_last[i])) \
    ", \"reason\": " quoted(x_reason[i]) ", \"text\": " quoted(unsafe_text(i)) "}"
}

function diversion_text(i) {
  return "the repair diverts addresses of " diverted_prefix[i] " from " diverted_devs[i] ": " (is_connected[i] \
    ? "neighbours there, in the repaired range, become unreachable over IP" \
    : "packets for the repaired range no longer go there")
}

function repair_json(   part, n, i, text) {
  n = split(repair_list, part, " ")
  for (i = 1; i <= n; i++) {
    text = text (i > 1 ? ", " : "") "{\"destination\": "
    text = text quoted(prefix_text(chosen_network(part[i]), chosen_length(part[i])))
    text = text ", \"gateway\": " quoted(way_gateway) ", \"dev\": " quoted(way_dev) ", \"metric\": 0}"
  }
  return "[" text "]"
}
