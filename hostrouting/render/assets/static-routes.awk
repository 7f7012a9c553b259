# From the static routes that are wanted, and what is there, to the steps between: hostrouting.plan once more. They are
# taken, and then what is there is read again: all ends when no step is left, or after some attempts.
#
# Prints for each attempt "attempt", "tried" with each command, and what `ip` says of them. At the end, unless all is
# well: "wanting" with a sentence for each route that cannot be had (yet), and "due" with each command that is left.

# Lists what is "missing", "refused", to "change" and to "remove": sentences, and commands of `ip`.
function plan(   w, leg, r) {
  # The tables changed while they were read.
  if (complaint ~ /interrupted/ && !final) exit NOT_YET
  # `ip` ends with the first command that fails, so that the last one tells of all.
  if (!all_said || complaint ~ /interrupted/) {
    print "wanting what is there cannot be told: ip failed: " complaint
    exit FAILED
  }
  split("", count); split("", is_settled); split("", is_stale)
  given_up = final ? " (given up after " waited " s)" : ""
  build()
  find_uplinks()
  list_holders()
  # What is wanted on-link may lead to the gateways of the others.
  for (w = 1; w <= wishes; w++)
    if (resolve(w) && !through[w]) for (leg = 1; leg <= legs[w]; leg++) add_near(g_dev[w, leg], w_net[w], w_len[w])
  for (w = 1; w <= wishes; w++) {
    is_settled[key_of(w)] = 1
    if (!resolve(w)) enlist("missing", wish_text(w) ": waiting for " missing given_up)
    else if (!through[w]) settle(w)
  }
  for (w = 1; w <= wishes; w++) if (through[w]) settle(w)
  # Those through a gateway go first, for others may lead to it.
  for (r = 1; r <= routes; r++) if (is_to_go(r) && has_gateway(r)) enlist("remove", removal(r))
  for (r = 1; r <= routes; r++) if (is_to_go(r) && !has_gateway(r)) enlist("remove", removal(r))
}

function enlist(kind, text) { step[kind, ++count[kind]] = text }

function tell(kind, word,   i) { for (i = 1; i <= count[kind]; i++) print word step[kind, i] }

# What the kernel refuses, `ip` says itself; whether that matters, the next look tells: somebody else may have done it.
function carry_out(   command, i) {
  print "attempt"
  tell(due, "tried ")
  fflush()
  command = "exec ip -4 -N -force -batch - 2>&1 >/dev/null"
  for (i = 1; i <= count[due]; i++) print step[due, i] | command
  close(command)
}

# Nothing here goes through a temporary file (as here-documents may do), for there may be no room for one.
function read_again(   command) {
  forget_host()
  command = "printf \"rule show\\nroute show table all\\nlink show\\nnetconf show\\n\" |"
  command = command " ip -4 -N -d -o -batch - 2>&1"
  while ((command | getline) > 0) read_line()
  close(command)
}

# --- Keys: what the kernel tells routes of one table apart by.

function key_of(w) { return w_net[w] SUBSEP w_len[w] SUBSEP w_metric[w] SUBSEP "0" }

function key_of_route(r) { return r_net[r] SUBSEP r_len[r] SUBSEP r_metric[r] SUBSEP r_tos[r] }

# Who holds each key in the table main; the kernel takes the first.
function list_holders(   r, key) {
  split("", holders)
  for (r = 1; r <= routes; r++) if (r_table[r] == MAIN) {
    key = key_of_route(r)
    holders[key]++
    holder[key, holders[key]] = r
  }
}

# --- What is done about it.

# Whether a route says exactly what is wanted, whoever it belongs to and whatever state its legs are in.
function says(r, w,   leg) {
  if (r_type[r] != UNICAST || r_more[r] != "" || r_scope[r] != scope_of(w) || r_legs[r] != legs[w]) return 0
  for (leg = 1; leg <= legs[w]; leg++)
    if (leg_text(r, leg) != g_words[w, leg] || r_weight[r, leg] != g_weight[w, leg]) return 0
  return 1
}

function scope_of(w) { return through[w] ? 0 : 253 }

# What to do about one route that is wanted, given those that hold its key; the kernel takes the first.
function settle(w,   key, i, r, stays, doubtful) {
  key = key_of(w)
  for (i = 1; i <= holders[key]; i++) {
    r = holder[key, i]
    if (r_proto[r] == ours && !says(r, w)) {
      is_stale[r] = 1
      if (is_like(r, w)) doubtful = 1
    } else if (!stays) stays = r
  }
  if (stays && says(stays, w)) {
    if (doubtful && r_proto[stays] == ours) bring_forward("remove", w, key)
  } else if (holders[key] && is_stale[holder[key, 1]]) {
    if (stays) bring_forward("change", w, key)
    else enlist("change", "route append " route_words(w))
  } else if (stays) {
    enlist("refused", wish_text(w) ": its key is held by [" route_text(stays) "], which is not ours: " way_out(stays))
  } else enlist("change", "route add " route_words(w))
}

# Ours never gives way to ours by `replace`, which overwrites whoever stands first by then. The new one comes behind the
# old, which goes when all else is there: for the kernel deletes the first that could be meant. Where others stand there
# too, the new one comes before them all, and what could be taken for it goes just before that.
function bring_forward(kind, w, key,   i, r) {
  for (i = 1; i <= holders[key]; i++) {
    r = holder[key, i]
    if (r_proto[r] != ours || !is_like(r, w)) continue
    is_stale[r] = 0
    enlist(kind, removal(r))
  }
  enlist(kind, "route prepend " route_words(w))
}

