# What the kernel would do, from its rules and routes: the engine of hostrouting.fib once more, for a host at boot.
# Only what has to do with the script is kept of the tables. `ip` leaves a tos of 0 out and writes others in hex.

# To be called when all is read.
function build(   r, dev) {
  split("", has_length); split("", standing); split("", e_down); split("", starts)
  # Until a namespace gets its first rule of its own, the tables local and main are one to the kernel.
  merged = rules == 3 && is_default(1, 0, 255) && is_default(2, 32766, 254) && is_default(3, 32767, 253)
  if ("all" in wary) for (dev in link_group) wary[dev] = 1
  for (r = 1; r <= routes; r++) add_to_table(r)
  make_programs()
}

# --- Tables.

function in_use(r, leg) {
  return !has_flag(r, leg, "dead") && !(has_flag(r, leg, "linkdown") && (r_dev[r, leg] in wary))
}

function add_to_table(r,   home, key, leg, used, i) {
  for (leg = 1; leg <= r_legs[r]; leg++) if (in_use(r, leg)) {
    used++
    if (has_flag(r, leg, "linkdown")) e_down[r]++
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

function is_for(name, s, address) {
  return s_low[name, s] < 0 || (s_low[name, s] <= address && address <= u_high[s_rule[name, s]])
}

# Where a goto goes on; one that points nowhere, or backwards, is passed over.
function target_of(name, rule) {
  if (u_target[rule] == "" || u_target[rule] + 0 <= u_priority[rule]) return 0
  return ((name, u_target[rule] + 0) in starts) ? starts[name, u_target[rule] + 0] : 0
}

function ends_it(rule) {
  return u_action[rule] == BLACKHOLE || u_action[rule] == UNREACHABLE || u_action[rule] == PROHIBIT
}

function keeps(rule, r) {
  if (r_type[r] == THROW) return 0
  if (r_type[r] >= BLACKHOLE) return 1
  if (u_short[rule] != "" && r_len[r] <= u_short[rule]) return 0
  return u_group[rule] == "" || !e_legs[r] || link_group[e_dev[r, 1]] != u_group[rule]
}

# The route that the table of a rule prefers for the plain packet; tos_passed tells whether tos ruled out others.
function best_route(rule, address,   r) {
  for (r = covering(u_table[rule], address); r && hex_number(r_tos[r]) >= 4; r = next_covering()) tos_passed = 1
  return r
}

# Follows the plain packet: sets end_rule and end_route (0: none), and tos_passed.
function follow(address,   s, rule, r) {
  end_rule = end_route = tos_passed = 0
  for (s = 1; s <= steps["plain"]; s++) {
    rule = s_rule["plain", s]
    if (is_for("plain", s, address) == s_not["plain", s]) continue
    if (target_of("plain", rule)) s = target_of("plain", rule) - 1
    else if (u_table[rule] != "") {
      r = best_route(rule, address)
      if (r && keeps(rule, r)) { end_rule = rule; end_route = r; return }
    } else if (ends_it(rule)) { end_rule = rule; return }
  }
}

# How long the prefix of a new route in main, of metric 0 and by w_dev[1], has to be at least to decide here; 33: no
# length will do.
function length_to_decide(address,   s, rule, r, decides, suppressed, preferred, shortest, floor_) {
  shortest = 33; floor_ = 0
  for (s = 1; s <= steps["plain"]; s++) {
    rule = s_rule["plain", s]
    if (is_for("plain", s, address) == s_not["plain", s]) continue
    if (target_of("plain", rule)) s = target_of("plain", rule) - 1
    else if (u_table[rule] != "") {
      r = best_route(rule, address)
      decides = r && keeps(rule, r)
      suppressed = u_short[rule] == "" ? -1 : u_short[rule] + 0
      if (u_group[rule] != "" && link_group[w_dev[1]] == u_group[rule]) suppressed = 32
      if (u_table[rule] == MAIN) {
        preferred = r ? r_len[r] + !gives_way(r) : 0
        shortest = lower(shortest, higher(higher(preferred, suppressed + 1), floor_))
        if (decides) floor_ = higher(floor_, preferred)
      }
      # A route that is preferred here and then suppressed goes on to the next rule.
      if (decides && (u_table[rule] != MAIN || floor_ > suppressed)) break
    } else if (ends_it(rule)) break
  }
  return shortest
}

function lower(one, other) { return one < other ? one : other }

function higher(one, other) { return one > other ? one : other }

# Whether a new route of the same prefix, of metric 0, comes before this one or takes its place.
function gives_way(r) {
  return r_table[r] == MAIN && r_tos[r] == "0" && (r_metric[r] > 0 || r_proto[r] == ours)
}
