#!/bin/bash
finished='' && trap '[[ $finished ]] || exit 1' EXIT # a script that was cut short fails
# Installs the static routes, and deletes our routes that are no longer configured. Written by hostrouting.
#
# A gateway or device that is not configured is taken from the default route; the script waits for one. Our routes are
# those with our protocol number; other routes are never changed. Routes of one table with the same prefix, metric and
# tos have the same key: if a route that is not ours has the key of a configured one and differs from it, the script
# names it and changes nothing. It installs all routes or none; if all are in place, it writes nothing.
# Exit status: 0, or 1 with the reasons.

# Data only: no line of it is executed.
configuration=(
)

set -u
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
plan=() undo=() why=() awk='awk' wait=${configuration[1]#wait }
[[ ${1-} ]] && ((wait > $1)) && wait=$1 # the caller may have less time
hash mawk 2>/dev/null && awk=mawk       # it starts fastest

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
  tell " (given up after $wait s)"
  give_back # and it exits like a script that was cut short
}

# Makes the plan: lines "missing …" and "refused …"; or "write", the commands, and as many that undo them. Then "end".
look() {
  mapfile -t plan < <(exec "$awk" "$program" < <(
    printf 'setting %s\n' "${configuration[@]}"
    exec ip -4 -N -o -batch - 2>&1 < <(printf '%s\n' 'rule show' 'route show table all' 'link show')
  ))
  [[ ${#plan[@]} != 0 && ${plan[${#plan[@]} - 1]} == end ]] ||
    plan=("refused the routes cannot be read: ${plan[0]-$awk printed nothing}")
}

# Runs one batch. If the kernel refuses a command, undoes the rest. Fails if it can only help to wait, for instance for
# a gateway; if the table has changed since it was read, it is read again at once.
write() {
  local said count=$((${#plan[@]} / 2 - 1)) at=0
  undo=("${plan[@]:count+1:count}" "${undo[@]}")
  if said=$(exec ip -4 -batch - 2>&1 < <(printf '%s\n' "${plan[@]:1:count}")); then
    plan=("refused another program keeps changing these routes: ${plan[1]}")
    return
  fi
  if [[ $said =~ 'Command failed -:'([0-9]+)$ ]]; then
    at=$((BASH_REMATCH[1] - 1))
    undo=("${undo[@]:count-at}") # only those before it
  fi
  why=("refused ${plan[at + 1]}: ${said%%$'\n'*}")
  plan=("${why[@]}")
  give_back
  [[ $said == *'File exists'* || $said == *'No such process'* ]]
}

# Undoes what was written, the last first. A route that is already gone or already back is not an error.
give_back() {
  local line
  ((${#undo[@]})) || return
  while read -r line; do
    case $line in *'No such process' | *'File exists' | 'Command failed'*) ;; *) complain "not undone: $line" ;; esac
  done < <(printf '%s\n' "${undo[@]}" | ip -4 -force -batch - 2>&1)
  undo=()
}

# Reports each route that cannot be installed, and why.
tell() {
  local line
  [[ ${plan[0]-} == write ]] && plan=("${why[@]}") # read again, but not tried again
  for line in "${plan[@]}"; do
    case $line in
      missing*) complain "${line#* }${1-}" ;;
      refused*) complain "${line#* }" ;;
    esac
  done
}

complain() { printf '<3>static-routes: %s\n' "$1" >&2; }

# Reads the settings and what `ip` lists, prints the plan. A device name can be any word, so words are read in pairs.
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
/^[0-9]+:\t/ { # a rule: those for all packets of this host count, or for all without a mark
  sub(/not from all fwmark 0x[^ ]+/, "from all")
  if ($2 $3 $4 == "fromalllookup" && !/suppress/) table[++tables] = $5
  next
}
{ read_route() }
END {
  if (last !~ /^[0-9]+: /) { print "ip failed: " last; exit } # the links come last
  for (w = 1; w <= wishes; w++) settle(wish[w])
  for (i = 1; i <= conflicts; i++) print "refused " conflict[i]
  # Routes that are no longer configured are deleted once everything else is in place.
  if (!steps) for (r = 1; r <= routes; r++) if (is_ours[r] && !(r in stays)) change("del" text[r], back[r])
  if (steps && !conflicts && !waits) {
    print "write"
    for (i = 1; i <= steps; i++) print "route " forth[i]
    for (i = steps; i >= 1; i--) print "route " inverse[i]
  }
  print "end"
}

# Stores a route, of a hundred thousand only those that can matter. A type other than unicast is a number before the
# prefix. Most routes have the same words after the prefix: f is the first route with these words; only it is parsed.
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

# Parses the words after the prefix, for route r.
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
  # A refusing route may list a device, a route with a nexthop object lists what that contains: neither is configured.
  if ((at == 1 || $1 < 6) && has["more"] !~ / nhid /) shape[r] = shape[r] way(r, "", "", 1)
  key_words[r] = " table " has["table"] " proto " has["proto"] " metric " has["metric"] " tos " has["tos"]
}

# The next hops of a route in the words of `ip`: all; or those with this device and gateway, if given, and a device up.
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

# The default route for plain packets, or the first one by this device: not ours, and with a next hop that is not dead.
function default_route(by,   t, i, n, r, is_used) {
  for (t = 1; t <= tables; t++) for (i = 1; i <= defaults[table[t]]; i++) {
    r = default_at[table[t], i]
    if (type[r] == "throw ") break
    is_used = !legs[r]
    for (n = 1; n <= legs[r]; n++) if (!dead[r, n] && (by == "" || by == dev[r, n])) is_used = 1
    if (is_used && type[r] == "") return r
    if (is_used && by == "") return 0 # it refuses the packets that reach it
  }
}

# The next hop to use, which begins with a blank; or what is missing. The kernel checks if a gateway can be reached.
function resolve(gateway, by,   d, found) {
  if (by != "" && !(by in up)) return "the device " by
  if (gateway in own) return gateway " to be a router next to this host (it is this host\047s own address)"
  d = default_route(by)
  found = way(d, by, gateway, 0) # if the configured gateway is the default one, onlink as there
  if (found == "" && gateway != "" && (d || by != "")) return " via " gateway " dev " (by == "" ? dev[d, 1] : by)
  return found != "" ? found : "an IPv4 default route" (by == "" ? "" : " on " by)
}

# Plans one configured route, by the routes with its key; the kernel uses the first. Ours that differ are replaced.
function settle(wish,   word, n, i, given, key, new, r, stands, is_said, stale, other, remedy) {
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
      # To delete the stale one after it, the kernel could delete this one instead.
      is_said = type[r] shape[r] == new && !(is_ours[r] && stale)
    }
  }
  if (is_said) { stays[stands] = 1; return }
  if (other) {
    remedy = way_out(word[1])
    conflict[++conflicts] = wish ": another route has the same destination and metric: [" line[other] \
      "], which is not ours; " remedy
    return
  }
  for (n = 1; n <= holders[key]; n++) change("del" text[holder[key, n]], back[holder[key, n]])
  new = " " word[1] " table 254 proto " ours " metric " given["metric"] " tos 0" new
  change("add" new, "del" new)
}

function way_out(prefix,   part, bit, left, right) {
  split(prefix, part, /[.\/]/)
  if (part[5] == 32) return "it has to be deleted first"
  left = part[1] "." part[2] "." part[3] "." part[4] "/" (part[5] + 1)
  split("128 64 32 16 8 4 2 1", bit, " ")
  part[int(part[5] / 8) + 1] += bit[part[5] % 8 + 1]
  right = part[1] "." part[2] "." part[3] "." part[4] "/" (part[5] + 1)
  return "instead, configure " left " and " right ", which take precedence"
}

function missing(reason) { print "missing " reason; waits = 1 }

function change(command, undoing) { forth[++steps] = command; inverse[steps] = undoing }
'
main
