#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Installs the static routes, and deletes our routes that are no longer configured. Written by hostrouting.
#
# A gateway or device that is not configured is taken from the family's default route; the script waits for one. Our
# routes are those with our protocol number; others are never changed. If a route that is not ours has the key of a
# configured one (table, prefix, metric, and tos or in IPv6 source) and differs from it, the script names it and changes
# nothing. It installs all routes or none; if all are in place, it writes nothing.
# Exit status: 0, or 1 with the reasons.

# Data only: no line of it is executed.
configuration=(
)

set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
plan=() why=() undo=() wait=${configuration[1]#wait } awk='awk'
hash mawk 2>/dev/null && awk=mawk # it starts fastest
#include nap.sh
main() {
  local waited=0 tries=0
  trap 'trap "" TERM INT HUP; complain "stopped before all routes were installed"; tell; give_back
    finished=1; exit 143' TERM INT HUP
  while :; do
    look
    case ${plan[0]} in
      end) finished=1 && exit ;; # read back: nothing is left to do
      refused*) break ;;
      write) write && ((++tries < 6)) && continue ;;
    esac
    ((waited < wait * 5)) || break
    nap
  done
  trap '' TERM INT HUP # as it ends anyway
  tell "; gave up after $wait s"
  give_back
  exit 1
}

# Makes the plan: lines "missing …" and "refused …"; or "write", the commands, and as many that undo them; then "end".
look() {
  mapfile -t plan < <(exec "$awk" "$program" < <(printf 'setting %s\n' "${configuration[@]}" && list))
  [[ ${plan[*]: -1} == end ]] || plan=("refused the routes cannot be read: ${plan[0]-$awk printed nothing}")
  # A plan to write gives no reasons: what the kernel refused before stands until this plan is tried.
  [[ ${plan[0]} == write && ${why[0]-} == refused* ]] || why=("${plan[@]}")
}

