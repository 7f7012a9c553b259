# What the kernel would do, from its rules and routes: the engine of hostrouting.fib once more, for a host at boot.
# Only what has to do with the expected CIDRs is kept. `ip` leaves a tos of 0 out and writes others in hex.

function hex_number(text,   i, value) {
  text = tolower(text)
  value = 0
  for (i = substr(text, 1, 2) == "0x" ? 3 : 1; i <= length(text); i++)
    value = value * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
  return value
}

function both_have_bits(one, other) {
  while (one > 0 && other > 0) {
    if (one % 2 && other % 2) return 1
    one = int(one / 2)
    other = int(other / 2)
  }
  return 0
}

# --- Rules: each selector in the words of the engine, whether it holds for the plain packet of the host itself, and what it
# says when nothing is known of the packet (a device that is not there matches no packet).

function select_by(rule, name, value, holds) {
  selectors[rule]++
  selector[rule, selectors[rule]] = name " " value
  holds_plainly[name " " value] = holds
}

function span_holds(text,   at) {
  at = index(text, "-")
  return at ? substr(text, 1, at - 1) == "0" : text == "0"
}

function as_span(text) { return index(text, "-") ? text : text "-" text }

function read_rule(   rule, field, word, at, value, mask, held) {
  rule = ++rules
  u_priority[rule] = $1 + 0
  u_not[rule] = 0; u_low[rule] = u_high[rule] = -1
  u_table[rule] = u_target[rule] = u_action[rule] = u_short[rule] = u_group[rule] = ""
  u_detached[rule] = u_l3mdev[rule] = selectors[rule] = 0
  for (field = 2; field <= NF; field++) {
    word = $field
    if (word == "not") u_not[rule] = 1
    else if (word == "from" || word == "to") {
      if ($++field == "all") continue
      read_prefix($field)
      if (word == "to") {
        u_low[rule] = network
        u_high[rule] = network + size[prefix_length] - 1
      } else held["from"] = prefix_text(network, prefix_length)
      if (word == "from") select_by(rule, "from", held["from"], network == 0)
    } else if (word == "iif" || word == "oif") {
      select_by(rule, word, $++field, word == "iif" && $field == "lo")
      if ($(field + 1) == "[detached]") { u_detached[rule] = 1; field++ }
    } else if (word == "fwmark") {
      at = index($++field, "/")
      value = hex_number(at ? substr($field, 1, at - 1) : $field)
      mask = at ? hex_number(substr($field, at + 1)) : 4294967295
      if ($field ~ /^0(\/|$)/) $field = "0x" $field
      select_by(rule, "fwmark", (at ? $field : $field "/0xffffffff"), !both_have_bits(value, mask))
    } else if (word == "tos" || word == "dsfield") {
      select_by(rule, "tos", "0x" lowest_hex($++field), hex_number($field) < 4)
    } else if (word == "uidrange") select_by(rule, word, $++field, span_holds($field))
    else if (word == "ipproto") {
      value = $++field
      sub(/^ipproto-/, "", value)
      # `ip route get` asks for a packet of UDP (17) when it is not told otherwise.
      select_by(rule, word, value, value == "17")
    } else if (word == "sport" || word == "dport") select_by(rule, word, as_span($++field), span_holds($field))
    else if (word == "lookup") {
      if ($++field == "[l3mdev-table]") u_l3mdev[rule] = 1
      else u_table[rule] = $field
    } else if (word == "suppress_prefixlength") u_short[rule] = $++field
    else if (word == "suppress_ifgroup") u_group[rule] = $++field
    else if (word == "goto") u_target[rule] = $++field
    else if (word == "proto" || word == "realms" || word == "tun_id") field++
    else if (word in type_number) u_action[rule] = type_number[word]
  }
  order_selectors(rule)
}

function lowest_hex(text) {
  text = tolower(text)
  sub(/^0x0*/, "", text)
  return text
}

# The engine names selectors in one order, `ip` in another.
function order_selectors(rule,   names, i, j, kept, n) {
  split("from iif oif fwmark tos uidrange ipproto sport dport", names, " ")
  n = 0
  for (i = 1; i <= 9; i++)
    for (j = 1; j <= selectors[rule]; j++)
      if (index(selector[rule, j], names[i] " ") == 1) kept[++n] = selector[rule, j]
  for (j = 1; j <= n; j++) selector[rule, j] = kept[j]
}

# --- Tables.

function in_use(r, leg) { return !has_flag(r, leg, "dead") && !(has_flag(r, leg, "linkdown") && (r_dev[r, leg] in wary)) }

