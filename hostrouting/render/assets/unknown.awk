# What becomes of packets of which not all is known: a rule that selects on a mark, a user or a port may be for them or
# not, and so may a route with a tos. The engine of hostrouting.fib.branches once more.
#
# A world is a set of suppositions that are true together: about each thing that was asked, one yes (world_low …), and a
# list of what was refused. The walk through the rules is done once for each pattern of what the tables have.

# --- Questions: a selector asks whether what it names is from low to high, or has certain bits.

function learn_to_ask(text,   name, value, at) {
  name = substr(text, 1, index(text, " ") - 1); value = substr(text, index(text, " ") + 1)
  ask_name[text] = name; ask_mask[text] = ""
  if (name == "from") {
    read_prefix(value)
    ask_low[text] = network; ask_high[text] = network + size[prefix_length] - 1
  } else if (name == "fwmark") {
    at = index(value, "/")
    ask_low[text] = hex_number(substr(value, 1, at - 1)); ask_mask[text] = hex_number(substr(value, at + 1))
  } else if (name == "tos") { ask_low[text] = hex_number(value); ask_mask[text] = 252 }
  else if (name == "uidrange" || name == "sport" || name == "dport") {
    at = index(value, "-")
    ask_low[text] = substr(value, 1, at - 1) + 0; ask_high[text] = substr(value, at + 1) + 0
  } else if (name == "ipproto") ask_low[text] = ask_high[text] = value + 0
  else if (name == "iif" || name == "oif") ask_low[text] = ask_high[text] = value ""
  # What is not known here is a question of its own, which nobody can answer.
  else { ask_name[text] = text; ask_low[text] = ask_high[text] = 1 }
}

# Whether the numbers have the same bits where the mask has any.
function same_bits(one, other, mask) {
  while (mask > 0) {
    if (mask % 2 && one % 2 != other % 2) return 0
    mask = int(mask / 2); one = int(one / 2); other = int(other / 2)
  }
  return 1
}

# The bits of the first number, and where its mask has none, those of the other one.
function joined_bits(one, mask, other,   place, value) {
  for (place = 1; one > 0 || other > 0 || mask > 0; place *= 2) {
    if (mask % 2 ? one % 2 : other % 2) value += place
    mask = int(mask / 2); one = int(one / 2); other = int(other / 2)
  }
  return value + 0
}

# --- Worlds.

# Whether what is supposed to be true in a world answers the question with yes.
function says(world, text,   name) {
  name = ask_name[text]
  if (!((world, name) in world_low)) return 0
  if (ask_mask[text] == "") return ask_low[text] <= world_low[world, name] && world_high[world, name] <= ask_high[text]
  return same_bits(0, joined_bits(0, world_mask[world, name], ask_mask[text]), 4294967295) \
    && same_bits(world_low[world, name], ask_low[text], ask_mask[text])
}

function new_world(world,   part, n, name) {
  worlds++
  world_names[worlds] = world_names[world]; world_path[worlds] = world_path[world]
  world_refused[worlds] = world_refused[world]
  for (n = split(world_names[world], part, "\n"); n > 0; n--) {
    name = part[n]
    world_low[worlds, name] = world_low[world, name]; world_high[worlds, name] = world_high[world, name]
    world_mask[worlds, name] = world_mask[world, name]
  }
  return worlds
}

# Makes the answer to the question yes in a world; 0 where that cannot be.
function join(world, text,   name) {
  name = ask_name[text]
  if (!((world, name) in world_low)) {
    world_names[world] = world_names[world] (world_names[world] == "" ? "" : "\n") name
    world_low[world, name] = ask_low[text]; world_mask[world, name] = ask_mask[text]
    world_high[world, name] = ask_mask[text] == "" ? ask_high[text] : ""
  } else if (ask_mask[text] == "") {
    if (ask_low[text] > world_low[world, name]) world_low[world, name] = ask_low[text]
    if (ask_high[text] < world_high[world, name]) world_high[world, name] = ask_high[text]
    return world_low[world, name] <= world_high[world, name]
  } else {
    if (!same_bits(world_low[world, name], ask_low[text], common_bits(world_mask[world, name], ask_mask[text]))) return 0
    world_low[world, name] = joined_bits(world_low[world, name], world_mask[world, name], ask_low[text])
    world_mask[world, name] = joined_bits(world_mask[world, name], world_mask[world, name], ask_mask[text])
  }
  return 1
}

function common_bits(one, other,   place, value) {
  for (place = 1; one > 0 && other > 0; place *= 2) {
    if (one % 2 && other % 2) value += place
    one = int(one / 2); other = int(other / 2)
  }
  return value + 0
}

