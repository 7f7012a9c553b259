# Which addresses of the expected CIDRs escape, asked of the kernel at every place where its answer can change.

function expect(dev) {
  if (dev in is_expected) return
  is_expected[dev] = 1
  expected[++expected_count] = dev
}

# * and ? mean the same to shells; no other letter of a pattern means anything but itself.
function as_regex(glob) {
  gsub(/\./, "[.]", glob)
  gsub(/\*/, ".*", glob)
  gsub(/\?/, ".", glob)
  return "^" glob "$"
}

# Whether a route has to do with an expected CIDR, or with how to get anywhere: all others are passed over.
function is_of_interest(   b) {
  if ($2 == "default" || is_near()) return 1
  read_prefix($2)
  b = block_at(network)
  return b <= blocks && b_first[b] < network + size[prefix_length]
}

# Everything that does not depend on the answers.
function prepare(   r, leg, i) {
  build()
  find_uplinks()
  for (r = 1; r <= routes; r++)
    if (r_table[r] == MAIN && r_metric[r] == 0 && r_tos[r] == "0" && r_proto[r] != ours) held[r_net[r], r_len[r]] = 1
  if (!configured && (r = default_route("", -1))) for (leg = 1; leg <= r_legs[r]; leg++) expect(r_dev[r, leg])
  for (i = 1; i <= expected_count; i++) expected_text = expected_text (i > 1 ? ", " : "") expected[i]
  find_places()
}

# Destinations that are what they are, whichever route takes them: the kernel need not be asked.
function kind_by_address(address) {
  if (address == 0) return LOCAL
  if (address == 4294967295) return BROADCAST
  return address >= 3758096384 && address < 4026531840 ? MULTICAST : 0
}

function is_asked(i) { return !kind_by_address(place[i]) && is_expected_place(i) }

# Ask the kernel at every place. Few questions fit into a command of the shell, so many take several commands.
function ask(   i, questions, n) {
  for (i = 1; i <= places; i++) if (is_asked(i)) {
    questions = questions "route get fibmatch " address_text(place[i]) "\n"
    if (++n == 2000) { put(questions); questions = ""; n = 0 }
  }
  if (n) put(questions)
}

# What fails is said in two lines, of which the second has the number of the question.
function put(questions,   command, line, said, number, given, answers_given, part) {
  command = "exec ip -4 -N -d -o -force -batch - 2>&1 <<END\n" questions "END\n"
  while ((command | getline line) > 0) {
    split(line, part, " ")
    if (part[1] in type_number) given[++answers_given] = line
    else if (line ~ /^Command failed/) {
      sub(/.*:/, "", line)
      failure[line + answers_asked] = said
    } else {
      said = line
      sub(/^(RTNETLINK answers|Error): /, "", said)
    }
  }
  close(command)
  answers_given = 0
  for (number = split(questions, part, "\n") - 1; number > 0; number--) {
    answers_asked++
    if (!(answers_asked in failure)) answer[answers_asked] = given[++answers_given]
  }
}

function devices_are_up(   i) {
  for (i = 1; i <= expected_count; i++) if (configured && !link_up[expected[i]]) return 0
  return 1
}

# --- Decisions.

# What happens at place i: d_kind, d_rule, d_route and d_variants, and d_key, which is the same where they are.
function decide(i,   address, n, answered, variants, id, r) {
  address = place[i]
  follow(address)
  d_rule[i] = end_rule; d_route[i] = end_route
  d_kind[i] = kind_of(end_rule, end_route)
  if (end_route && merged && r_table[end_route] == LOCAL_TABLE) d_rule[i] = 1
  variants = ""
  if (kind_by_address(address)) d_kind[i] = kind_by_address(address)
  else if (unsure || tos_passed) {
    explore(address)
    for (n = end_from; n <= end_to; n++) {
      r = route_of_end(n)
      if (kind_of(end_rule_of[n], r) == d_kind[i] && r == d_route[i]) continue
      id = end_ways[n] SUBSEP end_rule_of[n] SUBSEP r
      if (!(id in variant_number)) {
        variant_number[id] = ++variant_count
        v_ways[variant_count] = end_ways[n]; v_rule[variant_count] = end_rule_of[n]; v_route[variant_count] = r
      }
      variants = variants " " variant_number[id]
    }
  }
  d_variants[i] = variants
  if (is_asked(i)) {
    answered = ++answers_used
    if (!agrees(i, answered)) { differing++; follow_the_kernel(i, answered) }
  }
  d_key[i] = d_kind[i] " " d_rule[i] " " d_route[i] variants
}

