#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Checks that every address of the expected CIDRs leaves by an expected device. Written by hostrouting.
#
# The kernel decides: it is asked with `ip route get`. Its answer can change only where the prefix of a route or of a
# rule starts, and right after one ends. So it is asked at these places, and each answer holds up to the next one.
# Exit status: 0, or 1 when the machine must not start. The result is in the journal and in the state directory:
# route-overlap.json, then route-overlap.ok or route-overlap.detected. No file changes the verdict.

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
function bytes(text,   part, i, digits) {
  split(text, part, ".")
  for (i = 1; i <= 4; i++) digits = digits substr(DIGITS, int(part[i] / 16) + 1, 1) substr(DIGITS, part[i] % 16 + 1, 1)
  return digits
}
function digit(text, i) { return index(DIGITS, substr(text, i, 1)) - 1 }
function width(text) { return 4 * length(text) - 4 }
# As the library writes it: in IPv6 with "::" in the place of the longest row of zeros.
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
function prefix(text,   part) {
  if (text == "default") text = ANY[family] "/0"
  split(text "/", part, "/"); first = hex(part[1]); bits = part[2] == "" ? width(first) : part[2] + 0
  first = fill(first, bits, 0); last = fill(first, bits, 1)
}
# Sets bits and last to the largest block that starts at first and ends by the limit.
function block(limit) {
  for (bits = width(first); bits && fill(first, bits - 1, 0) == first && fill(first, bits - 1, 1) <= limit; bits--) ;
  last = fill(first, bits, 1)
}

BEGIN {
  selectors = split("fwmark iif oif uidrange ipproto sport dport tos dsfield dscp tun_id flowlabel from", selector, " ")
  DIGITS = "0123456789abcdef"; ZEROS = "00000000000000000000000000000000"; ONES = ZEROS; gsub(0, "f", ONES)
  ANY[4] = "0.0.0.0"; ANY[6] = "::"; for (i = 1; i < 128; i++) CONTROLS = CONTROLS sprintf("%c", i)
  means["Network is unreachable"] = "no-route"; means["No route to host"] = "unreachable"
  means["Invalid argument"] = "blackhole"; means["Permission denied"] = "prohibit"
  phrase["blackhole"] = "is dropped by a blackhole"; means["Operation not supported"] = "no-route" # without IPv6
  phrase["prohibit"] = "is refused"; phrase["unreachable"] = "is unreachable"
  split("unicast local broadcast anycast multicast blackhole unreachable prohibit", type_name, " ")
  table_name[255] = "local"; table_name[254] = "main"; table_name[253] = "default"; MAIN = 254
  split("table proto scope metric tos src mtu advmss via dev weight nhid realm realms window rtt rttvar" \
    " initcwnd initrwnd hoplimit pref from to fwmark iif oif uidrange ipproto sport dport dsfield dscp tun_id" \
    " flowlabel lookup suppress_prefixlength suppress_ifgroup goto group id", word, " ")
  for (i in word) takes[word[i]] = 1
}

