#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Checks that every address of the expected CIDRs leaves by an expected device. Written by hostrouting.
#
# Linux decides: it is asked with `ip route get`. Its answer can change only where the prefix of a route or of a rule
# starts, and right after one ends. So it is asked at these places, and each answer holds up to the next one. It is also
# asked about a few addresses elsewhere: the devices of the default route that it uses there are the expected ones.
# What its answers leave open is not computed: then this script refuses, and says why.
# Exit status: 0, or 1 if gated units must not start. The journal and route-overlap.ok or .detected have the result.

# Data only: no line of it is executed.
configuration=(
)

set -uo pipefail && umask 022 && export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
mode=${configuration[0]#* } wait=${configuration[1]#* } families=${configuration[3]#* }
directory=${RUNTIME_DIRECTORY:-${configuration[2]#* }}
awk='awk' && hash mawk 2>/dev/null && awk=mawk # it starts fastest
level=3 && [[ $mode == WARN ]] && level=4 # of syslog: an error, or a warning
#include nap.sh
# shellcheck disable=SC2016 # the text of a program
program='
# An address is text: its family, then its hexadecimal digits. So comparing text compares addresses, in every awk.
function text_of(address,   half, head, tail, part) {
  if (address ~ /:/) {
    split(address, half, "::"); head = groups(half[1]); tail = groups(half[2])
    return "6-" head substr(ZEROS, 1, 32 - length(head tail)) tail
  }
  split(address, part, "."); return sprintf("4-%02x%02x%02x%02x", part[1], part[2], part[3], part[4])
}
function groups(text,   part, i, n, all) {
  n = split(text, part, ":")
  for (i = 1; i <= n; i++)
    all = all (part[i] ~ /[.]/ ? substr(text_of(part[i]), 3) : substr("0000" part[i], length(part[i]) + 1))
  return all
}
function digit(text, place) { return index(DIGITS, substr(text, place, 1)) - 1 }
function spelled(text,   i, address) {
  for (i = 3; text ~ /^4/ && i < 11; i += 2) address = address "." 16 * digit(text, i) + digit(text, i + 1)
  if (text ~ /^6/) { address = substr(text, 3); gsub(/..../, ":&", address); gsub(/:0+/, ":", address) }
  gsub(/::/, ":0:", address); gsub(/::/, ":0:", address); sub(/:$/, ":0", address)
  sub(/:0(:0)+$/, "::", address) || sub(/(:0)+:/, "::", address)
  return address ~ /^::/ ? address : substr(address, 2)
}
# The next address, and the one before; empty if there is no such address.
function after(text) { if (match(text, /[0-9a-e]f*$/)) return beside(text, 1, ZEROS) }
function before(text) { if (match(text, /[1-9a-f]0*$/)) return beside(text, -1, EFFS) }
function beside(text, step, rest) {
  return substr(text, 1, RSTART - 1) substr(DIGITS, digit(text, RSTART) + step + 1, 1) substr(rest, 1, RLENGTH - 1)
}
function read_prefix(text,   part, width, place, unit, low) { # sets its ends, and its size in bits
  split(text != "default" ? text : family == 6 ? "::/0" : "0.0.0.0/0", part, "/")
  first = last = text_of(part[1]); width = length(first); size = part[2] == "" ? 4 * width - 8 : part[2] + 0
  if (size == 4 * width - 8) return
  place = int(size / 4) + 3; unit = unit_of[size % 4 + 1]; low = digit(first, place); low -= low % unit
  first = substr(first, 1, place - 1) substr(DIGITS, low + 1, 1) substr(ZEROS, 1, width - place)
  last = substr(last, 1, place - 1) substr(DIGITS, low + unit, 1) substr(EFFS, 1, width - place)
}
BEGIN {
  DIGITS = "0123456789abcdef"; ZEROS = sprintf("%032d", 0); EFFS = ZEROS; gsub(0, "f", EFFS)
  split("16 8 4 2", unit_of, " "); ANY = text_of("0.0.0.0"); BROADCAST = text_of("255.255.255.255")
  n = split("1.1.1.1 100.0.0.1 128.0.0.1 192.0.2.1 203.0.113.1 223.255.255.1 2001:db8::1 3fff::1 8000::1", spare, " ")
  for (; n; n--) is_spare[text_of(spare[n])] = 1
  split("unicast local broadcast anycast multicast blackhole unreachable prohibit throw nat", type_name, " ")
  why["Network is unreachable"] = why["Operation not supported"] = "no-route" # the second: without IPv6
  why["No route to host"] = "unreachable"; why["Invalid argument"] = "blackhole"; why["Permission denied"] = "prohibit"
  reads["6 254"] = reads["6 255"] = 1 # Linux looks them up without rules until there was another rule
}
function joined(list, separator, item) { return list (list == "" ? "" : separator) item }

# --- Input: the links; the settings; then for each family what `ip` lists: settings of the kernel, rules, and routes
!has_links { if (!(is_whole = $0 == "end of links" && !is_cut)) read_link(); next } # the last line: ip was not killed
$1 == "setting" { read_setting(); next }
$1 == "family" { family = $2; next }
$1 == "inet6" && $2 == "all" { forwards = $4 == "on"; next }
/^[0-9]+:\t/ { read_rule(); next }
/^[0-9]+ / && !/ expires 0sec / { read_route() }
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
# The alias of a link is any text, and can have lines that look like those of other links.
function read_link(   dev, piece, word) {
  dev = $2; split($0, piece, /\\ +/); if (/Dump was interrupted/) is_cut = 1 # -o joins lines by a backslash
  if (!sub(/(@[^@]*)?:$/, "", dev) || dev in is_up || piece[2] !~ /^link\//)
    uncertain = "this check cannot read a link: " $0
  is_up[dev] = $3 ~ /[<,]UP[,>]/; is_fabric[dev] = piece[2] ~ /^link\/(\[32\]|infiniband|\[772\]|loopback)/
  if (match($0, / group [0-9]+/)) group[dev] = substr($0, RSTART + 7, RLENGTH - 7)
  split(piece[3], word, " "); dev_kind[dev] = word[1]; if ($3 ~ /LOOPBACK/) loopback = dev
}
function is_judged(begin, end,   c) { # mostly by the CIDR of the last time, because routes are sorted
  for (c = 0; c <= cidrs; c++) if (from[c] <= end && begin <= to[c]) { from[0] = from[c]; to[0] = to[c]; return 1 }
}
function cut(   behind) { # at the first address of a prefix, and at the one behind it
  if (is_judged(first, first)) ask_about(first)
  if ((behind = after(last)) && is_judged(behind, behind)) ask_about(behind)
}
function ask_about(address) { if (!wanted[address]++) place[++places] = address }
# Reads a rule: where it begins and ends, what it refuses or suppresses, and which packets are not judged because of it.
function read_rule(   i, n, word, key, type, table, only, selected, is_for) {
  n = split($0, word, " "); has_rules[family] = 1; read_prefix("default")
  for (i = 2; i <= n; i++) {
    key = word[i]; if (key ~ /^[68]$/) type = key # not 7: Linux answers as if there were no route
    if (key ~ /^(not|nop|[678]|\[unresolved\]|\[detached\])$/) continue
    i++; if (key ~ /^[io]if$/ && !(word[i] in is_up) && word[i + 1] != "[detached]") key = key "-altname" # any device
    if (key == "to") { read_prefix(word[i]); cut(); is_for = 1 }
    else if (key == "lookup") table = word[i] ~ /^[0-9]/ ? family " " word[i] : "l3mdev"
    else if (key == "suppress_ifgroup") only = word[i]; else if (key == "suppress_prefixlength") suppresses[table]
    else if (key ~ /^(from|fwmark|[io]if(-altname)?|uidrange|ipproto|[sd]port|tos|dsfield|dscp|tun_id|flowlabel)$/) {
      if (key word[i] != "fromall" && key word[i] != "iif" loopback) selected = selected " " key " " word[i]
    } else if (key !~ /^(goto|realms|proto)$/) uncertain = "this check does not know what a rule means: " $0
  }
  if (selected) leave_out("rule " $1 + 0 (family == 6 ? " of IPv6" : "") " (" substr(selected, 2) ")")
  if (word[2] != "not" && selected ~ / ([io]if|[sd]port|tun_id|tos) | ipproto-[02-9]/) return # no plain packets
  if (word[2] == "not" && !table) read_prefix("default") # it takes all others away from a default route
  if (is_for) { named[++nameds] = first; named_to[nameds] = last }
  if (table) looks[table] = reads[table] = 1
  if (only != "") { suppresses[table, only]; if (family == 6) chooses = "rule " $1 + 0 }
  if (type) add_refusal(type, "rule " refusals)
}
function add_refusal(type, table) { # of the prefix that was read
  refusal[++refusals] = $0; refusal_type[refusals] = type_name[type]; refusal_table[refusals] = table
  refusal_first[refusals] = first; refusal_last[refusals] = last; bits_of[refusals] = size
}
function leave_out(packets) { if (!left_out[packets]++) unjudged = joined(unjudged, "; ", packets) }
function read_route(   hits) { # only default routes and those in the expected CIDRs matter
  if (!match($0, / table [0-9]+ proto /)) uncertain = "this check cannot read a route: " $0
  if ($2 == "default") seen[family] = joined(seen[family], ", ", listed($0))
  # A table that no rule looks up says nothing. An encapsulation can name another table first.
  if (!(reads["l3mdev"] || reads[family substr($0, RSTART + 6, RLENGTH - 13)] || / encap /)) return
  read_prefix($2); if (size && $1 == 9) { named[++nameds] = first; named_to[nameds] = last } # it passes on
  if (size) { if (is_judged(first, last)) cut(); else return }
  if ($3 == "from") { sourced[family] = 1; leave_out("packets from " $4); return }
  if (family == 6 && / nhid / && /\tnexthop /) { team[++teams] = $0; team_from[teams] = first; team_to[teams] = last }
  if ($1 == 1 && size && !chooses) return # there can be 100,000, and the answers are enough for these
  if (/ tos 0x/) return # an encapsulation has a decimal one
  read_words($0)
  # For such a rule, IPv6 chooses a next hop for each address: some are suppressed, and others are not.
  if (chooses && family == 6 && $1 == 1 && ((hits = in_suppressed_group()) < legs ? hits : !legs))
    uncertain = chooses " of IPv6 (suppress_ifgroup) can treat each address differently: " $0
  if (!size) read_default()
  if ($1 ~ /^[678]$/) add_refusal($1, family " " has["table"])
}
# Sets `has` and the next hops of a route. A device name and an encapsulation can have any of these words, so a device
# is what is right before the table or the weight.
function read_words(line,   word, n) {
  gsub(/\\\t/, " ", line); split("", has); legs = 0 # -o joins lines by \ and a tab
  if (match(line, / table [0-9]+ proto .*/)) {
    n = split(substr(line, RSTART), word, " ")
    for (; n > 1; n--) if (word[n - 1] ~ /^(table|proto|metric|pref)$/) has[word[n - 1]] = word[n]
  }
  while (match(line, /( via (inet6 )?[^ ]+)? dev [^ ]+ (table [0-9]+ proto|weight) /)) {
    n = split(substr(line, RSTART, RLENGTH), word, " "); n -= word[n] == "weight" ? 1 : 3
    line = substr(line, RSTART + RLENGTH - 1)
    # Linux may still use a next hop that has only lost its carrier: that depends on what has changed first.
    if (word[n + 1] == "weight" && line ~ /^ [0-9]+ dead / && !is_up[word[n]]) continue
    leg_dev[++legs] = word[n]; leg_via[legs] = n > 2 ? word[n - 2] : ""
  }
}
function in_suppressed_group(   i, count) {
  for (i = 1; i <= legs; i++) count += (family " " has["table"], group[leg_dev[i]]) in suppresses; return count
}
# Linux takes default routes in turn that are alike for it and have gateways: in IPv4 the first one of each, in IPv6 all
# if the host does not forward packets. Those by different devices compete.
function read_default(   i, alike, devs) {
  default_route[++defaults] = $0; default_table[defaults] = family " " has["table"]; if ($1 != 1) return
  alike = rank(); for (i = 1; i <= legs; i++) devs = devs " " leg_dev[i]
  if (devs && !((alike, devs) in met)) {
    met[alike, devs]; rivals[alike] += 1 + (has["proto"] == 9 && devs ~ / .* /)
    rival_routes[alike] = joined(rival_routes[alike], " or ", listed($0))
  }
  if (family == 4) legs = leg_via[1] != ""
  for (i = 1; i <= legs; i++) turns[alike] = turns[alike] " dev " leg_dev[i] " weight "
}
function rank() { return family " " has["table"] " " has["metric"] " " has["pref"] }
function read_turns(line,   alike) {
  read_words(line); alike = rank(); if (!leg_via[1] || (family == 4 ? legs > 1 : forwards)) return alike
  read_words("1 default" turns[alike]); return alike
}

# --- The expected devices, if none are configured
# Those of the default route for an address that no rule names; if that is hidden, or by InfiniBand or lo, the next.
function learn(   n, line, table, i, alike) {
  for (n = 1; n <= places && !line; n++) {
    if (!(place[n] in is_spare) || place[n] !~ "^" family || answer[n] !~ /^1 / || is_named(place[n])) continue
    read_words(answer[n]); if (answer[n] ~ /^1 default / && leads_out()) line = answer[n]
    else if (!table) table = family " " has["table"]
  }
  for (n = 1; n <= defaults && !line && !(table in suppresses); n++) if (default_table[n] == table) {
    read_words($0 = default_route[n]); if ($1 != 1 || / dead | pref (low|high)/ || in_suppressed_group()) break
    if (leads_out()) line = $0
  }
  if (!line && (table || nameds)) print "note", "routes or rules hide the IPv" family \
    " default route from this check; name the right devices in routeOverlap.expectedDevs"
  alike = read_turns(line); for (i = 1; i <= legs; i++) if (!is_fabric[leg_dev[i]]) expect(family, leg_dev[i])
  if (rivals[alike] > 1) doubt("IPv" family " default routes compete: Linux uses " rival_routes[alike] \
    "; name the right devices in routeOverlap.expectedDevs, or give one route another metric")
}
function is_named(address,   i) {
  for (i = 1; i <= nameds; i++) if (named[i] <= address && address <= named_to[i]) return 1
}
function leads_out(   i) { for (i = 1; i <= legs; i++) if (!is_fabric[leg_dev[i]]) return 1 }
function doubt(text) { if (!doubted[text]++) { doubts++; print "note", text } }

# --- What Linux does with the packets to one place
# Sets `what`, empty if all is well: what is wrong, in words, and the prefix of the deciding route of table main.
function decide(n,   i, g, word, type, devs, by, met) {
  what = is_own = ""; if (place[n] ~ /^(4-e|6-ff)/ && !(n in failure)) return # multicast
  if (n in failure) {
    $0 = ""; type = why[failure[n]]; if (type != "no-route" && is_for_pods(place[n], type)) return
    by = type == "no-route" ? "has no IPv" family " route" : "is refused by [" named_route() "]"
    what = type SUBSEP by "; expected via " expected[family] SUBSEP halved(); return
  }
  $0 = answer[n]; read_prefix($2)
  is_own = place[n] == BROADCAST || ($1 == 2 ? first <= place[n] && place[n] <= last : \
    /^[345] .* proto 2 / && first place[n] == place[n] last); if (is_own) return
  by = named_route(); if (!size && family == 4) read_turns($0)
  if (!legs) give_up("the kernel names no device for this route; set net.ipv4.nexthop_compat_mode to 1: " $0)
  if (/ encap (seg6|ioam6|rpl|bpf)/) doubt("the route [" by "] encapsulates packets, and Linux can route these anew")
  # Where an IPv6 group decides, Linux may name the route of a member: each group that is not around the answer counts.
  for (g = 0; g <= (family == 6 && / nhid / ? teams : 0) && !devs; g++) {
    if (g && (place[n] < team_from[g] || team_to[g] < place[n] || (team_from[g] <= first && last <= team_to[g] && \
      first <= place[n] && place[n] <= last))) continue
    if (g) { read_words(team[g]); split(team[g], word, " "); by = word[2] " by a nexthop group" }
    for (i = 1; i <= legs; i++)
      if (!((family, leg_dev[i]) in is_expected || is_allowed(leg_dev[i]) || met[leg_dev[i]]++))
        devs = joined(devs, ", ", leg_dev[i])
  }
  if (devs) what = "overlap" SUBSEP "routes via " devs " [" by "], expected " expected[family] SUBSEP halved()
}
function is_allowed(dev,   i) {
  for (i = 1; i <= allows; i++) if (dev ~ allow[i] && (!allow_kind[i] || allow_kind[i] == dev_kind[dev])) return 1
}
function named_route(   proto) {
  if (!/^[0-9]+ /) return $0 ? "rule " $1 + 0 : "a rule"
  read_words($0); proto = has["proto"] in protocol ? protocol[has["proto"]] : has["proto"]
  return ($1 == 1 ? "" : type_name[$1] " ") $2 " proto " proto (has["table"] == 254 ? "" : " table " has["table"])
}
function listed(line,   type) {
  type = line + 0; gsub(/^[0-9]+ | +$/, "", line); return "[" (type == 1 ? "" : type_name[type] " ") line "]"
}
function halved() { return / table 254 / && $2 ~ /\// ? $2 : "" }
# Whether an address is refused for being in a pod block. Linux does not say what refuses it, so each route and rule
# that may refuse it in this way has to be a pod block: of one table those with the longest prefix, unless there are
# routes for some sources. Of others, the one with the longest prefix is left in $0.
function is_for_pods(address, type,   pass, i, table, longest, is_found, other) {
  for (pass = 1; pass <= 2; pass++) for (i = 1; i <= refusals; i++) {
    if (refusal_type[i] != type || address < refusal_first[i] || refusal_last[i] < address) continue
    table = sourced[family] ? i : refusal_table[i]; if (bits_of[i] > longest[table]) longest[table] = bits_of[i]
    if (pass == 1 || bits_of[i] < longest[table]) continue
    if (!(i in is_pods)) is_pods[i] = is_pod_block(i)
    if (is_pods[i]) is_found = 1; else if (!other || bits_of[i] > bits_of[other]) other = i
  }
  $0 = other ? refusal[other] : ""; return is_found && !other
}
# Whether a route is for a pod block: a part of an expected CIDR, and as a CNI installs it, or with the route of a pod.
function is_pod_block(r,   c, i, n, dev, in_table) {
  $0 = refusal[r]; if (!/^[678] /) return 0 # a rule
  read_prefix($2); read_words($0); in_table = has["table"]
  for (c = 1; c <= cidrs; c++) if (from[c] <= first && last <= to[c] && from[c] to[c] != first last) break
  for (i = 1; c <= cidrs && i <= cnis; i++) if (cni[i] == $1 " " has["proto"] && (!is_single[i] || first == last))
    for (dev in is_up) if (dev ~ cni_dev[i]) return 1
  for (n = at[first]; c <= cidrs && n <= places && place[n] <= last; n++) if (answer[n] ~ /^1 /) {
    read_words(answer[n]); if (has["table"] != in_table || !legs) continue
    for (i = legs; i && is_allowed(leg_dev[i]); i--) ; if (!i) return 1
  }
}
function give_up(text) { print "failed " text; exit }
function sort(   gap, i, n, held) { # each part of the list of places is in order already, so this is quick
  for (gap = places; gap > 1;) for (i = (gap = int(gap / 3) + 1) + 1; i <= places; i++) {
    held = place[i]; for (n = i - gap; n > 0 && place[n] > held; n -= gap) place[n + gap] = place[n]
    place[n + gap] = held
  }
}
# Asks about some places (a command can have 128 kB). A failure has two lines: a reason, and the number of the question.
function ask(n, end, how,   begin, i, command, line, reason) {
  for (; end - n > 1999; n += 2000) ask(n, n + 1999, how)
  begin = n - 1; for (i = n; i <= end; i++) command = command " \"" spelled(place[i]) (i <= places ? "" : \
    match(answer[i], / src [0-9.]+/) ? " from" substr(answer[i], RSTART + 4, RLENGTH - 4) : "") "\""
  command = "printf \"route get " how "%s ipproto 17\\n\"" command " | ip -N -d -o -force -batch - 2>&1" # UDP
  while ((command | getline line) > 0)
    if (line ~ /^[0-9]/) answer[n++] = line
    else if (line ~ /^\tnh_info/) answer[n - 1] = answer[n - 1] line
    else if (!sub(/^Command failed .*:/, "", line)) { reason = line; sub(/^[^:]*: /, "", reason) }
    else if (!(reason in why) || line + 0 != n - begin) break
    else failure[n++] = reason
  close(command)
  if (n <= end) give_up("the kernel did not answer for " spelled(place[n]) ": " (reason ? reason : "no answer"))
  if (n > end + 1) give_up("the kernel gave more answers than there were questions")
}

# --- Findings: ranges of one expected CIDR with one `what`; a single address of this host may be part of a range
function judge(c,   n, was, begin, part) {
  for (n = at[from[c]]; n <= places && place[n] <= to[c]; n++) {
    if (fours) { what = ""; if ((places + n) in place) decide(places + n); split(what, part, SUBSEP) } # what TCP gets
    decide(n); if (fours && part[2] && !what && !is_own) doubt("TCP from the source that Linux chooses " part[2])
    if (what == was) continue
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
function examine(   c, i, n, dev, had, ready, downs) { # one family
  if (!configured) learn()
  n = split(expected[family], dev, ", "); had = wrongs
  for (i = 1; i <= n; i++) { ready += index(seen[family], " dev " dev[i] " "); downs += !is_up[dev[i]] }
  for (c = 1; c <= cidrs && n; c++) if (from[c] ~ "^" family) judge(c)
  if (!n && ++wrongs) print "wrong", "NO-DEFAULT-ROUTE: the expected devices are those of the IPv" family \
    " default route, and " (seen[family] ? "plain packets use none of these: " seen[family] : \
    (waited + 0 ? "none appeared within " waited " s" : "there is none") "; last seen: no default route") \
    (looks[family " 254"] ? "" : "; no rule looks up table main" adding("32766 lookup main"))
  if (!final && (!ready || downs) && wrongs > had) { print "not yet"; exit } # what is missing may still appear
  ways = ways && ways != expected[family] ? ways " (IPv4) and " expected[family] " (IPv6)" : expected[family]
  if (has_rules[family] && !looks[family " 255"])
    doubt("no rule looks up table local, so this host does not answer on its own addresses" adding("0 lookup local"))
}
function adding(rule) { return "; run: ip " (family == 6 ? "-6 " : "") "rule add pref " rule }

# --- Output: each line begins with what it is; the last one is the verdict
$1 == "end" {
  if (!is_whole || uncertain) give_up(is_whole ? uncertain : "ip did not list all links")
  for (c = 1; c <= cidrs; c++) ask_about(from[c])
  for (n = split("224.0.0.0/4 255.255.255.255 ff00::/8", special, " "); n; n--) { read_prefix(special[n]); cut() }
  for (address in is_spare) if (substr(address, 1, 1) in asked) ask_about(address)
  sort(); for (n = 1; n <= places; n++) at[place[n]] = n
  ask(1, places, "fibmatch ") # where rules select sources, IPv4 also as TCP asks: again, with the source Linux chose
  for (; unjudged ~ /from / && fours < places && place[fours + 1] ~ /^4/; place[places + fours] = place[fours]) fours++
  if (fours) { ask(places + 1, places + fours); ask(places + 1, places + fours, "fibmatch ") }
  for (family = 4; family <= 6; family += 2) if (family in asked) examine()
  if (remedy)
    print "action", "ACTION: run: hostrouting repair" remedy (example ? "; for example, routes to " example : "")
  if (unjudged) print "note", "of these, only plain packets are judged: " unjudged "; for others: hostrouting check"
  print "verdict", remedy ? "1 overlap" : wrongs ? "1 no-default-route" : doubts ? "3 undecided" : "0 ok", \
    "every expected CIDR leaves by " ways
}
'
say() { printf '<%s>check-route-overlap: %s\n' "$level" "$1" >&2; }
complain() { level=4 say "$1"; }
finish() { finished=1; [[ $mode == WARN ]] && exit 0; exit "$1"; }

# Sets `listing` to the rules and routes. IPv6 routes are without the seconds until they expire, which differ in every
# look; 0 stands for a route that has expired.
look() {
  local family text && listing=''
  for family in $families; do
    text='' # a kernel without IPv6 does not have this file
    [[ $family == 6 && ! -e /proc/self/net/if_inet6 ]] || text=$(list) || { listing=$text && return 1; }
    listing+="family $family"$'\n'$text$'\n'
  done
}
list() {
  [[ $family == 6 ]] || exec ip -4 -N -d -o -batch - 2>&1 < <(printf 'rule show\nroute show table all\n')
  ip -6 -N -d -o -batch - 2>&1 < <(printf 'netconf show\nrule show\nroute show table all\n') |
    sed -E 's/ expires -[0-9]+/ expires 0/; s/ expires [1-9][^ ]*//'
}
# Sets `told` to the result. Fails if it may change: something is missing, or the tables changed meanwhile.
check() {
  local seen changing='the routes kept changing while they were read'
  look || { told=("failed ip failed: ${listing##*$'\n'}") && return; }
  seen=$listing told=("failed $changing")
  if [[ $seen == *'Dump was interrupted'* ]]; then [[ $last ]]; return; fi
  # Any program may be killed, so "end" marks the end. The next hops of a nexthop object are on a line of their own.
  mapfile -t told < <(exec "$awk" -v waited="$wait" -v final="$last" "$program" \
    <(ip -N -d -o link show 2>&1 && echo end of links) has_links=1 - \
    < <(printf '%s\n' "${configuration[@]/#/setting }" "${seen//$'\n\tnh_info'/ nh_info}" end))
  if [[ ${told[*]} == *@('not yet'|'did not list all links') ]]; then [[ $last ]]; return; fi
  look && [[ $seen == "$listing" ]] && return
  [[ $last ]] && told=("note $changing" "${told[@]/#verdict 0 ok/verdict 3 undecided}")
}
# Writes a marker, complete or not at all. Of what a failed command said, the last words are the reason.
leave() {
  local why path=$directory/route-overlap.$1 new=$directory/route-overlap.new
  why=$(
    exec 2>&1
    [[ ! -e $new && ! -L $new ]] || rm -f "$new" || exit
    printf '%s\n' "${@:2}" >"$new" && exec mv -fT "$new" "$path"
  ) && return
  rm -f "$new" 2>/dev/null
  complain "cannot write $path: ${why##*: }"
}

main() {
  local told=() why listing last='' tries=0 waited=0 line text verdict status='' wrong=() notes=() action=()
  [[ -d $directory ]] || why=$(mkdir -p "$directory" 2>&1) || complain "cannot create $directory: ${why##*: }"
  set -- "$directory"/route-overlap.* # after a boot there are none; that of the command is among them
  [[ $* == *'.*' ]] || why=$(exec rm -f "$directory"/route-overlap.{new,json,detected,ok} 2>&1) ||
    complain "a file of an earlier check stays: ${why##*$'\n'}"
  trap 'say "stopped before there was a verdict"; finished=1; exit 143' TERM
  until ((waited >= wait * 5)) && last=last; check; do
    if [[ ${told[*]} == *'not yet' ]]; then nap; elif ((++tries == 3)); then last=last; fi
  done
  for line in "${told[@]}"; do
    text=${line#* }
    case $line in
      wrong*) wrong+=("$text") ;;
      action*) action=("$text") ;;
      note*) notes+=("$text") ;;
      verdict*) status=${text%% *} text=${text#* } verdict=${text%% *} text=${text#* } ;;
      failed*) say "$text" && finish 1 ;;
    esac
  done
  [[ $status == [013] ]] || { say 'awk ended without a verdict' && finish 1; }
  # The journal comes first, because the disk may be full; the marker last: when it exists, everything is written.
  ((${#wrong[@]} <= 20)) || action=("and $((${#wrong[@]} - 20)) more; all are in route-overlap.detected" "${action[@]}")
  for line in "${wrong[@]:0:20}" "${action[@]}"; do printf '<%s>%s\n' "$level" "$line" >&2; done
  for line in "${notes[@]}"; do printf '<4>%s\n' "$line" >&2; done
  ((${#wrong[@]})) || level=6 say "$verdict: $text"
  case $verdict in
    overlap) leave detected "${wrong[@]}"; finish 1 ;;
    no-default-route) leave detected no-default-route; finish 1 ;;
    *) leave ok "$verdict" "${notes[@]}"; finish 0 ;;
  esac
}
main
