#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Checks that every address of the expected CIDRs leaves by an expected device. Written by hostrouting.
#
# Linux decides: it is asked with `ip route get`. Its answer can change only where the prefix of a route or of a rule
# starts, and right after one ends. So it is asked at these places, and each answer holds up to the next one. It is also
# asked about a few addresses elsewhere: the devices of the default route that it uses there are the expected ones.
# Exit status: 0, or 1 when the machine must not start. The journal and route-overlap.ok or .detected have the result.

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
say() { printf '<%s>check-route-overlap: %s\n' "$level" "$1" >&2; }
complain() { level=4 say "$1"; }
finish() { finished=1; [[ $mode == WARN ]] && exit 0; exit "$1"; }
# shellcheck disable=SC2016 # the text of a program
program='
# An address is text: the digit of its family, then all of its hexadecimal digits. So comparing text compares
# addresses, in every awk.
function hex(address,   half, head, tail, part) {
  if (address ~ /:/) {
    split(address, half, "::"); head = groups(half[1]); tail = groups(half[2])
    return "6" head substr(ZEROS, 1, 32 - length(head tail)) tail
  }
  split(address, part, "."); return "4" byte[part[1]] byte[part[2]] byte[part[3]] byte[part[4]]
}
function groups(text,   part, i, n, all) {
  n = split(text, part, ":")
  for (i = 1; i <= n; i++)
    all = all (part[i] ~ /[.]/ ? substr(hex(part[i]), 2) : substr("0000" part[i], length(part[i]) + 1))
  return all
}
function digit(text, i) { return index(DIGITS, substr(text, i, 1)) - 1 }
function spelled(text,   i, group, address) {
  if (text ~ /^4/) for (i = 2; i < 10; i += 2) address = address "." number[substr(text, i, 2)]
  else {
    for (i = 2; i < 34; i += 4) {
      group = substr(text, i, 4); sub(/^0+/, "", group); address = address ":" (group == "" ? 0 : group)
    }
    sub(/:0(:0)+$/, "::", address) || sub(/(:0)+:/, "::", address)
  }
  return address ~ /^::/ ? address : substr(address, 2)
}
# The next address, or with step -1 the one before; empty if there is no such address.
function beside(text, step,   i, value) {
  for (i = length(text); i > 1; i--) {
    value = digit(text, i) + step
    text = substr(text, 1, i - 1) substr(DIGITS, (value + 16) % 16 + 1, 1) substr(text, i + 1)
    if (value >= 0 && value < 16) return text
  }
}
# Sets the first and the last address of a prefix, and its bits.
function read_prefix(text,   part, whole, size, value) {
  split(text != "default" ? text : family == 6 ? "::/0" : "0.0.0.0/0", part, "/")
  first = last = hex(part[1]); bits = 4 * length(first) - 4
  if (part[2] == "" || part[2] + 0 == bits) return
  bits = part[2] + 0; whole = int(bits / 4) + 1; size = bits % 4 ? substr("842", bits % 4, 1) : 16
  value = digit(first, whole + 1); value -= value % size
  last = substr(substr(first, 1, whole) substr(DIGITS, value + size, 1) ONES, 1, length(first))
  first = substr(substr(first, 1, whole) substr(DIGITS, value + 1, 1) ZEROS, 1, length(first))
}

BEGIN {
  DIGITS = "0123456789abcdef"; ZEROS = "00000000000000000000000000000000"; ONES = ZEROS; gsub(0, "f", ONES)
  for (i = 0; i < 256; i++) { byte[i] = sprintf("%02x", i); number[byte[i]] = i }
  n = split("1.1.1.1 100.0.0.1 128.0.0.1 192.0.2.1 203.0.113.1 223.255.255.1 2001:db8::1 3fff::1 8000::1", spare, " ")
  for (; n; n--) is_spare[hex(spare[n])] = 1 # what is asked about elsewhere
  split("unicast local broadcast anycast multicast blackhole unreachable prohibit", type_name, " ")
  kind["Network is unreachable"] = kind["Operation not supported"] = "no-route" # the second: without IPv6
  kind["No route to host"] = "unreachable"; kind["Invalid argument"] = "blackhole"
  kind["Permission denied"] = "prohibit"
}
function joined(list, separator, item) { return list (list == "" ? "" : separator) item }