# --- Input: the settings, then rules, routes, devices and nexthop objects as `ip` lists them.
# Sets `has` and the next hops. A device name can be any of these words, so words are read in pairs.
function read_words(line, at,   part, n, word) {
  split("", has); legs = alive = 0; n = split(line, part, " ")
  for (; at <= n; at++) {
    word = part[at]
    if (word == "nexthop" || (!legs && (word == "via" || word == "dev"))) {
      legs++; leg_dev[legs] = leg_via[legs] = leg_dead[legs] = leg_lost[legs] = ""
    }
    if (!(word in takes)) has[word] = 1
    else if (word == "via" && part[at + 1] == "inet6") { leg_via[legs] = part[at + 2]; at += 2 }
    else has[word] = part[++at]
    if (word == "dev") leg_dev[legs] = part[at]
    if (word == "via" && !leg_via[legs]) leg_via[legs] = part[at]
    if (word == "dead") leg_dead[legs] = 1; else if (word == "linkdown") leg_lost[legs] = 1
  }
}
function glob(pattern) {
  gsub(/[.]/, "[.]", pattern); gsub(/[*]/, ".*", pattern); gsub(/[?]/, ".", pattern); return "^" pattern "$"
}
$1 == "setting" { setting[$2] = $3 }
$1 == "setting" && $2 == "device" { for (family = 4; family <= 6; family += 2) expect($3) }
$1 == "setting" && $2 == "allow" { allow[++allows] = glob($3) }
$1 == "setting" && $2 == "cidr" {
  prefix($3); families[substr(first, 1, 1)] = 1
  cidr[++cidrs] = $3; cidr_first[cidrs] = first; cidr_last[cidrs] = last; rank[cidrs] = first sprintf("%03d", bits)
}
$1 == "setting" && $2 == "protocols" { for (i = 3; i <= NF; i++) { split($i, it, "="); protocol_name[it[1]] = it[2] } }
$1 == "setting" && $2 == "metric" { usual[$3] = $4 } # of a route that is added without one
$1 == "setting" && $2 == "reserved" { reserved_first[++reserved] = hex($3); reserved_last[reserved] = hex($4) }
# Refusing routes of this type and protocol are those of a CNI if it has this device: any, or those to single addresses.
$1 == "setting" && $2 == "pods" { cni[++cnis] = $3 " " $4; is_single[cnis] = $5 == "single"; cni_dev[cnis] = glob($6) }
$1 == "places" || $1 == "answers" || $1 == "end" { section = $1; next }
section == "places" { place[++places] = $1; at[$1] = places; next }
section == "answers" { read_answer(); next }
$1 == "family" { family = $2; skip_to = main_is_seen = 0; next }
/^[0-9]+:\t/ { read_rule(); next }
/^[0-9]+: / { sub(/@.*/, "", $2); sub(/:$/, "", $2); link[$2] = $3 ~ /[<,]UP[,>]/; next }
$1 == "inet6" { if ($2 == "all") forwards = $4 == "on"; next }
$1 == "id" { hop[$2] = $3 == "group" ? $4 : $0; next }
$1 ~ /^[0-9]+$/ { read_route() }
function expect(dev) {
  if ((family, dev) in is_expected) return
  is_expected[family, dev] = 1; expected[family, ++expecteds[family]] = dev
  names[family] = joined(names[family], dev); names_json[family] = joined(names_json[family], quoted(dev))
}
function is_allowed(dev,   i) {
  if (!(dev in allowed)) for (i = 1; i <= allows; i++) if (dev ~ allow[i]) allowed[dev] = 1
  return allowed[dev]
}
# Whether an address of this range is in an expected CIDR.
function is_judged(from, to,   c) {
  for (c = 1; c <= cidrs; c++) if (cidr_first[c] <= to && from <= cidr_last[c]) return 1
}
function mark(address) { if (is_judged(address, address)) wanted[address] = 1 }
# A plain packet of this host matches the rules without a selector, up to the first rule that refuses it. The kernel is
# asked about UDP packets.
function read_rule(   priority, number, i, selected, others) {
  priority = $1 + 0; number = priority (family == 6 ? " of IPv6" : ""); read_words($0, 2)
  if ("iif" in has && has["iif"] == "lo") delete has["iif"]
  if (has["from"] == "all") delete has["from"]
  if ("ipproto" in has && has["ipproto"] ~ /^(udp|(ipproto-)?17)$/) {
    others = "protocol, and only UDP was"; delete has["ipproto"]
  }
  if ("fwmark" in has && has["fwmark"] ~ /^(0x)?0\//) {
    others = "mark, and only packets without one were"; delete has["fwmark"]
  }
  if ("to" in has) { prefix(has["to"]); mark(first); mark(beside(last, 1)) }
  for (i = 1; i <= selectors && !selected; i++) if (selector[i] in has) selected = selector[i] " " has[selector[i]]
  if (selected) unjudged[++unjudgeds] = "packets that rule " number " selects (" selected \
    ") were not judged; for these run: hostrouting check"
  else if (others) unjudged[++unjudgeds] = "rule " number " selects packets by " others \
    " judged; for the others run: hostrouting check"
  if ("lookup" in has) { rules_of[family, has["lookup"]]++; rule_of[family, has["lookup"]] = priority }
  # Where it is "unreachable", the kernel answers as without a route. After table main, a route there is used first.
  if ("7" in has && "to" in has && !selected && priority >= skip_to && !main_is_seen) refusing[family] = number
  if (priority < skip_to || ("not" in has) == (!selected && !("to" in has))) return
  # For all but a few addresses: it does not decide about a default route.
  if ("to" in has && !selected && !("lookup" in has)) return
  if ("goto" in has) skip_to = has["goto"]
  else if (!("lookup" in has)) { if ("6" in has || "7" in has || "8" in has) skip_to = 4294967295 }
  else if (!("suppress_prefixlength" in has || "suppress_ifgroup" in has)) {
    table_order[family, ++tables[family]] = has["lookup"]; if (has["lookup"] == MAIN) main_is_seen = 1
  }
}
# Skips routes outside the expected CIDRs, and tables that no rule looks up: they can have 100,000 routes.
function read_route(   at) {
  prefix($2); if (bits && !is_judged(first, last)) return
  read_words($0, 3)
  if (bits && !((family, has["table"]) in rules_of) && has["table"] != MAIN) return
  if (part == "places") { mark(first); mark(beside(last, 1)); return }
  # A new route with this prefix would not come first (1), or not even with metric 1 (2). In IPv6 a route for some
  # sources hides it.
  at = "from" in has ? 0 : has["metric"] + 0
  if (has["table"] == MAIN && !("tos" in has) && held[first, bits] < 2)
    if ("from" in has || at < usual[family] || (at == usual[family] && has["proto"] != setting["protocol"]))
      held[first, bits] = at < 2 ? 2 : 1
  if ("from" in has && (family, has["table"]) in rules_of && !met[has["from"]]++) sources = joined(sources, has["from"])
  if (legs > 1 && "pref" in has) listed[route_key()] = $0
  if (!bits && !("from" in has)) read_default()
  if ($1 == 1) { pod[++pods] = first; pod_bits[pods] = bits; pod_table[pods] = has["table"]; pod_route[pods] = $0 }
  if ("from" in has || "expired" in has) return
  if ($1 ~ /^[678]$/ && !("tos" in has)) {
    refusal[++refusals] = $0; refusal_first[refusals] = first; refusal_bits[refusals] = bits
  }
}
# Default routes are listed by metric. IPv6 compares the preferences of those that have the metric of the first.
function read_default(   table, order, i) {
  sub(/ +$/, ""); seen[family] = joined(seen[family], $0); table = family " " has["table"]
  if (!(table in best)) best[table] = has["metric"]
  if ("expired" in has) return
  order = "pref" in has ? index("hml", substr(has["pref"], 1, 1)) + 9 * (has["metric"] != best[table]) : 0
  for (i = ++defaults[family]; i > 1 && order < default_order[family, i - 1]; i--) {
    default_order[family, i] = default_order[family, i - 1]; default_route[family, i] = default_route[family, i - 1]
  }
  default_order[family, i] = order; default_route[family, i] = $0
}
# Answers come in the order of the questions. A failure has two lines: the reason, and the number of the question.
function read_answer() {
  if ($1 ~ /^[0-9]+$/) given[++givens] = /nexthop/ ? as_listed() : $0
  else if (sub(/^Command failed .*:/, "")) failure[$0 + 0] = reason
  else { reason = $0; sub(/^[^:]*: /, "", reason) }
}
# IPv6 begins with the next hop that it chose for this address: the route as it is in the table.
function as_listed() { read_words($0, 3); return route_key() in listed ? listed[route_key()] : $0 }
function route_key() { return $2 " " has["table"] " " has["metric"] " " ("pref" in has) ("from" in has) }

