# The fewest static routes that close the escapes without touching a route that is not ours: hostrouting.repair once
# more. A puzzle on the binary tree: ranges that are open have to be taken by a chosen prefix, ranges that are kept
# must not be, and the rest is free; each says from which length on a prefix that covers it takes it.

function repair(   b, i, n, f, part) {
  find_way()
  if (way_missing != "") {
    for (f = 1; f <= findings; f++) leave(f_first[f], f_last[f], "no-way", f_rule[f], f_route[f], "")
    return
  }
  for (b = 1; b <= blocks; b++) {
    blocks_between(b_first[b], b_last[b], 0)
    n = between
    for (i = 1; i <= n; i++) { whole_net[i] = between_net[i]; whole_len[i] = between_len[i] }
    for (i = 1; i <= n; i++) close_block(whole_net[i], whole_len[i])
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
  } else way_missing = "an IPv4 default route" (way_dev == "" ? "" : " on " way_dev)
}

function add_way(dev, gateway, onlink) {
  ways++
  w_dev[ways] = dev; w_gateway[ways] = gateway
  way[dev, gateway] = way_devs[dev] = 1
  if (way_missing != "") return
  if (!(dev in link_up)) way_missing = "the device " dev
  else if (!link_up[dev]) way_missing = "the device " dev " to be up"
  else if (gateway != "" && is_taken(gateway)) way_missing = "another gateway: " gateway " is " taken
  else if (gateway != "" && !onlink && !reaches(dev, gateway))
    way_missing = "an address or route on " dev " that reaches the gateway " gateway " directly"
}

# Whether the gateway is a neighbour on the device, as far as routes say that are not ours.
function reaches(dev, gateway,   i, address) {
  if (index(gateway, ":")) return 1
  address = address_number(gateway)
  for (i = 1; i <= near_count; i++) { $0 = near_line[i]; read_route(0); if (is_near(0, dev, address)) return 1 }
  for (i = 1; i <= routes; i++) if (is_near(i, dev, address)) return 1
  return 0
}

function is_taken(gateway,   i, address) {
  taken = ""
  if (index(gateway, ":")) return 0
  address = address_number(gateway)
  for (i = 1; i <= near_count; i++) if (near_line[i] !~ /^1 /) { $0 = near_line[i]; read_route(0); note_taken(0, address) }
  for (i = 1; i <= routes; i++) note_taken(i, address)
  return taken != ""
}

function is_near(r, dev, address,   leg) {
  if (r_table[r] != MAIN || r_type[r] != UNICAST || r_proto[r] == ours || r_scope[r] + 0 < 253) return 0
  if (address < r_net[r] || address >= r_net[r] + size[r_len[r]]) return 0
  for (leg = 1; leg <= r_legs[r]; leg++) if (r_dev[r, leg] == dev && r_gateway[r, leg] == "") return 1
  return 0
}

# --- What each range means.

function close_block(net, length_,   i, last) {
  last = net + size[length_] - 1
  for (i = first_place(net); i <= places && place[i] <= last; i++) { mean(i); m_kind[i] = mean_kind; m_length[i] = mean_length }
  solve(net, length_, last, 0)
  # Only where no static route may lead can there be no choice: that steers the others no more.
  if (best_number < 0) {
    solve(net, length_, last, 1)
    for (i = first_place(net); i <= places && place[i] <= last; i++)
      if (m_kind[i] == "open" && is_reserved(place[i], place_end[i]) && !is_chosen(i))
        leave(place[i], place_end[i], "reserved", d_rule[i], d_route[i], d_key[i])
  }
  if (best_number > 0) repair_list = repair_list best_prefixes
  if (best_number > 0) repairs += best_number
}

function solve(net, length_, last, sparing,   i, kind) {
  span_count = 0
  for (i = first_place(net); i <= places && place[i] <= last; i++) {
    kind = sparing && m_kind[i] == "open" && is_reserved(place[i], place_end[i]) ? "free" : m_kind[i]
    if (span_count && span_kind[span_count] == kind && span_length[span_count] == m_length[i]) span_last[span_count] = place_end[i]
    else {
      span_first[++span_count] = place[i]; span_last[span_count] = place_end[i]
      span_kind[span_count] = kind; span_length[span_count] = m_length[i]
    }
  }
  forget()
  best(net, length_, 1, span_count + 1, -1)
}