# The world in which all of the questions are answered with yes too (`true`), or not all of them; 0 when there is none.
function suppose(world, rule, asks, true,   part, n, i, still, found, possible, plain, words, refusal, all) {
  n = split(asks, part, "\n")
  for (i = 1; i <= n; i++) if (!says(world, part[i])) still = still (still == "" ? "" : "\n") part[i]
  if (still == "") return true ? world : 0
  found = new_world(world)
  possible = plain = 1
  n = split(still, part, "\n")
  for (i = 1; i <= n; i++) {
    possible = possible && join(found, part[i])
    plain = plain && holds_plainly[part[i]]
  }
  if (!possible) return true ? 0 : world
  if (!true) {
    found = new_world(world)
    refusals++
    refused_asks[refusals] = still; refused_before[refusals] = world_refused[world]
    world_refused[found] = refusals
  }
  # What holds for a plain packet anyway is no condition.
  if (plain != true) {
    words = still
    gsub(/\n/, ", ", words)
    if (index(words, "from ") == 1) words = (true ? "" : "not ") words
    else words = (true ? "with " : "without ") words
    world_path[found] = world_path[found] (world_path[found] == "" ? "" : "\n") rule ":" words " (rule " u_priority[rule] ")"
  }
  for (refusal = true ? world_refused[found] : 0; refusal; refusal = refused_before[refusal]) {
    all = 1
    n = split(refused_asks[refusal], part, "\n")
    for (i = 1; i <= n && all; i++) all = says(found, part[i])
    if (all) return 0
  }
  return found
}

# --- The walk.

# Every end to which a packet for this address may come: end_from … end_to number them; each has a rule (0: none), the
# place of the route among those of its table (0: the rule decides), and the ways that lead there, one a line of \001.
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
  split("", arrivals); split("", end_known)
  # World 0 has nothing in it, and world 1 is that.
  pending = 0
  later(1, new_world(0))
  while (pending) { at = pending_at[pending]; go_on(at, pending_world[pending--]) }
}

function go_on(at, world,   turn, rule, taking, passing, left, i) {
  while (world) {
    if (at > turns) { add_end(0, 0, world); return }
    turn = at++
    rule = t_rule[turn]
    taking = t_asks[turn] == "" ? world : suppose(world, rule, t_asks[turn], !t_not[turn])
    passing = t_asks[turn] == "" ? 0 : suppose(world, rule, t_asks[turn], t_not[turn])
    if (!taking) continue
    if (t_target[turn]) {
      later(at, passing)
      at = t_target[turn]
      world = arriving(at, taking)
    } else if (ends_it(rule)) {
      add_end(rule, 0, taking)
      world = passing
    } else if (index(t_shape[turn], ":1")) {
      left = take(rule, t_shape[turn], taking)
      # Else the rule changes nothing for packets that it may be for or not: they go on as they came.
      if (!left || !passing) {
        for (i = 1; i <= going; i++) later(at, arriving(at, going_world[i]))
        world = left ? left : passing
      }
    }
  }
}

# End where the table has a route that is kept. Returns the world of those that find none, and sets going_world: those
# of the packets whose tos leads them on.
function take(rule, found, world,   part, n, i, tos, kept, taking, left) {
  going = 0
  n = split(found, part, ",")
  for (i = 1; i <= n; i++) {
    tos = substr(part[i], 1, index(part[i], ":") - 1); kept = substr(part[i], length(part[i])) == "1"
    taking = tos == "0" ? world : suppose(world, rule, "tos " tos, 1)
    if (taking && kept) add_end(rule, i, taking)
    else if (taking && tos != "0") going_world[++going] = taking
    left = tos == "0" ? 0 : suppose(world, rule, "tos " tos, 0)
    if (!left) return kept ? 0 : world
    world = left
  }
  return world
}

function later(at, world) {
  if (world) { pending_at[++pending] = at; pending_world[pending] = world }
}

# The world in which a walk that arrives at a rule goes on there. So often it may come, knowing something else each time;
# after that it knows nothing any more and goes on once: it may find an end that is not possible, and misses none.
function arriving(at, world,   found) {
  if (!world || world_path[world] == "") return world
  arrivals[at]++
  if (arrivals[at] <= 16) return world
  if (arrivals[at] > 17) return 0
  found = new_world(0)
  world_path[found] = world_path[world]
  return found
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
  end_ways[n] = end_ways[n] "\001" world_path[world]
}