# --- What one route does with a packet.
# Sets `has` and the next hops of a route, also for a route with a nexthop object: those in use, or all that are listed.
function read_legs(line, listed_too,   part, n, i, legs_text, kept, leg) {
  read_words(line, 3)
  if ("nhid" in has) {
    i = has["nhid"]; n = split(hop[i] ~ /^id/ ? i : hop[i], part, "/")
    for (i = 1; i <= n; i++) { leg = hop[part[i] + 0]; sub(/^id [0-9]+/, " nexthop", leg); legs_text = legs_text leg }
    kept = has["table"] SUBSEP has["proto"] SUBSEP has["metric"]
    sub(/nhid .*/, "", line); read_words(line legs_text, 3)
    split(kept, part, SUBSEP); has["table"] = part[1]; has["proto"] = part[2]; if (part[3]) has["metric"] = part[3]
  }
  # In IPv4 a next hop without a carrier may still get packets, even if Linux lists it as dead.
  for (n = leg = 0; leg++ < legs; ) {
    if (!leg_dead[leg]) alive = 1
    if (leg_dead[leg] && !listed_too && (family == 6 || !link[leg_dev[leg]])) continue
    n++; leg_dev[n] = leg_dev[leg]; leg_via[n] = leg_via[leg]; leg_lost[n] = leg_lost[leg]
  }
  legs = n
}
# Whether every next hop is on an allowed device.
function is_welcome(line,   i) {
  read_legs(line, 1); for (i = 1; i <= legs; i++) if (!is_allowed(leg_dev[i])) return 0
  return legs
}
# All default routes that Linux alternates with this one, in IPv4: same table and metric, each with one gateway.
function in_turn(line,   i, all, same) {
  read_legs(line, 1); same = has["table"] " " has["metric"]
  if (family == 6 || legs != 1 || !leg_via[1]) return line
  for (i = 1; i <= defaults[family]; i++) {
    read_legs(default_route[family, i])
    if (default_route[family, i] ~ /^1 / && !("tos" in has) && has["table"] " " has["metric"] == same && leg_via[1])
      all = all " nexthop via " leg_via[1] " dev " leg_dev[1] (leg_lost[1] ? " linkdown" : "")
  }
  return all ? "1 default" all : line
}

