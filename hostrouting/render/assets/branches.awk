# What becomes of packets of which not all is known: a rule that selects on a mark, a user or a port may be for them or
# not, and so may a route with a tos. The engine of hostrouting.fib.branches once more: the walk through the rules is
# done once for each pattern of what the tables have.

# Every end to which a packet for this address may come: end_from … end_to number them; each has a rule (0: none), the
# place of the route among those of its table (0: the rule decides), and the ways that lead there, one a line, with
# \001 between the conditions of each.
function explore(address) {
  meet(address)
  if (!(pattern in pattern_from)) {
    pattern_from[pattern] = ends + 1
    walk()
    pattern_to[pattern] = ends
  }
  end_from = pattern_from[pattern]; end_to = pattern_to[pattern]
}

function route_of_end(n) { return end_place[n] ? chain[u_table[end_rule_of[n]], end_place[n]] : 0 }

# The rules as a packet for this address meets them, and what each finds in its table.
function meet(address,   s, rule, covered, i) {
  turns = 0; pattern = ""
  split("", shape)
  for (s = 1; s <= steps["full"]; s++) {
    begins[s] = turns + 1
    rule = s_rule["full", s]
    covered = is_for("full", s, address)
    if (covered ? s_not["full", s] && !s_open["full", s] : !s_not["full", s]) continue
    turns++
    t_rule[turns] = rule; t_not[turns] = covered && s_not["full", s]; t_asks[turns] = ""
    for (i = 1; covered && i <= s_open["full", s]; i++) {
      if (!(selector[rule, i] in ask_name)) learn_to_ask(selector[rule, i])
      t_asks[turns] = t_asks[turns] (i > 1 ? "\n" : "") selector[rule, i]
    }
    t_target[turns] = target_of("full", rule)
    t_shape[turns] = u_table[rule] == "" ? "" : shape_at(rule, address)
    pattern = pattern s (covered ? "+" : "-") t_shape[turns] ";"
  }
  begins[s] = turns + 1
  for (i = 1; i <= turns; i++) if (t_target[i]) t_target[i] = begins[t_target[i]]
}

# Of each route that may be taken: the tos that it asks for, and whether the rule keeps it. The last is for all others.
function shape_at(rule, address,   key, r, tos, n) {
  key = u_table[rule] SUBSEP u_short[rule] SUBSEP u_group[rule]
  if (key in shape) return shape[key]
  shape[key] = ""
  for (r = covering(u_table[rule], address); r; r = next_covering()) {
    chain[u_table[rule], ++n] = r
    tos = hex_number(r_tos[r]) >= 4 ? r_tos[r] : 0
    if (tos) { learn_to_ask("tos " tos); holds_plainly["tos " tos] = 0 }
    shape[key] = shape[key] (n > 1 ? "," : "") tos ":" keeps(rule, r)
    if (!tos) break
  }
  return shape[key]
}

function walk(   at) {
  split("", been_at); split("", end_known)
  turns_taken = 0
  # World 0 has nothing in it, and world 1 is that.
  pending = 0
  later(1, new_world(0))
  while (pending) { at = pending_at[pending]; go_on(at, pending_world[pending--]) }
}

function go_on(at, world) {
  while (world && (world = known_at(at, world))) {
    if (at > turns) { add_end(0, 0, world); return }
    world = take_turn(at, world)
    at = next_turn
  }
}

# What a walk still knows at a turn; 0 where it need not go on, for one that knows nothing has been there. So many turns
# are taken by packets that are not plain and know how they came there; from then on a walk knows nothing and comes to
# each turn once: it may find an end that is not possible, and misses none.
function known_at(at, world,   found) {
  if (world_path[world] == "") return world
  if (++turns_taken <= 4096) return world
  if (at in been_at) return 0
  been_at[at] = 1
  found = new_world(0)
  world_path[found] = world_path[world]
  return found
}

# The world in which the walk goes on after a turn, if it does, and where: sets next_turn.
function take_turn(at, world,   rule, taking, passing, left, i) {
  rule = t_rule[at]
  next_turn = at + 1
  taking = t_asks[at] == "" ? world : suppose(world, rule, t_asks[at], !t_not[at])
  passing = t_asks[at] == "" ? 0 : suppose(world, rule, t_asks[at], t_not[at])
  if (!taking) return world
  if (t_target[at]) {
    later(at + 1, passing)
    next_turn = t_target[at]
    return taking
  }
  if (ends_it(rule)) { add_end(rule, 0, taking); return passing }
  if (!index(t_shape[at], ":1")) return world
  left = take_route(rule, t_shape[at], taking)
  # The rule changes nothing for packets that it may be for or not: they go on as they came.
  if (left && passing) return world
  for (i = 1; i <= going; i++) later(at + 1, going_world[i])
  return left ? left : passing
}

# End where the table has a route that is kept. Returns the world of those that find none, and sets going_world: those
# of the packets whose tos leads them on.
function take_route(rule, found, world,   part, n, i, tos, kept, taking, left) {
  going = 0
  n = split(found, part, ",")
  for (i = 1; i <= n; i++) {
    tos = substr(part[i], 1, index(part[i], ":") - 1); kept = substr(part[i], length(part[i])) == "1"
    if (tos == "0") {
      if (kept) add_end(rule, i, world)
      return kept ? 0 : world
    }
    # One that asks for more than IPv4 looks at is for no packet.
    if (hex_number(tos) >= 32) continue
    taking = suppose(world, rule, "tos " tos, 1)
    if (taking && kept) add_end(rule, i, taking)
    else if (taking) going_world[++going] = taking
    left = suppose(world, rule, "tos " tos, 0)
    if (!left) return 0
    world = left
  }
  return world
}

function later(at, world) {
  if (world) { pending_at[++pending] = at; pending_world[pending] = world }
}

# Of rules that find the same, or give the same verdict, the first one speaks for all.
function add_end(rule, at, world,   key, n) {
  key = at ? u_table[rule] SUBSEP at : rule ? "verdict " u_action[rule] : "nothing"
  if (!(key in end_known)) {
    end_known[key] = ++ends
    end_rule_of[ends] = rule; end_place[ends] = at; end_ways[ends] = world_path[world]
    end_has[ends, world_path[world]] = 1
  }
  n = end_known[key]
  if ((n, world_path[world]) in end_has) return
  end_has[n, world_path[world]] = 1
  end_ways[n] = end_ways[n] "\n" world_path[world]
}
