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

set -uo pipefail
umask 022
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
mode=${configuration[0]#* } wait=${configuration[1]#* } families=${configuration[3]#* }
directory=${RUNTIME_DIRECTORY:-${configuration[2]#* }}
[[ ${1-} ]] && ((wait > $1)) && wait=$1 # the caller may have less time
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
  if (bits ~ /^4/) for (i = 2; i < 34; i += 8) address = address "." number[substr(bits, i, 8)]
  else {
    for (i = 2; i < 130; i += 16) {
      group = digits[substr(bits, i, 8)] digits[substr(bits, i + 8, 8)]; sub(/^0+/, "", group)
      address = address ":" (group == "" ? 0 : group)
    }
    sub(/:0(:0)+$/, "::", address) || sub(/(:0)+:/, "::", address)
  }
  return address ~ /^::/ ? address : substr(address, 2)
}
# The next address, and the one before; empty if there is no such address.
function after(bits) { if (match(bits, /01*$/)) return substr(bits, 1, RSTART - 1) "1" substr(ZEROS, 1, RLENGTH - 1) }
function before(bits) { if (match(bits, /10*$/)) return substr(bits, 1, RSTART - 1) "0" substr(ONES, 1, RLENGTH - 1) }
# Sets the first and the last address of a prefix, and its size in bits.
function read_prefix(text,   part, width) {
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
  for (; n; n--) is_spare[bits_of(spare[n])] = 1 # what is asked about elsewhere
  split("unicast local broadcast anycast multicast blackhole unreachable prohibit", type_name, " ")
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
# A table that no rule looks up says nothing.
/^[1-9] / && match($0, / table [0-9]+/) {
  if ($2 == "default") seen[family] = joined(seen[family], ", ", listed($0))
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
function glob(pattern) {
  gsub(/[.]/, "[.]", pattern); gsub(/[*]/, ".*", pattern); gsub(/[?]/, ".", pattern); return "^" pattern "$"
}
function expect(family, dev) {
  if (!is_expected[family, dev]++) expected[family] = joined(expected[family], ", ", dev)
}
function read_link(   dev, piece, word) {
  dev = $2; sub(/[@:].*/, "", dev); is_up[dev] = $3 ~ /[<,]UP[,>]/
  if (match($0, / group [0-9]+/)) group[dev] = substr($0, RSTART + 7, RLENGTH - 7)
  split($0, piece, /\\ +/); is_fabric[dev] = piece[2] ~ /^link\/(\[32\]|infiniband)/ # -o joins lines by a backslash
  split(piece[3], word, " "); dev_kind[dev] = word[1]
}
# Whether an address of this range is in an expected CIDR: mostly in that of the last time, because routes are sorted.
function is_judged(begin, end,   c) {
  for (c = 0; c <= cidrs; c++) if (from[c] <= end && begin <= to[c]) { from[0] = from[c]; to[0] = to[c]; return 1 }
}
# The answer can change at the first address of a prefix, and at the one behind it.
function cut(   behind) {
  if (is_judged(first, first)) wanted[first]
  if ((behind = after(last)) && is_judged(behind, behind)) wanted[behind]
}
# Linux applies the rules. Here a rule is a prefix, a table, and perhaps packets that are not judged.
function read_rule(   n, i, word, selected) {
  n = split($0, word, " "); read_prefix("default"); rules[family] = 1
  for (i = 2; i <= n; i++) {
    # Not type 7 (unreachable): Linux answers such a lookup as if there were no route.
    if (word[i] ~ /^[68]$/) refuse(word[i], "rule")
    if (word[i] ~ /^(not|nop|\[unresolved\]|\[detached\]|[678])$/) continue
    if (word[i] == "to") {
      read_prefix(word[i + 1]); cut()
      aside[++asides] = first; aside_last[asides] = last; is_rest[asides] = $2 == "not" && !/ lookup /
      if ($2 == "not") read_prefix("default")
    }
    if (word[i] == "suppress_ifgroup" && family == 6)
      suppresses = suppressed[word[i + 1]] = "rule " $1 + 0 " of IPv6 (suppress_ifgroup)"
    if (word[i] == "lookup") looks[word[i + 1] ~ /^[0-9]/ ? family " " word[i + 1] : "l3mdev"] = 1
    if (word[i] ~ /^suppress_/) is_partial[family " " word[i - 1]]
    if (word[i] ~ /^(from|fwmark|iif|oif|uidrange|ipproto|sport|dport|tos|dsfield|dscp|tun_id|flowlabel)$/) {
      if (word[i] word[i + 1] !~ /^(fromall|iiflo)$/) selected = selected " " word[i] " " word[i + 1]
    } else if (word[i] !~ /^(to|lookup|goto|suppress_prefixlength|suppress_ifgroup|realms|proto)$/)
      uncertain = "this check does not know what a rule means: " $0
    i++
  }
  if (selected) leave_out("rule " $1 + 0 (family == 6 ? " of IPv6" : "") " (" substr(selected, 2) ")")
}
function leave_out(packets) { if (!left_out[packets]++) unjudged = joined(unjudged, "; ", packets) }
function refuse(type, table) {
  refusal[++refusals] = $0; refusal_type[refusals] = type_name[type]; refusal_table[refusals] = table
  refusal_size[refusals] = size; refusal_first[refusals] = first; refusal_last[refusals] = last
}
# Only default routes and those in the expected CIDRs matter.
function read_route(   i) {
  read_prefix($2); if (size && !is_judged(first, last)) return
  if (part == "places") { if (size) { cut(); if (first in wanted) wanted[first] = $2 }; return }
  if ($3 == "from") leave_out("packets from " $4)
  if ($3 ~ /^(from|tos)$/) return
  read_words($0)
  if ($1 ~ /^[678]$/) refuse($1, has["table"])
  # For such a rule, IPv6 chooses a next hop for each address: some are suppressed, and others are not.
  if (suppresses && $1 == 1 && legs != 1) for (i = 0; i <= legs; i++) if (!legs || group[leg_dev[i]] in suppressed)
    uncertain = suppresses " can treat each address differently: " $0
  if (size) return
  if (!((family, has["table"]) in top) && !is_by_fabric()) top[family, has["table"]] = $1 == 1 ? $0 : ""
  if ($1 != 1) return
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
    else if (word[i] == "dead") leg_dead[legs] = 1
    else if (word[i] == "linkdown") leg_lost[legs] = 1
    else if (word[i] ~ /^(table|proto|metric|pref)$/ && !(word[i] in has)) { has[word[i]] = word[i + 1]; i++ }
  }
}
function is_by_fabric(   i) { for (i = 1; is_fabric[leg_dev[i]] && i <= legs; i++) ; return i > legs && legs }
function rank() { return family " " has["table"] " " has["metric"] " " has["pref"] }

# --- The expected devices, if none are configured
# Those of the default route that Linux uses for an address that no rule names. If longer prefixes hide it there, as
# those of a VPN do, or it leaves by InfiniBand, it is the first other one in the same table, if no rule suppresses any.
# The expected CIDRs themselves are asked about only if rules name all other addresses.
function learn(   i, n, own, line, other, usable) {
  for (own = 0; own < 2 && !usable; own++) for (n = 1; n <= places && !line; n++) {
    if (place[n] !~ "^" family || (place[n] in is_spare) == own || is_aside(place[n])) continue
    usable = 1; if (answer[n] !~ /^1 /) continue
    read_words(answer[n])
    if (answer[n] ~ /^1 default / && !is_by_fabric()) line = answer[n]
    else if (!other && !((family " " has["table"]) in is_partial)) other = top[family, has["table"]]
  }
  if (!line) line = other
  if (line) for (read_turns(line); ++i <= legs;) if (!is_fabric[leg_dev[i]]) expect(family, leg_dev[i])
  if (rivals > 1) doubt("IPv" family " default routes compete: Linux uses " rival_routes \
    "; name the right devices in routeOverlap.expectedDevs, or give one route another metric")
}
function is_aside(address,   i) {
  for (i = 1; i <= asides; i++)
    if (aside[i] ~ "^" family && (aside[i] <= address && address <= aside_last[i]) != is_rest[i]) return 1
}
# Reads a default route with the next hops of those that Linux takes in turn with it: they have its table, metric and
# preference. It has a gateway. IPv4 takes the first next hop of each. IPv6 takes all, on a host that does not forward.
# Those by different devices are rivals; in IPv6, Linux makes one route of those that several routers advertise.
function read_turns(line,   n, i, same, has_turns, devs, met, all) {
  read_words(line); same = rank(); has_turns = leg_via[1] && (family == 4 ? legs == 1 : !forwards); rivals = 0
  for (n = 1; n <= defaults; n++) if (default_rank[n] == same) {
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
# Sets `what`: what is wrong, the words of it, and the prefix of the deciding route of table main. It is empty where
# the packets leave as they should.
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
  by = named()
  if (!size && family == 4) read_turns($0)
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
# The route or rule in $0, without what nobody asks for at night; and a route as `ip` lists it.
function named(   proto) {
  if (!/^[1-9] /) return $0 ? "rule " $1 + 0 : "a rule"
  read_words($0); proto = has["proto"] in protocol ? protocol[has["proto"]] : has["proto"]
  return ($1 == 1 ? "" : type_name[$1] " ") $2 " proto " proto (has["table"] == 254 ? "" : " table " has["table"])
}
function listed(line,   type) {
  type = substr(line, 1, 1); sub(/ +$/, "", line); return "[" (type == 1 ? "" : type_name[type] " ") substr(line, 3) "]"
}
# The prefix of the route in $0, if it is in table main and has halves.
function halved() { return / table 254 / && $2 ~ /\// ? $2 : "" }
# Whether an address is refused for being in a pod block. Linux does not say what refuses it: each table can, with its
# longest prefix, and each rule. So all of these have to be pod blocks; one that is not is left in $0.
function is_for_pods(address, type,   i, table, longest) {
  for (i = 1; i <= refusals; i++) {
    if (refusal_first[i] > address || address > refusal_last[i] || refusal_type[i] != type) continue
    table = refusal_table[i]
    if (!(table in longest) || refusal_size[i] > refusal_size[longest[table]]) longest[table] = i
  }
  for (table in longest) {
    $0 = refusal[longest[table]]; if (!($0 in is_pods)) is_pods[$0] = is_pod_block()
    if (!is_pods[$0]) return 0
  }
  return $0 != ""
}
# Whether $0 is the route of a pod block of this host: a part of an expected CIDR, and as a CNI installs it, or with the
# route of a pod in it, by which Linux answers.
function is_pod_block(   c, i, n, dev, table) {
  if (!/^[678] /) return 0
  read_prefix($2); read_words($0); table = has["table"]
  for (c = 1; c <= cidrs; c++) if (from[c] <= first && last <= to[c] && from[c] to[c] != first last) break
  if (c > cidrs) return 0
  for (i = 1; i <= cnis; i++) if (cni[i] == $1 " " has["proto"] && (!is_single[i] || first == last))
    for (dev in is_up) if (dev ~ cni_dev[i]) return 1
  for (n = at[first]; n <= places && place[n] <= last; n++) if (answer[n] ~ /^1 /) {
    read_words(answer[n]); if (has["table"] != table || !legs) continue
    for (i = legs; i && is_allowed(leg_dev[i]); i--) ;
    if (!i) return 1
  }
  return 0
}
function give_up(text) { print "failed " text; exit }

# --- Findings: ranges of one expected CIDR with one `what`
# A single address of this host may be part of a range.
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
# Judges the expected CIDRs of one family.
function examine(   c, i, n, dev, had, ready) {
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
    n = split("224.0.0.0/4 255.255.255.255 ff00::/8", special, " ") # multicast and broadcast
    for (; n; n--) { read_prefix(special[n]); cut() }
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
    if (rules[family] && !looks[family " 255"])
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

list() { printf '%s\n' "${@:2}" 'rule show' 'route show table all' | ip -"$1" -N -d -o -batch - 2>&1; }
# Lists rules and routes, and before those of the first family what else is given. IPv6 routes are without the seconds
# until they expire, which differ in every look; Linux skips a route that has expired.
look() {
  local family
  for family in $families; do
    echo "family $family"
    [[ $family == 4 || -e /proc/self/net/if_inet6 ]] || continue # a kernel without IPv6 has no such file
    if [[ $family == 4 ]]; then
      list 4 "$@"
    else
      list 6 "$@" 'netconf show' | sed -E '/ expires (0|-[0-9]+)sec/d; s/ expires [0-9]+sec//'
    fi || return
    set --
  done
}
# Runs one part of the program. Any of these programs may be killed, so each part needs the end of what it reads.
judge() {
  exec "$awk" -v part="$1" -v waited="$wait" -v final="$last" "$program" \
    < <(printf '%s\n' "${configuration[@]/#/setting }" "${@:2}" end)
}
# Sets `told` to the result. Fails if it is not final: something is missing that may still appear, or the tables changed
# while they were read or the kernel was asked.
check() {
  local seen again tables places answers
  seen=$(look 'link show') || { told=("failed ip failed: ${seen##*$'\n'}") && return; }
  told=('failed the routes kept changing while they were read')
  if [[ $seen == *'Dump was interrupted'* ]]; then [[ $last ]]; return; fi
  tables=${seen//$'\n\tnh_info'/ nh_info} # the next hops of a nexthop object, on a line of their own
  places=$(judge places "$tables" | sort -u -t '#' -k 2)
  told=('failed the list of addresses to look up is incomplete: awk or sort failed')
  [[ $places == *'#z' ]] || return 0
  answers=$(exec ip -N -d -o -force -batch - 2>&1 < <(printf '%s\n' "$places"))
  mapfile -t told < <(judge answers "$tables" places "$places" answers "${answers//$'\n\tnh_info'/ nh_info}")
  [[ ${told[*]} == *'not yet' ]] && return 1
  [[ $last ]] && return
  again=$(look) || return
  again=${again#*$'\n'} # what follows the links
  [[ ${seen:${#seen}-${#again}} == "$again" ]]
}

# Writes a marker: complete, or not at all. Of what a failed command said, the last words are the reason.
leave() {
  local why new=$directory/route-overlap.new path=$directory/route-overlap.$1
  why=$(
    exec 2>&1
    [[ ! -e $new && ! -L $new ]] || rm -f "$new" && printf '%s\n' "${@:2}" >"$new" && mv -fT "$new" "$path"
  ) && return
  rm -f "$new" 2>/dev/null
  complain "cannot write $path: ${why##*: }"
}

main() {
  local told=() why last='' tries=0 waited=0 kind text now verdict='' wrong=() notes=() action=()
  local -A status=([ok]=0 [undecided]=3)
  [[ -d $directory ]] || why=$(mkdir -p "$directory" 2>&1) || complain "cannot create $directory: ${why##*: }"
  # The files of an earlier check; that of the command is among them.
  why=$(exec rm -f "$directory"/route-overlap.{new,json,npd,detected,ok} 2>&1) ||
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