function add_to_table(r,   home, key, leg, used, i) {
  for (leg = 1; leg <= r_legs[r]; leg++) if (in_use(r, leg)) {
    used++
    e_dev[r, used] = r_dev[r, leg]
    e_gateway[r, used] = r_gateway[r, leg]
  }
  e_legs[r] = used + 0
  if (!used && r_legs[r]) return
  home = merged && r_table[r] == LOCAL_TABLE ? MAIN : r_table[r]
  if (!((home, r_len[r]) in has_length)) has_length[home, r_len[r]] = 1
  key = home SUBSEP r_net[r] SUBSEP r_len[r]
  for (i = ++standing[key]; i > 1 && comes_before(r, stands[key, i - 1]); i--) stands[key, i] = stands[key, i - 1]
  stands[key, i] = r
}

# The table local comes first where the kernel keeps it and main in one.
function comes_before(one, other,   local_one, local_other) {
  local_one = r_table[one] == LOCAL_TABLE
  local_other = r_table[other] == LOCAL_TABLE
  if (local_one != local_other) return local_one
  if (r_tos[one] != r_tos[other]) return hex_number(r_tos[one]) > hex_number(r_tos[other])
  return r_metric[one] < r_metric[other]
}

# Goes through the routes that cover an address, the best first: start with covering(table, address), then
# next_covering() until it is 0. One walk at a time; those who need two remember cover_* in between.
function covering(table, address) {
  cover_table = table; cover_address = address; cover_length = 33; cover_left = 0
  return next_covering()
}

function next_covering() {
  while (cover_left == 0) {
    if (--cover_length < 0) return 0
    if (!((cover_table, cover_length) in has_length)) continue
    cover_key = cover_table SUBSEP network_around(cover_address, cover_length) SUBSEP cover_length
    cover_left = (cover_key in standing) ? standing[cover_key] : 0
    cover_at = 0
  }
  cover_left--
  return stands[cover_key, ++cover_at]
}

# When all is read: which devices are wary, and whether the tables local and main are one to the kernel, as they are
# until a namespace gets its first rule of its own.
function read_all(   dev) {
  merged = rules == 3 && is_default(1, 0, 255) && is_default(2, 32766, 254) && is_default(3, 32767, 253)
  if ("all" in wary) for (dev in link_group) wary[dev] = 1
}

function is_default(rule, priority, table) {
  return u_priority[rule] == priority && u_table[rule] == table && !u_not[rule] && !selectors[rule] \
    && u_low[rule] < 0 && u_short[rule] == "" && u_group[rule] == ""
}

