# What the decisions mean for each expected CIDR, in the words and the JSON that hostrouting.wording has for them.

BEGIN {
  UNKNOWN_DEVICE = "a device that is not known"
  AT_MOST = 20 # lines of one kind in the journal
}

function judge(   i, c, k) {
  if (!expected_count) { finish("no-default-route", NO_DEFAULT_ROUTE); return }
  for (i = 1; i <= places; i++) if (is_expected_place(i)) decide(i)
  if (differing && !final) exit DIFFERING
  for (c = 1; c <= cidrs; c++) judge_cidr(c)
  for (i = 1; i <= findings; i++) if (f_kind[i] == "no-route" && !default_routes && !final) exit NOT_YET
  if (findings) repair()
  for (i = 1; i <= diverted; i++) add_note(diversion_text(i))
  for (k = 1; k <= kept_ranges; k++) add_note(kept_text(k))
  for (k = 1; k <= notes_found; k++) add_note(note_text(k))
  for (i = 1; i <= places; i++) if (i in surprise) {
    add_note(address_text(place[i]) ": the kernel answers [" surprise[i] "], which is not what its tables say; " \
      "the verdict follows its answer")
    doubtful = 1
  }
  if (findings) finish("overlap", OVERLAP)
  else if (doubtful) finish("undecided", UNDECIDED)
  else finish("ok", OK)
}

# --- Findings: the escapes of one CIDR, neighbours by the same rule and route in one; single own addresses inside or
# beside are counted in.

function judge_cidr(c,   i, begin, end_, touching, own, key) {
  touching = own = 0
  for (i = first_place(c_first[c]); i <= places && place[i] <= c_last[c]; i = key) {
    begin = place[i]
    for (key = i + 1; key <= places && place[key] <= c_last[c] && d_key[key] == d_key[i] && !(key in surprise); key++) ;
    end_ = place_end[key - 1]
    take_notes(c, i, begin, end_)
    if (is_kept(i)) {
      kept_ranges++
      k_cidr[kept_ranges] = c; k_first[kept_ranges] = begin; k_last[kept_ranges] = end_; k_place[kept_ranges] = i
    }
    judge_escape(d_kind[i], d_route[i])
    if (escape_kind == "") {
      if (begin == end_ && d_kind[i] >= LOCAL && d_kind[i] <= MULTICAST) {
        own++
        if (touching && counts_in(f_route[findings], end_)) { f_last[findings] = end_; own = 0 }
      } else touching = own = 0
      continue
    }
    if (touching && f_kind[findings] == escape_kind && f_devs[findings] == escape_devs \
        && f_rule[findings] == d_rule[i] && f_route[findings] == d_route[i]) f_last[findings] = end_
    else {
      while (own && counts_in(d_route[i], begin - 1)) { begin--; own-- }
      findings++
      f_cidr[findings] = c; f_first[findings] = begin; f_last[findings] = end_
      f_kind[findings] = escape_kind; f_devs[findings] = escape_devs; f_leg[findings] = escape_leg
      f_rule[findings] = d_rule[i]; f_route[findings] = d_route[i]
    }
    touching = 1; own = 0
  }
}

function first_place(address,   low, high, middle) {
  low = 1; high = places
  while (low < high) {
    middle = int((low + high) / 2)
    if (place[middle] < address) low = middle + 1
    else high = middle
  }
  return low
}

function counts_in(r, address) { return !r || covers(r, address) }

# --- Words.

function span_text(first, last) { return address_text(first) (first == last ? "" : "–" address_text(last)) }

function range_text(c, first, last) {
  return prefix_text(c_first[c], c_length[c]) " (" span_text(first, last) ")"
}

# Whoever decides: a route and who installed it, or a rule.
function holder(rule, r,   text) {
  if (!r) return rule > 0 ? "rule " rule_text(rule) : rule < 0 ? "a rule that is not known" : "no rule"
  text = r_type[r] == UNICAST ? "" : type_name[r_type[r]] " "
  text = text (r_len[r] ? prefix_text(r_net[r], r_len[r]) : "default") " proto " name_of_protocol(r_proto[r])
  if (r_table[r] != MAIN && rule > 0) text = text " table " name_of_table(r_table[r]) ", rule " u_priority[rule]
  # A device without a carrier still wins, and nothing that it sends arrives.
  return text (e_legs[r] && e_down[r] == e_legs[r] ? " linkdown" : "")
}

function rule_text(rule,   text, i) {
  text = u_priority[rule] ": " (u_not[rule] ? "not " : "")
  i = 1
  if (selectors[rule] && index(selector[rule, 1], "from ") == 1) text = text selector[rule, i++]
  else text = text "from all"
  if (u_low[rule] >= 0) text = text " to " prefix_text(u_low[rule], length_of(u_low[rule], u_high[rule]))
  for (; i <= selectors[rule]; i++) text = text " " selector[rule, i]
  return text " " type_name[u_action[rule]]
}

function length_of(first, last,   length_) {
  for (length_ = 0; size[length_] > last - first + 1; length_++) ;
  return length_
}

function finding_text(f,   what, how) {
  what = ": expected CIDR " range_text(f_cidr[f], f_first[f], f_last[f])
  if (f_kind[f] == "overlap")
    return "OVERLAP" what " routes via " (f_devs[f] == "" ? UNKNOWN_DEVICE : f_devs[f]) \
      " [" holder(f_rule[f], f_route[f]) "], expected " expected_text
  if (f_kind[f] == "no-route") return "NO-ROUTE" what " has no IPv4 route; expected via " expected_text
  how = f_kind[f] == "prohibit" ? "is refused" : f_kind[f] == "blackhole" ? "vanishes in a blackhole" : "is " f_kind[f]
  return toupper(f_kind[f]) what " " how " [" holder(f_rule[f], f_route[f]) "]; expected via " expected_text
}

