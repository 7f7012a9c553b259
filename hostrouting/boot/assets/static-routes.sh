#!/bin/bash
# Sets the static routes of this host, and deletes our other routes (those with our protocol).
# All or nothing: if something fails, the routes are as before. Another program's route is never
# changed; if one has the prefix and the metric of a wanted route, nothing is written.
#
# A route takes what it does not name from a default route. Without a device, that is the best one
# of table main by a device that leads out; with a device, the best one by it, in any table. It is
# in doubt if it leads through a tunnel, or if an equal one leads through another device (unless it
# is the provider's line, or a tap without a card beside it). Then a route without a device takes
# that of the one expected device that can have it, or waits. While a route waits for anything, one
# of ours that is there stays, and is right if it is usable. `hostrouting apply` follows the same
# rules.
#
# Arguments: the unit that this run is for, and how many seconds it may wait (60).
# Exit status: 0, or 1 with the reasons; 143 if it was told to stop.
# Optional routes are set if possible, and never awaited.

# Data only: no line of it is executed.
configuration=(
)
set -u -o pipefail && umask 077 && export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
shopt -s lastpipe # the last command of a pipeline is run by this shell, and can set its variables
awk='awk'
if hash mawk 2>/dev/null; then
  awk='mawk' # it starts fastest
fi

main() {
  local wait=$1 stopped='' next=0
  trap 'stopped=143' TERM INT HUP
  until attempt; do
    if [[ $is_final || $stopped ]] || ((SECONDS >= wait)); then
      say_why
      exit "${stopped:-1}"
    fi
    if ((SECONDS >= next)); then
      say 6 "waiting ($SECONDS of $wait s): ${reasons[0]}"
      next=$((SECONDS + 10))
    fi
    sleep 1
  done
  exit 0
}

say() { # LEVEL LINE
  printf '<%s>static-routes: %s\n' "$1" "$2" >&2
}

say_why() {
  local reason
  for reason in "${reasons[@]:0:9}"; do
    if [[ ! $is_final ]]; then
      reason+="; gave up after $SECONDS s"
    fi
    say 3 "$reason"
  done
}

# --- One attempt ----------------------------------------------------------------------------------