# Asks what Linux uses for addresses that nobody has, also by each device; then lists the routes of both families and
# the links. One `ip` does all of it, because starting programs takes most of the time.
list() {
  local dev place lines=()
  for dev in '' ${configuration[2]#devs}; do
    for place in 192.0.2.1 1.1.1.1 203.0.113.1 2001:db8::1 3fff::1 8000::1; do
      lines+=("route get fibmatch $place ipproto 17${dev:+ oif $dev}")
    done
  done
  exec ip -N -o -force -batch - 2>&1 < <(printf '%s\n' "${lines[@]}" 'route show table all' 'link show')
}

# Runs the commands in one batch. If the kernel refuses one, undoes all and fails, to try again later. If the table has
# changed since it was read, it is read again at once. An IPv6 next hop is ours if Linux finds it under our protocol.
write() {
  local said status=0 line why_not='' reason='' count=$((${#plan[@]} / 2 - 1))
  undo=("${plan[@]:count+1:count}" "${undo[@]}")
  said=$(exec ip -batch - -force 2>&1 < <(printf '%s\n' "${plan[@]:1:count}")) || status=$?
  ((status == 0)) || while read -r line; do
    [[ $line == 'Command failed -:'* ]] || { reason=${reason:-$line} && continue; }
    unset "undo[count - ${line##*:}]"
    line=${plan[${line##*:}]}
    case $reason in
      *'No such process') configuration+=("theirs $line") ;;
      *'File exists') ;;
      *) why_not=${why_not:-$line: $reason} ;;
    esac
    reason=''
  done < <(printf '%s\n' "$said")
  ((status < 2)) || why_not=${why_not:-${plan[1]}: ${reason:-ip printed nothing}} # 1: a command has failed
  [[ ! $why_not ]] || { why=("refused $why_not"); give_back; return 1; }
  why=()
  ((tries < 5)) || why=("refused another program keeps changing these routes: ${plan[1]}")
}

# Undoes what was written, the last first. A route that is already gone or already back is not an error.
give_back() {
  local line && ((${#undo[@]})) || return
  while read -r line; do
    case $line in *'No such process' | *'File exists' | 'Command failed'*) ;; *) complain "not undone: $line" ;; esac
  done < <(printf '%s\n' "${undo[@]}" | ip -force -batch - 2>&1)
  undo=()
}

# Says why routes cannot be installed.
tell() {
  local line
  for line in "${why[@]}"; do
    [[ $line != missing* ]] || complain "${line#* }${1-}"
    [[ $line != refused* ]] || complain "${line#* }"
  done
}
complain() { printf '<3>static-routes: %s\n' "$1" >&2; }

# Reads the settings and what `ip` lists, prints the plan. A device name can be any word, so words are read in pairs.
# shellcheck disable=SC2016 # the text of a program
program='
BEGIN {
  split("unicast local broadcast anycast multicast blackhole unreachable prohibit throw", type_name, " ")
  width[4] = 32; everything[4] = "0.0.0.0/0"; width[6] = 128; everything[6] = "::/0"
}
$1 == "setting" {
  if ($2 == "protocol") ours = $3
  if ($2 == "devs") for (; devs < NF - 2; devs++) by[devs + 1] = $(devs + 3)
  if ($2 == "protocols") for (i = 3; i <= NF; i++) { split($i, word, "/"); name[word[1]] = word[2] }
  if ($2 == "metric") usual[$3] = $4 # of a route that is added without one
  if ($2 == "spare") spare[$3] = 1
  if ($2 == "theirs") { sub(/^setting theirs route /, ""); theirs[$0] = 1 }
  if ($2 == "route") { wanted[$3] = 1; sub(/^setting route /, ""); wish[++wishes] = $0 }
  next
}
/^Dump was interrupted/ { is_mixed = 1; next }
index($0, "\\") { gsub(/\\/, " ") } # a broken line, which -o has joined
!/^Command failed/ { last = $0 }
# Six answers for any device, then six by each. A failure has two lines, and the second ends it.
answers < 6 + 6 * devs {
  family = answers % 6 < 3 ? 4 : 6; about = by[int(answers / 6)]
  if (!/^[A-Z]/) read_answer(family, about)
  # Where one that refuses packets comes first, it is sought in table main.
  else if (about != "" && !/^Command|unreachable$/ && !((family, about) in hidden)) hidden[family, about] = 254
  if (!/^[A-Z]/ || /^Command failed/) answers++
  next
}
/^Command failed/ { why = last; exit }
/^[0-9]+: / { sub(/(@[^@]*)?:$/, "", $2); up[$2] = $3 ~ /[<,]UP[,>]/; next }
{ read_route() }
END {
  if (why || last !~ /^[0-9]+: /) { print "ip failed: " (why ? why : last); exit } # the links come last
  if (is_mixed) missing("the routes changed while they were read")
  for (w = 1; w <= wishes; w++) settle(wish[w])
  for (i = 1; i <= conflicts; i++) print "refused ROUTE-CONFLICT: " conflict[i]
  # Routes that are no longer configured are deleted once everything else is in place.
  if (!steps) for (r = 1; r <= routes; r++) if (is_ours[like[r]] && !(r in stays)) remove(r)
  if (steps && !conflicts && !waits) {
    print "write"
    for (i = 1; i <= steps; i++) print "route " forth[i]
    for (i = steps; i >= 1; i--) print "route " inverse[i]
  }
  print "end"
}

# Stores route r, of a hundred thousand only those that can matter. A type other than unicast is a number before the
# prefix. Most routes have the same words after the prefix: f is the first route with these words; only it is parsed.
function read_route(   at, to, is_first, words, f) {
  at = $1 in type_name ? 2 : 1; family = $at ~ /:/ || / pref (low|medium|high)/ ? 6 : 4
  to = $at == "default" ? everything[family] : $at (index($at, "/") ? "" : "/" width[family])
  is_first = to != previous; previous = to; if (!is_first) shared[to] = 1
  if (!(to in wanted) && $at != "default" && !index($0 " ", " proto " ours " ")) return
  r = ++routes
  head[r] = (at == 2 ? $1 " " : "") $at
  words = at == 2 ? $1 substr($0, index($0, " " $2) + length($2) + 1) : substr($0, length($1) + 1)
  if (!(words in first)) { first[words] = r; read_words(at) }
  f = like[r] = first[words]
  prefix[r] = to; leads[r] = is_first
  if (to in spare) stays[r] = 1
  if (is_partial[f]) return
  if (table_of[f] == 254) holder[to " " metric[f], ++holders[to " " metric[f]]] = r
  if (to == everything[family]) default_at[family, ++defaults[family]] = f
}

# Parses the words after the prefix, for route r. An encapsulation can have a table and a decimal tos of its own.
function read_words(at,   i, n, word, has) {
  type[r] = at == 2 ? type_name[$1] " " : ""
  has["table"] = 254; has["proto"] = has["scope"] = has["metric"] = has["tos"] = "0"; has["more"] = ""
  for (i = at + 1; i <= NF; i++) {
    word = $i
    if (word == "nexthop" || (!n && (word == "via" || word == "dev"))) n++
    if (word == "via" && $(i + 1) == "inet6") word = word " " $(++i)
    if (word == "dev") dev[r, n] = $(i + 1)
    if (word == "expires") { is_over[r] = $(i + 1) + 0 <= 0; $(i + 1) = is_over[r] ? 0 : $(i + 1) + 0 }
    if (word == "nexthop" || word == "onlink") leg[r, n] = leg[r, n] " " word
    else if (word ~ /^(via|via inet6|dev|weight)$/) leg[r, n] = leg[r, n] " " word " " $(++i)
    else if (word == "dead") dead[r, n] = 1
    else if (word in has && !(word == "table" ? $(i + 2) ~ /^(via|dev)$/ : word == "tos" && $(i + 1) !~ /^0x/)) {
      has[word] = $(++i)
      $i = word == "proto" && $i in name ? name[$i] : word == "scope" && $i == 253 ? "link" : $i
    } else if (word == "error" || (word == "pref" && $(i + 1) == "medium")) i++
    else if (word !~ /^(linkdown|pervasive|offload|rt_offload|trap|rt_trap)$/) has["more"] = has["more"] " " word
  }
  shown[r] = substr($0, length(head[r]) + 1)
  sub(/ +$/, "", shown[r])
  legs[r] = n; table_of[r] = has["table"]; metric[r] = has["metric"]
  is_partial[r] = has["tos"] != "0" || has["more"] ~ / from / # only for some packets
  rank[r] = has["table"] " " has["metric"] " " (has["more"] ~ / pref high/) (has["more"] ~ / pref low/)
  is_ours[r] = has["proto"] == ours
  shape[r] = bare[r] = " scope " has["scope"] has["more"]
  # A refusing route may list a device, a route with a nexthop object lists what that contains: neither is configured.
  if ((at == 1 || $1 < 6) && has["more"] !~ / nhid /) shape[r] = shape[r] way(r, "", "", 1)
  key_words[r] = " table " has["table"] " proto " has["proto"] " metric " has["metric"] " tos " has["tos"]
}

# The next hops of a route in the words of `ip`: all; or those whose device is up, with this device, if given; of those
# with this gateway, if given, the first.
function way(r, by, gateway, all,   n, count, words) {
  for (n = 1; n <= legs[r]; n++) {
    if (!all && !(up[dev[r, n]] && (by == "" || by == dev[r, n]))) continue
    if (gateway != "" && (count || !index(leg[r, n], " via " gateway " "))) continue
    count++; words = words leg[r, n]
  }
  if (count == 1) gsub(/^ nexthop| weight [0-9]+/, "", words)
  return words
}

# Reads an answer of Linux: the default route that a plain packet takes, or one by the device that was asked for. Where
# a longer prefix hides it, or it is ours, its table is that of the answer.
function read_answer(family, about) {
  r = ++routes; read_words($1 in type_name ? 2 : 1)
  if (type[r] != "" || (family, about) in used) return
  if ($1 == "default" && !is_ours[r]) used[family, about] = rank[r]
  else if (!((family, about) in hidden)) hidden[family, about] = table_of[r]
}
# Of the default routes that are alike for Linux, the first one listed: not ours, not expired, with a next hop that is
# not dead.
function default_route(by,   i, n, r, key) {
  key = family SUBSEP by
  for (i = 1; i <= defaults[family]; i++) {
    r = default_at[family, i]
    if (key in used ? rank[r] != used[key] : table_of[r] != hidden[key]) continue
    if (type[r] != "" && by == "") return 0 # it refuses the packets
    for (n = 1; type[r] == "" && !is_ours[r] && !is_over[r] && n <= legs[r]; n++)
      if (!dead[r, n] && (by == "" || by == dev[r, n])) return r
  }
}

# The next hop to use, which begins with a blank; or what is missing. The kernel checks if a gateway can be reached.
function resolve(gateway, by,   d, found) {
  if (by != "" && !(by in up)) return "the device " by
  d = default_route(by)
  found = way(d, by, gateway, 0) # if the configured gateway is the default one, onlink as there
  if (found == "" && gateway != "" && (d || by != "")) found = " via " gateway " dev " (by == "" ? dev[d, 1] : by)
  return found != "" ? found : "an IPv" family " default route" (by == "" ? "" : " on " by)
}

# Plans one configured route, by the routes with its key; the kernel uses the first. Ours that differ are replaced.
function settle(wish,   word, n, i, given, key, new, r, f, stands, is_there, is_said, stale, other) {
  n = split(wish, word, " ")
  family = index(word[1], ":") ? 6 : 4
  given["via"] = given["dev"] = ""; given["metric"] = usual[family]
  for (i = 2; i < n; i += 2) given[word[i]] = word[i + 1]
  key = family " " given["via"] " " given["dev"]
  if (!(key in way_for)) way_for[key] = resolve(given["via"], given["dev"])
  if (way_for[key] !~ /^ /) { missing("ROUTE-WAITS: " wish ": waiting for " way_for[key]); return }
  new = " scope " (family == 6 || way_for[key] ~ / via / ? 0 : 253) way_for[key]
  key = word[1] " " given["metric"]
  for (n = holders[key]; n >= 1; n--) {
    r = holder[key, n]; f = like[r]; is_there = joins(f, new) || type[f] shape[f] == new
    if (!is_ours[f]) other = r
    if (is_ours[f] && !is_there) { stale = 1; continue }
    # To delete the stale one after it, the kernel could delete this one instead.
    stands = r; is_said = is_there && !(is_ours[f] && stale)
  }
  if (is_said) stays[stands] = 1
  if (is_said && joins(like[stands], new)) exchange(stands, new)
  if (other && !is_said) conflict[++conflicts] = wish ": another route has the same destination and metric: [" \
    head[other] shown[like[other]] "], which is not ours; for the routes to configure instead, run: hostrouting status"
  if (is_said || other) return
  for (n = 1; n <= holders[key]; n++) remove(holder[key, n])
  new = " " word[1] " table 254 proto " ours " metric " given["metric"] " tos 0" new
  change("add" new, "del" new)
}

# In IPv6 Linux makes one route of the next hops of several programs, and lists it with the protocol of the first. So it
# is asked if a next hop is ours, by a deletion with our protocol.

# Whether this route and the wanted one become one: both have gateways, and differ in nothing else.
function joins(r, new) {
  return family == 6 && (new leg[r, 1]) ~ / via .* via / && shape[r] != bare[r] && index(new, type[r] bare[r] " ") == 1
}

# Adds the next hops that a route lacks. Those not wanted, or not with this weight, are deleted if they are ours.
function exchange(r, new,   n, i, count, hop, held, part, have, want, text) {
  text = " " prefix[r] " table 254 proto " ours " metric " metric[like[r]] " tos 0" bare[like[r]]
  count = split_hops(way(like[r], "", "", 1), held)
  for (i = 1; i <= count; i++) have[hop_of(held[i])] = 1
  n = split_hops(substr(new, length(type[like[r]] bare[like[r]]) + 1), part)
  for (i = 1; i <= n; i++) {
    want[hop = hop_of(part[i])] = part[i]
    if (!(hop in have)) change("append" text " nexthop" part[i], "del" text hop)
  }
  for (i = 1; i <= count; i++) {
    hop = hop_of(held[i])
    if (want[hop] == held[i]) continue
    if (ask("del" text hop, "append" text " nexthop" held[i]) && want[hop])
      ask("append" text " nexthop" want[hop], "del" text hop)
  }
}

# Splits the next hops, gives each a weight, and returns their number.
function split_hops(words, part,   n, i) {
  sub(/^ nexthop/, "", words)
  n = split(words, part, / nexthop/)
  for (i = 1; i <= n; i++) if (part[i] !~ / weight /) sub(/( onlink)?$/, " weight 1&", part[i])
  return n
}
function hop_of(hop) { gsub(/ weight [0-9]+| onlink/, "", hop); return hop }
function missing(reason) { print "missing " reason; waits = 1 }

# Plans to delete a route; of several IPv6 next hops those that are ours. To undo it, the route is put back before or
# after the others of its prefix. In IPv6, a route that was alone is added back only if it is alone.
function remove(r,   f, n, text, part) {
  f = like[r]
  text = " " type[f] prefix[r] key_words[f]
  if (prefix[r] ~ /:/ && legs[f] > 1 && shape[f] != bare[f])
    for (n = split_hops(way(f, "", "", 1), part); n; n--)
      ask("del" text bare[f] hop_of(part[n]), "append" text bare[f] " nexthop" part[n])
  else change("del" text shape[f], (!leads[r] ? "append" : prefix[r] ~ /:/ && !shared[prefix[r]] ? "add" : "prepend") \
      text shape[f])
}

function change(command, undoing) { forth[++steps] = command; inverse[steps] = undoing }
# Plans a command that may fail. Returns 0 if it has failed.
function ask(command, undoing) { if (command in theirs) return 0; change(command, undoing); return 1 }
'
main