# The type of a route; or what became of a packet that no route took, 0 for "no route".
function kind_of(rule, r) { return r ? r_type[r] : rule ? u_action[rule] : 0 }

function kind_of_error(text) {
  if (text == "Invalid argument") return BLACKHOLE
  if (text == "No route to host") return UNREACHABLE
  if (text == "Permission denied") return PROHIBIT
  return text == "Network is unreachable" ? 0 : -1
}

function agrees(i, n,   r, leg) {
  if (n in failure) {
    if (kind_of_error(failure[n]) == 0) return d_kind[i] == 0 || (d_kind[i] == UNREACHABLE && !d_route[i])
    return kind_of_error(failure[n]) == d_kind[i]
  }
  r = d_route[i]
  if (answer[n] == "" || !r) return 0
  if (answer[n] == answered_last && r == route_last) return 1
  $0 = answer[n]
  read_route(0)
  if (r_type[0] != r_type[r] || r_net[0] != r_net[r] || r_len[0] != r_len[r] || r_metric[0] != r_metric[r]) return 0
  if (r_tos[0] != r_tos[r] || r_proto[0] != r_proto[r] || r_legs[0] != r_legs[r]) return 0
  for (leg = 1; leg <= r_legs[0]; leg++)
    if (r_dev[0, leg] != r_dev[r, leg] || r_gateway[0, leg] != r_gateway[r, leg]) return 0
  answered_last = answer[n]; route_last = r
  return 1
}

# The kernel is right. Which rule it went by is not known then.
function follow_the_kernel(i, n,   r, leg) {
  d_rule[i] = -1; d_variants[i] = ""
  surprise[i] = (n in failure) ? failure[n] : answer[n] != "" ? answer[n] : "nothing"
  if (answer[n] != "") {
    $0 = answer[n]
    d_route[i] = r = ++routes
    read_route(r)
    d_kind[i] = r_type[r]
    e_legs[r] = r_legs[r]
    for (leg = 1; leg <= r_legs[r]; leg++) { e_dev[r, leg] = r_dev[r, leg]; e_gateway[r, leg] = r_gateway[r, leg] }
  } else {
    d_route[i] = 0
    d_kind[i] = kind_of_error(failure[n])
    # An answer that is no answer is no way out either.
    if (d_kind[i] < 0) d_kind[i] = 0
  }
}

# How a decision escapes: sets escape_kind ("" when it does not) and escape_devs.
function judge_escape(kind, r,   leg, seen) {
  escape_devs = ""
  escape_kind = kind == 0 ? "no-route" : kind == BLACKHOLE ? "blackhole" : kind == UNREACHABLE ? "unreachable" : \
    kind == PROHIBIT ? "prohibit" : ""
  if (kind != UNICAST && kind < 10) return
  # Of the types that no kernel makes nobody can tell where they lead.
  if (kind >= 10) escape_kind = "overlap"
  # A way without a device that we know is none that anybody expected.
  if (!e_legs[r]) escape_kind = "overlap"
  for (leg = 1; leg <= e_legs[r]; leg++) if (!is_welcome(e_dev[r, leg]) && !(e_dev[r, leg] in seen)) {
    seen[e_dev[r, leg]] = 1
    escape_kind = "overlap"
    escape_devs = escape_devs (escape_devs == "" ? "" : ", ") e_dev[r, leg]
    if (escape_devs == e_dev[r, leg]) escape_leg = leg
  }
}

function is_welcome(dev,   i) {
  if (!(dev in welcome)) {
    welcome[dev] = dev in is_expected
    for (i = 1; i <= patterns && !welcome[dev]; i++) welcome[dev] = dev ~ allowed[i]
  }
  return welcome[dev]
}