# Makes the routes as configured. If that fails, they are as before; `reasons` says why, and
# `is_final` whether waiting is in vain.
attempt() {
  local lock=/run/hostrouting/routes
  written=()
  make_plan
  if ((${#reasons[@]})); then
    return 1
  fi
  if ((${#changes[@]} + ${#optional[@]} == 0)); then
    return 0
  fi
  # One run at a time; without a lock where /run is full or read-only.
  if { exec 7<>"$lock" || exec 7<"$lock"; } 2>/dev/null; then
    flock -w 10 7
  fi
  write_and_read_back
  if ((${#reasons[@]})); then
    take_back
  elif ((${#optional[@]})); then
    batch -force "${optional[@]}" >/dev/null
  fi
  exec 7<&-
  if ((${#reasons[@]})); then
    return 1
  fi
  if ((${#written[@]})); then
    say 6 "changed routes: ${#written[@]}"
  fi
  return 0
}

write_and_read_back() {
  local writes
  for writes in 0 1 2; do
    make_plan # another run may have written before this one had the lock
    if ((${#reasons[@]} || ${#changes[@]} == 0)); then
      return
    fi
    if ((writes == 2)); then
      reasons=("another program also changes these routes: ${changes[0]}")
      return
    fi
    if ! write_changes; then
      return
    fi
  done
}

# Reads the host. Sets the changes that are left to do, with what takes each back (undos), those
# that may fail (optional), and the reasons if the changes cannot be made.
make_plan() {
  for _ in 1 2 3; do
    read_plan
    if [[ ! $is_torn ]]; then
      return
    fi
  done
  reasons=('the routes changed while they were read')
}

read_plan() {
  local kind change undo unread='ip or awk was killed, or is missing'
  changes=() undos=() optional=() reasons=() is_final='' is_torn=''
  settings_and_lists | "$awk" "$planner" | while IFS=$'\t' read -r kind change undo; do
    case $kind in
      change)
        changes+=("$change")
        undos+=("$undo")
        ;;
      optional) optional+=("$change") ;;
      missing) reasons+=("$change") ;;
      refused)
        reasons+=("$change")
        is_final=1
        ;;
      torn) is_torn=1 ;;
      unread) unread=$change ;;
    esac
  done || {
    reasons=("the routes cannot be read: $unread")
    is_final=1
  }
}

# Devices come last, because an alias is any text, even of several lines; errors come before them.
settings_and_lists() {
  local errors links status
  printf '%s\n' "${configuration[@]}" ''
  # Since iproute2 7.1, `ip` writes its output in blocks, but errors at once.
  errors=$(ip -N -o route show table all 2>&1 >&3)
  status=$?
  if [[ $errors ]]; then
    printf '%s\n' "$errors"
  fi
  ((status == 0)) || return
  links=$(ip -N -d -o link show 2>&3) || return
  printf '%s\n' "$links"
} 3>&1

# --- Writing --------------------------------------------------------------------------------------

write_changes() {
  local said failed count=${#changes[@]}
  if said=$(batch -N "${changes[@]}"); then
    written+=("${undos[@]}")
    return 0
  fi
  # `ip` stops at the command that fails, and says its number. If it was killed, all may be done.
  if [[ $said =~ 'Command failed -:'([0-9]+) ]]; then
    count=$((BASH_REMATCH[1] - 1))
  fi
  written+=("${undos[@]:0:count}")
  failed=${changes[count]-ip}
  reasons=("$failed: ${said%%$'\n'*}")
  if [[ ${reasons[0]} == 'route del '*:*' via '*'No such process' ]]; then
    reasons=("ROUTE-CONFLICT: ${failed#route del }: this next hop is another program's")
    reasons[0]+=': delete it, or configure another metric'
    is_final=1
  fi
  return 1
}

take_back() {
  local i said commands=()
  for ((i = ${#written[@]} - 1; i >= 0; i--)); do
    commands+=("${written[i]}")
  done
  if ((${#commands[@]})) && ! said=$(batch -force "${commands[@]}"); then
    say 3 "cannot be taken back: ${said%%$'\n'*}"
  fi
}

batch() { # OPTION COMMAND...; a signal does not cut it short
  (
    trap '' TERM INT HUP
    printf '%s\n' "${@:2}" | ip "$1" -batch - 2>&1
  )
}

# --- The plan -------------------------------------------------------------------------------------
# Reads the settings up to an empty line, then the lists of `ip`. Prints lines with two or three
# fields:
#   change COMMAND UNDO, optional COMMAND, missing REASON, refused REASON, torn, unread LINE
#
# A route is kept as entries: one, or in IPv6 one for each next hop, because there each can be of
# another program; Linux lists the protocol of the first. Entries with the same `place` (prefix and
# metric) exclude each other.
# shellcheck disable=SC2016 # a program of awk is a text
planner='
!is_listing && /^$/ { is_listing = 1; next }
!is_listing { read_setting(); next }
/^Dump was interrupted/ {
  print "torn"
  next
}
/^[0-9]+: [^ ]+: <.*\\ +link\// {
  read_device()
  has_devices = 1
  next
}
has_devices { next } # another line of an alias
/^([0-9]+ )?(default|[0-9a-f.:]+(\/[0-9]+)?) / {
  if (matters()) listed[++lists] = $0
  if (is_on_link()) on_link[++on_links] = $0
  next
}
!/^Command failed / { print "unread\t" $0 } # which only matters if `ip` failed
END {
  if (!ours) {
    print "unread\tthis script has lost its settings"
    exit 1
  }
  for (i = 1; i <= lists; i++) read_route(listed[i])
  for (i = 1; i <= wishes; i++) plan_route(i)
  delete_others()
  print_changes()
}

# --- Settings -----------------------------------------------------------------

function read_setting(   i, text) {
  if ($1 == "protocol") ours = $2
  if ($1 == "expected") is_expected[$2]
  if ($1 == "kind") class_of_kind[$2] = $3
  if ($1 == "link-type") class_of_type[$2] = $3
  if ($1 == "names") for (i = 3; i < NF; i += 2) name_of[$2, $i] = $(i + 1)
  if ($1 == "sentence") {
    text = $0
    sub(/^sentence [^ ]+ /, "", text)
    sentence[$2] = text
  }
  if ($1 == "route") add_wish()
}

# route 10.0.0.0/8 [via GATEWAY] [dev DEVICE] metric NUMBER [optional link]
function add_wish(   i, name) {
  name = $0
  sub(/^route /, "", name)
  sub(/ metric .*/, "", name)
  wish_name[++wishes] = name
  wish_prefix[wishes] = $2
  for (i = 3; i < NF; i += 2) wish[wishes, $i] = $(i + 1)
  is_wanted[$2]
  sub($2 ~ /:/ ? "/128$" : "/32$", "", $2) # as `ip` lists it
  is_wanted[$2]
}

# --- What is there ------------------------------------------------------------

# There can be 100,000 routes: those matter that are default routes, ours, local, or wanted.
function matters() {
  if (/^([0-9]+ )?default /) return 1
  if (named("type", $1) == "local") return 1
  return $1 in is_wanted || $2 in is_wanted || index($0 " ", " proto " ours " ")
}

# Whether it says what is near: in table main, without a gateway, and not ours, because ours may go.
function is_on_link() {
  if (/ table [0-9]+( |$)/ || / via (inet6 )?[0-9a-f.:]+( |$)/ || !/ dev /) return 0
  return !index($0 " ", " proto " ours " ")
}

# 2: eth0@if3: <BROADCAST,UP> mtu 1500 ...\    link/ether ...\    veth ...
function read_device(   dev, part, word, kind, of_type) {
  dev = $2
  sub(/(@[^@]*)?:$/, "", dev)
  split($0, part, /\\ +/)
  split(part[2], word, /[\/ ]/)
  gsub(/[][]/, "", word[2]) # [1], or ether
  of_type = class_of_type[word[2]]
  split(part[3], word, " ")
  kind = word[1]
  if (kind ~ /^(alias|altname|vf|prog\/xdp|.*_slave)$/) kind = ""
  is_up[dev] = $3 ~ /[<,]UP[,>]/
  is_dead_end[dev] = of_type == "dead-end" || class_of_kind[kind] == "dead-end"
  is_tunnel[dev] = class_of_kind[kind] ~ /^(tunnel|tap)$/
  if (kind != "" && class_of_kind[kind] != "card" && of_type == "") is_tunnel[dev] = 1
  is_line[dev] = class_of_kind[kind] == "line"
  is_tap[dev] = class_of_kind[kind] == "tap" && of_type == "card"
  is_bridge[dev] = class_of_kind[kind] == "bridge"
}

function leads_out(dev) {
  return dev in is_up && !is_dead_end[dev]
}

# [TYPE] PREFIX [via GATEWAY] [dev DEVICE] WORDS [nexthop via GATEWAY dev DEVICE WORDS]...
# Takes a route apart, into its next hops, its table, protocol and metric, and all other words.
function read_route(text,   words, word, at, i, item) {
  gsub(/\\\t/, " ", text) # with which -o joins lines
  words = split(text, word, " ")
  at = word[1] ~ /^[0-9]+$/ ? 2 : 1
  type = at == 2 ? named("type", word[1]) " " : ""
  if (type == "unicast ") type = ""
  family = word[at] ~ /:/ || (word[at] == "default" && text ~ / pref (low|medium|high)/) ? 6 : 4
  prefix = whole(word[at])
  hops = metric = 0
  table = protocol = more = ""
  for (i = at + 1; i <= words; i++) {
    item = word[i]
    if (item == "nexthop" || (!hops && (item == "via" || item == "dev"))) start_hop()
    if (item == "via") {
      via[hops] = " via " word[++i]
      if (word[i] == "inet6") via[hops] = via[hops] " " word[++i]
    }
    else if (item == "dev") dev_of[hops] = word[++i] # any name, such as "via"
    else if (item == "weight") weight[hops] = word[++i]
    else if (item == "onlink") onlink[hops] = " onlink"
    else if (item == "dead") is_dead[hops] = 1
    else if (item == "table") table = word[++i]
    else if (item == "proto") protocol = word[++i]
    else if (item == "metric") metric = word[++i]
    else if (item == "pref" && word[i + 1] == "medium") i++
    else if (item == "error") i++
    else if (item !~ /^(nexthop|linkdown|pervasive|offload|rt_offload|trap|rt_trap)$/)
      more = more " " item
  }
  if (prefix ~ /\/0$/ && is_for_all()) keep_default_route(text)
  if (type == "local " && protocol != ours) note_address()
  if (table == "" && (prefix in is_wanted || protocol == ours)) keep_entries(text)
}

# Whether it is for all packets, and not one of ours, which may go.
function is_for_all() {
  return type == "" && protocol != ours && more !~ / (from |tos 0x|expires [-0])/
}

function note_address() {
  is_own[prefix]
  if (!is_link_local(prefix)) has_address[family, dev_of[1]]
}

function is_link_local(address) {
  return address ~ /^fe[89ab][0-9a-f]:/
}

function whole(prefix) {
  if (prefix == "default") return family == 6 ? "::/0" : "0.0.0.0/0"
  if (prefix ~ /\//) return prefix
  return prefix (family == 6 ? "/128" : "/32")
}

function start_hop() {
  hops++
  via[hops] = dev_of[hops] = onlink[hops] = ""
  weight[hops] = 1
  is_dead[hops] = 0
}

function keep_default_route(text,   i, n) {
  seen[family] = seen[family] " [" with_names(text) "]"
  n = 0
  defaults++
  for (i = 1; i <= hops; i++) {
    if (is_dead[i]) continue
    default_via[defaults, ++n] = via[i]
    default_dev[defaults, n] = dev_of[i]
    default_weight[defaults, n] = weight[i]
    default_onlink[defaults, n] = onlink[i]
  }
  default_hops[defaults] = n
  default_family[defaults] = family
  default_table[defaults] = table + 0 # 0 is table main
  default_metric[defaults] = metric + 0
  default_rank[defaults] = more ~ / pref low/ ? 1 : more ~ / pref high/ ? -1 : 0
  is_advertised[defaults] = named("proto", protocol) == "ra"
  default_text[defaults] = with_names(text)
}

function keep_entries(text,   i, first, attributes) {
  attributes = more
  gsub(/ expires [^ ]+/, "", attributes)
  lines++
  line_text[lines] = with_names(text)
  line_first[lines] = entries + 1
  if (family == 6 && hops > 1) for (i = 1; i <= hops; i++) add_entry(i, i, attributes)
  else add_entry(1, hops, attributes)
  line_last[lines] = entries
}

# Adds an entry with these of the next hops.
function add_entry(from, to, attributes,   i, place) {
  place = prefix " proto " ours " metric " metric
  if (more ~ / (from |tos 0x)/) place = place attributes # the "tos" of encap is decimal
  entry_at[place, ++entries_at[place]] = ++entries
  place_of[entries] = place
  line_of[entries] = lines
  is_ours[entries] = protocol == ours
  is_unicast[entries] = type == ""
  entry_hops[entries] = to - from + 1
  for (i = from; i <= to; i++) {
    entry_via[entries, i - from + 1] = via[i]
    entry_dev[entries, i - from + 1] = dev_of[i]
    entry_onlink[entries, i - from + 1] = onlink[i]
  }
  head[entries] = type prefix " proto " ours " metric " metric attributes
  path[entries] = path_of(from, to)
  ways[entries] = ways_of(from, to)
  rest[entries] = attributes " " type
  what[entries] = compared(from, to) more " " type
  deletion[entries] = deletion_of(head[entries], from, to)
}

# --- Words about next hops from..to, the current ones ---------------------------

# As a route is added with them.
function path_of(from, to,   i, text) {
  if (from == to) return via[from] " dev " dev_of[from] onlink[from]
  for (i = from; i <= to; i++)
    text = text " nexthop" via[i] " dev " dev_of[i] " weight " weight[i] onlink[i]
  return text
}

# Where they lead to.
function ways_of(from, to,   i, text) {
  for (i = from; i <= to; i++) text = text via[i] " dev " dev_of[i] ";"
  return text
}

# What makes a difference: not `onlink`, and the weights only of several next hops.
function compared(from, to,   i, text) {
  if (family == 6 || from == to) return ways_of(from, to)
  for (i = from; i <= to; i++) text = text via[i] " dev " dev_of[i] " weight " weight[i] ";"
  return text
}

# In IPv6, a request without a gateway would delete all next hops of the route that it matches,
# whoever added them. In IPv4, one without a list would also delete a route that begins with it.
function deletion_of(head, from, to,   i) {
  if (family == 6 && from == to && via[from] == "" && dev_of[from] != "") head = head " via ::"
  for (i = from; i <= to; i++) head = head (family == 4 ? " nexthop" : "") via[i] " dev " dev_of[i]
  return "del " head
}

# --- Which default route ------------------------------------------------------

function is_of(d, h, dev) {
  return dev == "" ? leads_out(default_dev[d, h]) : default_dev[d, h] == dev
}

function has_hop(d, dev,   h) {
  for (h = 1; h <= default_hops[d]; h++) if (is_of(d, h, dev)) return 1
  return 0
}

function is_candidate(d, dev) {
  if (default_family[d] != family || !has_hop(d, dev)) return 0
  return dev != "" || default_table[d] == 0
}

# Whether the first comes before the second: by table, metric and the preference of its router.
function is_better(d, than) {
  if (!than) return 1
  if (default_table[d] != default_table[than]) return default_table[d] < default_table[than]
  if (default_metric[d] != default_metric[than]) return default_metric[d] < default_metric[than]
  return default_rank[d] < default_rank[than]
}

# The best default route of table main, or, if a device is given, the best one by it; 0 if none.
function best_default(dev,   d, best) {
  if ((family, dev) in best_of) return best_of[family, dev]
  for (d = 1; d <= defaults; d++) if (is_candidate(d, dev) && is_better(d, best)) best = d
  best_of[family, dev] = best + 0
  return best + 0
}

# The one of these devices that can have the default route, if there is one. One that is not there
# may be able to.
function settling(   dev, found) {
  for (dev in is_expected) {
    if (dev in is_up && !leads_out(dev)) continue
    if (found != "") return ""
    found = dev
  }
  return found
}

# The best default route of table main by a device; 0 if none.
function best_of_main(dev,   d, best) {
  for (d = 1; d <= defaults; d++) {
    if (default_table[d] != 0 || !is_candidate(d, dev)) continue
    if (is_better(d, best)) best = d
  }
  return best + 0
}

# Why nobody can know whether the best default route is that of the network; empty if it is.
function doubt(   d, used, devs, rivals) {
  if (family in doubt_of) return doubt_of[family]
  doubt_of[family] = ""
  used = best_default("")
  if (!used) return ""
  devs = devs_out(used, "")
  rivals = devs
  for (d = 1; d <= defaults; d++) {
    if (!is_candidate(d, "") || is_better(d, used) || is_better(used, d)) continue
    rivals = devs_out(d, rivals)
  }
  if (rivals != devs || (is_advertised[used] && devs ~ /\//)) {
    value["devs"] = rivals
    doubt_of[family] = "equal"
  }
  if (has_tunnel(devs)) {
    rivals = devs_below(devs)
    if (rivals != devs || !may_be_alone(devs)) {
      value["devs"] = rivals
      doubt_of[family] = "tunnel"
    }
  }
  if (doubt_of[family] == "") return ""
  gsub(/\//, "\" or \"", value["devs"])
  value["devs"] = "\"" value["devs"] "\""
  value["route"] = default_text[used]
  doubt_of[family] = filled(doubt_of[family]) "; " filled("choose")
  return doubt_of[family]
}

# The devices by which a default route leads out, behind those that are known: "eth0/eth1".
function devs_out(d, known,   h) {
  for (h = 1; h <= default_hops[d]; h++) {
    if (!is_of(d, h, "") || index("/" known "/", "/" default_dev[d, h] "/")) continue
    known = known (known == "" ? "" : "/") default_dev[d, h]
  }
  return known
}

# These devices, and those of the first default route without a tunnel.
function devs_below(devs,   d, best) {
  for (d = 1; d <= defaults; d++) {
    if (!is_candidate(d, "") || has_tunnel(devs_out(d, ""))) continue
    if (is_better(d, best)) best = d
  }
  return best ? devs_out(best, devs) : devs
}

function has_tunnel(devs,   n, dev) {
  for (n = split(devs, dev, "/"); n; n--) if (is_tunnel[dev[n]]) return 1
  return 0
}

# Whether it is a tunnel, and not the only way out.
function is_vpn(dev) {
  return is_tunnel[dev] && (devs_below(dev) != dev || !may_be_alone(dev))
}

# Whether they may be the only way out: lines of a provider, or taps where no card has an address.
# The tap of a VPN has a card beside it; that of a virtual machine has bridges for its guests.
function may_be_alone(devs,   n, dev, i, lines, taps, card) {
  n = split(devs, dev, "/")
  for (i = 1; i <= n; i++) {
    lines += is_line[dev[i]]
    taps += is_tap[dev[i]]
  }
  if (taps == n) {
    for (card in is_up)
      if ((family, card) in has_address && is_card(card)) return 0
    return 1
  }
  return lines == n
}

function is_card(dev) {
  return leads_out(dev) && !is_tunnel[dev] && !is_bridge[dev]
}

# --- What reaches a gateway ---------------------------------------------------

# What a next hop lacks; Linux would lose the packets to an address of this host.
function lacking(hop, dev, is_onlink,   gateway) {
  gateway = substr(hop, 6)
  if (gateway == "" || gateway ~ /^inet6 / || is_link_local(gateway)) return ""
  value["dev"] = dev
  value["gateway"] = gateway
  if (is_own_address(gateway)) return filled("own")
  if (is_onlink != "" || is_near(gateway, dev)) return ""
  return filled("near")
}

function is_own_address(address) {
  return address != "" && whole(address) in is_own
}

# Whether a route by the device that has no gateway leads to it.
function is_near(gateway, dev,   i, word, to, of_line) {
  if ((gateway, dev) in is_near_by) return is_near_by[gateway, dev]
  is_near_by[gateway, dev] = 0
  for (i = 1; i <= on_links; i++) {
    if (!index(on_link[i] " ", " dev " dev " ")) continue
    split(on_link[i], word, " ")
    to = word[word[1] ~ /^[0-9]+$/ ? 2 : 1]
    of_line = to ~ /:/ || (to == "default" && on_link[i] ~ / pref (low|medium|high)/) ? 6 : 4
    if (of_line != family || !has_address_in(whole(to), gateway)) continue
    is_near_by[gateway, dev] = 1
    break
  }
  return is_near_by[gateway, dev]
}

function has_address_in(prefix, address,   part, bits, i, b, size, of_prefix, of_address) {
  split(prefix, part, "/")
  read_groups(part[1], of_prefix)
  read_groups(address, of_address)
  bits = part[2]
  for (i = 1; bits > 0; i++) {
    size = 1
    for (b = bits; b < 16; b++) size *= 2 # some awks cannot raise to a power
    if (int(of_prefix[i] / size) != int(of_address[i] / size)) return 0
    bits -= 16
  }
  return 1
}

# The numbers of 16 bits of an address, in which "::" stands for zeros, and a tail can be IPv4.
function read_groups(address, group,   part, half, halves, i, left, right) {
  split("", group)
  if (match(address, /[0-9]+[.][0-9.]+$/)) {
    split(substr(address, RSTART), part, ".")
    group[1] = part[1] * 256 + part[2]
    group[2] = part[3] * 256 + part[4]
    if (RSTART == 1) return
    address = substr(address, 1, RSTART - 1) sprintf("%x:%x", group[1], group[2])
  }
  halves = split(address, half, "::")
  left = split(half[1], part, ":")
  for (i = 1; i <= left; i++) group[i] = from_hex(part[i])
  if (halves < 2) return
  right = split(half[2], part, ":")
  for (i = left + 1; i <= 8 - right; i++) group[i] = 0
  for (i = 1; i <= right; i++) group[8 - right + i] = from_hex(part[i])
}

function from_hex(digits,   i, number) {
  for (i = 1; i <= length(digits); i++)
    number = number * 16 + index("0123456789abcdef", substr(digits, i, 1)) - 1
  return number + 0
}

# --- Planning a configured route ----------------------------------------------

function plan_route(w,   place, need, h, scope, standing, conflict) {
  family = wish_prefix[w] ~ /:/ ? 6 : 4
  prefix = wish_prefix[w]
  type = ""
  place = prefix " proto " ours " metric " wish[w, "metric"]
  is_place[place]
  standing = 0
  need = take_hops(w)
  for (h = 1; h <= hops && need == ""; h++) need = lacking(via[h], dev_of[h], onlink[h])
  if (need != "") {
    standing = standing_at(place, w)
    if (!standing) {
      keep_all(place)
      if (!((w, "optional") in wish)) say_missing(w, need)
      return
    }
  }
  scope = family == 4 && via[1] == "" ? " scope 253" : ""
  note_needed(standing, scope)
  compare(place)
  conflict = conflict_at(place)
  if (standing) return
  if (!conflict) add_missing(w, place, scope)
  else if ((w, "optional") in wish) keep_all(place)
  else say_conflict(conflict)
}

# Makes the wanted next hops the current ones; returns what the route lacks.
function take_hops(w,   dev, gateway, d, h) {
  dev = wish[w, "dev"]
  gateway = wish[w, "via"]
  value["dev"] = dev
  value["family"] = family
  hops = 0
  if (dev != "" && !(dev in is_up)) return filled("absent")
  if (dev != "" && !is_up[dev]) return filled("down")
  if ((w, "optional") in wish) {
    take_hop("", dev)
    return ""
  }
  if (dev != "" || doubt() == "") d = best_default(dev)
  else {
    dev = settling()
    if (dev == "") return doubt()
    d = best_of_main(dev)
    value["dev"] = dev
    if (!d) return filled("default-on") last_seen()
  }
  for (h = 1; h <= default_hops[d]; h++) {
    if (!is_of(d, h, dev)) continue
    if (gateway != "" && (hops || default_via[d, h] != " via " gateway)) continue # the first one
    take_hop(default_via[d, h], default_dev[d, h])
    weight[hops] = default_weight[d, h]
    onlink[hops] = default_onlink[d, h]
  }
  if (hops) return ""
  if (dev == "" && !d) return filled("default") last_seen()
  if (gateway == "") return filled("default-on") last_seen()
  take_hop(" via " gateway, dev == "" ? first_dev(d) : dev)
  return ""
}

function take_hop(gateway, dev) {
  start_hop()
  via[hops] = gateway
  dev_of[hops] = dev
}

function first_dev(d,   h) {
  for (h = 1; h <= default_hops[d]; h++) if (is_of(d, h, "")) return default_dev[d, h]
}

# The line of ours that Linux uses here, if it is right while the wanted route lacks something.
function standing_at(place, w,   first, e) {
  if (!entries_at[place]) return 0
  first = entry_at[place, 1]
  if (!is_ours[first]) return 0
  for (e = first; e <= line_last[line_of[first]]; e++) if (!is_usable(e, w)) return 0
  return line_of[first]
}

function is_usable(e, w,   h, dev, wanted) {
  if (!is_unicast[e] || !entry_hops[e]) return 0
  wanted = wish[w, "dev"]
  if (wanted == "" && doubt() != "") wanted = settling()
  for (h = 1; h <= entry_hops[e]; h++) {
    dev = entry_dev[e, h]
    if (!is_up[dev] || is_own_address(substr(entry_via[e, h], 6))) return 0
    if (lacking(entry_via[e, h], dev, entry_onlink[e, h]) != "") return 0
    if (wish[w, "via"] != "" && entry_via[e, h] != " via " wish[w, "via"]) return 0
    if (wanted != "" && dev != wanted) return 0
    if (wanted != "") continue
    if (!leads_out(dev) || (is_vpn(dev) && dev != settling())) return 0
  }
  return 1
}

# Notes what is needed: the entries of the standing line, or those of the wanted next hops.
function note_needed(standing, scope,   e, i) {
  split("", is_needed)
  needed = 0
  if (standing) for (e = line_first[standing]; e <= line_last[standing]; e++) need_entry(what[e])
  else if (family == 6) for (i = 1; i <= hops; i++) need_entry(compared(i, i) scope " ")
  else need_entry(compared(1, hops) scope " ")
}

function need_entry(text) {
  needed++
  is_needed[text] = 1
}

# Finds which entries of a place are right.
function compare(place,   i, e) {
  for (i = 1; i <= entries_at[place]; i++) {
    e = entry_at[place, i]
    if (!(what[e] in is_needed)) continue
    is_right[e] = 1
    is_needed[what[e]] = 0
    if (is_ours[e] && entry_hops[e]) keep_those_behind(place, i, e)
  }
}

# A request to delete a route could take one before it that has the first of its next hops. Such a
# route stays behind the right one, where Linux does not use it.
function keep_those_behind(place, i, right,   e) {
  while (++i <= entries_at[place]) {
    e = entry_at[place, i]
    if (is_ours[e] && rest[e] == rest[right] && index(ways[e], ways[right]) == 1) is_kept[e] = 1
  }
}

# The line of another program that is in the way: the first line that stays, if it is not as wanted.
function conflict_at(place,   i, e) {
  for (i = 1; i <= entries_at[place]; i++) {
    e = entry_at[place, i]
    if (is_ours[e] && !is_right[e]) continue
    if (is_ours[e] || is_as_wanted(line_of[e])) return 0
    return line_of[e]
  }
  return 0
}

function is_as_wanted(l,   e) {
  for (e = line_first[l]; e <= line_last[l]; e++) if (!is_right[e]) return 0
  return line_last[l] - line_first[l] + 1 == needed
}

function keep_all(place,   i) {
  for (i = 1; i <= entries_at[place]; i++) is_right[entry_at[place, i]] = 1
}

# Not "replace", which would hit a route that another program sets at this moment.
function add_missing(w, place, scope,   i, from, to, step, verb) {
  step = (w, "optional") in wish ? "optional" : "add"
  for (i = 1; i <= needed; i++) {
    from = to = i
    if (family == 4) {
      from = 1
      to = hops
    }
    if (!is_needed[compared(from, to) scope " "]) continue
    verb = entries_at[place] || i > 1 ? "append " : "add "
    added[place] = added[place] "|" ways_of(from, to)
    change(step, verb place scope listed_path(from, to), deletion_of(place scope, from, to))
  }
}

# In IPv6, the next hops of one route are added one by one, and keep their weights in this form.
function listed_path(from, to) {
  if (family == 4 || hops == 1) return path_of(from, to)
  return " nexthop" via[from] " dev " dev_of[from] " weight " weight[from] onlink[from]
}

# --- Deleting what is left of ours --------------------------------------------

# The last ones first: the first is in use until the end, and the first again if all is taken back.
# But a request to delete several next hops also takes a route with the first of them.
function delete_others(   n, most, e) {
  for (e = 1; e <= entries; e++) if (entry_hops[e] > most) most = entry_hops[e]
  for (n = 0; n <= most; n++) for (e = entries; e; e--) {
    if (!is_ours[e] || is_right[e] || is_kept[e] || entry_hops[e] != n) continue
    change(step_of_deletion(e), deletion[e], "append " head[e] path[e])
  }
}

function step_of_deletion(e,   is_joined, place) {
  place = place_of[e]
  is_joined = line_first[line_of[e]] != line_last[line_of[e]]
  # We cannot delete a next hop of another program. If no other is wanted, that is fine; if one is,
  # it has to be known first.
  if (is_joined && !(place in is_place)) return "optional"
  if (is_joined && e != line_first[line_of[e]]) return "before"
  # A request to delete the new one could take this one.
  if (entry_hops[e] && index(added[place], "|" ways[e])) return "before"
  return "after"
}

# --- Printing -----------------------------------------------------------------

function change(step, command, undo) {
  command_of[step, ++count[step]] = "route " command
  undo_of[step, count[step]] = "route " undo
}

function print_changes(   n, i, step) {
  split("before add after", step, " ")
  for (n = 1; n <= 3; n++) for (i = 1; i <= count[step[n]]; i++)
    print "change\t" command_of[step[n], i] "\t" undo_of[step[n], i]
  for (i = 1; i <= count["optional"]; i++) print "optional\t" command_of["optional", i]
}

function say_missing(w, need) {
  value["route"] = wish_name[w]
  value["missing"] = need
  print "missing\tROUTE-WAITS: " filled("waits")
}

function last_seen() {
  return "; last seen:" (family in seen ? seen[family] : " none")
}

function say_conflict(held,   way_out) {
  way_out = "halves"
  if (prefix ~ /\/32$/) way_out = "delete"
  if (family == 6) way_out = "metric"
  if (way_out == "halves") find_halves()
  value["held"] = line_text[held]
  value["reason"] = filled("held")
  value["prefix"] = prefix
  print "refused\tROUTE-CONFLICT: " filled("conflict") "; " filled(way_out)
}

function find_halves(   part, bits, i, half) {
  split(prefix, part, /[.\/]/)
  bits = part[5]
  half = 1
  for (i = bits % 8; i < 7; i++) half *= 2 # some awks cannot raise to a power
  value["left"] = part[1] "." part[2] "." part[3] "." part[4] "/" bits + 1
  part[int(bits / 8) + 1] += half
  value["right"] = part[1] "." part[2] "." part[3] "." part[4] "/" bits + 1
}

# The sentence with this name, with its values.
function filled(name,   text, done, key) {
  text = sentence[name]
  while (match(text, /[{][a-z]+[}]/)) {
    key = substr(text, RSTART + 1, RLENGTH - 2)
    done = done substr(text, 1, RSTART - 1) value[key]
    text = substr(text, RSTART + RLENGTH)
  }
  return done text
}

# A listed route with names in place of the numbers of its type, protocol, scope and table.
function with_names(text,   n, word, i, shown) {
  n = split(text, word, " ")
  shown = named("type", word[1])
  for (i = 2; i <= n; i++) {
    shown = shown " " word[i]
    if (word[i] !~ /^(dev|proto|scope|table)$/) continue
    shown = shown " " named(word[i], word[i + 1])
    i++
  }
  return shown
}

function named(kind, number) {
  return (kind, number) in name_of ? name_of[kind, number] : number
}
'

main "${2:-60}"
