#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Installs the static routes, and takes away those of ours that are no longer wanted. Written by hostrouting.
#
# What a route leaves open comes from the default route, which is waited for. A route that is not ours is never touched:
# ours are those that carry our protocol number. Routes of one table with the same prefix, metric and tos have one key:
# where a route that is not ours holds the key of a wanted one and says something else, it is named and nothing is done.
# All of it is done, or nothing; where all is right, nothing is written. Exit status: 0, or 1 with the reasons.

# Data, and nothing else: no line of it is ever run.
configuration=(
)

set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
plan=() undo=() awk='awk' wait=${configuration[1]#wait }
[[ ${1-} ]] && ((wait > $1)) && wait=$1 # whoever runs this may have less time
hash mawk 2>/dev/null && awk=mawk       # it begins quickest

#include nap.sh

main() {
  local waited=0 tries=0
  trap 'trap "" TERM INT HUP; complain "told to stop before all of it was done"; tell; give_back
    finished=1; exit 143' TERM INT HUP
  while :; do
    look
    case ${plan[0]} in
      end) finished=1 && exit ;; # read back, nothing is left to do
      refused*) break ;;
      write) write; ((++tries < 6)) && continue ;;
    esac
    ((waited < wait * 5)) || break
    nap
  done
  tell " (given up after $wait s)"
  give_back # and it ends as what was cut short
}

