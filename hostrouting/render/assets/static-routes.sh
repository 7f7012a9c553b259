#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Installs the static routes, and takes away those of ours that are no longer wanted. Written by hostrouting.
#
# What a route leaves open comes from the default route, which is waited for. A route that is not ours is never touched:
# ours are those that carry our protocol number. The kernel tells the routes of a table apart by prefix, metric and tos,
# their key: where a route that is not ours holds the key of a wanted one and says something else, it is named and stays.
# All of it is done, or nothing; where all is right, nothing is written. Exit status: 0, or 1 with the reasons.

# Data, and nothing else: no line of it is ever run.
configuration=(
)

set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
wait=30 plan=() undo=() awk='awk'
for line in "${configuration[@]:0:2}"; do
  case $line in 'wait '*) wait=${line#* } ;; esac
done
[[ ${1-} ]] && ((wait > $1)) && wait=$1 # whoever runs this may have less time
hash mawk 2>/dev/null && awk=mawk       # it begins quickest

#include nap.sh

main() {
  local waited=0 batches=0
  trap 'complain "told to stop before all of it was done"; tell; give_back; finished=1; exit 143' TERM INT HUP
  while look; do
    case ${plan[0]} in
      end) finished=1 && exit ;; # the kernel itself says that nothing is left to do
      refused*) break ;;
      write) write; ((++batches < 6)) && continue ;;
    esac
    ((waited < wait * 5)) || break
    nap
  done
  tell " (given up after $wait s)"
  give_back
  exit 1
}

# Makes the plan: lines "missing …" or "refused …"; or "write", commands, and as many that undo them; at last "end".
look() {
  mapfile -t plan < <("$awk" "$program" < <(
    printf 'setting %s\n' "${configuration[@]}"
    ip -4 -N -o -batch - 2>&1 < <(printf '%s\n' 'rule show' 'link show' 'route show table all') && echo end
  ))
  [[ ${plan[*]: -1} == end ]] && return
  plan=("refused what is there cannot be told: ${plan[0]-$awk failed}")
  return 1
}