# Whether one of the chosen prefixes takes place i.
function is_chosen(i,   part, n, first, length_) {
  for (n = split(best_prefixes, part, " "); n > 0; n--) {
    first = substr(part[n], 1, 10) + 0; length_ = substr(part[n], 12) + 0
    if (length_ >= m_length[i] && first <= place[i] && place_end[i] < first + size[length_]) return 1
  }
  return 0
}

# Where no static route may lead: this network, the host itself, and from 224.0.0.0 on multicast and what is reserved.
function is_reserved(first, last) {
  return last < 16777216 || (first >= 2130706432 && last < 2147483648) || first >= 3758096384
}

function mean(i,   length_, reason) {
  length_ = d_length[i]
  mean_kind = "free"; mean_length = 0
  judge_escape(d_kind[i], d_route[i])
  if (escape_kind == "") {
    # What an address is by itself it stays, whichever route takes it.
    if (length_ > 32 || !d_route[i] || r_type[d_route[i]] != d_kind[i] || is_alike(d_route[i])) return
    mean_kind = "keep"; mean_length = length_
    return
  }
  reason = reason_against(i)
  if (reason != "") { leave(place[i], place_end[i], reason, d_rule[i], d_route[i], d_key[i]); return }
  divert(d_route[i])
  mean_kind = "open"; mean_length = length_
}

function is_alike(r,   leg, n, seen) {
  for (leg = 1; leg <= r_legs[r]; leg++) {
    if (!((r_dev[r, leg], r_gateway[r, leg]) in way)) return 0
    seen[r_dev[r, leg], r_gateway[r, leg]] = 1
  }
  for (n = 1; n <= ways; n++) if (!((w_dev[n], w_gateway[n]) in seen)) return 0
  return 1
}

# Why no route of ours can close the range, if none can.
function reason_against(i,   length_, r, longer) {
  length_ = d_length[i]; r = d_route[i]
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
    for (leg = 1; leg <= r_legs[i]; leg++) if (!(r_dev[i, leg] in way_devs) && !(r_dev[i, leg] in seen)) {
      seen[r_dev[i, leg]] = 1
      diverted_devs[diverted] = diverted_devs[diverted] (diverted_devs[diverted] == "" ? "" : ", ") r_dev[i, leg]
    }
  }
}

# --- The puzzle. What is best below a prefix depends on what was chosen above it by one number only: the length of
# the longest chosen prefix around it. best() and those below set best_number (-1: impossible), best_taken and
# best_prefixes, in which every prefix is written with the same width so that text compares like numbers.

function forget(   key, i, n, length_, list, seen) {
  for (key in memo_number) { delete memo_number[key]; delete memo_taken[key]; delete memo_prefixes[key] }
  for (i = 1; i <= span_count; i++) if (span_kind[i] != "free" && !(span_length[i] in seen)) { seen[span_length[i]] = 1; list[++n] = span_length[i] }
  # Two lengths between which no span makes a difference are one to the memory.
  for (length_ = -1; length_ <= 32; length_++) {
    alike[length_] = 0
    for (i = 1; i <= n; i++) if (list[i] <= length_) alike[length_]++
  }
}

function set_best(number, taken, prefixes) { best_number = number; best_taken = taken; best_prefixes = prefixes }

function best(net, length_, begin, end_, above,   key) {
  key = net SUBSEP length_ SUBSEP alike[above]
  if (key in memo_number) { set_best(memo_number[key], memo_taken[key], memo_prefixes[key]); return }
  best_anew(net, length_, begin, end_, above)
  memo_number[key] = best_number; memo_taken[key] = best_taken; memo_prefixes[key] = best_prefixes
}

function is_open(begin, end_, above,   i) {
  for (i = begin; i < end_; i++) if (span_kind[i] == "open" && span_length[i] > above) return 1
  return 0
}