# Makes the plan: lines "missing …" and "refused …"; or "write", commands, and as many that undo them; at last "end".
look() {
  mapfile -t plan < <(exec "$awk" "$program" < <(
    printf 'setting %s\n' "${configuration[@]}"
    exec ip -4 -N -o -batch - 2>&1 < <(printf '%s\n' 'rule show' 'route show table all' 'link show')
  ))
  [[ ${#plan[@]} != 0 && ${plan[${#plan[@]} - 1]} == end ]] || plan=("refused what is there cannot be told: ${plan[0]-$awk failed}")
}

# One batch. When the kernel refuses a command, as when somebody else was faster, what was done is undone.
write() {
  local said count=$((${#plan[@]} / 2 - 1)) at=0
  undo=("${plan[@]:count+1:count}" "${undo[@]}")
  if said=$(exec ip -4 -batch - 2>&1 < <(printf '%s\n' "${plan[@]:1:count}")); then
    plan=("refused something else keeps changing these routes: ${plan[1]}")
    return
  fi
  if [[ $said =~ 'Command failed -:'([0-9]+)$ ]]; then
    at=$((BASH_REMATCH[1] - 1))
    undo=("${undo[@]:count-at}") # of those before it
  fi
  plan=("refused ${plan[at + 1]}: ${said%%$'\n'*}")
  give_back
}

# Undoes what was written, the last first. What is gone or back already needs no undoing.
give_back() {
  local line
  ((${#undo[@]})) || return
  while read -r line; do
    case $line in *'No such process' | *'File exists' | 'Command failed'*) ;; *) complain "not undone: $line" ;; esac
  done < <(printf '%s\n' "${undo[@]}" | ip -4 -force -batch - 2>&1)
  undo=()
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
/^Dump was interrupted/ { missing("the routes changed while they were read"); next }
{ last = $0 }
/^[0-9]+: / { sub(/(@[^@]*)?:$/, "", $2); up[$2] = $3 ~ /[<,]UP[,>]/; next }
/^[0-9]+:\t/ { # a rule: those count that are for all that the host itself sends, or for all of it without a mark
  sub(/not from all fwmark 0x[^ ]+/, "from all")
  if ($2 $3 $4 == "fromalllookup" && !/suppress/) table[++tables] = $5
  next
}
{ read_route() }
END {
  if (last !~ /^[0-9]+: /) { print "ip failed: " last; exit } # the links come last
  for (w = 1; w <= wishes; w++) settle(wish[w])
  for (i = 1; i <= conflicts; i++) print "refused " conflict[i]
  # What is no longer wanted goes when everything else is there.
  if (!steps) for (r = 1; r <= routes; r++) if (is_ours[r] && !(r in stays)) change("del" text[r], back[r])
  if (steps && !conflicts && !waits) {
    print "write"
    for (i = 1; i <= steps; i++) print "route " forth[i]
    for (i = steps; i >= 1; i--) print "route " inverse[i]
  }
  print "end"
}

# Of a hundred thousand routes only those that can matter. A type other than unicast is a number before the prefix.
# Most routes have the same words after the prefix: f is the first with these words, for which they were read.
function read_route(   at, to, is_first, words, f) {
  at = $1 in type_name ? 2 : 1
  to = $at == "default" ? "0.0.0.0/0" : $at (index($at, "/") ? "" : "/32")
  is_first = to != previous
  previous = to
  if (at == 1 && !(to in wanted) && $1 != "default" && !index($0 " ", " proto " ours " ")) return
  r = ++routes
  line[r] = (at == 2 ? $1 " " : "") $at
  words = at == 2 ? $1 substr($0, index($0, " " $2) + length($2) + 1) : substr($0, length($1) + 1)
  if (!(words in first)) { first[words] = r; read_words(at) }
  f = first[words]
  line[r] = line[r] shown[f]; is_ours[r] = is_ours[f]; type[r] = type[f]; shape[r] = shape[f]
  text[r] = " " type[f] to key_words[f] shape[f]
  back[r] = (is_first ? "prepend" : "append") text[r]
  if (type[f] == "local ") own[$2] = 1
  if (tos[f] != "0") return
  if (table_of[f] == 254) holder[to " " metric[f], ++holders[to " " metric[f]]] = r
  if (to == "0.0.0.0/0" && !is_ours[f]) default_at[table_of[f], ++defaults[table_of[f]]] = f
}

# Sets what the words after the prefix say of route r.
function read_words(at,   i, n, word, has) {
  type[r] = at == 2 ? type_name[$1] " " : ""
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
  shown[r] = substr($0, length(line[r]) + 1)
  legs[r] = n; table_of[r] = has["table"]; metric[r] = has["metric"]; tos[r] = has["tos"]
  is_ours[r] = has["proto"] == ours
  shape[r] = " scope " has["scope"] has["more"]
  # What discards packets may show a device, and what is by a nexthop object shows what that says: neither is asked for.
  if ((at == 1 || $1 < 6) && has["more"] !~ / nhid /) shape[r] = shape[r] way(r, "", "", 1)
  key_words[r] = " table " has["table"] " proto " has["proto"] " metric " has["metric"] " tos " has["tos"]
}

# The legs of a route in the words of `ip`: all; or those by a device and gateway, where given, whose device is up.
function way(r, by, gateway, all,   n, count, words) {
  for (n = 1; n <= legs[r]; n++) {
    if (!all && !(up[dev[r, n]] && (by == "" || by == dev[r, n]))) continue
    if (gateway != "" && !index(leg[r, n], " via " gateway " ")) continue
    count++
    words = words leg[r, n]
  }
  if (count == 1) gsub(/^ nexthop| weight [0-9]+/, "", words)
  return words
}

# The default route that a plain packet takes, or the first of those by a device: with a leg that is not dead, not ours.
function default_route(by,   t, i, n, r, is_used) {
  for (t = 1; t <= tables; t++) for (i = 1; i <= defaults[table[t]]; i++) {
    r = default_at[table[t], i]
    if (type[r] == "throw ") break
    is_used = !legs[r]
    for (n = 1; n <= legs[r]; n++) if (!dead[r, n] && (by == "" || by == dev[r, n])) is_used = 1
    if (is_used && type[r] == "") return r
    if (is_used && by == "") return 0 # it discards what comes so far
  }
}

# The way that is meant, which begins with a blank; or what is missing. The kernel says if a gateway can be reached.
function resolve(gateway, by,   d, found) {
  if (by != "" && !(by in up)) return "the device " by
  if (gateway in own) return gateway " to be a router next to this host (it is this host\047s own address)"
  d = default_route(by)
  found = way(d, by, gateway, 0) # the default gateway spelled out is on-link where the default route says so
  if (found == "" && gateway != "" && (d || by != "")) return " via " gateway " dev " (by == "" ? dev[d, 1] : by)
  return found != "" ? found : "an IPv4 default route" (by == "" ? "" : " on " by)
}

# Sees to one wish, by what holds its key, of which the kernel takes the first. Ours that say otherwise give way.
function settle(wish,   word, n, i, given, key, new, r, stands, is_said, stale, other) {
  n = split(wish, word, " ")
  given["via"] = given["dev"] = ""; given["metric"] = "0"
  for (i = 2; i < n; i += 2) given[word[i]] = word[i + 1]
  key = given["via"] " " given["dev"]
  if (!(key in way_for)) way_for[key] = resolve(given["via"], given["dev"])
  if (way_for[key] !~ /^ /) { missing(wish ": waiting for " way_for[key]); return }
  new = " scope " (way_for[key] ~ / via / ? 0 : 253) way_for[key]
  key = word[1] " " given["metric"]
  for (n = holders[key]; n >= 1; n--) {
    r = holder[key, n]
    if (!is_ours[r]) other = r
    if (is_ours[r] && type[r] shape[r] != new) stale = 1
    else {
      stands = r
      # Told to delete the stale one behind it, the kernel could take it in its place.
      is_said = type[r] shape[r] == new && !(is_ours[r] && stale)
    }
  }
  if (is_said) { stays[stands] = 1; return }
  if (other) {
    conflict[++conflicts] = wish ": its key is held by [" line[other] "], which is not ours: " way_out(word[1])
    return
  }
  for (n = 1; n <= holders[key]; n++) change("del" text[holder[key, n]], back[holder[key, n]])
  new = " " word[1] " table 254 proto " ours " metric " given["metric"] " tos 0" new
  change("add" new, "del" new)
}

function way_out(prefix,   part, bit, left) {
  split(prefix, part, /[.\/]/)
  if (part[5] == 32) return "it has to go first"
  left = part[1] "." part[2] "." part[3] "." part[4] "/" (part[5] + 1)
  split("128 64 32 16 8 4 2 1", bit, " ")
  part[int(part[5] / 8) + 1] += bit[part[5] % 8 + 1]
  return "in its place write " left " and " part[1] "." part[2] "." part[3] "." part[4] "/" (part[5] + 1) \
    ", which win without touching it"
}

function missing(reason) { print "missing " reason; waits = 1 }

function change(command, undoing) { forth[++steps] = command; inverse[steps] = undoing }
'
main