# Sets `kind`, and `what`: everything that is reported. Adjacent ranges with the same `what` are one finding.
function decide(n,   line, i, met, devs, dev, via, lost, table, proto) {
  if (place[n] ~ /^(4e|6ff)/) return kind = "own" # multicast
  kind = n in failure ? failure[n] in means ? means[failure[n]] : "failed" : "overlap"
  line = kind == "overlap" ? answer[n] : kind == "no-route" ? "" : covering_refusal(place[n], kind)
  $0 = line; prefix($2)
  if (kind == "overlap") {
    if ($1 == 2 || ($1 ~ /^[345]$/ && (bits == width(first) || place[n] == "4ffffffff"))) return kind = "own"
    read_legs(bits ? line : in_turn(line)); lost = legs
    for (i = 1; i <= legs; i++) {
      if (!leg_lost[i]) lost = 0
      if ((family, leg_dev[i]) in is_expected || is_allowed(leg_dev[i]) || met[leg_dev[i]]++) continue
      if (!devs) { dev = leg_dev[i]; via = leg_via[i] }
      devs = devs (devs ? ", " : "") leg_dev[i]
    }
    if (legs && !devs) return kind = "welcome"
  }
  read_words(line, 3); table = has["table"]; proto = has["proto"]
  if (kind != "overlap" && line && is_pod_block(table, proto)) return kind = "welcome"
  what = kind SUBSEP devs SUBSEP dev SUBSEP via SUBSEP $2 SUBSEP table SUBSEP proto SUBSEP lost SUBSEP $1
}
# The route that refuses an address in this way: the one with the longest prefix. If there is none, a rule refused it.
function covering_refusal(address, kind,   i, best) {
  for (i = 1; i <= refusals; i++)
    if (fill(address, refusal_bits[i], 0) == refusal_first[i] && type_name[substr(refusal[i], 1, 1)] == kind)
      if (!best || refusal_bits[i] > refusal_bits[best]) best = i
  return refusal[best]
}
# Whether the refusing route in $0 is the pod block of this host: a route as a CNI installs it, or one that contains the
# route of a pod. It must be a part of an expected CIDR.
function is_pod_block(table, proto,   c, i, dev) {
  for (c = 1; c <= cidrs; c++)
    if (cidr_first[c] <= first && last <= cidr_last[c] && cidr_first[c] cidr_last[c] != first last) break
  if (c > cidrs) return 0
  for (i = 1; i <= cnis; i++) if (cni[i] == $1 " " proto && (!is_single[i] || bits == width(first)))
    for (dev in link) if (dev ~ cni_dev[i]) return 1
  for (i = 1; i <= pods; i++)
    if (pod_table[i] == table && pod_bits[i] >= bits && first <= pod[i] && pod[i] <= last)
      if (is_welcome(pod_route[i])) return 1
}