# Carries out the commands up to the first that the kernel refuses; whether that matters, the next look tells.
write() {
  local said count=$((${#plan[@]} / 2 - 1)) at=0
  local commands=("${plan[@]:1:count}")
  undo=("${plan[@]:count+1:count}" "${undo[@]}")
  plan=("refused something else keeps changing these routes: ${commands[0]}")
  said=$(printf '%s\n' "${commands[@]}" | ip -4 -batch - 2>&1) && return
  if [[ $said =~ 'Command failed -:'([0-9]+)$ ]]; then
    at=$((BASH_REMATCH[1] - 1))
    undo=("${undo[@]:count-at}")
  fi
  plan=("refused ${commands[at]}: ${said%%$'\n'*}")
}

# Undoes what was written, the last first. What is gone or back already needs no undoing.
give_back() {
  local line
  trap '' TERM INT HUP
  ((${#undo[@]})) || return
  while read -r line; do
    case $line in *'No such process' | *'File exists' | 'Command failed'*) ;; *) complain "not undone: $line" ;; esac
  done < <(printf '%s\n' "${undo[@]}" | ip -4 -force -batch - 2>&1)
  complain 'what was done has been undone'
}

# Each route that cannot be had, and why.
tell() {
  local line
  for line in "${plan[@]}"; do
    case $line in
      missing*) complain "${line#* }${1-}" ;;
      refused*) complain "${line#* }" ;;
    esac
  done
}

complain() { printf '<3>static-routes: %s\n' "$1" >&2; }

# From the settings and what `ip` says to the plan. A device may have any word for a name, so lines are read in pairs.
# shellcheck disable=SC2016 # the text of a program
program='
BEGIN { split("unicast local broadcast anycast multicast blackhole unreachable prohibit throw", type_name, " ") }
$1 == "setting" {
  if ($2 == "protocol") ours = $3
  if ($2 == "name") name[$3] = $4
  if ($2 == "route") { wanted[$3] = 1; sub(/^setting route /, ""); wish[++wishes] = $0 }
  next
}
{ last = $0 }
/^Dump was interrupted/ { missing("the routes changed while they were read"); next }
/^[0-9]+: / { sub(/(@[^@]*)?:$/, "", $2); up[$2] = $3 ~ /[<,]UP[,>]/; next }
/^[0-9]+:\t/ { # a rule: those count that are for all that the host itself sends, if need be without a mark
  sub(/not from all fwmark 0x[^ ]+/, "from all")
  if ($2 $3 $4 == "fromalllookup" && !/suppress/) table[++tables] = $5
  next
}
{ read_route() }
END {
  if (last != "end") { print "ip failed: " last; exit }
  for (w = 1; w <= wishes; w++) settle(wish[w])
  for (i = 1; i <= conflicts; i++) print "refused " conflict[i]
  # Nothing is taken away before everything else is there.
  if (!steps) for (r = 1; r <= routes; r++) if (is_ours[r] && !(r in stays)) change("del" text[r], back[r])
  if (steps && !conflicts && !waits) {
    print "write"
    for (i = 1; i <= steps; i++) print "route " forth[i]
    for (i = steps; i >= 1; i--) print "route " inverse[i]
  }
  print "end"
}

# Of a hundred thousand routes only those that can matter. A type other than unicast is a number before the prefix.
function read_route(   at, i, n, word, to, has, is_first) {
  at = $1 in type_name ? 2 : 1
  to = $at == "default" ? "0.0.0.0/0" : $at (index($at, "/") ? "" : "/32")
  is_first = to != previous
  previous = to
  if (at == 1 && !(to in wanted) && $1 != "default" && !index($0 " ", " proto " ours " ")) return
  r = ++routes
  type[r] = at == 2 ? type_name[$1] : ""
  has["table"] = 254; has["proto"] = has["scope"] = has["metric"] = has["tos"] = "0"; has["more"] = ""
  for (i = at + 1; i <= NF; i++) {
    word = $i
    if (word == "nexthop" || (!n && (word == "via" || word == "dev"))) n++
    if (word == "via" && $(i + 1) == "inet6") word = word " " $(++i)
    if (word == "dev") dev[r, n] = $(i + 1)
    if (word == "nexthop" || word == "onlink") leg[r, n] = leg[r, n] " " word
    else if (word ~ /^(via|via inet6|dev|weight)$/) leg[r, n] = leg[r, n] " " word " " $(++i)
    else if (word == "dead") dead[r, n] = 1
    else if (word in has) {
      has[word] = $(++i)
      $i = word == "proto" && $i in name ? name[$i] : word == "scope" && $i == 253 ? "link" : $i
    } else if (word !~ /^(\\|linkdown|pervasive|offload|rt_offload|trap|rt_trap)$/) has["more"] = has["more"] " " word
  }
  # What discards packets may show a device, and what is by a nexthop object shows what that says: neither is asked for.
  legs[r] = (at == 2 && $1 >= 6) || has["more"] ~ / nhid / ? 0 : n
  shape[r] = type[r] " scope " has["scope"] has["more"] way(r, "", 1)
  text[r] = " " type[r] " " to " table " has["table"] " proto " has["proto"] " metric " has["metric"] " tos " has["tos"]
  text[r] = text[r] substr(shape[r], length(type[r]) + 1)
  line[r] = $0
  is_ours[r] = has["proto"] == ours
  back[r] = (is_first ? "prepend" : "append") text[r]
  if (type[r] == "local") own[$2] = 1
  if (has["tos"] != "0") return
  if (has["table"] == 254) holder[to " " has["metric"], ++holders[to " " has["metric"]]] = r
  if (to == "0.0.0.0/0" && !is_ours[r]) default_at[has["table"], ++defaults[has["table"]]] = r
}

# The legs of a route in the words of `ip`: all, or those by a device, if one is named, that is up.
function way(r, by, all,   n, count, text) {
  if (all && legs[r] == 1) return leg[r, 1]
  for (n = 1; n <= legs[r]; n++) if (all || (up[dev[r, n]] && (by == "" || dev[r, n] == by))) {
    count++
    text = text leg[r, n]
  }
  if (count == 1) gsub(/^ nexthop| weight [0-9]+/, "", text)
  return text
}

# The default route that a plain packet takes, or the first of those by a device: with a leg that is not dead, not ours.
function default_route(by,   t, i, n, r) {
  for (t = 1; t <= tables; t++) for (i = 1; i <= defaults[table[t]]; i++) {
    r = default_at[table[t], i]
    if (type[r] == "throw") break
    if (type[r] != "" && by == "") return 0 # it discards what comes so far
    for (n = 1; n <= legs[r] && type[r] == ""; n++) if (!dead[r, n] && (by == "" || dev[r, n] == by)) return r
  }
  return 0
}

# The way that is meant, which begins with a blank; or what is missing. The kernel says if a gateway can be reached.
function resolve(gateway, by,   d, n, only) {
  if (by != "" && !(by in up)) return "the device " by
  if (gateway in own) return gateway " to be a router next to this host (it is this host\047s own address)"
  d = default_route(by)
  if (gateway == "") return d && way(d, by) != "" ? way(d, by) : "an IPv4 default route" (by == "" ? "" : " on " by)
  for (n = 1; n <= legs[d]; n++) if (index(leg[d, n], " via " gateway " ") && (by == "" || dev[d, n] == by)) {
    only = leg[d, n] # the default gateway spelled out, on-link where the default route says so
    gsub(/^ nexthop| weight [0-9]+/, "", only)
    return only
  }
  return by != "" || d ? " via " gateway " dev " (by == "" ? dev[d, 1] : by) : "an IPv4 default route"
}

# Sees to one wish. Of the routes that hold its key the kernel takes the first; ours that say something else are to go.
function settle(wish,   word, n, i, given, key, way_, new, r, stands, doubtful, verb) {
  n = split(wish, word, " ")
  given["via"] = given["dev"] = ""; given["metric"] = "0"
  for (i = 2; i < n; i += 2) given[word[i]] = word[i + 1]
  key = given["via"] " " given["dev"]
  if (!(key in way_for)) way_for[key] = resolve(given["via"], given["dev"])
  way_ = way_for[key]
  if (way_ !~ /^ /) { missing(wish ": waiting for " way_); return }
  new = " scope " (way_ ~ / via / ? 0 : 253) way_
  key = word[1] " " given["metric"]
  verb = holders[key] ? "append" : "add"
  for (n = holders[key]; n >= 1; n--) {
    r = holder[key, n]
    if (!is_ours[r] || shape[r] == new) stands = r
    else if (may_take(shape[r], way_)) doubtful = 1
    if (!is_ours[r]) verb = "prepend"
  }
  if (stands && shape[stands] == new && !(doubtful && is_ours[stands])) { stays[stands] = 1; return }
  if (stands && shape[stands] != new && stands == holder[key, 1]) {
    conflict[++conflicts] = wish ": its key is held by [" line[stands] "], which is not ours: " \
      (word[1] ~ /\/32$/ ? "it has to go first" : "in its place write its two halves, which win without touching it")
    return
  }
  # The old one goes when the new one is there; or before, where one might be taken for the other.
  for (n = 1; n <= holders[key]; n++) {
    r = holder[key, n]
    if (is_ours[r] && may_take(shape[r], way_)) change("del" text[r], back[r])
  }
  new = " " word[1] " table 254 proto " ours " metric " given["metric"] " tos 0" new
  change(verb new, "del" new)
}

# Whether the kernel, told to delete a route of this shape, takes one by this way for it: it looks at the first leg.
function may_take(shape, way_) {
  return match(shape, /( via (inet6 )?[^ ]+)? dev [^ ]+/) && index(way_ " ", substr(shape, RSTART, RLENGTH) " ")
}

function missing(text) { print "missing " text; waits = 1 }

function change(command, back) { forth[++steps] = command; inverse[steps] = back }
'
main