function add_note(text) { note[++notes] = text }

# --- Where it is said: lines for the journal as they are, then "json" with the document, and "mark" with a line of the
# marker.

function finish(verdict, status,   i, level) {
  level = mode == "STRICT" ? "<3>" : "<4>"
  if (verdict == "no-default-route") {
    print level no_default_text()
    mark[++marks] = verdict
  } else if (verdict == "overlap") {
    for (i = 1; i <= findings; i++) {
      if (i <= AT_MOST) print level finding_text(i)
      mark[++marks] = finding_text(i)
    }
    if (findings > AT_MOST) print level "and " (findings - AT_MOST) " more like these; all are in route-overlap.json"
    for (i = 1; i <= unsafe_count && i <= AT_MOST; i++) print level unsafe_text(i)
  } else {
    mark[++marks] = verdict
    if (verdict == "ok") print "<6>check-route-overlap: ok: every expected CIDR leaves by " expected_text
    else print "<4>check-route-overlap: undecided: as far as can be seen, all leaves by " expected_text
  }
  for (i = 1; i <= notes; i++) {
    if (i <= AT_MOST) print "<4>" note[i]
    if (verdict != "overlap") mark[++marks] = note[i]
  }
  if (notes > AT_MOST) print "<4>and " (notes - AT_MOST) " more like these; all are in route-overlap.json"
  if (repairs > AT_MOST) print level "ACTION: add " repairs " routes to staticRoutes.routes: " \
    "the repair in route-overlap.json, printed by: hostrouting repair"
  else if (repairs) print level "ACTION: add to staticRoutes.routes: " repair_json()
  write_json(verdict)
  for (i = 1; i <= marks; i++) print "mark " mark[i]
  exit status
}

function no_default_text() {
  return "NO-DEFAULT-ROUTE: the expected devices are those of the IPv4 default route, and " waited \
    " s did not bring one; last seen: " seen_instead()
}

function seen_instead(   r, leg, told, devs) {
  if (default_routes) return "a default route that refuses packets (" type_name[r_type[default_list[1]]] ")"
  for (r = 1; r <= routes; r++)
    for (leg = 1; r_len[r] == 0 && r_type[r] == UNICAST && leg <= r_legs[r]; leg++)
      if (!told[r_dev[r, leg]]++) devs = devs (devs == "" ? "" : ", ") r_dev[r, leg]
  return devs == "" ? "no default route" : "a default route by " devs " that is not in use"
}

function quoted(text,   i, letter, plain) {
  if (text !~ /["\\]/ && text !~ /[\001-\037\177]/) return "\"" text "\""
  for (i = 1; i <= length(text); i++) {
    letter = substr(text, i, 1)
    if (letter == "\"" || letter == "\\") letter = "\\" letter
    else if (letter < " " || letter == "\177") letter = control_letter(letter)
    plain = plain letter
  }
  return "\"" plain "\""
}

function control_letter(letter,   code) {
  for (code = 1; code < 127 && sprintf("%c", code) != letter; code++) ;
  return sprintf("\\u%04x", code)
}

function or_null(text) { return text == "" ? "null" : quoted(text) }

function write_json(verdict,   i, text) {
  for (i = 1; i <= expected_count; i++) text = text (i > 1 ? ", " : "") quoted(expected[i])
  printf "json {\"schema\": \"hostrouting/check/1\", \"verdict\": \"%s\", \"mode\": \"%s\", ", verdict, mode
  printf "\"expectedDevs\": [%s], ", text
  printf "\"findings\": ["
  for (i = 1; i <= findings; i++) printf "%s%s", (i > 1 ? ", " : ""), finding_json(i)
  printf "], \"repair\": %s, \"unsafe\": [", repair_json()
  for (i = 1; i <= unsafe_count; i++) printf "%s%s", (i > 1 ? ", " : ""), unsafe_json(i)
  printf "], \"notes\": ["
  for (i = 1; i <= notes; i++) printf "%s%s", (i > 1 ? ", " : ""), quoted(note[i])
  print "]}"
}

function finding_json(f,   r, text, i, via, gateway, dev) {
  r = f_route[f]
  blocks_between(f_first[f], f_last[f])
  for (i = 1; i <= between; i++) text = text (i > 1 ? ", " : "") quoted(prefix_text(between_net[i], between_len[i]))
  if (f_kind[f] == "overlap") { dev = e_dev[r, f_leg[f]]; gateway = e_gateway[r, f_leg[f]] }
  via = "{\"dev\": " or_null(dev) ", \"gateway\": " or_null(gateway)
  via = via ", \"route\": " (r ? quoted(prefix_text(r_net[r], r_len[r])) : "null")
  via = via ", \"table\": " (r ? quoted(name_of_table(r_table[r])) : "null")
  via = via ", \"protocol\": " (r ? quoted(name_of_protocol(r_proto[r])) : "null")
  via = via ", \"rule\": " (f_rule[f] > 0 ? u_priority[f_rule[f]] : "null") "}"
  return "{\"cidr\": " quoted(prefix_text(c_first[f_cidr[f]], c_length[f_cidr[f]])) \
    ", \"first\": " quoted(address_text(f_first[f])) ", \"last\": " quoted(address_text(f_last[f])) \
    ", \"prefixes\": [" text "], \"kind\": " quoted(f_kind[f]) ", \"via\": " via "}"
}

# The fewest blocks that are exactly first … last: sets between, between_net and between_len.
function blocks_between(first, last,   length_) {
  between = 0
  while (first <= last) {
    for (length_ = 0; first % size[length_] || first + size[length_] - 1 > last; length_++) ;
    between_net[++between] = first; between_len[between] = length_
    first += size[length_]
  }
}