# --- Findings: ranges of one expected CIDR. An address of this host inside or next to such a range belongs to it.
function judge(c,   n, end, alike, touches, singles) {
  singles = cidr_first[c] == "400000000" # 0.0.0.0 is this host; the kernel cannot be asked about it
  for (n = at[singles ? "400000001" : cidr_first[c]]; n <= places && place[n] <= cidr_last[c]; n++) {
    end = n < places && place[n + 1] <= cidr_last[c] ? beside(place[n + 1], -1) : cidr_last[c]
    decide(n)
    if (kind == "failed") { print "failed the kernel did not answer for " spelled(place[n]) ": " failure[n]; exit }
    alike = place[n] != "4ffffffff" && (answer[n] == answer[n - 1] || answer[n] == answer[n + 1])
    if (kind == "own" && end == place[n] && !alike) {
      if (touches && covers(f_what[findings], end)) { f_last[findings] = end; singles = 0 } else singles++
      continue
    }
    if (kind == "own" || kind == "welcome") { touches = singles = 0; continue }
    if (!touches || f_what[findings] != what) {
      f_cidr[++findings] = c; f_what[findings] = what; f_first[findings] = place[n]
      for (; singles && covers(what, beside(f_first[findings], -1)); singles--)
        f_first[findings] = beside(f_first[findings], -1)
    }
    f_last[findings] = end; touches = 1; singles = 0
  }
}
function covers(what, address,   part) {
  split(what, part, SUBSEP); prefix(part[5])
  return part[5] == "" || (first <= address && address <= last)
}
function unpack(f,   part) {
  split(f_what[f], part, SUBSEP)
  kind = part[1]; devs = part[2]; dev = part[3]; via = part[4]
  route = part[5]; table = part[6]; proto = part[7]; type = part[9]
  rule = rules_of[family, table] == 1 ? rule_of[family, table] : "" # of several rules, it is not known which one
  if (!route) { holder = "a rule"; return }
  prefix(route); route = spelled(first) "/" bits
  holder = (type == 1 ? "" : type_name[type] " ") (bits ? route : "default") " proto " known(protocol_name, proto)
  if (table && table != MAIN) holder = holder " table " known(table_name, table) (rule ? ", rule " rule : "")
  if (part[8]) holder = holder " linkdown"
}
function known(name, number) { return number in name ? name[number] : number }
function span(from, to) { return spelled(from) (from == to ? "" : "–" spelled(to)) }
function finding_line(f,   what) {
  what = "expected CIDR " cidr[f_cidr[f]] " (" span(f_first[f], f_last[f]) ") "
  if (kind == "overlap")
    return "OVERLAP: " what "routes via " (devs ? devs : "an unknown device") " [" holder "], expected " names[family]
  if (kind == "no-route") return "NO-ROUTE: " what "has no IPv" family " route; expected via " names[family]
  return toupper(kind) ": " what phrase[kind] " [" holder "]; expected via " names[family]
}

# --- JSON.
function quoted(text,   i, letter, plain) {
  for (i = 1; i <= length(text); i++) {
    letter = substr(text, i, 1)
    if (letter == "\"" || letter == "\\") letter = "\\" letter
    else if (letter ~ /[\001-\037\177]/) letter = sprintf("\\u%04x", index(CONTROLS, letter))
    plain = plain letter
  }
  return "\"" plain "\""
}
function or_null(text) { return text == "" ? "null" : quoted(text) }
function joined(list, item) { return list (list == "" ? "" : ", ") item }
function entry(key, json) { return "\"" key "\": " json }
function range_json(from, to) { return entry("first", quoted(spelled(from))) ", " entry("last", quoted(spelled(to))) }
function finding_json(f) {
  return "{" entry("cidr", quoted(cidr[f_cidr[f]])) ", " range_json(f_first[f], f_last[f]) \
    ", " entry("prefixes", "[" prefixes "]") ", " entry("kind", quoted(kind)) \
    ", \"via\": {" entry("dev", or_null(dev)) ", " entry("gateway", or_null(via)) \
    ", " entry("route", or_null(route)) ", " entry("table", or_null(known(table_name, table))) \
    ", " entry("protocol", or_null(known(protocol_name, proto))) ", " entry("rule", rule == "" ? "null" : rule) "}}"
}

