#!/bin/bash
# Sets the static routes, and deletes our other ones: all or nothing, and nothing if another program has a route with
# the same prefix and metric. A gateway or device that is not given is taken from the default route in table main that
# is not by InfiniBand; if a device is given, from its default route in any table. Optional routes are set if possible.
# Arguments: the unit it runs for, and how many seconds it may wait (60 if absent). Exit status: 0, or 1 with reasons.
# Data only: no line of it is executed.
configuration=(
)
set -u && umask 077 && export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
wait=${2:-60} lock=/run/hostrouting/routes awk='awk' && hash mawk 2>/dev/null && awk=mawk # it starts fastest
# Prints "write N", N commands, N that undo them, and some that may fail; or why not (refused, missing); then "end".
# shellcheck disable=SC2016 # the text of a program
program='
BEGIN { split("unicast local broadcast anycast multicast blackhole unreachable prohibit throw", type, " ") }
/^(protocol|route) / && !is_listed { # no line of an alias is a setting
  if (/^p/) ours = $2; else { wish[++wishes] = substr($0, 7); is_wanted[$2] = 1 } next
}
{ is_listed = 1 }
/^Dump was interrupted/ { why = why "missing the routes changed while they were read\n"; next }
/^[0-9]+: / {
  # Its alias, which comes later, can be any text. Devices that are listed twice are dead ends.
  sub(/(@[^@]*)?:$/, "", $2); is_fabric[$2] = /^[^\\]*\\ +link\/(\[(32|772)\]|infini|loop)/ || $2 in is_up
  is_up[$2] = $3 ~ /[<,]UP[,>]/; next
}
!/^Command failed / { last = $0; read_route() } # the line before says why
# Each next hop of an IPv6 route is its own route. The protocol is that of the first next hop; others may not be ours.
function read_route(   at, to, i, word, hop, hops, used, by, has, more, dev, rank, is_default, is_split) {
  at = 1 + ($1 in type); if (at == 2) $1 = type[$1]
  family = $at ~ /:/ || ($at == "default" && / pref [lmh]/) ? 6 : 4
  to = $at == "default" ? (family == 6 ? "::/0" : "0.0.0.0/0") : $at ($at ~ /\// ? "" : family == 6 ? "/128" : "/32")
  if (!(to in is_wanted) && $1 != "default" && !index($0 " ", " proto " ours " ")) return
  gsub(/\\| (linkdown|pervasive|offload|rt_offload|trap|rt_trap|pref medium)/, ""); has["metric"] = hops = 0
  for (i = at + 1; i <= NF; i++) { # in pairs, because a device can have any name
    word = $i; if (word == "via" && $(i + 1) == "inet6") word = word " " $(++i)
    if (word == "nexthop" || (!hops && word ~ /^(via|dev)/)) hops++
    if (word ~ /^(via|via inet6|dev|weight)$/) hop[hops] = hop[hops] " " word " " $(++i)
    else if (word ~ /^(onlink|dead)$/) hop[hops] = hop[hops] " " word
    else if (word ~ /^(table|proto|metric)$/) has[word] = $(++i)
    else if (word != "nexthop") more = more " " word
  }
  for (i = 1; i <= hops; i++) if (!sub(/ dead/, "", hop[i])) {
    word = " nexthop" hop[i]; used = used word; dev = dev_of(word); by[dev] = by[dev] word
    if (!is_fabric[dev] && has["table"] == "") by[""] = by[""] word
  }
  gsub(/ dead| expires [^ ]+| error [^ ]+| +$/, ""); more = more (at == 2 ? " " $1 : "")
  is_default = $1 == "default" && has["proto"] != ours && more !~ / (from |tos 0x|expires [-0])/
  if (is_default) seen[family] = seen[family] " [" $0 "]" # of all tables; the lowest rank is best
  rank = has["table"] * 1e12 + has["metric"] * 4 + (more ~ / pref low/) - (more ~ / pref high/)
  for (dev in by) if (is_default && (!((family, dev) in best) || rank < best[family, dev])) {
    router[family, dev] = by[dev]; best[family, dev] = rank
  }
  if (has["table"] != "") return; is_split = family == 6 && hops > 1; $at = to # "default" can be of either family
  to = to " proto " ours " metric " has["metric"] (more ~ / from | tos 0x/ ? more : "") # the "tos" of encap is decimal
  for (i = 1; i <= (is_split ? hops : 1); i++) {
    holder[to, ++holders[to]] = ++routes; is_ours[routes] = has["proto"] == ours; step_of[routes] = is_split ? 4 : 3
    path[routes] = bare(is_split ? hop[i] : alone(used)); way[routes] = path[routes] more
    line[routes] = is_split ? to path[routes] : $0
  }
}
function dev_of(hop) { return match(hop, / dev [^ ]+/) ? substr(hop, RSTART + 5, RLENGTH - 5) : "" }
function bare(hop) { if (family == 6) gsub(/ weight [0-9]+| onlink/, "", hop); return hop } # not compared by Linux
function alone(hops) { if (gsub(/ nexthop/, "&", hops) < 2) gsub(/ nexthop| weight [0-9]+/, "", hops); return hops }
function way_for(gateway, dev,   i, hops, hop) { # the next hops for a configured route; none while they are not known
  hops = router[family, dev]; if (gateway == "") return alone(hops)
  for (i = split(hops, hop, / nexthop/); i > 1; i--) if (index(hop[i], " via " gateway " ")) hop[1] = hop[i]
  if (hop[1] != "" || (dev == "" && hops == "")) return alone(hop[1])
  return " via " gateway " dev " (dev == "" ? dev_of(hops) : dev)
}
function settle(wish,   word, n, i, r, name, given, place, want, scope, lack, stands, theirs, other, need) {
  n = split(wish, word, " "); family = word[1] ~ /:/ ? 6 : 4; given["via"] = given["dev"] = "" # gawk 5.2 would crash
  for (i = 2; i < n; i += 2) given[word[i]] = word[i + 1]
  place = word[1] " proto " ours " metric " given["metric"]; name = wish; sub(/ metric .*/, "", name)
  want = given["optional"] ? " dev " given["dev"] : way_for(given["via"], given["dev"])
  if (want == "") lack = "an IPv" family " default route" (given["dev"] == "" ? "" : " by " given["dev"])
  if (given["dev"] != "" && !is_up[given["dev"]]) lack = "the device " given["dev"] " to be up"
  if (family == 4 && want !~ / via /) scope = " scope 253"
  n = 1; if (family == 6 && sub(/^ nexthop/, "", want)) n = split(want, word, / nexthop/); else word[1] = want
  for (i = 1; i <= n; i++) need[bare(word[i]) scope] = 1
  for (i = 1; i <= holders[place]; i++) {
    r = holder[place, i]; if (!is_ours[r]) theirs = r; if (step_of[r] == 4) step_of[r] = i > 1 ? 1 : 3
    if (lack != "" || way[r] in need) { is_right[r] = stands = 1; need[way[r]] = 0 }
    else if (!is_ours[r] && (family == 6 || !stands)) other = r
    else if ((path[r] scope) in need) step_of[r] = 1 # Linux would not tell them apart
  } for (i in need) if (need[i] && theirs) other = theirs # next hops of ours would be added to it
  if (given["optional"] && (lack != "" || other)) return
  if (lack != "") why = why "missing ROUTE-WAITS: " name " needs " lack \
    "; last seen:" (family in seen ? seen[family] : " none") "\n"
  else if (other) why = why "refused ROUTE-CONFLICT: " name " cannot be installed: another program\047s route has " \
    "the same destination and metric: [" line[other] "]; " (family == 6 ? "configure another metric: the lowest " \
    "takes precedence" : place ~ /^[^ ]*\/32 / ? "delete that route: no prefix can be longer" : \
    "configure its two halves instead, which take precedence") "\n"
  for (i = 1; i <= n; i++) if (need[bare(word[i]) scope]) {
    # Not "replace", which would hit a route that another program sets at this moment.
    want = (holders[place] || i > 1 ? "append " : "add ") place scope (n > 1 ? " nexthop" : "") word[i]
    change(given["optional"] ? 4 : 2, want, deletion(place scope bare(word[i])))
  }
}
# In IPv6, a request without a gateway would delete all next hops of the route that it matches, whoever added them.
function deletion(text) { return "del " text (text ~ /^[0-9a-f]*:.* dev / && text !~ / via / ? " via ::" : "") }
function change(step, command, undoing) {
  forth[step] = forth[step] "route " command "\n"; back[step] = "route " undoing "\n" back[step]; changes += step < 4
}
END {
  if (last != "end" || !ours) why = "refused the routes cannot be read: " last "\n"
  else for (i = 1; i <= wishes; i++) settle(wish[i])
  for (i = 1; i <= routes; i++) if (is_ours[i] && !is_right[i]) change(step_of[i], deletion(line[i]), "append " line[i])
  print (why ? why : "write " changes + 0 "\n" forth[1] forth[2] forth[3] back[3] back[2] back[1] forth[4]) "end"
}
'
say() { printf '<%s>static-routes: %s\n' "$1" "$2" >&2; }
lists=('link show' 'link show type '{dummy,ifb,vrf} 'route show table all')
list() { printf '%s\n' "${configuration[@]}"; ip -N -o -batch - 2>&1 < <(printf '%s\n' "${lists[@]}") && echo end; }
batch() { (trap '' TERM INT HUP && printf '%s\n' "${@:2}" | ip "$1" -batch - 2>&1); } # a signal does not cut it short
undo=() next=0 stopped='' && trap 'stopped=143' TERM INT HUP
while :; do # once a second while something is missing that may still come
  for ((writes = -1; ; writes++)); do # what was written is read back: the plan must be empty
    mapfile -t plan < <(exec "$awk" "$program" < <(list))
    [[ ${plan[*]: -1} == end ]] || plan=("refused the plan was cut short" end)
    if ((writes < 0)) && [[ ${plan[*]} != 'write 0 end' ]]; then # one run at a time, unless /run is full or read-only
      { exec 7<>"$lock" || exec 7<"$lock"; } 2>/dev/null && flock -w 10 7
      continue # reading again
    fi
    [[ ${plan[0]} == 'write '[1-9]* && $writes -lt 2 ]] || break
    count=${plan[0]#write } at=$((count + 1)) why=("another program also changes these routes: ${plan[1]}")
    if ! said=$(batch -N "${plan[@]:1:count}"); then
      [[ $said =~ 'Command failed -:'([0-9]+) ]] && at=${BASH_REMATCH[1]}
      why=("${plan[at]}: ${said%%$'\n'*}") hop=${plan[at]#route del }
    fi
    undo=("${plan[@]:2*count+2-at:at-1}" "${undo[@]}")
  done
  case ${plan[0]}/${why[0]-} in
    'write 0'*) ((${#plan[@]} == 2)) || batch -force "${plan[@]:1:${#plan[@]}-2}" >/dev/null
      ((${#undo[@]} == 0)) || say 6 "changed routes: ${#undo[@]}"; exit 0 ;;
    write*/'route del '*:*' via '*'No such process') plan=(refused)
      why=("ROUTE-CONFLICT: $hop: this next hop is another program's: delete it, or configure another metric") ;;
    write*) ;; *) why=("${plan[@]#* }") && unset 'why[-1]' ;;
  esac
  ((${#undo[@]} == 0)) || said=$(batch -force "${undo[@]}") || say 3 "cannot be taken back: ${said%%$'\n'*}"
  undo=() && exec 7<&-; [[ $SECONDS -lt $wait && ! $stopped && ${plan[0]} != refused* ]] || break
  ((SECONDS < next)) || { say 6 "waiting ($SECONDS of $wait s): ${why[0]}" && next=$((SECONDS + 10)); }
  sleep 1
done
[[ ${plan[0]} == refused* ]] || why=("${why[@]/%/; gave up after $SECONDS s}") # nothing was awaited
for line in "${why[@]:0:9}"; do say 3 "$line"; done && exit "${stopped:-1}"
