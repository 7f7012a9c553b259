#!/bin/bash
# Checks that every address of the expected CIDRs leaves through an expected device.
# Linux decides: it is asked with `ip route get`. Its answer can change only where the prefix of a route or of a rule
# starts, and right after one ends. So it is asked at these places, and each answer holds up to the next place. Only
# plain packets of this host are judged: UDP of root, without a mark. UNDECIDED names what this check does not judge.
# Arguments: the unit that this is for, and the seconds that it may wait for what may still come (60 if absent).
# Exit status: 1 in STRICT if addresses escape, if there is no default route, or if there is no verdict; otherwise 0.
# Data only: no line of it is executed.
configuration=(
)
set -uo pipefail && umask 022 && export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
mode=${configuration[0]#* } state=${configuration[1]#* } families=${configuration[2]#* } wait=${2:-60}
awk=(awk) && hash mawk 2>/dev/null && awk=(mawk -W interactive) # it starts fastest
# shellcheck disable=SC2016 # the text of a program
program='
# An address is text: its family, then its bits. So comparing text compares addresses, in every awk.
function bits_of(address,   part, n, i, all, bits) {
  bits = address ~ /:/ ? "6-" : "4-"
  if (match(address, /[0-9]+[.][0-9.]+$/) && split(substr(address, RSTART), part, "."))
    address = substr(address, 1, RSTART - 1) sprintf("%02x%02x:%02x%02x", part[1], part[2], part[3], part[4])
  n = split(address, part, ":"); sub(/::/, ":" substr("0:0:0:0:0:0:0:", 1, 18 - 2 * n), address)
  for (n = split(address, part, ":"); n; n--) all = substr("0000" part[n], length(part[n]) + 1) all
  for (i = 1; i <= length(all); i++) bits = bits BITS[substr(all, i, 1)]; return bits
}
function spelled(bits,   i, n, address) {
  for (i = 3; i <= length(bits); i++) {
    n = 2 * n + substr(bits, i, 1); if (bits ~ /^4/ && i % 8 == 2) { address = address "." n; n = 0 }
    if (bits ~ /^6/ && i % 16 == 2) { address = address ":" sprintf("%x", n); n = 0 }
  }
  sub(/(:0)+$/, "::", address) || sub(/(:0)+:/, "::", address); return address ~ /^::/ ? address : substr(address, 2)
}
function after(bits) { return match(bits, /01*$/) ? substr(bits, 1, RSTART - 1) "1" substr(ZEROS, 1, RLENGTH - 1) : "" }
function before(bits) { return match(bits, /10*$/) ? substr(bits, 1, RSTART - 1) "0" substr(ONES, 1, RLENGTH - 1) : "" }
function read_prefix(text,   part, rest) { # sets its first and its last address, and its length
  split(text != "default" ? text : family == 6 ? "::/0" : "0.0.0.0/0", part, "/"); first = bits_of(part[1])
  rest = part[2] == "" ? 0 : length(first) - 2 - part[2]; first = substr(first, 1, length(first) - rest)
  prefix = length(first) - 2; last = first substr(ONES, 1, rest); first = first substr(ZEROS, 1, rest)
}
function joined(list, new) { return !new || index(", " list ", ", ", " new ", ") ? list : list (list ? ", " : "") new }
function without(list, known, welcome,   i, n, item, rest) {
  n = split(list, item, ", ")
  for (i = 1; i <= n; i++) if (!(item[i] in known) && joined(welcome, item[i]) != welcome) rest = joined(rest, item[i])
  return rest
}
function doubt(text) { if (!doubts[text]++) notes = notes "UNDECIDED: " text "; run: hostrouting check\n" }
BEGIN {
  for (i = 0; i < 16; i++) BITS[sprintf("%x", i)] = (i > 7) "" (i % 8 > 3) "" (i % 4 > 1) "" i % 2
  ZEROS = sprintf("%0128d", 0); ONES = ZEROS; gsub(0, 1, ONES)
  split("unicast local broadcast anycast multicast blackhole unreachable prohibit throw nat", TYPES, " ")
  why["Invalid argument"] = 6; why["No route to host"] = 7; why["Permission denied"] = 8
  why["Network is unreachable"] = 11
  for (i = 1; i < ARGC; i++) { $0 = ARGV[i]; read_setting() }
  # Linux uses its default route for these, unless a rule or route says otherwise.
  n = split("1.1.1.1 100.0.0.1 128.0.0.1 192.0.2.1 203.0.113.1 223.255.255.1 2001:db8::1 3fff::1 8000::1", spare, " ")
  for (; n; n--) { from[++ranges] = bits_of(spare[n]); to[ranges] = from[ranges]; is_spare[from[ranges]] }
  LISTS = "rule show\nroute show table all\nend"; QUESTIONS = "/dev/fd/3"; ARGC = 1; start_family()
}
# --- Input: for each family the links, its rules, and the routes of all tables
/^Command failed / { exit }
{ latest = $0 } # the line before says why
/^Object "end" is unknown/ && lines { getline; examine(); start_family(); next } # nothing is missing
/^Command line is not complete/ { tell(LISTS); next } # the next ip has begun, and knows the links already
/ expires -/ { next }
!lines && /^[0-9]+: [^ ]+: <.*\\ +link\// { read_link(); next }
lines || /^[0-9]+:\t/ { sub(/ expires [^ ]+/, ""); listed[++lines] = $0 }
lines && /^[0-9]+:\t/ { read_rule(); next }
lines && /^[0-9]+ .* table [0-9]+ proto / { read_route(); next }
!/^\tnh_info / { doubt("this check cannot read [" $0 "]") } # such as the alias of a link, which is any text
END {
  if (family) { print "ip failed: " latest; exit } # it may have been killed
  if (repair) { gsub(/,/, "", repair); print "ACTION: to see if routes repair this: hostrouting repair " repair }
  printf "%s", notes; if (unjudged) print "not judged here, but by hostrouting check: packets of " unjudged
  verdict = repair ? "overlap" : lacks ? "no-default-route" : notes ? "undecided" : "ok"
  print "verdict", verdict, faults + lacks, is_restless + 0, awaited
}
function read_setting() {
  if ($1 == "families") split($0, families, " ") # after this word
  if ($1 == "cidr") { cidr[++ranges] = $2; from[ranges] = bits_of($3); to[ranges] = bits_of($4) }
  if ($1 == "device") configured = joined(configured, $2)
  if ($1 == "service") { service[++services] = bits_of($2); service_to[services] = bits_of($3) }
  if ($1 == "protocol") protocol[$2] = $3
  if ($1 == "allow") { of_kind[$2] = of_kind[$2] " " ++names; use[names] = $3; cni[names] = $4; name[names] = glob($5) }
  if ($1 == "refuse") row[$2, $3, $4] = $0
}
function tell(commands) { print commands >QUESTIONS; fflush(QUESTIONS) }
function start_family(   c) {
  if (family) tell("route get to") # its ip gives up, because an address is missing
  if (!(family = families[++turn + 1])) exit
  below = ""; lines = places = defaults = suppresses = pods = refusals = 0
  for (c = 1; c <= ranges; c++) if (from[c] ~ "^" family) want(from[c])
}
function glob(text) { gsub(/[.]/, "[.]", text); gsub(/[*]/, ".*", text); gsub(/[?]/, ".", text); return "^" text "$" }
function read_link(   dev, piece, word, i, n, row_at) {
  dev = $2; sub(/(@[^@]*)?:$/, "", dev); split($0, piece, /\\ +/); split(piece[3], word, " ")
  is_down[dev] = $3 !~ /[<,]UP[,>]/; is_tunnel[dev] = word[1] ~ /^(vxlan|geneve|gretap|ip6gretap|tun)$/ || \
    (word[1] !~ /^(addrgenmode|wwan)?$/ && piece[2] !~ /^link\/(\[(1|32|772)\]|ether|infiniband|loopback)/)
  if (piece[2] ~ /^link\/(\[32\]|infiniband|\[772\]|loopback)/ || word[1] ~ /^(dummy|ifb|vrf)$/) is_fabric[dev]
  else if (!is_tunnel[dev]) is_card[dev]
  for (n = split(of_kind["any"] of_kind[word[1]], row_at, " "); n; n--) if (dev ~ name[i = row_at[n]]) {
    if (cni[i]) { of[dev] = of[dev] " " cni[i] " "; is_used[cni[i]] = 1; has_hidden += is_down[dev] }
    if (use[i] != "marked") is_allowed_one[dev]; if (use[i] !~ /^(marked|pod)$/) is_allowed[dev]
  }
}
function read_rule(   i, rest) { # without its selectors, it has to be a rule that is known
  read_prefix("default"); for (i = 2; i < NF; i++) if ($i == "to") { read_prefix($(i + 1)); cut() }
  rest = $0; gsub(/[ \t](from all|to [^ ]+|iif lo|\[(detached|unresolved)\]|(proto|realms) [^ ]+)/, "", rest)
  if (gsub(/[ \t](from|fwmark|[io]if|uidrange|[sd]port|tos|dsfield|dscp|tun_id|flowlabel) [^ ]+/, "", rest))
    unjudged = joined(unjudged, "rule " $1 + 0 (family == 6 ? " of IPv6" : ""))
  if (rest !~ /^[0-9]+:(\tnot)? (lookup [^ ]+( suppress_prefixlength [0-9]+)?|goto [0-9]+|nop|[678]) *$/)
    doubt("this check does not know what rule [" $0 "] means")
  if (/\tfrom all / && match(rest, / lookup [0-9]+/)) is_plain[family, substr(rest, RSTART + 8, RLENGTH - 8)]
  suppresses += / suppress_/ && (/\tnot / || !/ to /); if (/\tnot /) read_prefix("default")
  if (/ to /) except(); if (rest ~ / [68] *$/) add_refusal(rest ~ / 6 *$/ ? 6 : 8)
}
function except(   spare) { for (spare in is_spare) if (first <= spare && spare <= last) delete is_spare[spare] }
function read_route(   devs) { # there can be 100,000; those outside the expected CIDRs do not matter
  if (/ proto (12|80) /) traces[family, value("proto")]++ # of BIRD and of Calico
  read_prefix($2); if ($1 == 9) except()
  if ($2 != "default") { if (is_judged(first, last)) cut(); else return }
  devs = devices()
  if (devs in of && /^[12] /) { pod[++pods] = first; pod_to[pods] = last; pod_of[pods] = of[devs] } # or its own address
  if ($3 == "from" || / tos 0x/) { unjudged = joined(unjudged, "routes by tos or source"); return }
  if ($2 == "default" && ($1 != 1 || without(devs, is_fabric))) default_route[++defaults] = $0
  if ($2 == "default" && (family, value("table")) in is_plain && !without(devs, is_card)) below = joined(below, devs)
  if ($2 == "default" && / table 255 /) doubt("this check does not judge route " named())
  if ($1 ~ /^[678]$/) add_refusal($1)
  else if (family == 6 || $2 == "default") # equal default routes are one
    alike[key()] = joined(alike[key()], devs)
}
function is_judged(begin, end,   c) { # usually in the CIDR of the last call, because routes are sorted
  for (c = 0; c <= ranges; c++) if (from[c] <= end && begin <= to[c]) { from[0] = from[c]; to[0] = to[c]; return 1 }
}
function cut() { want(first); want(after(last)) }
function want(address) { if (address && is_judged(address, address) && !wanted[address]++) place[++places] = address }
# About the route in $0: what follows a word; what routes have in common if Linux may use any of them; its name.
function value(word,   w) { split(substr($0, index($0, " " word " ") + 1), w, " "); return w[1] == word ? w[2] : 0 }
function key() { return family $2 " " value("table") " " value("metric") " " ($2 == "default" ? "" : value("pref")) }
function named(   proto, table) {
  proto = value("proto"); table = value("table"); if (proto in protocol) proto = protocol[proto]
  return "[" ($1 == 1 ? "" : TYPES[$1] " ") $2 " proto " proto (table == 254 ? "" : " table " table) "]"
}
function devices(   hop, i, devs) { # of the next hops that Linux may use; -o joins lines with \ and a tab
  for (i = split($0, hop, /\\\tnexthop/); i; i--) if (hop[i] !~ / dead / && match(hop[i], / dev [^ ]+/))
    devs = joined(devs, substr(hop[i], RSTART + 5, RLENGTH - 5))
  return devs
}
function add_refusal(type,   i, part) { # of a rule, or a route, which may be of a CNI
  refusal[++refusals] = type; begin[refusals] = first; end[refusals] = last
  owner[refusals] = proof[refusals] = is_block[refusals] = ""; if (/:\t/ || $2 == "default") return
  for (i = 1; i <= services; i++) if (first <= service_to[i] && service[i] <= last) return
  is_block[refusals] = prefix >= (family == 4 ? 20 : 64); split(row[family, type, value("proto")], part, " ")
  if (part[7] && part[7] <= prefix && prefix <= part[8]) {
    owner[refusals] = part[5]; proof[refusals] = part[6]; is_traced[refusals] = value("proto")
  }
}
# --- The answers
function sort(   gap, i, n, held) { # each part of the list of places is in order already, so this is quick
  for (gap = places; gap > 1;) for (i = (gap = int(gap / 3) + 1) + 1; i <= places; place[n + gap] = held) {
    held = place[i]; for (n = i++ - gap; n > 0 && place[n] > held; n -= gap) place[n + gap] = place[n]
  }
}
# Asks Linux, and then lists rules and routes again, which must be the same as before. A failure has two lines.
function ask(   n, i, m, others, line, reason) {
  others = turn > 1 ? 3 : 4 # commands so far: a failure has the number of its command
  for (n = i = 1; n <= places;) { # this many fit into the pipe while nobody reads it
    for (; i <= places && i < n + 50; i++) print "route get fibmatch " spelled(place[i]) " ipproto 17" >QUESTIONS # UDP
    tell(i > places ? LISTS : "end")
    while ((getline line) > 0 && line !~ /^Object "end" /)
      if (line ~ /^\tnh_info/ && !m) answer[n - 1] = answer[n - 1] line
      else if (n == i && (m || line ~ /^[0-9]+:\t/)) {
        sub(/ expires [^ -][^ ]*/, "", line); if (line !~ / expires / && line != listed[++m]) is_restless = 1
      }
      else if (line ~ /^[0-9]/) answer[n++] = line
      else if (line !~ /^Command failed /) { reason = line; sub(/^[^:]*: /, "", reason) }
      else if (reason in why && line ~ ":" n + others "$") answer[n++] = why[reason]; else break
    getline line; others++; if (n != i) { latest = "no answer for " spelled(place[n]) ": " reason; exit }
  }
  if (m != lines) is_restless = 1
}
# Sets the devices of the default route; if that is through InfiniBand, or a VPN hides it, of the next one in its table.
function learn(   i, table, has_none, usable, halves) {
  for (i in is_spare) if (i ~ "^" family) {
    $0 = answer[at[i]]; has_none += /^11$/; halves += $2 ~ "/1$"; if (/^1 default / && leads_out()) return
    if (NF > 1) table = value("table")
  }
  for (i = 1; i <= defaults; i++) {
    $0 = default_route[i]; usable += /^1 /
    if (table != value("table") || suppresses) continue
    if (/^1 / && !/ pref (low|high)/ && leads_out()) return; else break
  }
  is_obscure = halves || (usable && (table || suppresses || !has_none))
}
function leads_out(   devs) { # by a device that is not InfiniBand or lo
  devs = devices(); competes = without(alike[key()] "", is_fabric, devs) || (/ proto 9 / && devs ~ /,/)
  return uplink = without(joined(devs, alike[key()] ""), is_fabric)
}
function is_for_pods(n,   i, p, has_pod, is_proven, yes, no) { # Linux does not say which of several refuses
  for (i = 1; i <= refusals; i++) if (refusal[i] == answer[n] && begin[i] <= place[n] && place[n] <= end[i]) {
    has_pod = 0; is_proven = proof[i] == "exclusive"
    for (p = pods; p; p--) if (begin[i] <= pod[p] && pod_to[p] <= end[i] && begin[i] pod_to[p] != pod[p] end[i]) {
      if (pod[p] == pod_to[p]) has_pod = 1
      if (proof[i] == "inside" && index(pod_of[p], " " owner[i] " ")) is_proven = 1
    }
    if (!is_used[owner[i]] || !is_proven) no = 1
    if ((is_used[owner[i]] && (proof[i] != "nothing" || has_pod || has_hidden)) || \
      (owner[i] && traces[family, is_traced[i]] > 1) || (is_block[i] && has_pod)) yes = 1
  }
  if (yes && no) doubt("it is not known whether " spelled(place[n]) " is refused for pods")
  return yes
}
function fault_at(n,   bad, rest, via, what) { # what is wrong at a place; empty if nothing is
  $0 = rest = answer[n]; gsub(/ encap (ip6?|mpls) /, " ", rest); is_own = 0; via = expected
  if (NF == 1 && is_for_pods(n)) return ""
  what = $1 == 11 ? "NO-ROUTE\thas no route" : "REFUSED\tis refused (" TYPES[$1] ")"
  if (NF == 1) return what (via ? "; expected via " via : "")
  if (is_own = place[n] ~ /^(4-1110|4-01111111|4-1+$|6-1111111(1|010))/) return "" # multicast, loopback, broadcast
  # By a pod device, only single addresses are fine. Below a tunnel, so is a network of a card whose default route it
  # hides; without expectedDevs, the hidden default route may be meant, or, if there is none, any card.
  if ($2 ~ "/" || $2 == "default") bad = without(joined(devices(), family == 4 ? alike[key()] "" : ""), is_allowed, via)
  else bad = without(devices(), is_allowed_one, via)
  if (is_tunnelled && bad && (below ? (!configured || !/ via /) && !without(bad, none, below) : \
    !configured && !/ via / && !without(bad, is_card))) bad = "?"
  if (rest ~ / encap / || !/^[1-5] / || (family == 6 && / nhid /)) bad = "?" # of routes with one object, IPv6 names any
  else if (/^(2|[345] [0-9a-f.:]+ .* proto 2) /) {
    is_own = $2 !~ "/" && $2 != "default"
    return /^2 / && !is_own ? "OWN-RANGE\tdoes not leave this host: " named() : ""
  }
  if (!devices() || (!bad && family == 4 && /^[35] /) || (!bad && without(alike[key()] "", is_allowed, via))) bad = "?"
  if (bad == "?") doubt("this check does not judge route " named())
  return bad && bad != "?" && via ? "OVERLAP\troutes via " bad " " named() ", expected " via : ""
}
function judge(c,   n, what, was, start, stop, part, is_over) { # an address of this host may be a part of a range
  for (n = at[from[c]]; !is_over; n++) {
    is_over = n > places || place[n] > to[c]; what = is_over ? "" : fault_at(n)
    if (!is_over && (is_own || what == was)) continue
    if (was) {
      split(was, part, "\t"); faults++; repair = joined(repair, cidr[c])
      start = spelled(start); stop = spelled(is_over ? to[c] : before(place[n]))
      print part[1] ": expected CIDR " cidr[c] " (" start (start == stop ? "" : "–" stop) ") " part[2]
    }
    start = place[n]; was = what
  }
}
function examine(   c, i, n, dev, reason) { # one family
  sort(); for (n = 1; n <= places; n++) at[place[n]] = n
  ask(); if (is_restless) doubt("the routes keep changing")
  is_obscure = is_tunnelled = 0; uplink = competes = ""; learn(); expected = configured ? configured : uplink
  for (i = split(expected, dev, ", "); i; i--) {
    if (is_tunnel[dev[i]] && (configured || defaults > 1 || dev[i] !~ /^ppp/)) is_tunnelled = 1
    if (!(dev[i] in is_down) || is_down[dev[i]]) awaited = joined(awaited, "the device " dev[i])
  }
  reason = is_obscure ? "rules or routes hide the default route" : is_tunnelled ? "a tunnel has the default route" : \
    uplink && competes ? "default routes compete" : ""
  if (reason && !configured) doubt(reason " in IPv" family ": set expectedDevs")
  if (!uplink && !is_obscure) awaited = joined(awaited, "an IPv" family " default route")
  if (expected || is_obscure) { for (c = 1; c in cidr; c++) if (from[c] ~ "^" family) judge(c) }
  else { lacks++; print "NO-DEFAULT-ROUTE: plain packets use no IPv" family " default route" }
}
'
# The `ip` of a family answers all that is asked about it, so only one is started. It lists while awk reads its program.
look() {
  trap '' PIPE # if ip has failed, this shell goes on: awk says why it failed
  coproc { # an ip that ends because it was told to exits with 255
    for family in $families; do ip "-$family" -N -d -o -force -batch - 2>&1; (($? == 255)) || exit; done
  }
  printf '%s\n' 'link show' 'rule show' 'route show table all' end >&"${COPROC[1]}"
  # Opened anew: with 3>&, bash would close it for the program that it executes.
  exec "${awk[@]}" "$program" "${configuration[@]}" <&"${COPROC[0]}" 3>"/dev/fd/${COPROC[1]}"
}
say() { printf '%s\n' "${@/#/<$level>}" >&2; }
level=6 said='' next=0 looks=0
trap 'rm -f "$state"/route-overlap.{ok,detected,undecided}; exit 1' TERM # no verdict, no marker
while :; do # once a second while something may still come
  mapfile -t output < <(look)
  [[ ${output[*]: -1} =~ ^verdict\ ([a-z-]+)\ ([0-9]+)\ ([0-9]+)\ (.*) ]]
  verdict=${BASH_REMATCH[1]-} count=${BASH_REMATCH[2]-1} changes=${BASH_REMATCH[3]-1} awaited=${BASH_REMATCH[4]-}
  if [[ $verdict && $verdict != ok && $awaited ]] && ((SECONDS < wait)); then
    if [[ $awaited != "$said" ]] || ((SECONDS >= next)); then
      say "check-route-overlap: waiting ($SECONDS of $wait s) for $awaited" && said=$awaited next=$((SECONDS + 10))
    fi
    sleep 1
  else ((changes && ++looks < 3)) || break; fi
done
if [[ $verdict ]]; then unset 'output[-1]'; else output=("no verdict: ${output[*]: -1}"); fi
faults=("${output[@]:0:count}") notes=("${output[@]:count:5}")
level=3 marker=${verdict:+detected} lines=("${faults[@]}")
[[ $verdict != ok ]] || level=6 marker=ok lines=(ok "${notes[@]}")
[[ $verdict != undecided ]] || level=4 marker=undecided lines=("${notes[@]}")
[[ $verdict != no-default-route ]] || lines=("$verdict")
[[ $mode == STRICT || $level == 6 ]] || level=4
((count <= 14)) || faults=("${faults[@]:0:14}" "and $((count - 14)) more ranges")
say "${faults[@]}" "${notes[@]}" "check-route-overlap: ${verdict:-failed}"
# A marker is whole or absent, and no failure here changes the verdict. One that is right already is not written again.
path=$state/route-overlap new=$state/route-overlap.$$ old='' text='' failed=''
[[ ! $marker ]] || printf -v text '%s\n' "${lines[@]}"
[[ ! -f $path.$marker || -L $path.$marker ]] || { IFS='' read -r -d '' old <"$path.$marker"; } 2>/dev/null
if [[ $text != "$old" ]]; then
  set -C # so another program's link is never written through
  [[ -d $state ]] || mkdir -p "$state"
  { printf '%s' "$text" >"$new" && mv -fT "$new" "$path.$marker"; } || { rm -f "$new"; failed=1; }
fi
for name in ok detected undecided; do
  [[ $name == "$marker" || ! -e $path.$name ]] || rm -f "$path.$name" || failed=1
done
[[ ! $failed ]] || level=4 say "check-route-overlap: the result cannot be written to $state"
exit $((level == 3))
