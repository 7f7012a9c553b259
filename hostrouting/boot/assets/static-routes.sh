#!/bin/bash
# Sets the static routes, and deletes our other routes (those of our protocol). Written by hostrouting.
# Arguments: the unit it runs for, and how many seconds it may wait for a default route or a device (60 if absent).
# A gateway or device that is not given is that of the default route in table main, InfiniBand aside; with a device,
# that of its default route in any table. All routes are set or none; none if another program has a route with the
# prefix and metric of one. Optional routes are set if that is possible now. Exit status: 0, or 1 with the reasons.
# Data only: no line of it is executed.
configuration=(
)
set -u && umask 077 && export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
wait=${2:-60} lock=/run/hostrouting/routes awk='awk' && hash mawk 2>/dev/null && awk=mawk # it starts fastest
# Prints "write" and a number, so many commands, those that undo them, the last first, and commands that may fail; or
# why there is nothing to write (refused, or missing). The last line is "end".
# shellcheck disable=SC2016 # the text of a program
program='
BEGIN {
  split("unicast local broadcast anycast multicast blackhole unreachable prohibit throw", type, " ")
  for (i = 1; i < ARGC; i++) {
    $0 = ARGV[i]; if ($1 == "protocol") ours = $2; else { wish[++wishes] = substr($0, 7); is_wanted[$2] = 1 }
  } ARGC = 1
}
/^Dump was interrupted/ { block("missing the routes changed while they were read"); next }
/^Command failed / { next } # the line before says why
/^[0-9]+: / {
  # Its alias, which comes later, can be any text. Devices that are listed twice are dead ends.
  sub(/(@[^@]*)?:$/, "", $2); is_fabric[$2] = /^[^\\]*\\ +link\/(\[(32|772)\]|infini|loop)/ || $2 in is_up
  is_up[$2] = $3 ~ /[<,]UP[,>]/; next
}
{ last = $0; if ($1 in type) { $1 = type[$1]; read_route(2) } else read_route(1) }
END { if (last == "end" && ours) plan(); else print "refused the routes cannot be read: " last "\nend" }
function block(why) { print why; is_blocked = 1 }
# Each next hop of an IPv6 route is a route of its own. The protocol is that of the first; the others may not be ours.
function read_route(at,   to, i, word, hop, hops, used, by, has, more, rank, is_split) {
  family = $at ~ /:/ || ($at == "default" && / pref [lmh]/) ? 6 : 4
  to = $at == "default" ? (family == 6 ? "::/0" : "0.0.0.0/0") : $at ($at ~ /\// ? "" : family == 6 ? "/128" : "/32")
  if (!(to in is_wanted) && $1 != "default" && !index($0 " ", " proto " ours " ")) return
  gsub(/\\| (linkdown|pervasive|offload|rt_offload|trap|rt_trap)/, ""); has["metric"] = hops = 0
  for (i = at + 1; i <= NF; i++) { # in pairs, because a device can have any name
    word = $i; if (word == "via" && $(i + 1) == "inet6") word = word " " $(++i)
    if (word == "nexthop" || (!hops && word ~ /^(via|dev)/)) hops++
    if (word ~ /^(via|via inet6|dev|weight)$/) hop[hops] = hop[hops] " " word " " $(++i)
    else if (word ~ /^(onlink|dead)$/) hop[hops] = hop[hops] " " word
    else if (word ~ /^(table|proto|metric|scope|pref|error|expires)$/) has[word] = $(++i)
    else if (word != "nexthop") more = more " " word
  }
  for (i = 1; i <= hops; i++) if (!sub(/ dead/, "", hop[i])) {
    word = " nexthop" hop[i]; used = used word; by[dev_of(word)] = by[dev_of(word)] word
    if (!is_fabric[dev_of(word)]) by[""] = by[""] word
  }
  gsub(/ dead| expires [^ ]+| error [^ ]+| +$/, ""); more = more (at == 2 ? " " $1 : "")
  if ("expires" in has) more = more (has["expires"] + 0 > 0 ? " expires" : " expired")
  if ($1 == "default" && has["proto"] != ours && more !~ / (from |tos 0x|expired)/) {
    seen[family] = seen[family] " [" $0 "]"
    rank = has["table"] * 1e12 + has["metric"] * 4 + (has["pref"] == "low") - (has["pref"] == "high")
    for (word in by) if (word != "" || rank < 1e11) offer(word, by[word], rank)
  }
  is_split = family == 6 && hops > 1; if (has["table"] != "") return
  to = to " proto " ours " metric " has["metric"] (more ~ / from | tos 0x/ ? more : "") # the "tos" of encap is decimal
  for (i = 1; i <= (is_split ? hops : 1); i++) {
    holder[to, ++holders[to]] = ++routes; is_ours[routes] = has["proto"] == ours; step_of[routes] = is_split ? 4 : 3
    way[routes] = is_split ? bare(hop[i]) : scoped(bare(alone(used)), has["scope"]) more (has["pref"] ~ /[wh]$/ ? has["pref"] : "")
    line[routes] = is_split ? to bare(hop[i]) : $0
    if (family == 6) sub(/default/, "::/0", line[routes]) # which a route that refuses does not show
  }
}
function dev_of(hop) { return match(hop, / dev [^ ]+/) ? substr(hop, RSTART + 5, RLENGTH - 5) : "" }
function bare(hop) { if (family == 6) gsub(/ weight [0-9]+| onlink/, "", hop); return hop } # not told apart by these
function scoped(hops, scope) { return (scope ? " scope " scope : "") hops }
function alone(hops) { if (gsub(/ nexthop/, "&", hops) < 2) gsub(/ nexthop| weight [0-9]+/, "", hops); return hops }
function offer(dev, hops, rank) { # what a default route has by this device, or by any (""): the lowest rank is best
  if (hops == "" || ((family, dev) in router && rank >= best[family, dev])) return
  router[family, dev] = hops; best[family, dev] = rank
}
function way_for(gateway, dev,   i, hops, hop) { # the next hops for a configured route; none while they are not known
  hops = router[family, dev]; if (gateway == "") return alone(hops)
  for (i = split(hops, hop, / nexthop/); i > 1; i--) if (index(hop[i], " via " gateway " ")) hop[1] = hop[i]
  if (hop[1] != "" || (dev == "" && hops == "")) return alone(hop[1])
  return " via " gateway " dev " (dev == "" ? dev_of(hops) : dev)
}
function settle(wish,   word, n, i, r, name, given, place, want, lack, stands, theirs, other, stale, h, need) {
  n = split(wish, word, " "); family = word[1] ~ /:/ ? 6 : 4; given["via"] = given["dev"] = "" # gawk 5.2 would crash
  for (i = 2; i <= n; i++) { name = word[i]; given[name] = name ~ /^(link|optional)$/ ? 1 : word[++i] }
  place = word[1] " proto " ours " metric " given["metric"]; name = wish; sub(/ metric .*/, "", name)
  want = given["link"] ? " dev " given["dev"] : way_for(given["via"], given["dev"])
  if (want == "") lack = "an IPv" family " default route" (given["dev"] == "" ? "" : " by " given["dev"])
  if (given["dev"] != "" && !is_up[given["dev"]]) lack = "the device " given["dev"] " to be up"
  if (family == 4 && want !~ /^$| via /) want = scoped(want, 253) # what is on the link, as Python writes it
  n = 1; if (family == 6 && sub(/^ nexthop/, "", want)) n = split(want, word, / nexthop/); else word[1] = want
  for (i = 1; i <= n; i++) need[bare(word[i])] = 1
  for (i = 1; i <= holders[place]; i++) {
    r = holder[place, i]; if (lack != "" || way[r] in need) { is_right[r] = stands = 1; need[way[r]] = 0 }
    else if (!is_ours[r] && (family == 6 || !stands)) other = r
    if (step_of[r] == 4) step_of[r] = i > 1 ? 1 : 3; if (!is_ours[r]) theirs = r
  } for (i in need) if (need[i] && theirs) other = theirs # next hops of ours would be added to it
  if (given["optional"]) { if (lack != "" || other) return } else if (lack != "") {
    block("missing ROUTE-WAITS: " name ": waiting for " lack "; last seen:" (family in seen ? seen[family] : " none"))
  } else if (other) block("refused ROUTE-CONFLICT: " name " cannot be installed: " \
    "another program\047s route has the same destination and metric: [" line[other] "]; " \
    (family == 6 ? "configure another metric: the lowest takes precedence" : place ~ /^[^ ]*\/32 / ? \
    "delete that route: no prefix can be longer" : "configure its two halves instead, which take precedence"))
  for (i = 1; i <= n; i++) if (need[bare(word[i])]) {
    want = place (n > 1 ? " nexthop" : "") word[i]; r = given["optional"] ? 4 : 2
    for (h = 1; h <= holders[place]; h++) { # delete our route with this next hop first: Linux would not tell them apart
      stale = holder[place, h]; if (is_ours[stale] && index(way[stale], bare(word[i]) " ") == 1) step_of[stale] = 1
    }
    # Not "replace", which would hit a route that another program sets at this moment.
    change(r, (holders[place] || i > 1 ? "append " : "add ") want, deletion(place bare(word[i])))
  }
}
# In IPv6, a request without a gateway would delete all next hops beside the first that it matches, also of others.
function deletion(text) { return "del " text (text ~ /^[0-9a-f]*:.* dev / && text !~ / via / ? " via ::" : "") }
function change(step, command, undoing) { forth[step, ++steps[step]] = command; back[step, steps[step]] = undoing }
function plan(   i, n) {
  for (i = 1; i <= wishes; i++) settle(wish[i])
  for (i = 1; i <= routes; i++) if (is_ours[i] && !is_right[i]) change(step_of[i], deletion(line[i]), "append " line[i])
  if (!is_blocked) print "write " steps[1] + steps[2] + steps[3]
  for (i = 1; i <= 3 && !is_blocked; i++) for (n = 1; n <= steps[i]; n++) print "route " forth[i, n]
  for (i = 3; i && !is_blocked; i--) for (n = steps[i]; n; n--) print "route " back[i, n]
  for (n = 1; n <= steps[4] && !is_blocked; n++) print "route " forth[4, n]
  print "end"
}
'
say() { printf '<%s>static-routes: %s\n' "$1" "$2" >&2; }
lists=('link show' 'link show type '{dummy,ifb,vrf} 'route show table all')
list() { ip -N -o -batch - 2>&1 < <(printf '%s\n' "${lists[@]}") && echo end; }
batch() { (trap '' TERM INT HUP && printf '%s\n' "${@:2}" | ip "$1" -batch - 2>&1); } # a signal does not cut it short
undo=() next=0 stopped='' && trap 'stopped=143' TERM INT HUP
while :; do # once a second while something is missing that may still come
  for ((writes = -1; ; writes++)); do # what was written is read back: then the plan is empty
    mapfile -t plan < <(exec "$awk" "$program" "${configuration[@]}" < <(list))
    [[ ${plan[*]: -1} == end ]] || plan=("refused the plan was cut short" end)
    if ((writes < 0)) && [[ ${plan[*]} != 'write 0 end' ]]; then
      [[ -d ${lock%/*} ]] || mkdir -m 755 "${lock%/*}" 2>/dev/null
      # One run at once reads and writes, unless /run is full or read-only.
      { exec 7<>"$lock" || exec 7<"$lock"; } 2>/dev/null && flock -w 10 7
      continue
    fi
    [[ ${plan[0]} == 'write '[1-9]* && $writes -lt 2 ]] || break
    count=${plan[0]#write } at=$((count + 1)) why=("another program changes these routes, too: ${plan[1]}")
    if ! said=$(batch -N "${plan[@]:1:count}"); then
      [[ $said =~ 'Command failed -:'([0-9]+) ]] && at=${BASH_REMATCH[1]}
      why=("${plan[at]}: ${said%%$'\n'*}") hop=${plan[at]#route del }
    fi
    undo=("${plan[@]:2*count+2-at:at-1}" "${undo[@]}")
  done
  case ${plan[0]}/${why[0]-} in
    'write 0'*) ((${#plan[@]} == 2)) || batch -force "${plan[@]:1:${#plan[@]}-2}" >/dev/null
      ((${#undo[@]} == 0)) || say 6 "changed routes: ${#undo[@]}"
      exit 0 ;;
    write*/'route del '*:*' via '*'No such process') plan=(refused)
      why=("ROUTE-CONFLICT: $hop: this next hop of our route is not ours: delete it, or configure another metric") ;;
    write*) ;; *) why=("${plan[@]#* }") && unset 'why[-1]' ;;
  esac
  ((${#undo[@]} == 0)) || said=$(batch -force "${undo[@]}") || say 3 "cannot be taken back: ${said%%$'\n'*}"
  undo=() && exec 7<&-; [[ $SECONDS -lt $wait && ! $stopped && ${plan[0]} != refused* ]] || break
  ((SECONDS < next)) || { say 6 "waiting ($SECONDS of $wait s): ${why[0]}" && next=$((SECONDS + 10)); }
  sleep 1
done
for line in "${why[@]:0:9}"; do say 3 "$line; gave up after $SECONDS s"; done && exit "${stopped:-1}"