# --- Input: the settings, then rules, routes and devices as `ip` lists them.
$1 == "setting" { read_setting(); next }
$1 == "places" || $1 == "answers" || $1 == "end" { section = $1; next }
section == "places" { if (sub(/^.+#/, "")) { place[++places] = $0; at[$0] = places }; next }
# Answers come in the order of the questions. A failure has two lines: the reason, and the number of the question.
section == "answers" && /^[0-9]/ { given[++givens] = $0; next }
section == "answers" && sub(/^Command failed .*:/, "") { failure[$0 + 0] = reason; next }
section == "answers" { reason = $0; sub(/^[^:]*: /, "", reason); next }
# There can be 100,000 routes: in the second part, the answers are enough for most.
$1 == 1 && part == "answers" && $2 != "default" && $3 != "from" && !suppresses { next }
# The own addresses. If the first rule is not that for table local, Linux is asked whether it delivers packets for them.
/^2 [^ ]+ dev / && / table 255 proto 2 / && !/ dev lo / && !first_local[family] { read_prefix($2); is_home[first] = 1 }
# A table that no rule looks up says nothing.
/^[1-9] / && match($0, / table [0-9]+/) {
  if ($2 == "default") seen[family] = joined(seen[family], ", ", whole())
  if (looks["l3mdev"] || looks[family substr($0, RSTART + 6, RLENGTH - 6)]) read_route()
  next
}
$1 == "family" { family = $2; next }
/^[0-9]+:\t/ { read_rule(); next }
/^[0-9]+: / {
  sub(/[@:].*/, "", $2); is_up[$2] = $3 ~ /[<,]UP[,>]/
  is_fabric[$2] = $4 ~ /\[32\]|infiniband/; group[$2] = $5; dev_kind[$2] = $6; next
}
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
    from[cidrs] = first == "400000000" ? "400000001" : first # 0.0.0.0 is this host, and cannot be asked about
  }
}
function glob(pattern) {
  gsub(/[.]/, "[.]", pattern); gsub(/[*]/, ".*", pattern); gsub(/[?]/, ".", pattern); return "^" pattern "$"
}
function expect(family, dev) {
  if (!is_expected[family, dev]++) expected[family] = joined(expected[family], ", ", dev)
}
# Whether an address of this range is in an expected CIDR: mostly in that of the last time, because routes are sorted.
function is_judged(begin, end,   c) {
  for (c = 0; c <= cidrs; c++) if (from[c] <= end && begin <= to[c]) { from[0] = from[c]; to[0] = to[c]; return 1 }
}
# The answer can change at the first address of a prefix, and at the one behind it.
function cut(   behind) {
  if (is_judged(first, first)) wanted[first]
  if ((behind = beside(last, 1)) && is_judged(behind, behind)) wanted[behind]
}
# Linux applies the rules. Here a rule is a prefix, a table, and perhaps packets that are not judged.
function read_rule(   n, i, word, selected, needs_mark, is_for_others) {
  n = split($0, word, " "); first = family ZEROS; last = family ONES; bits = 0
  if (!rules[family]++) first_local[family] = /^[0-9]+:\tfrom all lookup 255( proto [^ ]+)? *$/
  for (i = 2; i <= n; i++) {
    is_for_others = $2 == "not" ? !/ to / && selected ~ /^ ipproto [^ ]*(17|udp)$/ : \
      needs_mark || selected ~ / (iif|oif|sport|dport|uidrange [1-9])/
    # Not for type 7 (unreachable): Linux answers such a lookup as if there were no route.
    if (word[i] ~ /^[68]$/ && !is_for_others) refuse(word[i], "rule")
    if (word[i] ~ /^(not|nop|\[unresolved\]|\[detached\]|[678])$/) continue
    if (word[i] == "to") {
      read_prefix(word[i + 1]); cut()
      aside[++asides] = first; aside_last[asides] = last; is_rest[asides] = $2 == "not" && !/ lookup /
      if ($2 == "not") { first = family ZEROS; last = family ONES }
    }
    if (word[i] == "fwmark") needs_mark = is_mark(word[i + 1])
    if (word[i] == "suppress_ifgroup" && family == 6 && !is_for_others)
      suppresses = suppressed[word[i + 1]] = "rule " $1 + 0 " of IPv6 (suppress_ifgroup)"
    if (word[i] == "lookup" && !is_for_others) looks[word[i + 1] ~ /^[0-9]/ ? family " " word[i + 1] : "l3mdev"] = 1
    if (word[i] ~ /^(from|fwmark|iif|oif|uidrange|ipproto|sport|dport|tos|dsfield|dscp|tun_id|flowlabel)$/) {
      if (word[i] word[i + 1] !~ /^(fromall|iiflo)$/) selected = selected " " word[i] " " word[i + 1]
    } else if (word[i] !~ /^(to|lookup|goto|suppress_prefixlength|suppress_ifgroup|realms|proto)$/)
      uncertain = "this check does not know what a rule means: " $0
    i++
  }
  if (selected) leave_out("rule " $1 + 0 (family == 6 ? " of IPv6" : "") " (" substr(selected, 2) ")")
}
# Whether packets without a mark do not match, by one digit that says so: a mask can leave nothing of a mark.
function is_mark(text,   part, i, gap) {
  sub(/^0x/, "", text); split(text "/0x" ONES, part, "/0x"); part[2] = ZEROS part[2]
  gap = length(part[2]) - length(part[1])
  for (i = length(part[1]); i; i--)
    if (substr(part[1], i, 1) != 0 && index("f" substr(part[1], i, 1), substr(part[2], gap + i, 1))) return 1
}
function leave_out(packets) { if (!left_out[packets]++) unjudged = joined(unjudged, "; ", packets) }
function refuse(type, table) {
  refusal[++refusals] = $0; refusal_type[refusals] = type_name[type]; refusal_table[refusals] = table
  refusal_bits[refusals] = bits; refusal_first[refusals] = first; refusal_last[refusals] = last
}
# Only default routes and those in the expected CIDRs matter.
function read_route(   i) {
  read_prefix($2); if (bits && !is_judged(first, last)) return
  if (part == "places") { if (bits) { cut(); if (first in wanted) wanted[first] = $2 }; return }
  if ($3 == "from") leave_out("packets from " $4)
  if ($3 ~ /^(from|tos)$/) return
  read_words($0)
  if ($1 ~ /^[678]$/) refuse($1, has["table"])
  # For such a rule, IPv6 chooses a next hop for each address: some are suppressed, and others are not.
  if (suppresses && $1 == 1 && legs != 1) for (i = 0; i <= legs; i++) if (!legs || group[leg_dev[i]] in suppressed)
    uncertain = suppresses " can treat each address differently: " $0
  if (bits) return
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
# Those of the default route that Linux uses for an address that no rule names. If longer prefixes hide it everywhere,
# as those of a VPN do, or it leaves by InfiniBand, it is the first other one in the same table. The expected CIDRs
# themselves are asked about only if rules name all other addresses.
function learn(   n, i, own, line, hidden, used, usable) {
  for (n = 1; n <= places; n++) {
    if (substr(place[n], 1, 1) != family || place[n] in is_home || is_aside(place[n])) continue
    own = !(place[n] in is_spare); usable[own] = 1; if (answer[n] !~ /^1 /) continue
    read_words(answer[n])
    if (answer[n] !~ /^1 default /) hidden[own] = hidden[own] ? hidden[own] : top[family, has["table"]]
    else if (!line[own]) { line[own] = is_by_fabric() ? top[family, has["table"]] : answer[n]; used[own] = answer[n] }
  }
  own = !usable[0]; if (!line[own]) line[own] = used[own] = hidden[own]
  if (line[own]) for (read_turns(line[own]); ++i <= legs;) if (!is_fabric[leg_dev[i]]) expect(family, leg_dev[i])
  if (used[own]) compare(used[own])
}
# Default routes of one rank by several devices: which is used is an accident. One route with several next hops is a
# decision, but in IPv6 Linux makes one of those that several routers advertise.
function compare(line,   n, same, i, its, live, met, kinds, routes) {
  read_words(line); same = rank()
  for (n = 1; n <= defaults; n++) if (default_rank[n] == same) {
    read_words(default_route[n]); its = live = ""
    for (i = 1; i <= legs; i++) {
      if (!leg_dead[i] && !leg_lost[i]) live = 1
      if (!index(its ", ", ", " leg_dev[i] ", ")) its = its ", " leg_dev[i]
    }
    $0 = default_route[n]; if (live) routes = joined(routes, " or ", whole())
    if (live && !met[its]++) kinds += family == 6 && has["proto"] == 9 && its ~ /, .*, / ? 2 : 1
  }
  if (kinds > 1) doubt("IPv" family " default routes compete: Linux uses " routes \
    "; name the right devices in routeOverlap.expectedDevs, or give one route another metric")
}
function doubt(text) { doubts++; print "note", text }
function is_aside(address,   i) {
  for (i = 1; i <= asides; i++)
    if (aside[i] ~ "^" family && (aside[i] <= address && address <= aside_last[i]) != is_rest[i]) return 1
}
# Reads a default route with the next hops of those that Linux takes in turn with it: they have its table, metric and
# preference. It has a gateway. IPv4 takes the first next hop of each. IPv6 takes all, on a host that does not forward.
function read_turns(line,   n, i, same, all) {
  read_words(line); same = rank()
  if (!leg_via[1] || (family == 4 ? legs > 1 : forwards)) return
  for (n = 1; n <= defaults; n++) if (default_rank[n] == same) {
    read_words(default_route[n])
    if (family == 4) legs = leg_via[1] != ""
    for (i = 1; i <= legs; i++) all = all " nexthop dev " leg_dev[i]
  }
  read_words(all ? "1 default" all : line)
}

# --- What Linux does with the packets to one place
# Sets `what`: what is wrong, the words of it, and the prefix of the deciding route of table main. It is empty where
# the packets leave as they should.
function decide(n,   i, type, devs, by, used, met, lost, words) {
  what = is_own = ""; if (place[n] ~ /^(4e|6ff)/) return # multicast
  if (n in failure) {
    $0 = ""; type = kind[failure[n]]; if (type != "no-route" && is_for_pods(place[n], type)) return
    by = type == "no-route" ? "has no IPv" family " route" : "is refused by [" named() "]"
    what = type SUBSEP by "; expected via " expected[family] SUBSEP halved(); return
  }
  # Of a hundred thousand answers, most are alike but for the prefix: those which are right are looked at once.
  words = family answer[n]; sub(/^.1 [^d][^ ]*/, "", words); if (words in is_right && place[n] != "4ffffffff") return
  $0 = answer[n]; read_prefix($2)
  is_own = $1 == 2 || ($1 ~ /^[345]$/ && first == last) || place[n] == "4ffffffff"; if (is_own) return
  by = named()
  if (!bits && family == 4) read_turns($0)
  if (!legs) give_up("the kernel names no device for this route; set net.ipv4.nexthop_compat_mode to 1: " $0)
  for (lost = i = 1; i <= legs; i++) { # an IPv4 next hop without a carrier may get packets, even if listed as dead
    if (leg_dead[i] && (family == 6 || !is_up[leg_dev[i]])) continue
    used = 1; if (!leg_lost[i]) lost = 0
    if ((family, leg_dev[i]) in is_expected || is_allowed(leg_dev[i]) || met[leg_dev[i]]++) continue
    devs = joined(devs, ", ", leg_dev[i])
  }
  if (used && !devs) { if (bits) is_right[words] = 1; return }
  by = "routes via " (used ? devs : "an unknown device") " [" by (lost ? " linkdown" : "") "]"
  what = "overlap" SUBSEP by ", expected " expected[family] SUBSEP halved()
}
function is_allowed(dev,   i) {
  for (i = 1; i <= allows; i++) if (dev ~ allow[i] && (!allow_kind[i] || allow_kind[i] == dev_kind[dev])) return 1
}
# The route or rule in $0, without what nobody asks for at night.
function named(   proto) {
  if (!/^[1-9] /) return $0 ? "rule " $1 + 0 : "a rule"
  read_words($0); proto = has["proto"] in protocol ? protocol[has["proto"]] : has["proto"]
  return ($1 == 1 ? "" : type_name[$1] " ") $2 " proto " proto (has["table"] == 254 ? "" : " table " has["table"])
}
# The route in $0, in the words of `ip`.
function whole() { sub(/ +$/, ""); return "[" ($1 == 1 ? "" : type_name[$1] " ") substr($0, 3) "]" }
# The prefix of the route in $0, if it is in table main and has halves.
function halved() { return / table 254 / && $2 ~ /\// ? $2 : "" }
# Whether an address is refused for being in a pod block. Linux does not say what refuses it: each table can, with its
# longest prefix, and each rule. So all of these have to be pod blocks; one that is not is left in $0.
function is_for_pods(address, type,   i, table, longest) {
  for (i = 1; i <= refusals; i++) {
    if (refusal_first[i] > address || address > refusal_last[i] || refusal_type[i] != type) continue
    table = refusal_table[i]
    if (!(table in longest) || refusal_bits[i] > refusal_bits[longest[table]]) longest[table] = i
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
    if (is_own && place[n] == (n < places && place[n + 1] <= to[c] ? beside(place[n + 1], -1) : to[c])) continue
    if (was) report(c, begin, beside(place[n], -1), was)
    begin = place[n]; was = what
  }
  if (was) report(c, begin, to[c], was)
}
function report(c, begin, end, what,   part, half) {
  split(what, part, SUBSEP); wrongs++; if (!told[c]++) remedy = remedy " " cidr[c]
  print "wrong", toupper(part[1]) ": expected CIDR " cidr[c] " (" spelled(begin) \
    (begin == end ? "" : "–" spelled(end)) ") " part[2]
  if (example || !part[3]) return
  read_prefix(part[3]); half = spelled(first) "/" bits + 1; read_prefix(half)
  example = half " and " spelled(beside(last, 1)) "/" bits " win over " part[3]
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

# --- Output: each line begins with what it is; the last one is the verdict.
END {
  if (section != "end") exit
  if (part == "places") {
    for (c = 1; c <= cidrs; c++) wanted[from[c]]
    n = split("224.0.0.0/4 255.255.255.255 ff00::/8", special, " ") # multicast and broadcast
    for (; n; n--) { read_prefix(special[n]); cut() }
    for (address in is_spare) if (substr(address, 1, 1) in asked) wanted[address]
    for (address in is_home) wanted[address]
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
  for (family = 4; family <= 6; family += 2) if (family in asked) examine()
  if (remedy)
    print "action", "ACTION: run: hostrouting repair" remedy (example ? "; for example, routes to " example : "")
  for (address in is_home) if (answer[at[address]] !~ /^2 / && !lost[family = substr(address, 1, 1)]++)
    doubt("this host does not deliver packets for its own " spelled(address) ", so it does not answer there; run: ip " \
      (family == 6 ? "-6 " : "") "rule add pref 0 lookup local")
  if (unjudged) print "note", "not judged are packets that these select: " unjudged "; for these run: hostrouting check"
  print "verdict", remedy ? "overlap" : wrongs ? "no-default-route" : doubts ? "undecided" : "ok", leaving
}
'

list() { printf '%s\n' 'rule show' 'route show table all' 'netconf show' | ip -"$1" -N -d -o -batch - 2>&1; }
# Without the seconds until an IPv6 route expires, which differ in every look. Linux skips a route that has expired.
look() {
  local family
  # Without most of the details: the timers of a bridge would differ in every look.
  ip -N -d -o link show 2>&1 |
    sed -E 's/^([^<]*<[^>]*>)[^\\]* group ([^ ]+)[^\\]*\\ +(link\/[^ ]+)[^\\]*(\\ +([^ ]+))?.*/\1 \3 \2 \5/' || return
  for family in $families; do
    echo "family $family"
    [[ $family == 4 || -e /proc/self/net/if_inet6 ]] || continue # a kernel without IPv6 has no such file
    if [[ $family == 4 ]]; then list 4; else list 6 | sed -E '/ expires (0|-[0-9]+)sec/d; s/ expires [0-9]+sec//'; fi ||
      return
  done
}
# Runs one part of the program. Any of these programs may be killed, so each part needs the end of what it reads.
judge() {
  printf '%s\n' "${configuration[@]/#/setting }" "${@:2}" end |
    "$awk" -v part="$1" -v waited="$wait" -v final="$last" "$program"
}
# Sets `told` to the result. Fails if it is not final: something is missing that may still appear, or the tables changed
# while they were read or the kernel was asked.
check() {
  local seen tables places answers
  seen=$(look) || { told="failed ip failed: ${seen##*$'\n'}" && return; }
  told='failed the routes kept changing while they were read'
  if [[ $seen == *'Dump was interrupted'* ]]; then [[ $last ]]; return; fi
  tables=${seen//$'\n\tnh_info'/ nh_info} # the next hops of a nexthop object, on a line of their own
  places=$(judge places "$tables" | sort -u -t '#' -k 2)
  told='failed the list of addresses to look up is incomplete: awk or sort failed'
  [[ $places == *'#z' ]] || return 0
  answers=$(printf '%s\n' "$places" | ip -N -d -o -force -batch - 2>&1)
  told=$(judge answers "$tables" places "$places" answers "${answers//$'\n\tnh_info'/ nh_info}")
  [[ $told == *'not yet' ]] && return 1
  [[ $last || $(look) == "$seen" ]]
}

# Writes a marker: complete, or not at all. Of what a failed command said, the last words are the reason.
leave() {
  local why new=$directory/route-overlap.new path=$directory/route-overlap.$1
  why=$({ rm -f "$new" && printf '%s\n' "${@:2}" >"$new" && mv -fT "$new" "$path"; } 2>&1) && return
  rm -f "$new" 2>/dev/null
  complain "cannot write $path: ${why##*: }"
}

# Writes what the plugin of node-problem-detector prints for a day: an exit status, and a sentence in ASCII.
answer() {
  local text="$1 ${2//–/-}; for more, run on the host: hostrouting check; checked at "
  leave npd "$((EPOCHSECONDS + 86400)) ${text//[^ -~]/?}$(TZ=UTC printf '%(%FT%TZ)T')"
}

main() {
  local told why last='' tries=0 waited=0 kind text verdict='' wrong=() notes=() action=()
  [[ -d $directory ]] || why=$(mkdir -p "$directory" 2>&1) || complain "cannot create $directory: ${why##*: }"
  # The files of an earlier check; that of the command is among them.
  why=$(rm -f "$directory"/route-overlap.{new,json,npd,detected,ok} 2>&1) ||
    complain "a file of an earlier check stays: ${why##*$'\n'}"
  trap 'say "stopped before there was a verdict"; finished=1; exit 143' TERM
  until ((waited >= wait * 5)) && last=last; check; do
    if [[ $told == *'not yet' ]]; then nap; elif ((++tries == 3)); then last=last; fi
  done
  while read -r kind text; do
    case $kind in
      wrong) wrong+=("$text") ;;
      action) action=("$text") ;;
      note) notes+=("$text") ;;
      verdict) verdict=$text ;;
      failed) say "$text" && finish 1 ;;
    esac
  done < <(printf '%s\n' "$told")
  [[ $verdict ]] || { say 'awk ended without a verdict' && finish 1; }

  # The journal comes first, because the disk may be full; the marker last: when it exists, everything is written.
  ((${#wrong[@]} <= 20)) || action=("and $((${#wrong[@]} - 20)) more; all are in route-overlap.detected" "${action[@]}")
  for text in "${wrong[@]:0:20}" "${action[@]}"; do printf '<%s>%s\n' "$level" "$text" >&2; done
  for text in "${notes[@]}"; do printf '<4>%s\n' "$text" >&2; done
  answer $((${#wrong[@]} > 0)) "${wrong[0]-OK: every expected CIDR leaves by ${verdict#* }}"
  case $verdict in
    ok\ *) level=6 say "ok: every expected CIDR leaves by ${verdict#* }" && leave ok ok "${notes[@]}" && finish 0 ;;
    undecided\ *)
      level=4 say "undecided: every expected CIDR leaves by ${verdict#* } now, but see above"
      answer 3 'UNKNOWN: the verdict is undecided'
      leave ok undecided "${notes[@]}" && finish 0
      ;;
    overlap\ *) leave detected "${wrong[@]}" ;;
    *) leave detected no-default-route ;;
  esac
  finish 1
}

main