# --- The repair: each block of a finding by the default route, which fills in what a static route leaves open.
# Sets `prefixes` to the blocks.
function repair(f,   hopeless) {
  # For a broadcast or anycast route of table local, Linux may report table main.
  if ((table && table != MAIN) || type ~ /[345]/ || (!route && kind != "no-route"))
    hopeless = unsafe(f_first[f], f_last[f], "earlier-rule", "is decided by " holder " before table main is looked up")
  else if (!route && family in refusing)
    hopeless = unsafe(f_first[f], f_last[f], "earlier-rule", "has no route, or rule " refusing[family] " refuses it")
  else if (!uplink_dev) hopeless = unsafe(f_first[f], f_last[f], "no-way", \
    "cannot be repaired: this needs a default route via " names[family] " with an IPv" family " gateway")
  else cost(f)
  prefixes = ""; for (first = f_first[f]; first != "" && first <= f_last[f]; first = beside(last, 1)) {
    block(f_last[f]); prefixes = joined(prefixes, quoted(spelled(first) "/" bits))
    if (!hopeless) add(first, bits)
  }
}
# If another route has the key of a block, its two halves are added instead.
function add(from, length_,   to, i) {
  to = fill(from, length_, 1)
  for (i = 1; i <= reserved && (from < reserved_first[i] || to > reserved_last[i]); i++) ;
  if (i <= reserved) unsafe(from, to, "reserved", "is reserved: no static route there is allowed")
  else if (length_ && held[from, length_] < 2) {
    if (added[from, length_]++) return
    repairs++; routes = joined(routes, "{" entry("destination", quoted(spelled(from) "/" length_)) ", " \
      entry("gateway", quoted("")) ", " entry("dev", quoted(named_dev)) ", " \
      entry("metric", held[from, length_] + 0) "}")
  }
  else if (length_ == width(from)) unsafe(from, to, "longest-prefix", "has a route of its own, to this single address")
  else { add(from, length_ + 1); add(beside(fill(from, length_ + 1, 1), 1), length_ + 1) }
}
function unsafe(from, to, reason, text) {
  text = span(from, to) " " text "; see: hostrouting repair"
  unsafes = joined(unsafes, "{" range_json(from, to) ", \"reason\": " quoted(reason) ", \"text\": " quoted(text) "}")
  return unsafe_text[++unsafe_count] = "UNSAFE: " text
}
function cost(f) {
  if (cost_told[family, f_what[f]]++ || kind == "no-route" || (kind == "overlap" && via)) return
  if (kind != "overlap") note[++notes] = "the repair overrides [" holder \
    "], which may be there on purpose: packets for the repaired range are no longer refused"
  else note[++notes] = "the repair diverts addresses of " route " from " devs ": " (proto == 2 ? \
    "neighbours there, in the repaired range, become unreachable over IP" : \
    "packets for the repaired range no longer go there")
}

# --- The uplink: the first usable default route in the tables that are looked up for plain packets.
# A repair names the device if that is the only one configured, or if the default route that comes first has another.
function find_uplink(   t, i, leg, configured, line, type, others) {
  configured = expecteds[family]; uplink_dev = named_dev = has_uplink = ""
  for (t = 1; t <= tables[family]; t++) for (i = 1; i <= defaults[family] && !uplink_dev; i++) {
    line = default_route[family, i]; read_legs(line); type = substr(line, 1, 1)
    if (has["table"] != table_order[family, t] || "tos" in has || (type < 6 && !alive)) continue
    if (type == 9) break # throw: the next table is looked up
    if (type != 1) { if (!configured) return; others = 1; continue }
    read_legs(in_turn(line), 1)
    for (leg = 1; leg <= legs; leg++) {
      if (!configured) expect(leg_dev[leg])
      if (!((family, leg_dev[leg]) in is_expected)) { others = 1; continue }
      has_uplink = 1
      if (!uplink_dev && link[leg_dev[leg]] && (family == 6 || leg_via[leg] !~ /:/)) {
        uplink_dev = leg_dev[leg]; if (configured == 1 || others) named_dev = uplink_dev
      }
    }
    if (!configured) { if (family == 6 && !forwards) expect_alike(i); return }
  }
}
# A host that does not forward goes on to the next IPv6 router of the same rank if one does not answer.
function expect_alike(i,   leg, rank) {
  for (leg = 1; leg <= legs; leg++) if (!leg_via[leg]) return
  for (rank = rank_of(default_route[6, i]); i <= defaults[6]; i++) {
    if (default_route[6, i] !~ /^1 / || rank_of(default_route[6, i]) != rank) continue # rank_of sets the next hops
    for (leg = 1; leg <= legs; leg++) expect(leg_dev[leg])
  }
}
function rank_of(line) { read_words(line, 3); return has["table"] " " has["metric"] " " has["pref"] }
function first_cidr(   c, best) {
  for (c in rank) if (!best || rank[c] < rank[best]) best = c
  return best
}
# Judges the expected CIDRs of one family.
function examine(   c, i, f, ready, verdict) {
  find_uplink(); ready = expecteds[family] && has_uplink; f = findings
  for (i = 1; i <= expecteds[family]; i++) if (!link[expected[family, i]]) ready = 0
  while ((c = first_cidr()) && substr(rank[c], 1, 1) == family) { delete rank[c]; if (expecteds[family]) judge(c) }
  verdict = !expecteds[family] ? "no-default-route" : f < findings ? "overlap" : "ok"
  if (!final && !ready && verdict != "ok") { print "not yet"; exit } # what is missing may still appear
  if (!expecteds[family]) wrong[++wrongs] = "NO-DEFAULT-ROUTE: the expected devices are those of the IPv" family \
    " default route, and " (waited + 0 ? "none appeared within " waited " s" : "there is none") "; last seen: " \
    (seen[family] ? seen[family] : "no default route")
  while (f++ < findings) {
    unpack(f); repair(f); wrong[++wrongs] = finding_line(f); findings_json = joined(findings_json, finding_json(f))
  }
  leaving = !leaving || leaving == names[family] ? names[family] : leaving " (IPv4) and " names[family] " (IPv6)"
  verdicts = joined(verdicts, entry("ipv" family, quoted(verdict)))
  devs_json = joined(devs_json, entry("ipv" family, "[" names_json[family] "]"))
}