function best_anew(net, length_, begin, end_, above,   i, number, taken, prefixes, until, since) {
  for (i = begin; i < end_; i++) if (span_kind[i] == "keep" && span_length[i] <= above) { set_best(-1, 0, ""); return }
  if (!is_open(begin, end_, above)) { set_best(0, 0, ""); return }
  best_with(net, length_, begin, end_, above)
  # One prefix that takes nothing besides is the best there is, and two halves that are open take two.
  if (length_ == 32 || (best_number == 1 && best_taken == 0)) return
  number = best_number; taken = best_taken; prefixes = best_prefixes
  split_spans(net, length_, begin, end_)
  until = split_until; since = split_since
  if (number == 1 && is_open(begin, until, above) && is_open(since, end_, above)) return
  best_below(net, length_, begin, end_, above)
  if (number < 0) return
  if (best_number < 0 || number < best_number || (number == best_number && (taken < best_taken \
      || (taken == best_taken && prefixes < best_prefixes)))) set_best(number, taken, prefixes)
}

# The best choice that the node itself is part of.
function best_with(net, length_, begin, end_, above,   i, takes, taken, first, last) {
  for (i = begin; i < end_; i++) {
    if (span_kind[i] == "open" && span_length[i] > above && span_length[i] <= length_) takes = 1
    if (span_kind[i] == "keep" && span_length[i] <= length_) { set_best(-1, 0, ""); return }
    if (span_kind[i] == "free") {
      first = span_first[i] > net ? span_first[i] : net
      last = span_last[i] < net + size[length_] - 1 ? span_last[i] : net + size[length_] - 1
      taken += last - first + 1
    }
  }
  if (!takes || !is_usable(net, length_)) { set_best(-1, 0, ""); return }
  if (is_open(begin, end_, length_)) best_below(net, length_, begin, end_, length_)
  else set_best(0, 0, "")
  if (best_number >= 0) set_best(best_number + 1, best_taken + taken, sprintf("%010.0f/%02d ", net, length_) best_prefixes)
}

# The best choice among the longer prefixes in the node.
function best_below(net, length_, begin, end_, above,   until, since, number, taken, prefixes) {
  if (length_ == 32) { set_best(-1, 0, ""); return }
  split_spans(net, length_, begin, end_)
  until = split_until; since = split_since
  best(net, length_ + 1, begin, until, above)
  if (best_number < 0) return
  number = best_number; taken = best_taken; prefixes = best_prefixes
  best(net + size[length_ + 1], length_ + 1, since, end_, above)
  if (best_number >= 0) set_best(number + best_number, taken + best_taken, prefixes best_prefixes)
}

# The span_count of the left half end before split_until, those of the right begin at split_since.
function split_spans(net, length_, begin, end_,   middle, low, high, half) {
  middle = net + size[length_ + 1]
  low = begin; high = end_
  while (low < high) {
    half = int((low + high) / 2)
    if (span_last[half] < middle) low = half + 1
    else high = half
  }
  split_since = low
  split_until = low + (low < end_ && span_first[low] < middle)
}

# --- Words.

function unsafe_reason_text(i,   who) {
  who = holder(x_rule[i], x_route[i])
  if (x_reason[i] == "earlier-rule") return "is decided before the table main is asked, by " who "; no route in main can change that"
  if (x_reason[i] == "longest-prefix") return "is held by " who ", and no longer prefix is free; that route is not ours to replace"
  if (x_reason[i] == "no-way") return "cannot be led back: waiting for " way_missing
  if (x_reason[i] == "reserved") return "is held by " who ", and no static route may lead there"
  return "would take more than 1024 routes, because of " who
}

function unsafe_text(i) { return span_text(x_first[i], x_last[i]) " " unsafe_reason_text(i) }

function unsafe_json(i) {
  return "{\"first\": " quoted(address_text(x_first[i])) ", \"last\": " quoted(address_text(x_last[i])) \
    ", \"reason\": " quoted(x_reason[i]) ", \"text\": " quoted(unsafe_text(i)) "}"
}

function diversion_text(i) {
  return "the repair diverts addresses of " diverted_prefix[i] " from " diverted_devs[i] ": neighbours on " diverted_devs[i] \
    " in the repaired range become unreachable over IP"
}

function repair_json(   part, n, i, text) {
  n = split(repair_list, part, " ")
  for (i = 1; i <= n; i++)
    text = text (i > 1 ? ", " : "") "{\"destination\": " quoted(prefix_text(substr(part[i], 1, 10) + 0, substr(part[i], 12) + 0)) \
      ", \"gateway\": " quoted(way_gateway) ", \"dev\": " quoted(way_dev) ", \"metric\": 0}"
  return "[" text "]"
}
