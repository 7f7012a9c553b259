# What may be true of a packet of which not all is known: the engine of hostrouting.fib.supposed once more.
#
# A world is a set of suppositions that are true together: about each thing that was asked, one yes (world_low …), and
# a list of what was refused.

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
  # Of the tos of a packet IPv4 looks at three bits.
  } else if (name == "tos") { ask_low[text] = hex_number(value); ask_mask[text] = 28 }
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
function join(world, text,   name, both) {
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
    both = common_bits(world_mask[world, name], ask_mask[text])
    if (!same_bits(world_low[world, name], ask_low[text], both)) return 0
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
function suppose(world, rule, asks, true,   part, n, i, still, found, possible, plain, names, refusal, all) {
  n = split(asks, part, "\n")
  for (i = 1; i <= n; i++) if (!says(world, part[i])) still = still (still == "" ? "" : "\n") part[i]
  if (still == "") return true ? world : 0
  found = new_world(world)
  possible = plain = 1
  n = split(still, part, "\n")
  for (i = 1; i <= n; i++) {
    possible = possible && join(found, part[i])
    plain = plain && holds_plainly[part[i]]
    names[ask_name[part[i]]] = 1
  }
  if (!possible) return true ? 0 : world
  if (!true) {
    found = new_world(world)
    refusals++
    refused_asks[refusals] = still; refused_before[refusals] = world_refused[world]
    refused_name[refusals] = n > 1 ? "" : ask_name[still]
    world_refused[found] = refusals
  }
  # What holds for a plain packet anyway is no condition.
  if (plain != true) {
    gsub(/\n/, "\002", still)
    if (world_path[found] != "") world_path[found] = world_path[found] "\001"
    world_path[found] = world_path[found] rule (true ? "+" : "-") still
  }
  for (refusal = true ? world_refused[found] : 0; refusal; refusal = refused_before[refusal]) {
    # Only what asks for something that has just become true can have become true.
    if (refused_name[refusal] != "" && !(refused_name[refusal] in names)) continue
    all = 1
    n = split(refused_asks[refusal], part, "\n")
    for (i = 1; i <= n && all; i++) all = says(found, part[i])
    if (all) return 0
  }
  return found
}