# --- Output: lines that start with journal, mark (for the marker file), json, verdict, or failed.
function tell(level, text) { print "journal <" level ">" text }
function shown(level, count, text,   i) {
  for (i = 1; i <= count && i <= 20; i++) tell(level, text[i])
  if (count > 20) tell(level, "and " (count - 20) " more; all are in route-overlap.json")
}
function finish(   i, level, verdict, both) {
  level = setting["mode"] == "STRICT" ? 3 : 4; verdict = findings ? "overlap" : wrongs ? "no-default-route" : "ok"
  shown(level, wrongs, wrong); shown(level, unsafe_count, unsafe_text)
  if (sources) note[++notes] = "packets from " sources \
    ", which have IPv6 routes of their own, were not judged; for these run: hostrouting check"
  for (i = 1; i <= unjudgeds; i++) note[++notes] = unjudged[i]
  if (verdict != "overlap") print "mark " verdict
  for (i = 1; i <= wrongs && findings; i++) print "mark " wrong[i]
  for (i = 1; i <= notes && verdict == "ok"; i++) print "mark " note[i]
  if (verdict == "ok") tell(6, "check-route-overlap: ok: every expected CIDR leaves by " leaving)
  shown(4, notes, note)
  if (repairs > 20) tell(level, "ACTION: add " repairs \
    " routes to staticRoutes.routes: the repair in route-overlap.json; for fewer routes: hostrouting repair")
  else if (repairs) tell(level, "ACTION: add to staticRoutes.routes: [" routes "]")
  if (repairs && start) tell(level, "if the configuration has these routes already, add them with: " start)
  for (i = 1; i <= notes; i++) notes_json = joined(notes_json, quoted(note[i]))
  both = 6 in families # or IPv6 alone
  print "json {" entry("schema", quoted("hostrouting/check/" (both ? 2 : 1))) ", " entry("verdict", quoted(verdict)) \
    (both ? ", " entry("verdicts", "{" verdicts "}") : "") ", " entry("mode", quoted(setting["mode"])) \
    ", " entry("expectedDevs", both ? "{" devs_json "}" : "[" names_json[4] "]") \
    ", " entry("findings", "[" findings_json "]") ", " entry("repair", "[" routes "]") \
    ", " entry("unsafe", "[" unsafes "]") ", " entry("notes", "[" notes_json "]") "}"
  print "verdict " verdict
}

END {
  if (section != "end") exit
  if (part == "places") {
    for (c = 1; c <= cidrs; c++) mark(cidr_first[c] == "400000000" ? "400000001" : cidr_first[c])
    mark("4e0000000"); mark("4f0000000"); mark("4ffffffff"); mark("6ff" substr(ZEROS, 3)) # multicast and broadcast
    delete wanted["400000000"]
    for (address in wanted) print address, spelled(address), "ipproto 17" # UDP, which only IPv4 assumes
    print "z" # sorted behind all addresses: the list is complete
    exit
  }
  for (n = 1; n <= places; n++) {
    if (!(n in failure) && used == givens) failure[n] = "no answer"
    answer[n] = n in failure ? failure[n] : given[++used]
  }
  for (family = 4; family <= 6; family += 2) if (family in families) examine()
  finish()
}
'