function read_netconf(   field) {
  all_said = 1
  for (field = 3; field < NF; field++)
    if ($field == "ignore_routes_with_linkdown" && $(field + 1) == "on") wary[$2] = 1
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

# --- Programs: "plain" for the packet as plain as it may be, "full" with open selectors where nothing is known.

function make_programs(   rule, i, plain, name) {
  steps["plain"] = steps["full"] = unsure = 0
  for (rule = merged ? 2 : 1; rule <= rules; rule++) {
    plain = !u_l3mdev[rule] && !u_detached[rule]
    for (i = 1; i <= selectors[rule]; i++) plain = plain && holds_plainly[selector[rule, i]]
    for (name in steps) if (!((name, u_priority[rule]) in starts)) starts[name, u_priority[rule]] = steps[name] + 1
    add_step("plain", rule, plain, 0)
    add_step("full", rule, !u_l3mdev[rule] && !u_detached[rule], selectors[rule])
  }
}

function add_step(name, rule, can_match, open_,   s) {
  if (!can_match && !u_not[rule]) return
  s = ++steps[name]
  s_rule[name, s] = rule
  # `not` before what never holds: any packet.
  s_not[name, s] = can_match ? u_not[rule] : 0
  s_low[name, s] = can_match ? u_low[rule] : -1
  s_open[name, s] = can_match ? open_ : 0
  if (s_open[name, s]) unsure = 1
}

function covers(name, s, address) {
  return s_low[name, s] < 0 || (s_low[name, s] <= address && address <= u_high[s_rule[name, s]])
}

# Where a goto goes on; one that points nowhere, or backwards, is passed over.
function target_of(name, rule) {
  if (u_target[rule] == "" || u_target[rule] + 0 <= u_priority[rule]) return 0
  return ((name, u_target[rule] + 0) in starts) ? starts[name, u_target[rule] + 0] : 0
}

function ends_it(rule) { return u_action[rule] == BLACKHOLE || u_action[rule] == UNREACHABLE || u_action[rule] == PROHIBIT }

function keeps(rule, r) {
  if (r_type[r] == THROW) return 0
  if (r_type[r] >= BLACKHOLE) return 1
  if (u_short[rule] != "" && r_len[r] <= u_short[rule]) return 0
  return u_group[rule] == "" || !e_legs[r] || link_group[e_dev[r, 1]] != u_group[rule]
}

# Follows the plain packet: sets end_rule and end_route (0: none), tos_passed, and shortest: how long the prefix of a
# new route in main, of metric 0, has to be to decide here (33: no length will do).
function follow(address,   s, rule, r, length_, floor_, ended, decides, limit) {
  end_rule = end_route = tos_passed = floor_ = ended = 0
  shortest = 33
  for (s = 1; s <= steps["plain"]; s++) {
    rule = s_rule["plain", s]
    if (covers("plain", s, address) == s_not["plain", s]) continue
    if (target_of("plain", rule)) s = target_of("plain", rule) - 1
    else if (u_table[rule] != "") {
      r = covering(u_table[rule], address)
      while (r && hex_number(r_tos[r]) >= 4) { if (!ended) tos_passed = 1; r = next_covering() }
      decides = r && keeps(rule, r)
      limit = u_short[rule] == "" ? -1 : u_short[rule] + 0
      if (u_table[rule] == MAIN) {
        length_ = r ? r_len[r] + !gives_way(r) : 0
        if (decides && length_ > floor_) floor_ = length_
        if (floor_ > length_) length_ = floor_
        if (length_ <= limit) length_ = limit + 1
        if (length_ < shortest) shortest = length_
      }
      if (!decides) continue
      if (!ended) { ended = 1; end_rule = rule; end_route = r }
      # A new route that is preferred here and then suppressed goes on to the next rule.
      if (u_table[rule] != MAIN || floor_ > limit) return
    } else if (ends_it(rule)) {
      if (!ended) end_rule = rule
      return
    }
  }
}

# Whether a new route of the same prefix, of metric 0, comes before this one or takes its place.
function gives_way(r) {
  return r_table[r] == MAIN && r_tos[r] == "0" && (r_metric[r] > 0 || r_proto[r] == ours)
}

# --- Every end that is possible given what is not known: explore() adds them to end_path, end_of_rule, end_of_route.
# `truth` has a line for each selector that was supposed to hold or not; `path` a line for each condition.

function known(truth, what,   at) {
  at = index(truth, "\n" what "=")
  return at ? substr(truth, at + length(what) + 2, 1) : ""
}

function add_end(path, rule, r) {
  end_count++
  end_path[end_count] = path; end_of_rule[end_count] = rule; end_of_route[end_count] = r
}

function suppose(rule, still, truth, path, holds,   i, n, part, all) {
  n = split(still, part, "\n")
  all = 1
  for (i = 1; i <= n; i++) {
    if (holds || n == 1) truth = truth "\n" part[i] "=" (holds ? 1 : 0)
    all = all && holds_plainly[part[i]]
  }
  if (n && all != holds) {
    gsub(/\n/, ", ", still)
    if (index(still, "from ") == 1) still = (holds ? "" : "not ") still
    else still = (holds ? "with " : "without ") still
    path = path (path == "" ? "" : "\n") rule ":" still " (rule " u_priority[rule] ")"
  }
  supposed_truth = truth; supposed_path = path
}

function explore(address, at, truth, path,
    s, rule, i, selected, still, m_truth, m_path, r, asked, n, tos_truth, tos_path, tos_route, decided, found) {
  while (at <= steps["full"]) {
    s = at++
    rule = s_rule["full", s]
    selected = covers("full", s, address)
    still = ""
    for (i = 1; i <= s_open["full", s]; i++) {
      if (known(truth, selector[rule, i]) == "0") selected = 0
      if (known(truth, selector[rule, i]) == "") still = still (still == "" ? "" : "\n") selector[rule, i]
    }
    if (!selected) still = ""
    if (still == "" && selected == s_not["full", s]) continue
    suppose(rule, still, truth, path, !s_not["full", s])
    m_truth = supposed_truth; m_path = supposed_path
    if (target_of("full", rule)) {
      if (still == "") { at = target_of("full", rule); continue }
      explore(address, target_of("full", rule), m_truth, m_path)
    } else if (u_table[rule] != "" || ends_it(rule)) {
      n = 0; found = 0; decided = ends_it(rule) && u_table[rule] == ""
      if (!decided) {
        # First for each tos that its routes ask for, last for all others.
        for (r = covering(u_table[rule], address); r; r = next_covering()) {
          if (r_tos[r] != "0") {
            asked = "tos " r_tos[r]
            if (known(m_truth, asked) == "") {
              n++
              holds_plainly[asked] = 0
              tos_truth[n] = m_truth "\n" asked "=1"
              tos_path[n] = m_path (m_path == "" ? "" : "\n") rule ":with " asked " (rule " u_priority[rule] ")"
              tos_route[n] = keeps(rule, r) ? r : 0
              m_truth = m_truth "\n" asked "=0"
            }
            if (known(m_truth, asked) == "0") continue
          }
          found = keeps(rule, r) ? r : 0
          break
        }
        decided = found > 0
        for (i = 1; i <= n; i++) {
          if (tos_route[i]) add_end(tos_path[i], rule, tos_route[i])
          else explore(address, at, tos_truth[i], tos_path[i])
        }
      }
      # Nothing is found there: the rule changes nothing, whether it matches or not.
      if (!decided) continue
      add_end(m_path, rule, found)
      if (still == "") return
    }
    suppose(rule, still, truth, path, s_not["full", s])
    truth = supposed_truth; path = supposed_path
  }
  add_end(path, 0, 0)
}
