# What the verdict does not hold for, and which ranges never leave: in the words of hostrouting.wording.

function take_notes(c, i, begin, end_,   n, part, count, judged, escaped, key) {
  judge_escape(d_kind[i], d_route[i])
  judged = escape_kind != ""
  count = split(d_variants[i], part, " ")
  for (n = 1; n <= count; n++) {
    judge_escape(kind_of(v_rule[part[n]], v_route[part[n]]), v_route[part[n]])
    escaped = escape_kind != ""
    if (escaped == judged) continue
    key = c SUBSEP v_ways[part[n]] SUBSEP escape_kind SUBSEP escape_devs
    if (!(key in note_number)) {
      note_number[key] = ++notes_found
      n_cidr[notes_found] = c; n_first[notes_found] = begin; n_variant[notes_found] = part[n]
      n_escapes[notes_found] = escaped
    }
    n_last[note_number[key]] = end_
    if (!((key, v_route[part[n]]) in n_has)) { n_has[key, v_route[part[n]]] = 1; n_routes[note_number[key]]++ }
    if (escaped) doubtful = 1
  }
}

# Which packets: the first few alternatives, and how many more there are.
function packets_text(ways,   part, count, i, text) {
  count = split(ways, part, "\n")
  for (i = 1; i <= count && i <= 3; i++) text = text (i > 1 ? ", or " : "packets ") case_text(part[i])
  return count <= 3 ? text : text ", or of " (count - 3) " more " (count == 4 ? "kind" : "kinds") ","
}

function case_text(path,   part, count, i, text) {
  count = split(path, part, /\001/)
  for (i = 1; i <= count && i <= 4; i++) text = text (i > 1 ? " and " : "") condition_text(part[i])
  return count <= 4 ? text : text " and " (count - 4) " more " (count == 5 ? "condition" : "conditions")
}

function condition_text(condition,   rule, part, n, i, holds, text) {
  rule = condition + 0
  condition = substr(condition, length(rule) + 1)
  holds = substr(condition, 1, 1) == "+"
  n = split(substr(condition, 2), part, /\002/)
  if (n == 1 && !holds) text = opposite_of(phrase(part[1]))
  else for (i = 1; i <= n; i++) text = text (i > 1 ? (holds ? ", " : " and ") : holds ? "" : "unless ") phrase(part[i])
  return text " (rule " u_priority[rule] ")"
}

# What a selector is about.
function phrase(text,   name, value, first, last) {
  name = substr(text, 1, index(text, " ") - 1); value = substr(text, index(text, " ") + 1)
  first = substr(value, 1, index(value, "-") - 1); last = substr(value, index(value, "-") + 1)
  if (name == "from") { sub(/\/32$/, "", value); return "from " value }
  if (name == "iif") return value == "lo" ? "sent by this host" : "that arrive on " value
  if (name == "oif") return "from sockets bound to " value
  if (name == "uidrange") return first == last ? "of user " first : "of users " value
  if (name == "fwmark") sub(/\/0xffffffff$/, "", value)
  if ((name == "sport" || name == "dport") && first == last) value = first
  return "with " name " " value
}

function opposite_of(text) {
  if (text == "sent by this host") return "forwarded by this host"
  if (sub(/^with /, "without ", text) || sub(/^that arrive /, "that do not arrive ", text)) return text
  return "not " text
}

# What becomes of the packets of note k.
function fate_text(k,   v, r, kind, who, devs, leg, seen) {
  v = n_variant[k]; r = v_route[v]; kind = kind_of(v_rule[v], r)
  who = holder(r && merged && r_table[r] == LOCAL_TABLE ? 1 : v_rule[v], r)
  if (n_routes[k] > 1) who = who " and " (n_routes[k] - 1) " more " (n_routes[k] == 2 ? "route" : "routes")
  if (kind == UNICAST) {
    for (leg = 1; r && leg <= e_legs[r]; leg++) if (!(e_dev[r, leg] in seen)) {
      seen[e_dev[r, leg]] = 1
      devs = devs (devs == "" ? "" : ", ") e_dev[r, leg]
    }
    return (n_escapes[k] ? "leave by " : "leave as expected, by ") (devs == "" ? UNKNOWN_DEVICE : devs) " [" who "]"
  }
  if (!n_escapes[k]) return "stay on this host [" who "]"
  return (kind == 0 ? "find no route" : kind == BLACKHOLE ? "vanish in a blackhole" : "are refused") " [" who "]"
}

function note_text(k) {
  return "expected CIDR " range_text(n_cidr[k], n_first[k], n_last[k]) ": " packets_text(v_ways[n_variant[k]]) \
    " " fate_text(k) "; the verdict is about all others"
}

# Whether a whole range is kept by the host, but for what every host keeps.
function is_kept(i,   r) {
  r = d_route[i]
  return d_kind[i] == LOCAL && r && r_type[r] == LOCAL && r_len[r] < 32 && !(r_net[r] == 2130706432 && r_len[r] == 8)
}

function kept_text(k) {
  return "expected CIDR " range_text(k_cidr[k], k_first[k], k_last[k]) " is this host\047s own [" \
    holder(d_rule[k_place[k]], d_route[k_place[k]]) "]: packets for it never leave"
}
