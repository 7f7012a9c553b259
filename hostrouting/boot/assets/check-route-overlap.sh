#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Checks that every address of the expected CIDRs leaves by an expected device. Written by hostrouting.
#
# Linux decides: it is asked with `ip route get`. Its answer can change only where the prefix of a route or of a rule
# starts, and right after one ends. So it is asked at these places, and each answer holds up to the next one. It is also
# asked about a few addresses elsewhere: the devices of the default route that it uses there are the expected ones.
# Exit status: 0, or 1 when the machine must not start. The result is in the journal, and in route-overlap.ok or
# route-overlap.detected in the state directory. No file changes the verdict.

# Data only: no line of it is executed.
configuration=(
)

set -uo pipefail
umask 022
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin

families=()
for line in "${configuration[@]}"; do
  case $line in
    'cidr '*:*) families[6]=6 ;;
    'cidr '*) families[4]=4 ;;
    'mode '*) mode=${line#* } ;;
    'wait '*) wait=${line#* } ;;
    'state '*) directory=${line#* } ;;
  esac
done
[[ ${1-} ]] && ((wait > $1)) && wait=$1 # the caller may have less time
# The gate, which is the caller then, has added the static routes just now.
start='' && [[ ! ${1-} && -e ${BASH_SOURCE[0]%/*}/static-routes.sh ]] && start='systemctl start static-routes.service'
directory=${RUNTIME_DIRECTORY:-$directory}
awk='awk' && hash mawk 2>/dev/null && awk=mawk # it starts fastest
level=3 # of syslog: an error
[[ $mode == WARN ]] && level=4

#include nap.sh

say() { printf '<%s>check-route-overlap: %s\n' "$level" "$1" >&2; }
complain() { level=4 say "$1"; }
finish() { finished=1; [[ $mode == WARN ]] && exit 0; exit "$1"; }

# shellcheck disable=SC2016 # the text of a program
program='
# An address is text: the digit of its family, then all of its hexadecimal digits. So comparing text compares
# addresses, in every awk.
function hex(address,   half, head, tail) {
  if (address !~ /:/) return "4" bytes(address)
  split(address, half, "::"); head = groups(half[1]); tail = groups(half[2])
  return "6" head substr(ZEROS, 1, 32 - length(head tail)) tail
}
function groups(text,   part, i, n, all) {
  n = split(text, part, ":")
  for (i = 1; i <= n; i++) all = all (part[i] ~ /[.]/ ? bytes(part[i]) : substr("0000" part[i], length(part[i]) + 1))
  return all
}
function bytes(text,   part) {
  split(text, part, "."); return byte[part[1] + 0] byte[part[2] + 0] byte[part[3] + 0] byte[part[4] + 0]
}
function digit(text, i) { return index(DIGITS, substr(text, i, 1)) - 1 }
# In IPv6 with "::" in the place of the longest row of zeros.
function spelled(text,   i, at, address) {
  for (i = 2; i < 10; i += 2) address = address (i > 2 ? "." : "") digit(text, i) * 16 + digit(text, i + 1)
  if (text ~ /^4/) return address
  address = ":"; for (i = 2; i < 34; i += 4) address = address substr(text, i, 4) ":"
  gsub(/:0+/, ":", address); gsub(/::/, ":0:", address); gsub(/::/, ":0:", address) # no leading zeros
  for (i = 17; i > 3 && !(at = index(address, substr(":0:0:0:0:0:0:0:0:", 1, i))); i -= 2) ;
  if (at) address = substr(address, 1, at - 1) "::" substr(address, at + i)
  if (address !~ /^::/) address = substr(address, 2)
  return address ~ /::$/ ? address : substr(address, 1, length(address) - 1)
}
# The first address with the same leading bits; if `ones`, the last.
function fill(text, bits, ones,   whole, size, value) {
  whole = int(bits / 4) + 1
  size = bits % 4 ? substr("842", bits % 4, 1) : 16; value = digit(text, whole + 1)
  value += (ones ? size - 1 : 0) - value % size
  return substr(substr(text, 1, whole) substr(DIGITS, value + 1, 1) (ones ? ONES : ZEROS), 1, length(text))
}
# The next address, or with step -1 the one before; empty if there is no such address.
function beside(text, step,   i, value) {
  for (i = length(text); i > 1; i--) {
    value = digit(text, i) + step
    text = substr(text, 1, i - 1) substr(DIGITS, (value + 16) % 16 + 1, 1) substr(text, i + 1)
    if (value >= 0 && value < 16) return text
  }
}
# Sets first, last and bits.
function prefix(text,   at) {
  if (text == "default") text = family == 6 ? "::/0" : "0.0.0.0/0"
  at = index(text, "/"); first = last = hex(at ? substr(text, 1, at - 1) : text); bits = 4 * length(first) - 4
  if (at && substr(text, at + 1) + 0 < bits) {
    bits = substr(text, at + 1) + 0; first = fill(first, bits, 0); last = fill(first, bits, 1)
  }
}

BEGIN {
  DIGITS = "0123456789abcdef"; ZEROS = "00000000000000000000000000000000"; ONES = ZEROS; gsub(0, "f", ONES)
  for (i = 0; i < 256; i++) byte[i] = sprintf("%02x", i)
  split("unicast local broadcast anycast multicast blackhole unreachable prohibit", type_name, " "); MAIN = 254
  means["Network is unreachable"] = means["Operation not supported"] = "no-route" # the second: without IPv6
  means["No route to host"] = "unreachable"; phrase["unreachable"] = "is unreachable"
  means["Invalid argument"] = "blackhole"; phrase["blackhole"] = "is dropped by a blackhole"
  means["Permission denied"] = "prohibit"; phrase["prohibit"] = "is refused"
  words("table proto scope metric tos src mtu advmss weight nhid realm window rtt rttvar initcwnd initrwnd hoplimit pref" \
    " encap group id from", takes)
  words("from fwmark iif oif uidrange ipproto sport dport tos dsfield dscp tun_id flowlabel", selects)
  words("to lookup goto suppress_prefixlength suppress_ifgroup realms proto", rule_takes)
  words("not nop [unresolved] [detached] 6 7 8", rule_says)
}
function words(text, into,   n, word) { n = split(text, word, " "); while (n) into[word[n--]] = 1 }
function joined(list, separator, item) { return list (list == "" ? "" : separator) item }

# --- Input: the settings, then rules, routes and devices as `ip` lists them.
$1 == "setting" && $2 == "device" { expect(4, $3); expect(6, $3); configured = 1 }
$1 == "setting" && $2 == "allow" { allow[++allows] = glob($3) }
$1 == "setting" && $2 == "protocols" { for (i = 3; i <= NF; i++) { split($i, word, "="); protocol[word[1]] = word[2] } }
# Refusing routes of this type and protocol are those of a CNI if it has this device: any, or those to single addresses.
$1 == "setting" && $2 == "pods" { cni[++cnis] = $3 " " $4; is_single[cnis] = $5 == "single"; cni_dev[cnis] = glob($6) }
$1 == "setting" && $2 == "cidr" {
  prefix($3); cidr[++cidrs] = $3; from[cidrs] = first; to[cidrs] = last; asked[substr(first, 1, 1)] = 1; insert()
}
$1 == "setting" { next }
$1 == "places" || $1 == "answers" || $1 == "end" { section = $1; next }
section == "places" { place[++places] = $1; at[$1] = places; next }
# Answers come in the order of the questions. A failure has two lines: the reason, and the number of the question.
section == "answers" && $1 ~ /^[0-9]+$/ { given[++givens] = $0; next }
section == "answers" && sub(/^Command failed .*:/, "") { failure[$0 + 0] = reason; next }
section == "answers" { reason = $0; sub(/^[^:]*: /, "", reason); next }
$1 == "family" { family = $2; next }
/^[0-9]+:\t/ { read_rule(); next }
/^[0-9]+: / { sub(/@.*/, "", $2); sub(/:$/, "", $2); link[$2] = $3 ~ /[<,]UP[,>]/; next }
$1 == "inet6" { if ($2 == "all") forwards = $4 == "on"; next }
$1 ~ /^[1-9]$/ { read_route() }
function glob(pattern) {
  gsub(/[.]/, "[.]", pattern); gsub(/[*]/, ".*", pattern); gsub(/[?]/, ".", pattern); return "^" pattern "$"
}
function expect(family, dev) {
  if ((family, dev) in is_expected) return
  is_expected[family, dev] = 1; expected[family] = joined(expected[family], ", ", dev)
}
# Of two expected CIDRs, one contains the other, or they are apart. The outermost ones are kept sorted.
function insert(   i, kept) {
  for (i = 1; i <= outers; i++) if (outer[i] <= first && last <= outer_last[i]) return
  for (i = 1; i <= outers; i++) if (outer[i] < first || last < outer[i]) {
    outer[++kept] = outer[i]; outer_last[kept] = outer_last[i]
  }
  for (outers = i = kept + 1; i > 1 && outer[i - 1] > first; i--) {
    outer[i] = outer[i - 1]; outer_last[i] = outer_last[i - 1]
  }
  outer[i] = first; outer_last[i] = last
}
# Whether an address of this range is in an expected CIDR.
function is_judged(from, to,   low, high, half) {
  high = outers
  while (low < high) { half = int((low + high + 1) / 2); if (outer[half] <= to) low = half; else high = half - 1 }
  return low && from <= outer_last[low]
}
function mark(address) { if (is_judged(address, address)) wanted[address] = 1 }
# Linux applies the rules. Here a rule is a prefix, a table, and perhaps packets that are not judged.
function read_rule(   n, i, word, selected) {
  n = split($0, word, " "); first = family ZEROS; last = family ONES; bits = -1
  for (i = ($2 == "not") + 2; i <= n; i++) {
    if (word[i] == "lookup") looked[family, word[i + 1]] = 1
    if (word[i] == "to") {
      prefix(word[i + 1]); mark(first); mark(beside(last, 1))
      aside[++asides] = first; aside_last[asides] = last; is_rest[asides] = $2 == "not" && !/ lookup /
    }
    if (word[i] ~ /^[678]$/) refuse(word[i], "rule")
    if (word[i] in selects) { if (word[i] word[i + 1] !~ /^(fromall|iiflo)$/) selected = selected " " word[i] " " word[i + 1] }
    else if (!(word[i] in rule_takes || word[i] in rule_says)) unknown = joined(unknown, ", ", $0)
    if (!(word[i] in rule_says)) i++
  }
  if (selected) unjudged = joined(unjudged, "; ", "rule " $1 + 0 (family == 6 ? " of IPv6" : "") " (" substr(selected, 2) ")")
}
function refuse(line, table) {
  refusal[++refusals] = line; refusal_table[refusals] = table; refusal_bits[refusals] = bits
  refusal_first[refusals] = first; refusal_last[refusals] = last
}
# Skips tables that no rule looks up, and what is outside the expected CIDRs: there can be 100,000 such routes.
function read_route() {
  if (match($0, / table [0-9]+/) && !((family, substr($0, RSTART + 7, RLENGTH - 7)) in looked)) if (!((family, "[l3mdev-table]") in looked)) return
  prefix($2); if (bits && !is_judged(first, last)) return
  if (part == "places") { if (bits) { mark(first); mark(beside(last, 1)) }; return }
  read_words($0, 3)
  if ($1 == 1 && bits) { pod[++pods] = first; pod_last[pods] = last; pod_table[pods] = has["table"]; pod_line[pods] = $0 }
  if ("from" in has && !met[has["from"]]++) unjudged = joined(unjudged, "; ", "packets from " has["from"])
  if ("from" in has || "tos" in has) return
  if ($1 ~ /^[678]$/) refuse($0, has["table"])
  if (!bits) seen[family] = joined(seen[family], ", ", $0)
  if (!bits && $1 == 1) {
    default_route[++defaults] = $0; default_rank[defaults] = rank()
    if (!((family, has["table"]) in top)) top[family, has["table"]] = $0
  }
}
# Sets `has` and the next hops of a route. A device name can be any of these words, so words are read in pairs.
function read_words(line, at,   word, n) {
  split("", has); legs = 0; n = split(line, word, " ")
  for (; at <= n; at++) {
    if (word[at] == "nexthop" || (!legs && word[at] ~ /^(via|dev)$/)) {
      legs++; leg_dev[legs] = leg_via[legs] = leg_dead[legs] = leg_lost[legs] = ""
    }
    if (word[at] == "via") { if (word[at + 1] == "inet6") at++; leg_via[legs] = word[++at] }
    else if (word[at] == "dev") leg_dev[legs] = word[++at]
    else if (word[at] == "dead") leg_dead[legs] = 1
    else if (word[at] == "linkdown") leg_lost[legs] = 1
    else if (!(word[at] in takes)) has[word[at]] = 1
    else if (word[at++] in has) ; # what follows about a nexthop object
    else has[word[at - 1]] = word[at]
  }
}
function rank() { return family " " has["table"] " " has["metric"] " " has["pref"] }

# --- The expected devices, if they are not configured: those of the default route that Linux uses where no rule names the
# address. If longer prefixes hide it everywhere, as those of a VPN do, it is the one in the same table.
function learn(   n, i, line, hidden, same) {
  for (n = 1; n <= places && !line; n++) {
    if (substr(place[n], 1, 1) != family || answer[n] !~ /^1 / || is_aside(place[n])) continue
    $0 = answer[n]; read_words($0, 3)
    if ($2 == "default") line = $0; else if (!hidden) hidden = top[family, has["table"]]
  }
  if (!line && !(line = hidden)) return
  read_words(in_turn(line), 3); for (i = 1; i <= legs; i++) expect(family, leg_dev[i])
  # A host that does not forward goes on to the next IPv6 router of the same rank if one does not answer.
  if (family == 4 || forwards) return
  for (i = 1; i <= legs; i++) if (!leg_via[i]) return
  same = rank()
  for (n = 1; n <= defaults; n++) if (default_rank[n] == same) {
    read_words(default_route[n], 3); for (i = 1; i <= legs; i++) expect(family, leg_dev[i])
  }
}
function is_aside(address,   i) {
  for (i = 1; i <= asides; i++) if ((aside[i] <= address && address <= aside_last[i]) != is_rest[i]) return 1
}
# The route, with the default routes that Linux takes in turn with it: in IPv4 those of its table and metric with a gateway.
function in_turn(line,   i, all, same) {
  read_words(line, 3); same = rank()
  if (family == 6 || legs != 1 || !leg_via[1]) return line
  for (i = 1; i <= defaults; i++) if (default_rank[i] == same) {
    read_words(default_route[i], 3); if (legs == 1 && leg_via[1]) all = all " nexthop via " leg_via[1] " dev " leg_dev[1]
  }
  return all ? "1 default" all : line
}

# --- What Linux does with the packets to one place: sets `what`, all that is said of it. Adjacent ranges with one `what`
# are one finding. Where the packets leave as they should, `what` is empty.
function is_allowed(dev,   i) {
  if (!(dev in allowed)) for (i = 1; i <= allows; i++) if (dev ~ allow[i]) allowed[dev] = 1
  return allowed[dev]
}
function decide(n,   kind, i, used, devs, met, lost, by) {
  what = ""; if (place[n] ~ /^(4e|6ff)/) return # multicast
  if (n in failure) {
    if (!(kind = means[failure[n]])) give_up("the kernel did not answer for " spelled(place[n]) ": " failure[n])
    $0 = kind == "no-route" ? "" : culprit(place[n], kind); if ($0 && is_pod_block()) return
    read_words($0, 3); what = kind SUBSEP SUBSEP $2 SUBSEP ($0 ? holder() : "a rule"); return
  }
  $0 = answer[n]; prefix($2)
  if (is_own()) return
  read_words($0, 3); by = holder(); if (!bits) read_words(in_turn($0), 3)
  if (!legs) give_up("the kernel does not say by which device (net.ipv4.nexthop_compat_mode=0?): " $0)
  for (lost = i = 1; i <= legs; i++) {
    # In IPv4 a next hop without a carrier may still get packets, even if Linux lists it as dead.
    if (leg_dead[i] && (family == 6 || !link[leg_dev[i]])) continue
    used = 1; if (!leg_lost[i]) lost = 0
    if ((family, leg_dev[i]) in is_expected || is_allowed(leg_dev[i]) || met[leg_dev[i]]++) continue
    devs = joined(devs, ", ", leg_dev[i])
  }
  if (devs || !used) what = "overlap" SUBSEP (used ? devs : "an unknown device") SUBSEP $2 SUBSEP by (lost ? " linkdown" : "")
}
# Whether the route in $0 is to the host itself, or to all hosts of a network.
function is_own() { return $1 == 2 || ($1 ~ /^[345]$/ && (first == last || last == "4ffffffff" && $1 == 3)) }
# The route in $0, without what nobody asks for at night.
function holder() {
  return ($1 == 1 ? "" : type_name[$1] " ") $2 " proto " (has["proto"] in protocol ? protocol[has["proto"]] : has["proto"]) \
    (has["table"] == MAIN ? "" : " table " has["table"])
}
# The route that refuses an address in this way: that of the longest prefix. If several tables or a rule could do it,
# `others` is set.
function culprit(address, kind,   i, best) {
  others = 0
  for (i = 1; i <= refusals; i++) if (refusal_first[i] <= address && address <= refusal_last[i])
    if (type_name[substr(refusal[i], 1, 1)] == kind) {
      if (best && refusal_table[i] != refusal_table[best]) others = 1
      if (!best || refusal_bits[i] > refusal_bits[best]) best = i
    }
  return refusal_table[best] == "rule" ? "" : refusal[best]
}
# Whether the refusing route in $0 is the pod block of this host: a route as a CNI installs it, or one that contains the
# route of a pod. It must be a part of an expected CIDR, and the only one that can refuse the address.
function is_pod_block(   c, i, k, dev, table) {
  prefix($2); read_words($0, 3); table = has["table"]
  for (c = 1; c <= cidrs; c++) if (from[c] <= first && last <= to[c] && from[c] to[c] != first last) break
  if (c > cidrs || others) return 0
  for (i = 1; i <= cnis; i++) if (cni[i] == $1 " " has["proto"] && (!is_single[i] || first == last))
    for (dev in link) if (dev ~ cni_dev[i]) return 1
  for (i = 1; i <= pods; i++) if (pod_table[i] == table && first <= pod[i] && pod_last[i] <= last) {
    read_words(pod_line[i], 3); for (k = 1; k <= legs && is_allowed(leg_dev[k]); k++) ; if (k > legs && legs) return 1
  }
}
function give_up(text) { print "failed " text; exit }

# --- Findings: ranges of one expected CIDR. Single addresses of this host may be part of one.
function judge(c,   n, end, was, begin) {
  for (n = at[from[c] == "400000000" ? "400000001" : from[c]]; n <= places && place[n] <= to[c]; n++) {
    end = n < places && place[n + 1] <= to[c] ? beside(place[n + 1], -1) : to[c]
    decide(n); if (!what && end == place[n] && !(n in failure) && is_own()) continue
    if (what == was) continue
    if (was) report(c, begin, beside(place[n], -1), was)
    begin = place[n]; was = what
  }
  if (was) report(c, begin, to[c], was)
}
function report(c, begin, end, what,   part, said) {
  split(what, part, SUBSEP)
  said = toupper(part[1]) ": expected CIDR " cidr[c] " (" spelled(begin) (begin == end ? "" : "–" spelled(end)) ") "
  if (part[1] == "overlap") said = said "routes via " part[2] " [" part[4] "], expected " expected[family]
  else if (part[1] == "no-route") said = said "has no IPv" family " route; expected via " expected[family]
  else said = said phrase[part[1]] " [" part[4] "]; expected via " expected[family]
  wrong[++wrongs] = said; if (!told[c]++) remedy = remedy " " cidr[c]
  if (example || !part[3] || part[4] ~ / table /) return
  prefix(part[3]); if (bits && first < last)
    example = spelled(first) "/" ++bits " and " spelled(beside(fill(first, bits, 1), 1)) "/" bits " win over " part[3]
}
# Judges the expected CIDRs of one family.
function examine(   c, i, n, dev, had, ready) {
  if (!configured) learn()
  for (i = 1; i <= defaults; i++) if (default_rank[i] ~ "^" family)
    for (read_words(default_route[i], 3); legs; legs--) if ((family, leg_dev[legs]) in is_expected) ready = 1
  n = split(expected[family], dev, ", "); for (i = 1; i <= n; i++) if (!link[dev[i]]) ready = 0
  had = wrongs; for (c = 1; c <= cidrs && n; c++) if (substr(from[c], 1, 1) == family) judge(c)
  if (!n) wrong[++wrongs] = "NO-DEFAULT-ROUTE: the expected devices are those of the IPv" family " default route, and " \
    (waited + 0 ? "none appeared within " waited " s" : "there is none") "; last seen: " \
    (seen[family] ? seen[family] : "no default route")
  if (!final && !ready && wrongs > had) { print "not yet"; exit } # what is missing may still appear
  leaving = !leaving || leaving == expected[family] ? expected[family] : leaving " (IPv4) and " expected[family] " (IPv6)"
}

# --- Output: each line begins with what it is; the last one is the verdict.
END {
  if (section != "end") exit
  if (part == "places") {
    for (c = 1; c <= cidrs; c++) mark(from[c] == "400000000" ? "400000001" : from[c])
    mark("4e0000000"); mark("4f0000000"); mark("4ffffffff"); mark("6ff" substr(ZEROS, 3)) # multicast and broadcast
    words("1.1.1.1 9.9.9.9 100.0.0.1 128.0.0.1 192.0.2.1 203.0.113.1 223.255.255.1 2001:db8::1 3fff::1 8000::1 fc00::1", spare)
    for (address in spare) if (substr(hex(address), 1, 1) in asked) wanted[hex(address)] = 1 # for the default route
    delete wanted["400000000"] # 0.0.0.0 is this host; it cannot be asked about
    for (address in wanted) print address, spelled(address), "ipproto 17" # UDP, which only IPv4 assumes
    print "z"; exit # sorted behind all addresses: the list is complete
  }
  for (n = 1; n <= places; n++) {
    if (!(n in failure) && used == givens) failure[n] = "no answer"
    if (!(n in failure)) answer[n] = given[++used]
  }
  if (unknown) give_up("this check does not know what a rule means: " unknown)
  for (family = 4; family <= 6; family += 2) if (family in asked) examine()
  for (i = 1; i <= wrongs; i++) print "wrong", wrong[i]
  if (remedy) print "action ACTION: run: hostrouting repair" remedy (example ? "; for example, routes to " example : "") \
    (start ? "; if such routes are configured already: " start : "")
  if (unjudged) print "note not judged are packets that these select: " unjudged "; for these run: hostrouting check"
  print "verdict", remedy ? "overlap" : wrongs ? "no-default-route" : "ok", leaving
}
'

# Without the seconds until an IPv6 route expires, which would differ in every look. Linux skips a route that has expired.
look() {
  local family
  for family in "${families[@]}"; do
    echo "family $family"
    [[ $family == 4 || -e /proc/self/net/if_inet6 ]] || continue # a kernel without IPv6 has no such file
    printf '%s\n' 'rule show' 'route show table all' 'netconf show' | ip -"$family" -N -d -o -batch - 2>&1 || return
  done | if [[ ${families[6]-} ]]; then sed -E '/ expires (0|-[0-9]+)sec/d; s/ expires [0-9]+sec//'; else cat; fi
  ip -N -o link show 2>&1 # without -d: the timers of a bridge would differ in every look
}
# Runs one part of the program. Any of these programs may be killed, so each part needs the end of what it reads.
judge() {
  printf '%s\n' "${configuration[@]/#/setting }" "${@:2}" end |
    "$awk" -v part="$1" -v waited="$wait" -v final="$last" -v start="$start" "$program"
}
# Sets `told` to the result. Fails if it is not final: something is missing that may still appear, or the tables changed
# while they were read or the kernel was asked.
check() {
  local seen tables places answers
  seen=$(look) || { told="failed ip failed: ${seen##*$'\n'}" && return; }
  told='failed the routes kept changing while they were read'
  if [[ $seen == *'Dump was interrupted'* ]]; then [[ $last ]]; return; fi
  tables=${seen//$'\n\tnh_info'/ nh_info} # the next hops of a nexthop object, on a line of their own
  mapfile -t places < <(judge places "$tables" | sort -u)
  told='failed the list of addresses to look up is incomplete: awk or sort failed'
  [[ ${places[*]: -1} == z ]] || return 0
  unset 'places[-1]'
  answers=$(printf 'route get fibmatch %s\n' "${places[@]#* }" | ip -N -d -o -force -batch - 2>&1)
  told=$(judge answers "$tables" places "${places[@]}" answers "${answers//$'\n\tnh_info'/ nh_info}")
  [[ $told == 'not yet' ]] && return 1
  [[ $last || $(look) == "$seen" ]]
}

# Writes a marker: complete, or not at all. Of what a failed command said, the last words are the reason.
leave() {
  local why new=$directory/route-overlap.new path=$directory/route-overlap.$1
  why=$({ printf '%s\n' "${@:2}" >"$new" && mv -fT "$new" "$path"; } 2>&1) && return
  rm -f "$new" 2>/dev/null
  complain "cannot write $path: ${why##*: }"
}

main() {
  local told why last='' tries=0 waited=0 kind text verdict='' wrong=() notes=() action=()
  [[ -d $directory ]] || why=$(mkdir -p "$directory" 2>&1) || complain "cannot create $directory: ${why##*: }"
  # The files of an earlier check; that of the command is among them.
  why=$(rm -f "$directory"/route-overlap.{ok,detected,json,new} 2>&1) || complain "what an earlier check left stays: $why"
  hash "$awk" 2>/dev/null || { say "$awk is not installed" && finish 1; }
  trap 'say "stopped before there was a verdict"; finished=1; exit 143' TERM
  while
    ((waited >= wait * 5)) && last=last
    ! check
  do
    if [[ $told == 'not yet' ]]; then nap; elif ((++tries == 3)); then last=last; fi
  done
  while read -r kind text; do
    case $kind in
      wrong) wrong+=("$text") ;;
      action) action=("$text") ;;
      note) notes=("$text") ;;
      verdict) verdict=$text ;;
      failed) say "$text" && finish 1 ;;
      '') ;;
      *) say "awk failed: $kind $text" && finish 1 ;;
    esac
  done < <(printf '%s\n' "$told")
  [[ $verdict ]] || { say 'awk ended without a verdict' && finish 1; }

  # The journal comes first, because the disk may be full; the marker last: when it exists, everything is written.
  ((${#wrong[@]} <= 20)) || action=("and $((${#wrong[@]} - 20)) more; all are in route-overlap.detected" "${action[@]}")
  for text in "${wrong[@]:0:20}" "${action[@]}"; do printf '<%s>%s\n' "$level" "$text" >&2; done
  for text in "${notes[@]}"; do printf '<4>%s\n' "$text" >&2; done
  case $verdict in
    ok\ *) level=6 say "ok: every expected CIDR leaves by ${verdict#* }" && leave ok ok "${notes[@]}" && finish 0 ;;
    overlap\ *) leave detected "${wrong[@]}" ;;
    *) leave detected no-default-route ;;
  esac
  finish 1
}

main