# Whether the kernel could take the wanted route for this one, when this is to be deleted.
function is_like(r, w,   way) {
  way = r_gateway[r, 1] == "" ? "dev " r_dev[r, 1] : way_text(r_gateway[r, 1], r_dev[r, 1])
  return r_type[r] == UNICAST && r_scope[r] == scope_of(w) && index(g_words[w, 1] " ", way " ")
}

function route_words(w,   text, leg) {
  text = w_destination[w] " table " MAIN " proto " ours " scope " scope_of(w) " metric " w_metric[w]
  if (legs[w] == 1) return text " " g_words[w, 1]
  for (leg = 1; leg <= legs[w]; leg++) text = text " nexthop " g_words[w, leg] " weight " g_weight[w, leg]
  return text
}

function is_to_go(r) {
  if (r_proto[r] != ours) return 0
  return is_stale[r] || r_table[r] != MAIN || !(key_of_route(r) in is_settled)
}

function has_gateway(r,   leg) {
  for (leg = 1; leg <= r_legs[r]; leg++) if (r_gateway[r, leg] != "") return 1
  return 0
}

# The whole key, so that nothing else of the same prefix can go in its place.
function removal(r,   text, leg) {
  text = "route del " (r_type[r] == UNICAST ? "" : type_name[r_type[r]] " ") prefix_text(r_net[r], r_len[r])
  text = text " table " r_table[r] " proto " ours " scope " r_scope[r] " metric " r_metric[r]
  if (r_tos[r] != "0") text = text " tos " r_tos[r]
  text = text r_more[r]
  if (more_text(r, "nhid") != "") return text
  if (r_legs[r] == 1) return text " " leg_text(r, 1)
  for (leg = 1; leg <= r_legs[r]; leg++) text = text " nexthop " leg_text(r, leg) " weight " r_weight[r, leg]
  return text
}

# --- Words.

# A route in the words of the engine.
function route_text(r,   text, leg) {
  text = (r_type[r] == UNICAST ? "" : type_name[r_type[r]] " ") (r_len[r] ? prefix_text(r_net[r], r_len[r]) : "default")
  if (r_legs[r] == 1) text = text " " leg_text(r, 1) state_text(r, 1)
  text = text " proto " name_of_protocol(r_proto[r])
  if (r_scope[r] != 0) text = text " scope " (r_scope[r] in scope_name ? scope_name[r_scope[r]] : r_scope[r])
  text = text more_text(r, "src") (r_metric[r] == 0 ? "" : " metric " r_metric[r])
  text = text more_text(r, "mtu") more_text(r, "advmss") more_text(r, "nhid")
  for (leg = 1; r_legs[r] > 1 && leg <= r_legs[r]; leg++)
    text = text " nexthop " leg_text(r, leg) state_text(r, leg) " weight " r_weight[r, leg]
  return text
}

function more_text(r, name,   part, i) {
  for (i = split(r_more[r], part, " ") - 1; i >= 1; i--) if (part[i] == name) return " " name " " part[i + 1]
  return ""
}

function state_text(r, leg,   text) {
  text = r_flags[r, leg]
  sub(/ onlink/, "", text)
  return text
}

# What wins without touching the holder: one route that comes before all of its prefix is less than two longer ones.
function way_out(r,   half, left, right) {
  if (r_metric[r] > 0 && !is_held(r_net[r], r_len[r]))
    return "in its place write one with metric 0, which wins without touching it"
  if (r_len[r] == 32) return "it has to go first: no longer prefix is there to win, and no better metric"
  half = r_net[r] + size[r_len[r] + 1]
  left = prefix_text(r_net[r], r_len[r] + 1); right = prefix_text(half, r_len[r] + 1)
  if (!is_held(r_net[r], r_len[r] + 1) && !is_held(half, r_len[r] + 1))
    return "in its place write " left " and " right ", which win without touching it"
  return "in its place write longer prefixes, where they are free (" left " and " right " are not both)"
}

# Whether the best key of a prefix is held by others; what is ours can be had.
function is_held(net, length_,   key, i) {
  key = net SUBSEP length_ SUBSEP 0 SUBSEP "0"
  for (i = 1; i <= holders[key]; i++) if (r_proto[holder[key, i]] != ours) return 1
  return 0
}

# --- What is done. It stands last: a program whose end is missing does nothing.

$1 == "setting" && $2 == "route" { want($3, $4, $5, $6); next }
$1 == "setting" { next }
$1 == "state" { next }
{ read_line() }

END {
  for (attempts = 0; ; attempts++) {
    plan()
    if (count["missing"] && !final) {
      tell("missing", "wanting ")
      exit NOT_YET
    }
    # Nothing is taken away until everything else is there.
    due = count["missing"] || count["refused"] || count["change"] ? "change" : "remove"
    if (!count[due] || attempts == 4) break
    carry_out()
    read_again()
  }
  if (!count["missing"] && !count["refused"] && !count[due]) exit DONE
  tell("missing", "wanting ")
  tell("refused", "wanting ")
  tell(due, "due ")
  exit FAILED
}
