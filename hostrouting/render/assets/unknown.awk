# Every end that is possible for packets of which not all is known: a rule that selects on a mark, a user or a port may
# hold or not, and so may a route with a tos.
#
# explore() adds the ends to end_path, end_of_rule and end_of_route. `truth` has a line for each selector that was
# supposed to hold or not; `path` a line for each condition.

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
    selected = is_for("full", s, address)
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