look() {
  local family
  for family in "${families[@]}"; do
    echo "family $family"
    [[ $family == 4 || -e /proc/self/net/if_inet6 ]] || continue # a kernel without IPv6 has no such file
    printf '%s\n' 'rule show' 'route show table all' 'netconf show' | ip -"$family" -N -d -o -batch - 2>&1 || return
  done
  ip -N -o link show 2>&1 # without -d: the timers of a bridge would differ in every look
}
# Without the seconds until an IPv6 route expires, which would differ in every look.
steady_look() {
  [[ ${families[6]-} ]] || { look; return; }
  look | sed -E 's/ expires (0|-[0-9]+)sec/ expired/; s/ expires [0-9]+sec//'
}
# Sets `seen`. The nexthop objects are in it only if a route has one.
see() {
  seen=$(steady_look) || return
  [[ $seen != *' nhid '* ]] || seen+=$'\n'$(ip -N -o nexthop show 2>&1)
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
  see || { told="failed ip failed: ${seen##*$'\n'}" && return; }
  tables=$seen told='failed the routes kept changing while they were read'
  if [[ $tables == *'Dump was interrupted'* ]]; then [[ $last ]]; return; fi
  mapfile -t places < <(judge places "$tables" | sort -u)
  told='failed the list of addresses to look up is incomplete: awk or sort failed'
  [[ ${places[*]: -1} == z ]] || return 0
  unset 'places[-1]'
  answers=$(printf 'route get fibmatch %s\n' "${places[@]#* }" | ip -N -d -o -force -batch - 2>&1)
  told=$(judge answers "$tables" places "${places[@]}" answers "$answers")
  [[ $told == 'not yet' ]] && return 1
  [[ $last ]] || { see && [[ $seen == "$tables" ]]; }
}

# --- The files.

# Writes a file: complete, or not at all. Of what a failed command said, the last words are the reason.
leave() {
  local why path=$1 new=$directory/route-overlap.new
  # What an earlier run left there may be a link. Usually there is nothing, and then no program starts.
  why=$({ if [[ -e $new || -L $new ]]; then rm -f "$new"; fi && printf '%s' "$2" >"$new" &&
    mv -fT "$new" "$path"; } 2>&1) && return
  rm -f "$new" 2>/dev/null
  complain "cannot write $path: ${why##*: }" && return 1
}

# Deletes the files of an earlier run.
forget() {
  local path why
  for path in "$directory"/route-overlap.{ok,detected,json,new}; do
    [[ -e $path || -L $path ]] || continue
    why=$(rm -f "$path" 2>&1) || complain "cannot remove $path: ${why##*: }; it is from an earlier check"
  done
}

main() {
  local told why last='' tries=0 waited=0 kind text json='' mark='' verdict='' marker
  [[ -d $directory ]] || why=$(mkdir -p "$directory" 2>&1) || complain "cannot create $directory: ${why##*: }"
  forget
  hash "$awk" 2>/dev/null || { say "$awk is not installed" && finish 1; }
  trap 'say "stopped before there was a verdict"; finished=1; exit 143' TERM
  while
    ((waited >= wait * 5)) && last=last
    ! check
  do
    if [[ $told == 'not yet' ]]; then nap; elif ((++tries == 3)); then last=last; fi
  done

  # The journal comes first, because the disk may be full; the marker file last: when it exists, everything is written.
  while read -r kind text; do
    case $kind in
      journal) printf '%s\n' "$text" >&2 ;;
      json) json=$text$'\n' ;;
      mark) mark+=$text$'\n' ;;
      verdict) verdict=$text ;;
      failed) say "$text" && finish 1 ;;
      '') ;;
      *) say "awk failed: $kind $text" && finish 1 ;;
    esac
  done < <(printf '%s\n' "$told")
  [[ $verdict ]] || { say 'awk ended without a verdict' && finish 1; }
  if [[ $verdict == ok ]]; then marker=ok; else marker=detected; fi
  leave "$directory/route-overlap.json" "$json" && leave "$directory/route-overlap.$marker" "$mark"
  [[ $verdict == ok ]]; finish $?
}

main
