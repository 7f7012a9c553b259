#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Checks that every address of the expected CIDRs leaves by an expected device. Written by hostrouting.
#
# Linux decides: it is asked with `ip route get`. Its answer can change only where the prefix of a route or of a rule
# starts, and right after one ends. So it is asked at these places, and each answer holds up to the next one. It is also
# asked about a few addresses elsewhere: the devices of the default route that it uses there are the expected ones.
# Exit status: 0, or 1 if gated units must not start. The journal and route-overlap.ok or .detected have the result.

# Data only: no line of it is executed.
configuration=(
)

set -uo pipefail && umask 022
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
mode=${configuration[0]#* } wait=${configuration[1]#* } families=${configuration[3]#* }
directory=${RUNTIME_DIRECTORY:-${configuration[2]#* }}
awk='awk' && hash mawk 2>/dev/null && awk=mawk # it starts fastest
level=3 && [[ $mode == WARN ]] && level=4 # of syslog: an error, or a warning
#include nap.sh
# shellcheck disable=SC2016 # the text of a program
program='
# An address is text: the digit of its family, then its bits. So comparing text compares addresses, in every awk.
function bits_of(address,   half, head, tail, part) {
  if (address ~ /:/) {
    split(address, half, "::"); head = groups(half[1]); tail = groups(half[2])
    return "6" head substr(ZEROS, 1, 128 - length(head tail)) tail
  }
  split(address, part, "."); return "4" byte[part[1]] byte[part[2]] byte[part[3]] byte[part[4]]
}
function groups(text,   part, i, n, digits, all) {
  n = split(text, part, ":")
  for (i = 1; i <= n; i++) {
    digits = substr("0000" part[i], length(part[i]) + 1)
    all = all (part[i] ~ /[.]/ ? substr(bits_of(part[i]), 2) : octet[substr(digits, 1, 2)] octet[substr(digits, 3)])
  }
  return all
}
function spelled(bits,   i, group, address) {
  for (i = 2; bits ~ /^4/ && i < 34; i += 8) address = address "." number[substr(bits, i, 8)]
  for (i = 2; bits ~ /^6/ && i < 130; i += 16) {
    group = digits[substr(bits, i, 8)] digits[substr(bits, i + 8, 8)]; sub(/^0+/, "", group)
    address = address ":" (group == "" ? 0 : group)
  }
  sub(/:0(:0)+$/, "::", address) || sub(/(:0)+:/, "::", address)
  return address ~ /^::/ ? address : substr(address, 2)
}
# The next address, and the one before; empty if there is no such address.
function after(bits) { if (match(bits, /01*$/)) return substr(bits, 1, RSTART - 1) "1" substr(ZEROS, 1, RLENGTH - 1) }
function before(bits) { if (match(bits, /10*$/)) return substr(bits, 1, RSTART - 1) "0" substr(ONES, 1, RLENGTH - 1) }
function read_prefix(text,   part, width) { # sets its first and its last address, and its size in bits
  split(text != "default" ? text : family == 6 ? "::/0" : "0.0.0.0/0", part, "/")
  first = last = bits_of(part[1]); width = length(first) - 1; size = part[2] == "" ? width : part[2] + 0
  if (size == width) return
  first = substr(first, 1, size + 1) substr(ZEROS, 1, width - size)
  last = substr(first, 1, size + 1) substr(ONES, 1, width - size)
}
BEGIN {
  ZEROS = sprintf("%0128d", 0); ONES = ZEROS; gsub(0, 1, ONES)
  split("0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1010 1011 1100 1101 1110 1111", half, " ")
  for (i = 0; i < 256; i++) {
    bits = half[int(i / 16) + 1] half[i % 16 + 1]
    byte[i] = octet[sprintf("%02x", i)] = bits; number[bits] = i; digits[bits] = sprintf("%02x", i)
  }
  ANY = bits_of("0.0.0.0"); BROADCAST = bits_of("255.255.255.255")
  n = split("1.1.1.1 100.0.0.1 128.0.0.1 192.0.2.1 203.0.113.1 223.255.255.1 2001:db8::1 3fff::1 8000::1", spare, " ")
  for (; n; n--) is_spare[bits_of(spare[n])] = 1
  split("unicast local broadcast anycast multicast blackhole unreachable prohibit throw", type_name, " ")
  kind["Network is unreachable"] = kind["Operation not supported"] = "no-route" # the second: without IPv6
  kind["No route to host"] = "unreachable"; kind["Invalid argument"] = "blackhole"
  kind["Permission denied"] = "prohibit"
}
function joined(list, separator, item) { return list (list == "" ? "" : separator) item }

# --- Input: the settings; then links, rules and routes as `ip` lists them; then the places and the answers there
$1 == "setting" { read_setting(); next }
$1 == "places" || $1 == "answers" || $1 == "end" { section = $1; next }
section == "places" { if (sub(/^.+#/, "")) { place[++places] = $0; at[$0] = places }; next }
# Answers come in the order of the questions. A failure has two lines: the reason, and the number of the question.
section == "answers" && /^[0-9]/ { given[++givens] = $0; next }
section == "answers" && sub(/^Command failed .*:/, "") { failure[$0 + 0] = reason; next }
section == "answers" { reason = $0; sub(/^[^:]*: /, "", reason); next }
# There can be 100,000 routes: in the second part, the answers are enough for most.
$1 == 1 && part == "answers" && $2 != "default" && $3 != "from" && !suppresses { next }
/^[1-9] / && match($0, / table [0-9]+/) {
  if ($2 == "default") seen[family] = joined(seen[family], ", ", listed($0))
  # A table that no rule looks up says nothing.
  if (looks["l3mdev"] || looks[family substr($0, RSTART + 6, RLENGTH - 6)]) read_route()
  next
}
$1 == "family" { family = $2; next }
/^[0-9]+:\t/ { read_rule(); next }
/^[0-9]+: / { read_link(); next }
$1 == "inet6" && $2 == "all" { forwards = $4 == "on" }
function read_setting(   i, word) {
  if ($2 == "device") { expect(4, $3); expect(6, $3); configured = 1 }
  for (i = 3; i <= NF; i++) {
    split($i, word, "/")
    if ($2 == "allow") { allow[++allows] = glob(word[1]); allow_kind[allows] = word[2] }
    if ($2 == "protocols") protocol[word[1]] = word[2]
    # Refusing routes of a type and protocol are from a CNI if there is this device: any, or those to single addresses.
    if ($2 == "pods") { cni[++cnis] = word[1] " " word[2]; cni_dev[cnis] = glob(word[3]); is_single[cnis] = word[4] }
  }
  if ($2 == "cidr") {
    read_prefix($3); cidr[++cidrs] = $3; to[cidrs] = last; asked[substr(first, 1, 1)] = 1
    from[cidrs] = first == ANY ? after(ANY) : first # 0.0.0.0 is this host, and cannot be asked about
  }
}
function glob(text) { gsub(/[.]/, "[.]", text); gsub(/[*]/, ".*", text); gsub(/[?]/, ".", text); return "^" text "$" }
function expect(family, dev) { if (!is_expected[family, dev]++) expected[family] = joined(expected[family], ", ", dev) }
function read_link(   dev, piece, word) {
  dev = $2; sub(/[@:].*/, "", dev); is_up[dev] = $3 ~ /[<,]UP[,>]/
  if (match($0, / group [0-9]+/)) group[dev] = substr($0, RSTART + 7, RLENGTH - 7)
  split($0, piece, /\\ +/); is_fabric[dev] = piece[2] ~ /^link\/(\[32\]|infiniband)/ # -o joins lines by a backslash
  split(piece[3], word, " "); dev_kind[dev] = word[1]
}
function is_judged(begin, end,   c) { # mostly by the CIDR of the last time, because routes are sorted
  for (c = 0; c <= cidrs; c++) if (from[c] <= end && begin <= to[c]) { from[0] = from[c]; to[0] = to[c]; return 1 }
}
function cut(   behind) { # at the first address of a prefix, and at the one behind it
  if (is_judged(first, first)) wanted[first]
  if ((behind = after(last)) && is_judged(behind, behind)) wanted[behind]
}
# Reads a rule. It selects all packets that are judged (UDP of root without a mark); or perhaps some, because their
# source is not known yet, and masks are not computed; or none, and is forgotten.
function read_rule(   n, i, r, word, key, share, selected, is_not, only) {
  n = split($0, word, " "); read_prefix("default"); share = 2; has_rules[family] = 1
  r = rules + 1; rule[r] = $0; delete jump[r]; refuses[r] = table[r] = is_for[r] = holds_back[r] = only = ""
  for (i = 2; i <= n; i++) {
    key = word[i]; if (key == "not") is_not = 1
    if (key == "[unresolved]") delete jump[r]
    if (key ~ /^[68]$/) refuses[r] = type_name[key] # not 7: Linux answers as if there were no route
    if (key ~ /^(not|nop|\[unresolved\]|\[detached\]|[678])$/) continue
    i++; if (key == "to") { read_prefix(word[i]); cut(); is_for[r] = 1 }
    else if (key == "lookup") { table[r] = word[i]; looks[word[i] ~ /^[0-9]/ ? family " " word[i] : "l3mdev"] = 1 }
    else if (key == "goto") jump[r] = word[i]; else if (key == "suppress_ifgroup") only = word[i]
    else if (key == "suppress_prefixlength") holds_back[r] = "default"
    else if (key ~ /^(from|fwmark|iif|oif|uidrange|ipproto|sport|dport|tos|dsfield|dscp|tun_id|flowlabel)$/) {
      if (key word[i] ~ /^(fromall|iiflo)$/) continue
      selected = selected " " key " " word[i]
      if (key word[i] !~ /^(ipprotoipproto-17$|uidrange0-|fwmark0\/)/)
        share = share && key word[i] ~ /^(from|fwmark.*\/|flowlabel|dscp)/
    } else if (key !~ /^(realms|proto)$/) uncertain = "this check does not know what a rule means: " $0
  }
  if (selected) leave_out("rule " $1 + 0 (family == 6 ? " of IPv6" : "") " (" substr(selected, 2) ")")
  if (is_not && !share) { read_prefix("default"); share = 2; is_not = is_for[r] = 0 }
  if (is_not ? share == 2 && !is_for[r] : !share) return
  rules = r; is_inverted[r] = is_not; picks[r] = share; rule_first[r] = first; rule_last[r] = last
  if (!holds_back[r]) holds_back[r] = only
  if (family == 6 && only != "") suppresses = suppressed[table[r], only] = "rule " $1 + 0 " of IPv6 (suppress_ifgroup)"
}
function leave_out(packets) { if (!left_out[packets]++) unjudged = joined(unjudged, "; ", packets) }
function read_route(   i, hits) { # only default routes and those in the expected CIDRs matter
  read_prefix($2); if (size && !is_judged(first, last)) return
  if (part == "places") { if (size) { cut(); if (first in wanted) wanted[first] = $2 }; return }
  if ($3 == "from") { leave_out("packets from " $4); has_sources = 1 }
  if ($3 ~ /^(from|tos)$/) return
  read_words($0)
  if ($1 > 5) {
    refusal[++refusals] = $0; refusal_type[refusals] = type_name[$1]; refusal_table[refusals] = has["table"]
    refusal_size[refusals] = size; refusal_first[refusals] = first; refusal_last[refusals] = last
  }
  # For such a rule, IPv6 chooses a next hop for each address: some are suppressed, and others are not.
  for (i = 1; i <= legs; i++) hits += (has["table"], group[leg_dev[i]]) in suppressed
  if (suppresses && $1 == 1 && (hits < legs ? hits : !legs))
    uncertain = suppresses " can treat each address differently: " $0
  if (size || $1 !~ /^[16789]$/) return
  default_route[++defaults] = $0; default_rank[defaults] = rank()
}
# Sets `has` and the next hops of a route. A device name can be any of these words, so words are read in pairs.
function read_words(line,   word, n, i) {
  gsub(/\\\t/, " ", line); split("", has); legs = 0; n = split(line, word, " ") # -o joins lines by \ and a tab
  for (i = 3; i <= n; i++) {
    if (word[i] == "nexthop" || (!legs && word[i] ~ /^(via|dev)$/)) {
      legs++; leg_dev[legs] = leg_via[legs] = leg_dead[legs] = leg_lost[legs] = ""
    }
    if (word[i] == "via") { if (word[i + 1] == "inet6") i++; leg_via[legs] = word[++i] }
    else if (word[i] == "dev") leg_dev[legs] = word[++i]
    else if (word[i] == "dead") leg_dead[legs] = 1; else if (word[i] == "linkdown") leg_lost[legs] = 1
    else if (word[i] ~ /^(table|proto|metric|pref)$/ && !(word[i] in has)) { has[word[i]] = word[i + 1]; i++ }
  }
}
function rank() { return family " " has["table"] " " has["metric"] " " has["pref"] }

# --- The rules as a plain packet meets them: only to tell which one of several routes Linux means
function selects(r, address,   share) { # how many of the packets to it: 2 all, 1 perhaps some, 0 none
  share = (rule_first[r] <= address && address <= rule_last[r]) * picks[r]; return is_inverted[r] ? 2 - share : share
}
# Sets the steps of a packet to an address: the rules that may select it, and whether it surely comes to each.
function walk(address,   r, share, place, is_certain) {
  steps = place = 0; is_certain = 1
  for (r = 1; r <= rules; r++) {
    if (rule_first[r] !~ "^" family || rule[r] + 0 < place || !(share = selects(r, address))) continue
    if (!(r in jump)) { step[++steps] = r; is_sure[steps] = is_certain && share == 2 }
    else if (share == 2) place = jump[r]
    else is_certain = 0
  }
}

# --- The expected devices, if none are configured
# Those of the default route that Linux uses for an address that no rule names, in an expected CIDR only if rules name
# all others. Where longer prefixes hide it, or it leaves by InfiniBand, it is the next in that table, or in later ones.
function learn(   i, n, own, usable, line, near, begin) {
  for (own = 0; own < 2 && !usable; own++) for (n = 1; n <= places && !line; n++) {
    if (place[n] !~ "^" family || (place[n] in is_spare) == own || is_named(place[n])) continue
    usable = 1; if (answer[n] !~ /^1 /) continue
    read_words(answer[n]); if (answer[n] ~ /^1 default / && leads_out()) line = answer[n]
    else if (!near) { near = place[n]; begin = has["table"] }
  }
  if (!line && near) for (walk(near); ++i <= steps && !line;) {
    if (table[step[i]] == begin) begin = ""
    if (begin == "") line = first_default(step[i], is_sure[i])
  }
  if (line !~ /^1 /) return
  i = 0; for (read_turns(line); ++i <= legs;) if (!is_fabric[leg_dev[i]]) expect(family, leg_dev[i])
  if (rivals > 1) doubt("IPv" family " default routes compete: Linux uses " rival_routes \
    "; name the right devices in routeOverlap.expectedDevs, or give one route another metric")
}
function is_named(address,   r) {
  for (r = 1; r <= rules; r++) if (is_for[r] && rule_first[r] ~ "^" family)
    if ((rule_first[r] <= address && address <= rule_last[r]) != (is_inverted[r] && table[r] == "")) return 1
}
function leads_out(   i) { for (i = 1; i <= legs; i++) if (!leg_dead[i] && !is_fabric[leg_dev[i]]) return 1 }
# The default route in the table of a rule that does not suppress it; or some text, if none can be used.
function first_default(r, is_sure,   n, i, best, metric, worth, most) {
  for (n = 1; n <= defaults; n++) if (index(default_rank[n], family " " table[r] " ") == 1) {
    read_words(default_route[n]); worth = index("low medium high", has["pref"])
    if ((legs && !leads_out()) || (best && (metric != has["metric"] || worth <= most))) continue
    best = default_route[n]; metric = has["metric"]; most = worth
  }
  if (best ~ /^9 /) return # a throw: Linux goes on with the next rule
  for (read_words(best); legs; legs--) if (holds_back[r] == "default" || holds_back[r] == group[leg_dev[legs]]) return
  return best && !is_sure ? "unsure" : best
}
# Reads a default route with the next hops of those that Linux takes in turn with it: of its table, metric, preference.
# It has a gateway; in IPv4 the first of each, in IPv6 all if the host does not forward. Those by other devices compete.
function read_turns(line,   n, i, same, has_turns, devs, met, all) {
  read_words(line); same = rank(); has_turns = leg_via[1] && (family == 4 ? legs == 1 : !forwards); rivals = 0
  for (n = 1; n <= defaults; n++) if (default_rank[n] == same && default_route[n] ~ /^1 /) {
    read_words(default_route[n]); devs = ""
    for (i = 1; i <= legs; i++) if (!leg_dead[i] && !leg_lost[i]) devs = devs " " leg_dev[i]
    if (devs && !(devs in met)) {
      met[devs]; rivals += 1 + (has["proto"] == 9 && devs ~ / .* /)
      rival_routes = joined(rivals > 1 ? rival_routes : "", " or ", listed(default_route[n]))
    }
    if (family == 4) legs = leg_via[1] != ""
    for (i = 1; i <= legs && has_turns; i++) all = all " nexthop dev " leg_dev[i]
  }
  read_words(all ? "1 default" all : line)
}
function doubt(text) { doubts++; print "note", text }

# --- What Linux does with the packets to one place
# Sets `what`, empty if all is well: what is wrong, in words, and the prefix of the deciding route of table main.
function decide(n,   i, type, devs, by, used, met, lost, words) {
  what = is_own = ""; if (place[n] ~ /^(41110|611111111)/) return # multicast
  if (n in failure) {
    $0 = ""; type = kind[failure[n]]; if (type != "no-route" && is_for_pods(place[n], type)) return
    by = type == "no-route" ? "has no IPv" family " route" : "is refused by [" named() "]"
    what = type SUBSEP by "; expected via " expected[family] SUBSEP halved(); return
  }
  # Of a hundred thousand answers, most differ only in the prefix: those that are right are looked at once.
  words = family answer[n]; sub(/^.1 [^d][^ ]*/, "", words); if (words in is_right && place[n] != BROADCAST) return
  $0 = answer[n]; read_prefix($2)
  is_own = $1 == 2 || ($1 ~ /^[345]$/ && first == last) || place[n] == BROADCAST; if (is_own) return
  by = named(); if (!size && family == 4) read_turns($0)
  if (!legs) give_up("the kernel names no device for this route; set net.ipv4.nexthop_compat_mode to 1: " $0)
  for (lost = i = 1; i <= legs; i++) { # an IPv4 next hop without a carrier may get packets, even if listed as dead
    if (leg_dead[i] && (family == 6 || !is_up[leg_dev[i]])) continue
    used = 1; if (!leg_lost[i]) lost = 0
    if ((family, leg_dev[i]) in is_expected || is_allowed(leg_dev[i]) || met[leg_dev[i]]++) continue
    devs = joined(devs, ", ", leg_dev[i])
  }
  if (used && !devs) { if (size) is_right[words] = 1; return }
  by = "routes via " (used ? devs : "an unknown device") " [" by (lost ? " linkdown" : "") "]"
  what = "overlap" SUBSEP by ", expected " expected[family] SUBSEP halved()
}
function is_allowed(dev,   i) {
  for (i = 1; i <= allows; i++) if (dev ~ allow[i] && (!allow_kind[i] || allow_kind[i] == dev_kind[dev])) return 1
}
function named(   proto) {
  if (!/^[1-9] /) return $0 ? "rule " $1 + 0 : "a rule"
  read_words($0); proto = has["proto"] in protocol ? protocol[has["proto"]] : has["proto"]
  return ($1 == 1 ? "" : type_name[$1] " ") $2 " proto " proto (has["table"] == 254 ? "" : " table " has["table"])
}
function listed(line,   type) {
  type = substr(line, 1, 1); sub(/ +$/, "", line); return "[" (type == 1 ? "" : type_name[type] " ") substr(line, 3) "]"
}
function halved() { return / table 254 / && $2 ~ /\// ? $2 : "" }
# Whether an address is refused for being in a pod block. Linux does not say what refuses it: a rule can, or in a table
# the longest prefix, or in IPv6 another, if there are routes for some senders. All that a packet may come to before it
# surely ends, as in table main, have to be pod blocks; one that is not is left in $0.
function is_for_pods(address, type,   s, r, i, longest, is_found) {
  for (walk(address); ++s <= steps;) {
    r = step[s]; longest = 0; if (refuses[r] == type) { $0 = rule[r]; return 0 }
    for (i = 1; i <= refusals; i++)
      if (refusal_table[i] == table[r] && refusal_first[i] <= address && address <= refusal_last[i]) {
        if (!longest || refusal_size[i] > refusal_size[longest]) longest = i
        if (has_sources && refusal_type[i] == type && !is_block(refusal[i])) return 0
      }
    if (refusal_type[longest] != type) continue
    if (!is_block(refusal[longest])) return 0
    is_found = 1; if (is_sure[s] && table[r] == 254 && !has_sources) return 1
  }
  return is_found
}
function is_block(line) { $0 = line; if (!(line in is_pods)) is_pods[line] = is_pod_block(); return is_pods[line] }
# Whether $0 is for a pod block: a part of an expected CIDR, and as a CNI installs it, or with the route of a pod in it.
function is_pod_block(   c, i, n, dev, in_table) {
  read_prefix($2); read_words($0); in_table = has["table"]
  for (c = 1; c <= cidrs; c++) if (from[c] <= first && last <= to[c] && from[c] to[c] != first last) break
  for (i = 1; c <= cidrs && i <= cnis; i++) if (cni[i] == $1 " " has["proto"] && (!is_single[i] || first == last))
    for (dev in is_up) if (dev ~ cni_dev[i]) return 1
  for (n = at[first]; c <= cidrs && n <= places && place[n] <= last; n++) if (answer[n] ~ /^1 /) {
    read_words(answer[n]); if (has["table"] != in_table || !legs) continue
    for (i = legs; i && is_allowed(leg_dev[i]); i--) ; if (!i) return 1
  }
  return 0
}
function give_up(text) { print "failed " text; exit }
# --- Findings: ranges of one expected CIDR with one `what`; a single address of this host may be part of a range
function judge(c,   n, was, begin) {
  for (n = at[from[c]]; n <= places && place[n] <= to[c]; n++) {
    decide(n); if (what == was) continue
    if (is_own && place[n] == (n < places && place[n + 1] <= to[c] ? before(place[n + 1]) : to[c])) continue
    if (was) report(c, begin, before(place[n]), was)
    begin = place[n]; was = what
  }
  if (was) report(c, begin, to[c], was)
}
function report(c, begin, end, what,   part, half) {
  split(what, part, SUBSEP); wrongs++; if (!told[c]++) remedy = remedy " " cidr[c]
  print "wrong", toupper(part[1]) ": expected CIDR " cidr[c] " (" spelled(begin) \
    (begin == end ? "" : "–" spelled(end)) ") " part[2]
  if (example || !part[3]) return
  read_prefix(part[3]); half = spelled(first) "/" size + 1; read_prefix(half)
  example = half " and " spelled(after(last)) "/" size " win over " part[3]
}
function examine(   c, i, n, dev, had, ready) { # one family
  if (!configured) learn()
  for (n = 1; n <= defaults; n++) if (default_rank[n] ~ "^" family)
    for (read_words(default_route[n]); legs; legs--) if ((family, leg_dev[legs]) in is_expected) ready = 1
  n = split(expected[family], dev, ", "); for (i = 1; i <= n; i++) if (!is_up[dev[i]]) ready = 0
  had = wrongs; for (c = 1; c <= cidrs && n; c++) if (substr(from[c], 1, 1) == family) judge(c)
  if (!n && ++wrongs) print "wrong", "NO-DEFAULT-ROUTE: the expected devices are those of the IPv" family \
    " default route, and " (waited + 0 ? "none appeared within " waited " s" : "there is none") \
    "; last seen: " (seen[family] ? seen[family] : "no default route") (looks[family " 254"] ? "" : \
    "; no rule looks up table main: run: ip " (family == 6 ? "-6 " : "") "rule add pref 32766 lookup main")
  if (!final && !ready && wrongs > had) { print "not yet"; exit } # what is missing may still appear
  leaving = !leaving || leaving == expected[family] ? expected[family] : \
    leaving " (IPv4) and " expected[family] " (IPv6)"
}

# --- Output: each line begins with what it is; the last one is the verdict
END {
  if (section != "end") exit
  if (part == "places") {
    for (c = 1; c <= cidrs; c++) wanted[from[c]]
    for (n = split("224.0.0.0/4 255.255.255.255 ff00::/8", special, " "); n; n--) { read_prefix(special[n]); cut() }
    for (address in is_spare) if (substr(address, 1, 1) in asked) wanted[address]
    for (address in wanted) { # UDP, which only IPv4 assumes; `ip` skips what is behind #
      text = wanted[address] ? wanted[address] : spelled(address); sub("/.*", "", text)
      print "route get fibmatch " text " ipproto 17 #" address
    }
    print "#z"; exit # sorted behind all addresses: the list is complete
  }
  for (n = 1; n <= places; n++) {
    if (!(n in failure) && used == givens) failure[n] = "no answer"
    if (!(n in failure)) answer[n] = given[++used]
    else if (!(failure[n] in kind)) give_up("the kernel did not answer for " spelled(place[n]) ": " failure[n])
  }
  if (uncertain) give_up(uncertain)
  for (family = 4; family <= 6; family += 2) if (family in asked) {
    examine()
    if (has_rules[family] && !looks[family " 255"])
      doubt("no rule looks up table local, so this host does not answer on its own addresses; run: ip " \
        (family == 6 ? "-6 " : "") "rule add pref 0 lookup local")
  }
  if (remedy)
    print "action", "ACTION: run: hostrouting repair" remedy (example ? "; for example, routes to " example : "")
  if (unjudged) print "note", "not judged are packets that these select: " unjudged "; for these run: hostrouting check"
  print "verdict", remedy ? "overlap" : wrongs ? "no-default-route" : doubts ? "undecided" : "ok", leaving
}
'
say() { printf '<%s>check-route-overlap: %s\n' "$level" "$1" >&2; }
complain() { level=4 say "$1"; }
finish() { finished=1; [[ $mode == WARN ]] && exit 0; exit "$1"; }

# Sets `listing` to the rules and routes, and before those of the first family what else is given. IPv6 routes are
# without the seconds until they expire, which differ in every look; Linux skips a route that has expired.
look() {
  local family text && listing=''
  for family in $families; do
    text='' # a kernel without IPv6 does not have this file
    [[ $family == 6 && ! -e /proc/self/net/if_inet6 ]] || text=$(list "$@") || { listing=$text && return 1; }
    listing+="family $family"$'\n'$text$'\n'
    set --
  done
}
list() {
  set -- "$@" 'rule show' 'route show table all'
  [[ $family == 6 ]] || exec ip -4 -N -d -o -batch - 2>&1 < <(printf '%s\n' "$@")
  printf '%s\n' "$@" 'netconf show' | ip -6 -N -d -o -batch - 2>&1 |
    sed -E '/ expires (0|-[0-9]+)sec/d; s/ expires [0-9]+sec//'
}
judge() { # any program may be killed, so each part needs the end of what it reads
  exec "$awk" -v part="$1" -v waited="$wait" -v final="$last" "$program" \
    < <(printf '%s\n' "${configuration[@]/#/setting }" "${@:2}" end)
}
# Sets `told` to the result. Fails if it may change: something is missing, or the tables changed meanwhile.
check() {
  local seen tables places answers
  look 'link show' || { told=("failed ip failed: ${listing##*$'\n'}") && return; }
  seen=$listing told=('failed the routes kept changing while they were read')
  if [[ $seen == *'Dump was interrupted'* ]]; then [[ $last ]]; return; fi
  tables=${seen//$'\n\tnh_info'/ nh_info} # the next hops of a nexthop object, on a line of their own
  places=$(exec sort -u -t '#' -k 2 < <(judge places "$tables"))
  told=('failed the list of addresses to look up is incomplete: awk or sort failed')
  [[ $places == *'#z' ]] || return 0
  answers=$(exec ip -N -d -o -force -batch - 2>&1 < <(printf '%s\n' "$places"))
  mapfile -t told < <(judge answers "$tables" places "$places" answers "${answers//$'\n\tnh_info'/ nh_info}")
  [[ ${told[*]} != *'not yet' ]] || return
  [[ $last ]] && return
  look && listing=${listing#*$'\n'} && [[ ${seen:${#seen}-${#listing}} == "$listing" ]] # without the links
}

# Writes a file, a marker complete or not at all. Of what a failed command said, the last words are the reason.
leave() {
  local why path=$directory/route-overlap.$1 new=$directory/route-overlap.new
  [[ $1 != npd ]] || new=$path # who reads it knows that it may be incomplete
  why=$(
    exec 2>&1
    [[ ! -e $new && ! -L $new ]] || rm -f "$new" && printf '%s\n' "${@:2}" >"$new" || exit
    [[ $new == "$path" ]] || exec mv -fT "$new" "$path"
  ) && return
  rm -f "$new" 2>/dev/null
  complain "cannot write $path: ${why##*: }"
}

main() {
  local told=() why old=() listing last='' tries=0 waited=0 kind text now verdict='' wrong=() notes=() action=()
  local -A status=([ok]=0 [undecided]=3)
  [[ -d $directory ]] || why=$(mkdir -p "$directory" 2>&1) || complain "cannot create $directory: ${why##*: }"
  for why in "$directory"/route-overlap.{new,json,npd,detected,ok}; do [[ -e $why || -L $why ]] && old+=("$why"); done
  ((${#old[@]} == 0)) || why=$(exec rm -f "${old[@]}" 2>&1) || # that of the command is among them
    complain "a file of an earlier check stays: ${why##*$'\n'}"
  trap 'say "stopped before there was a verdict"; finished=1; exit 143' TERM
  until ((waited >= wait * 5)) && last=last; check; do
    if [[ ${told[*]} == *'not yet' ]]; then nap; elif ((++tries == 3)); then last=last; fi
  done
  for text in "${told[@]}"; do
    kind=${text%% *} text=${text#* }
    case $kind in
      wrong) wrong+=("$text") ;;
      action) action=("$text") ;;
      note) notes+=("$text") ;;
      verdict) verdict=$text ;;
      failed) say "$text" && finish 1 ;;
    esac
  done
  [[ $verdict ]] || { say 'awk ended without a verdict' && finish 1; }
  # The journal comes first, because the disk may be full; the marker last: when it exists, everything is written.
  ((${#wrong[@]} <= 20)) || action=("and $((${#wrong[@]} - 20)) more; all are in route-overlap.detected" "${action[@]}")
  for text in "${wrong[@]:0:20}" "${action[@]}"; do printf '<%s>%s\n' "$level" "$text" >&2; done
  for text in "${notes[@]}"; do printf '<4>%s\n' "$text" >&2; done
  kind=${verdict%% *} text="every expected CIDR leaves by ${verdict#* }"
  ((${#wrong[@]})) || level=6 say "$kind: $text"
  # What the plugin of node-problem-detector prints for a day: an exit status, and a sentence in ASCII.
  TZ=UTC printf -v now '%(%FT%TZ)T'
  text="${status[$kind]-1} ${wrong[0]-${kind^^}: $text}; for more, run on the host: hostrouting check; checked at $now"
  text=${text//–/-}
  leave npd "$((EPOCHSECONDS + 86400)) ${text//[^ -~]/?}"
  case $kind in
    overlap) leave detected "${wrong[@]}"; finish 1 ;;
    no-default-route) leave detected no-default-route; finish 1 ;;
    *) leave ok "$kind" "${notes[@]}"; finish 0 ;;
  esac
}
main

