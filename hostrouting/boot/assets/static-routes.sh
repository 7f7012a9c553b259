#!/bin/bash
# Sets the static routes of this host in table main, and deletes our other routes there (those with
# our protocol). All or nothing: if something fails, the routes are as before. The route of another
# program, or of an administrator, is never changed. If one has the prefix and metric of a wanted
# route, and leads elsewhere, nothing is written.
#
# If a configured route names no gateway, or no device, that comes from a default route, as do the
# weights of several next hops and `onlink`; but not the source, the MTU and so on. Which one:
#   1. If the route names a device: the best default route by that device. It may be in another
#      table than main, where cloud-init and others put that of a second card.
#   2. If it names none: the best default route of table main.
#   3. If it names none, and that default route may not lead to the network of this host: the one by
#      the only device of expectedDevs that can have one.
#   4. If there is no such default route, the route waits. If ours is there from before and works,
#      it stays, and a line says that the next boot will have to wait.
# `hostrouting apply` follows the same rules. More: "Which default route", below.
#
# Arguments: the unit that this run is for (a gated one, static-routes.service, or the guard), which
# an operator has to start again after a failure; and how many seconds it may wait (60).
# Exit status: 0, or 1 with the reasons; 143 if it was told to stop.
# Optional routes are set if possible, and never awaited.
#
# Bash 4.4 or later (docs/limits.md has all versions).
#
# What it says in the journal, with what to type. The sentences are settings, which Python writes
# from hostrouting/routes/steps.py (SENTENCES) and hostrouting/routes/uplink.py (NEEDS, REMEDIES).
# To find where a sentence is said, search for its name, such as in_words("waits").
#   ROUTE-WAITS     something is missing for a route
#   ROUTE-STAYS     something is missing for it now, but ours is there from before, and works
#   ROUTE-CONFLICT  a route that is not of hostrouting is in its place
# The rest are words of `ip`. By hand, without waiting: bash FILE UNIT 0

# shellcheck disable=SC2016 # programs of awk are texts

# The settings, one in a line. They are data: no line is executed. Each kind has an example here.
#   protocol 213                         that of our routes
#   route 172.16.0.0/12 via 10.0.0.1 dev eth0 metric 0 left 172.16.0.0/13 right 172.24.0.0/13
#                                        a configured route, the gateway and the device if it names
#                                        them, and its halves if it has any; "optional link" if it
#                                        is optional
#   expected eth0                        one of routeOverlap.expectedDevs
#   guest veth                           such a port of a bridge leads only to a container or
#                                        virtual machine
#   refusing-type blackhole              a route of this type refuses packets
#   names, kind, link-type               see "What `ip` lists"
#   sentence waits {route} needs {missing}
#                                        what is said, with {holes}
configuration=(
)
set -u -o pipefail
umask 077
export LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
shopt -s lastpipe # the last command of a pipeline is run by this shell, and can set its variables
awk='awk'
if hash mawk 2>/dev/null; then
  awk='mawk' # it starts fastest
fi

unit=${1:-UNIT}
apply='hostrouting apply --config /etc/hostrouting/config.json'

main() { # SECONDS
  local seconds_to_wait=$1 waited=0 say_again_at=0 stopped=''
  local now=0 began # in 1/100 s; the others are in seconds
  read_clock
  began=$now
  trap 'stopped=143' TERM INT HUP
  until attempt; do
    read_clock
    waited=$(((now - began) / 100))
    if [[ $is_hopeless || $stopped ]] || ((waited >= seconds_to_wait)); then
      say_why
      exit "${stopped:-1}"
    fi
    if ((waited >= say_again_at)); then
      say 6 "waiting ($waited of $seconds_to_wait s): ${reasons[0]}"
      say_again_at=$((waited + 10))
    fi
    sleep 1
  done
  exit 0
}

# Here comes clock.sh.

say() { # LEVEL LINE
  printf '<%s>static-routes: %s\n' "$1" "$2" >&2 || : # a lost log changes nothing
}

# Reads the variables of main, and what attempt has set.
say_why() {
  local i line end="; gave up after $waited s" shown=9
  if [[ $stopped ]]; then
    end="; told to stop after $waited s"
  fi
  # The guard logs what is new: a time would be new each time.
  if [[ $is_hopeless ]] || ((seconds_to_wait == 0)); then
    end=''
  fi
  for ((i = 0; i < ${#reasons[@]} && i < shown; i++)); do
    say 3 "${reasons[i]}$end"
    while IFS= read -r line; do
      say 3 "$line"
    done < <(printf '%s' "${advice[i]-}")
  done
  if ((${#reasons[@]} > shown)); then
    say 3 "and $((${#reasons[@]} - shown)) more"
  fi
  if ((${#advice[@]})); then
    say 3 'no route was set or deleted, because all are set or none'
  fi
}

# --- One attempt ----------------------------------------------------------------------------------

# Makes the routes as configured. If that fails, they are as before; `reasons` says why, `advice`
# has what an operator can do about some of them (lines, by the number of the reason), and
# `is_hopeless` is set if waiting changes nothing.
attempt() {
  written=()
  first_change=
  make_plan
  if ((${#reasons[@]})); then
    return 1
  fi
  if ((${#changes[@]} + ${#optional[@]})) && ! change_routes; then
    return 1
  fi
  say_notes
}

# This is then the only reason.
fail_because() { # REASON
  reasons=("$1")
  advice=()
}

# One run changes routes at a time. Where /run is full or read-only there is no lock; then two runs
# at once can refuse each other's commands: such a run takes its changes back, and tries again.
change_routes() {
  local lock=/run/hostrouting/routes status=0
  if { exec 7<>"$lock"; } 2>/dev/null; then
    flock -w 5 7 || status=$?
    if ((status == 1)); then
      fail_because "cannot lock $lock: another run has held it for 5 s"
    elif ((status)); then
      fail_because "cannot lock $lock: flock failed (exit status $status)"
    fi
    if ((status)); then
      exec 7<&-
      return 1
    fi
  fi
  write_and_read_back
  if ((${#reasons[@]})); then
    take_back
  elif ((${#optional[@]})); then
    run_each 7 'optional' "${optional[@]}"
  fi
  exec 7<&-
  if ((${#reasons[@]})); then
    return 1
  fi
  if ((${#written[@]})); then
    say 6 "changed routes: ${#written[@]}, beginning with: ip $first_change"
  fi
}

write_and_read_back() {
  local writes
  # How often it has written. The third plan only shows whether the second writing was enough.
  for writes in 0 1 2; do
    make_plan # another run may have written before this one had the lock
    if ((${#reasons[@]} || ${#changes[@]} == 0)); then
      return
    fi
    if ((writes == 2)); then
      fail_because "another program also changes these routes: ${changes[0]}"
      return
    fi
    if ! write_changes; then
      return
    fi
  done
}

say_notes() {
  local note
  for note in "${notes[@]}"; do
    say 4 "$note"
  done
}

# --- Reading the host -----------------------------------------------------------------------------

# Sets the changes that are left to do, with what takes each back (undos), those that may fail
# (optional), the reasons if the changes cannot be made, and the notes for the log.
make_plan() {
  for _ in 1 2 3; do
    read_plan
    if [[ ! $is_torn ]]; then
      return
    fi
  done
  fail_because 'the routes changed while they were read'
  is_hopeless=''
}

# The last variable of `read` gets the rest of the line with its tabs: of "refused", all advice.
read_plan() {
  local kind text rest unread='ip or awk was killed, or is missing'
  changes=()
  undos=()
  optional=()
  reasons=()
  advice=()
  notes=()
  is_hopeless=''
  is_torn=''
  settings_and_lists | run_planner | while IFS=$'\t' read -r kind text rest; do
    case $kind in
      change)
        changes+=("$text")
        undos+=("$rest")
        ;;
      optional) optional+=("$text") ;;
      missing) reasons+=("$text") ;;
      refused)
        # This has the number of the reason that comes next.
        advice[${#reasons[@]}]=${rest//$'\t'/$'\n'}$'\n'
        reasons+=("$text")
        is_hopeless=1
        ;;
      note) notes+=("$text") ;;
      torn) is_torn=1 ;;
      unread) unread=$text ;;
    esac
  done || { # a program of the pipeline failed (pipefail)
    fail_because "the routes cannot be read: $unread"
    if [[ ! $stopped ]]; then # by the signal that `ip` and awk got, too
      is_hopeless=1
    fi
  }
}

run_planner() {
  exec "$awk" "$addresses$listed$sentences$planner"
}

# Devices come behind routes, because an alias is any text, even of several lines. Since iproute2
# 7.1, `ip` writes its output in blocks, but errors at once: they are held back. A pipe, and not
# `<<<`: bash before 5.1 writes that into a file, and the disk may be full.
settings_and_lists() {
  local errors status
  printf '%s\n' "${configuration[@]}" "unit $unit" "apply $apply" ''
  printf '%s\n' 'route show table all' 'link show' |
    { errors=$(exec ip -N -d -o -batch - 2>&1 >&3); } 3>&1
  status=$?
  printf '%s\n' errors "$errors"
  return "$status"
}

# --- Writing --------------------------------------------------------------------------------------

write_changes() {
  local said failed succeeded=${#changes[@]}
  if [[ ! $first_change ]]; then
    first_change=${changes[0]} # the journal has it, because it names the device
  fi
  if said=$(batch "${changes[@]}"); then
    written+=("${undos[@]}")
    return 0
  fi
  # `ip` stops at the command that fails, and says its number. If it was killed, or cannot read a
  # word, it does not say how far it came: then all may be done.
  if [[ $said =~ 'Command failed -:'([0-9]+) ]]; then
    succeeded=$((BASH_REMATCH[1] - 1))
  fi
  written+=("${undos[@]:0:succeeded}")
  failed=ip
  if ((succeeded < ${#changes[@]})); then
    failed=${changes[succeeded]}
  fi
  fail_because "$failed: ${said%%$'\n'*}"
  case ${reasons[0]} in
    *'Operation not permitted') is_hopeless=1 ;;
    'route del '*:*' via '*'No such process') say_foreign_next_hop "$failed" ;;
  esac
  return 1
}

# Linux lists the next hops of an IPv6 route as if all had the protocol of the first. One that is
# listed, and cannot be deleted with our protocol, is another program's; or it has just gone, which
# the next attempt shows.
say_foreign_next_hop() { # route del PREFIX proto NUMBER metric NUMBER via ...
  local hop=${1#route del } words typed
  if [[ $hop =~ ^(.*)' proto '[0-9]+(.*)$ ]]; then
    hop=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
  fi
  printf '%s\n' "$hop" | read -r -a words
  printf -v typed ' %q' "${words[@]}" # quoted for a shell
  fail_because "ROUTE-CONFLICT: $hop is a next hop that is not hostrouting's; if nothing needs it, \
delete it (a program may add it again), as root: ip route del$typed"
}

take_back() {
  local i undos_to_run=()
  for ((i = ${#written[@]} - 1; i >= 0; i--)); do
    undos_to_run+=("${written[i]}")
  done
  written=()
  run_each 3 'an undo failed' "${undos_to_run[@]}"
}

# Runs all commands, also after one that fails, and logs each that failed. Each has an `ip` of its
# own: at a word that it cannot read, `ip` ends, even with -force, and leaves the rest undone.
run_each() { # LEVEL TEXT COMMAND...
  local command said
  for command in "${@:3}"; do
    if ! said=$(batch "$command"); then
      said=${said%%$'\n'*}
      say "$1" "$2: $command: ${said:-ip was killed, or is missing}"
    fi
  done
}

# Runs these commands until one fails; a signal ends neither `ip` nor this function. Call it in $()
# only: that is a process of its own, and the trap ends with it.
batch() { # COMMAND...
  trap '' TERM INT HUP
  printf '%s\n' "$@" | ip -batch - 2>&1
}

# --- The plan -------------------------------------------------------------------------------------
# The planner reads the settings up to an empty line, then the lists of `ip`. It prints lines, with
# tabs between their fields:
#   change COMMAND UNDO, optional COMMAND, missing REASON, refused REASON ADVICE..., note TEXT,
#   torn, unread LINE
# For example, 172.16.0.0/12 is configured, and the default route has another gateway than before.
# 10.5.0.0/16 was configured, and is not any more. `ip` lists, among others:
#   1 default via 10.0.0.1 dev eth0 table 254 proto 3 scope 0
#   1 10.5.0.0/16 via 10.0.0.1 dev eth0 table 254 proto 213 scope 0
#   1 172.16.0.0/12 via 10.0.0.9 dev eth0 table 254 proto 213 scope 0
# The planner prints:
#   change  route append 172.16.0.0/12 proto 213 metric 0 via 10.0.0.1 dev eth0
#           route del 172.16.0.0/12 proto 213 metric 0 nexthop via 10.0.0.1 dev eth0
#   change  route del 172.16.0.0/12 proto 213 metric 0 nexthop via 10.0.0.9 dev eth0
#           route append 172.16.0.0/12 proto 213 metric 0 via 10.0.0.9 dev eth0
#   change  route del 10.5.0.0/16 proto 213 metric 0 nexthop via 10.0.0.1 dev eth0
#           route append 10.5.0.0/16 proto 213 metric 0 via 10.0.0.1 dev eth0
# write_changes gives the commands to one `ip -batch`. If the second of them fails, take_back runs
# the undo of the first.
#
# A route has a number: first come the configured ones (1 to `wanted`), then those that `ip` lists.
#   route[r, FIELD]: family, type, prefix, table, metric, protocol, words (all others), text, hops
#   hop[r, h, FIELD]: via, dev, weight and onlink of its next hop h, as words of a command
#
# A route has parts, which are added and deleted one by one. In IPv6, each next hop is a part: Linux
# has an entry for each. Any of them can be of another program, though Linux lists all with the
# protocol of the first. Every other route is one part. For example, two routes with three parts:
#   2001:db8::/32 nexthop via fe80::1 dev eth0 nexthop via fe80::2 dev eth1
#     addition  2001:db8::/32 proto 213 metric 1024 via fe80::1 dev eth0
#     addition  2001:db8::/32 proto 213 metric 1024 via fe80::2 dev eth1
#   10.5.0.0/16 nexthop via 10.0.0.1 dev eth0 weight 1 nexthop via 10.1.0.1 dev eth1 weight 1
#     addition  10.5.0.0/16 proto 213 metric 0 nexthop via 10.0.0.1 dev eth0 weight 1 nexthop ...
#   part[p, FIELD]: route, hops (how many), to (where they lead), identity (what tells it from
#     others), addition and deletion (as commands); a route r has first_part[r] to last_part[r]
# The parts of listed routes are entries. Those with the same key (prefix and metric) exclude each
# other: at_key[KEY, 1] to at_key[KEY, count_at[KEY]], in the order in which Linux uses them.
# fate[e] says what becomes of one: "right", or "stays" (something is missing for the wanted route,
# or it cannot be deleted safely); one of ours without a fate is deleted.
#
# Deleting. Linux deletes the first route that a command matches, and a command matches more than it
# says. For example, with the next hops A and B, "route del 10.5.0.0/16 ..."
#   with              also matches                    so
#   via A             nexthop via A nexthop via B     in IPv4, it has a list: nexthop via A
#   nexthop A and B   via A                           in IPv4, fewer next hops are deleted first
#   nexthop via A     via A mtu 1400                  in IPv4, more attributes are deleted first
#   dev eth0          each next hop by eth0           in IPv6, it has "via ::"
#   no proto          any; so does no metric          it has both
# `deletion` and head_of make these commands; delete_others has them in that order. Two cases are
# left, in which a command could hit another of our routes with the same key in IPv4:
#   - The right route is there, and one behind it begins with the same next hops, and has no
#     attribute that the right one lacks. That one stays (keep_those_behind).
#   - A new route is added beside one that begins with the same next hops, and the command that
#     takes it back could hit the old one. So the old one is deleted before (step_of_deletion).
# A route with a nexthop object is matched by its number (nhid), and not by its devices.
#
# The commands, in their order:
#   before    deletions that may fail because of another program, or make an addition safe
#   add       what is missing
#   after     all other deletions. Linux uses the first route of a key, so the last is deleted
#             first: the first is in use until the end, and the first again if all is taken back
#   optional  what may fail
#
# All functions share their variables, so each section has a list of those that it sets, and a test
# compares these lists with what gawk finds; `line (lines)` is an array and the number of its
# elements. A function that answers yes or no (is_..., can_..., has_...) sets none itself.
#
# No apostrophe can stand in the text of the program: it would end it.

addresses='' listed='' sentences='' # set by what comes here
# Here comes addresses.sh.
# Here comes listed.sh.
# Here comes sentences.sh.
planner='
# Variables: is_listing; line (lines), is_kept; on_link_line, on_link_to (on_link_lines), is_held;
#   has_devices, are_errors, is_torn, unread
!is_listing && /^$/ { is_listing = 1; next }
!is_listing { read_setting(); next }
/^[0-9]+: [^ ]+: <.*\\ +link\// {
  note_device()
  has_devices = 1
  next
}
/^errors$/ { # the last line like this: one of an alias can be the same
  are_errors = 1
  is_torn = 0
  unread = ""
  next
}
are_errors {
  read_error()
  next
}
has_devices { next } # another line of an alias
/^[0-9]+ (default|[0-9a-f.:]+(\/[0-9]+)?) / {
  is_kept = matters()
  if (is_kept) line[++lines] = without_usual_words($0)
  if (is_on_link()) {
    on_link_line[++on_link_lines] = $0
    on_link_to[on_link_lines] = $2
  }
  # A conflict proposes halves of the prefix, unless another program has one of them.
  if ($2 in is_half && / table 254 / && !is_line_of_ours()) is_held[$2]
}
/^\tnh_info .*\tnexthop / { # the next hops of the route in the line before
  if (is_kept) line[lines] = line[lines] substr($0, index($0, "\tnexthop "))
}
END {
  print_errors()
  if (!ours) { # what is deleted are routes with our protocol
    print "unread\tthis script has lost its settings; to write it again, as root: " apply
    exit 1
  }
  read_routes()
  find_doubt(4)
  find_doubt(6)
  plan_wanted()
  delete_others()
  print_changes()
  print_notes()
}

# --- Settings -----------------------------------------------------------------
# Variables: ours, restart, apply, is_expected, is_of_guests, is_refusing, wanted, named, is_half,
#   is_wanted_key, is_wanted_prefix

function read_setting() {
  if ($1 == "protocol") ours = $2
  if ($1 == "unit") restart = "systemctl restart " quoted($2)
  if ($1 == "apply") apply = substr($0, 7)
  if ($1 == "expected") is_expected[$2]
  if ($1 == "guest") is_of_guests[$2]
  if ($1 == "refusing-type") is_refusing[$2]
  read_listed_setting()
  if ($1 == "sentence") read_sentence()
  if ($1 == "route") read_wanted()
}

function read_wanted(   name, i) {
  name = $0
  sub(/^route /, "", name)
  sub(/ metric .*/, "", name)
  wanted = ++routes
  route[wanted, "text"] = name
  route[wanted, "family"] = $2 ~ /:/ ? 6 : 4
  route[wanted, "prefix"] = $2
  # gawk 5.2.1 crashes if a function gets an element that was never set.
  named[wanted, "via"] = named[wanted, "dev"] = named[wanted, "left"] = named[wanted, "right"] = ""
  for (i = 3; i < NF; i += 2) named[wanted, $i] = $(i + 1)
  route[wanted, "metric"] = named[wanted, "metric"]
  is_wanted_key[key_of(wanted)]
  is_wanted_prefix[$2]
  is_wanted_prefix[as_listed($2)]
  is_half[as_listed(named[wanted, "left"])]
  is_half[as_listed(named[wanted, "right"])]
}

# `ip` lists a single address without its length.
function as_listed(prefix) {
  sub(prefix ~ /:/ ? "/128$" : "/32$", "", prefix)
  return prefix
}

function is_optional(w) {
  return (w, "optional") in named
}

function read_error() {
  if (/^Dump was interrupted/) is_torn = 1
  else if (!/^Command failed / && $0 != "") unread = $0
}

function print_errors() {
  if (is_torn) print "torn"
  if (unread != "") print "unread\t" unread # which matters if `ip` failed
}

# --- Devices ------------------------------------------------------------------
# Variables: has_card_port

function note_device(   dev, i) {
  dev = read_device()
  if (kind_of[dev] in is_of_guests) return
  for (i = 4; i < NF && $i !~ /^link\//; i++) if ($i == "master") has_card_port[$(i + 1)]
}

function leads_out(dev) {
  return dev in class && class[dev] !~ /^(dead-end|dummy)$/
}

# Whether it can lead to the network of this host: also a bridge that has a port for more than
# containers and virtual machines.
function is_card(dev) {
  return class[dev] == "card" || (class[dev] == "bridge" && dev in has_card_port)
}

# --- Routes -------------------------------------------------------------------
# Variables: route (routes), hop, is_own, has_address

# There can be 100,000 routes: those matter that are default routes, ours, local, or wanted.
function matters() {
  if ($2 == "default" || name_for("type", $1) ~ /^(local|broadcast)$/) return 1
  return $2 in is_wanted_prefix || is_line_of_ours()
}

function is_line_of_ours() {
  return index($0 " ", " proto " ours " ")
}

# `ip -d` prints the usual words, too: unicast, table main and scope global.
function without_usual_words(text) {
  sub(/^1 /, "", text)
  sub(/ table 254 /, " ", text)
  sub(/ scope 0 /, " ", text)
  return text
}

# Whether a gateway can be on the link of this route: it is in table main, and not ours (ours may
# go). In IPv4, it also has no gateway itself, and its scope is link, host or nowhere. Linux also
# looks in other tables, as the rules say; a gateway that only those lead to is not found here.
function is_on_link() {
  if (!/ table 254 / || !/ dev / || is_line_of_ours()) return 0
  if ($3 ~ /^(from|tos)$/) return 0 # Linux looks for a gateway without either
  if (/ expires [-0]/) return 0 # its time is over
  return family_of($2, $0) == 6 || (/ scope 25[345] / && !has_gateway($0))
}

function has_gateway(text) {
  return text ~ / via (inet6 )?[0-9a-f.:]+( |$)/
}

function read_routes(   i) {
  for (i = 1; i <= lines; i++) read_route(line[i])
}

# [TYPE] PREFIX [via GATEWAY] [dev DEVICE] WORDS [nexthop via GATEWAY dev DEVICE WORDS]...
function read_route(text,   r, words, word, at, i, item, h) {
  gsub(/\\\t/, " ", text) # with which -o joins lines
  words = split(text, word, " ")
  at = word[1] ~ /^[0-9]+$/ ? 2 : 1
  r = ++routes
  route[r, "text"] = with_names(text)
  route[r, "type"] = at == 2 ? name_for("type", word[1]) " " : ""
  if (route[r, "type"] == "unicast ") route[r, "type"] = ""
  route[r, "family"] = family_of(word[at], text)
  route[r, "prefix"] = whole(word[at], route[r, "family"])
  route[r, "metric"] = 0
  h = 0
  route[r, "words"] = "" # see read_wanted
  for (i = at + 1; i <= words; i++) {
    item = word[i]
    if (item == "nexthop" || (!h && (item == "via" || item == "dev"))) h = add_hop(r, "", "")
    if (item == "via") {
      hop[r, h, "via"] = " via " word[++i]
      if (word[i] == "inet6") hop[r, h, "via"] = hop[r, h, "via"] " " word[++i]
    }
    else if (item == "dev") hop[r, h, "dev"] = word[++i] # any name, such as "via"
    else if (item == "weight") hop[r, h, "weight"] = word[++i]
    else if (item == "onlink") hop[r, h, "onlink"] = " onlink"
    else if (item == "dead") hop[r, h, "dead"] = 1
    else if (item == "table") route[r, "table"] = word[++i]
    else if (item == "proto") route[r, "protocol"] = word[++i]
    else if (item == "metric") route[r, "metric"] = word[++i]
    else if (item == "pref" && word[i + 1] == "medium") i++
    else if (item == "error") i++ # the errno of a route that refuses
    # `ip` prints this lock, and does not read it: it always locks that time.
    else if (item == "lock" && word[i - 1] == "rto_min") continue
    else if (item !~ /^(nexthop|linkdown|pervasive|(rt_)?(offload|trap)|rt_offload_failed)$/)
      route[r, "words"] = route[r, "words"] " " item
  }
  if (is_default(r)) add_default(r)
  if (leads_to_own_address(r)) note_address(r)
  if (route[r, "table"] == "" && (route[r, "prefix"] in is_wanted_prefix || is_ours(r)))
    add_entries(r)
}

function family_of(prefix, text) {
  if (prefix ~ /:/ || (prefix == "default" && text ~ / pref (low|medium|high)/)) return 6
  return 4
}

function whole(prefix, family) {
  if (prefix == "default") return family == 6 ? "::/0" : "0.0.0.0/0"
  if (prefix ~ /\//) return prefix
  return prefix (family == 6 ? "/128" : "/32")
}

function is_ours(r) {
  return route[r, "protocol"] == ours
}

# Whether it is the route to an address of this host, or to the broadcast address of a network. In
# another table, one of the type local can be that of a proxy, which takes marked packets in.
function leads_to_own_address(r) {
  if (route[r, "type"] !~ /^(local|broadcast) $/) return 0
  if (is_ours(r) || has_gateway(route[r, "text"])) return 0
  return route[r, "table"] ~ /^(255)?$/
}

function note_address(r) {
  if (is_link_local(route[r, "prefix"])) is_own[route[r, "prefix"], hop[r, 1, "dev"]]
  else {
    is_own[route[r, "prefix"]]
    has_address[route[r, "family"], hop[r, 1, "dev"]]
  }
}

# Each link has its own addresses in this range.
function is_link_local(address) {
  return address ~ /^fe[89ab][0-9a-f]:/
}

# Adds a next hop to the route, and returns its number.
function add_hop(r, gateway, dev,   h) {
  h = ++route[r, "hops"]
  hop[r, h, "via"] = gateway
  hop[r, h, "dev"] = dev
  hop[r, h, "weight"] = 1
  hop[r, h, "onlink"] = ""
  return h
}

# Adds the next hop of another route.
function copy_hop(r, from, h,   new) {
  new = add_hop(r, hop[from, h, "via"], hop[from, h, "dev"])
  hop[r, new, "weight"] = hop[from, h, "weight"]
  hop[r, new, "onlink"] = hop[from, h, "onlink"]
}

# --- Parts of routes, in the words of commands ----------------------------------
# Variables: part (parts), first_part, last_part

function make_parts(r,   h) {
  first_part[r] = parts + 1
  if (route[r, "family"] == 6 && route[r, "hops"] > 1)
    for (h = 1; h <= route[r, "hops"]; h++) make_part(r, h, h)
  else make_part(r, 1, route[r, "hops"] + 0)
  last_part[r] = parts
}

# Makes the part with the next hops from number h to the last one.
function make_part(r, h, last_hop) {
  parts++
  part[parts, "route"] = r
  part[parts, "hops"] = last_hop - h + 1
  part[parts, "to"] = hop_list(r, h, last_hop)
  part[parts, "identity"] = part[parts, "to"] difference(r)
  part[parts, "addition"] = addition(r, h, last_hop)
  part[parts, "deletion"] = deletion(r, h, last_hop)
}

# Routes exclude each other if their keys are the same. The key of one that is only for some packets
# (from, tos) has all of its words. `ip -N` prints the tos of a route in hexadecimal: one in decimal
# belongs to an encapsulation.
function key_of(r,   key) {
  key = route[r, "prefix"] " metric " route[r, "metric"]
  if (is_for_some_packets(r)) key = key lasting_words(r)
  return key
}

function is_for_some_packets(r) {
  return route[r, "words"] ~ / (from |tos 0x)/
}

function lasting_words(r,   words) {
  words = route[r, "words"]
  gsub(/ expires [^ ]+/, "", words)
  return words
}

# The route without its next hops.
function head_of(r) {
  return route[r, "type"] route[r, "prefix"] " proto " ours " metric " route[r, "metric"] \
    lasting_words(r)
}

# Whether a nexthop object has its next hops: in a command, its number stands for them.
function has_object(r) {
  return route[r, "words"] ~ / nhid [0-9]+/
}

# In IPv6, a single next hop can have a weight in a list only.
function addition(r, h, last_hop,   text) {
  if (has_object(r)) return head_of(r)
  if (h == last_hop && hop[r, h, "weight"] == 1)
    return head_of(r) hop[r, h, "via"] " dev " hop[r, h, "dev"] hop[r, h, "onlink"]
  for (; h <= last_hop; h++)
    text = text " nexthop" hop[r, h, "via"] " dev " hop[r, h, "dev"] \
      " weight " hop[r, h, "weight"] hop[r, h, "onlink"]
  return head_of(r) text
}

# del 10.5.0.0/16 proto 213 metric 0 nexthop via 10.0.0.1 dev eth0; in IPv6, without a gateway:
# del 2001:db8::/32 proto 213 metric 1024 via :: dev eth0. "Deleting" above says why.
function deletion(r, h, last_hop,   text, is_list) {
  is_list = route[r, "family"] == 4
  text = "del " head_of(r)
  if (has_object(r)) return text
  if (route[r, "family"] == 6 && h == last_hop && hop[r, h, "via"] == "" && hop[r, h, "dev"] != "")
    text = text " via ::"
  for (; h <= last_hop; h++)
    text = text (is_list ? " nexthop" : "") hop[r, h, "via"] " dev " hop[r, h, "dev"]
  return text
}

function hop_list(r, h, last_hop,   text) {
  for (; h <= last_hop; h++) text = text hop[r, h, "via"] " dev " hop[r, h, "dev"] ";"
  return text
}

# What else tells parts with the same key apart: not `onlink`, how long it lasts and the preference
# of its router, and the weights only of several next hops in IPv4.
function difference(r,   h, text) {
  text = route[r, "type"] route[r, "words"]
  sub(/ expires [1-9][^ ]*/, "", text)
  sub(/ pref (low|high)/, "", text)
  if (route[r, "family"] == 6 || route[r, "hops"] < 2) return text
  for (h = 1; h <= route[r, "hops"]; h++) text = text " weight " hop[r, h, "weight"]
  return text
}

# --- Entries: the parts of listed routes ----------------------------------------
# Variables: entries, at_key, count_at

# Linux uses the first of a key: not one that is passed over, if another is there; in IPv6, that of
# the router with the highest preference; else that which is listed first.
function add_entries(r,   key, e, i) {
  make_parts(r)
  entries = parts
  key = key_of(r)
  for (e = first_part[r]; e <= last_part[r]; e++) {
    for (i = ++count_at[key]; i > 1; i--) {
      if (!is_used_before(r, part[at_key[key, i - 1], "route"])) break
      at_key[key, i] = at_key[key, i - 1]
    }
    at_key[key, i] = e
  }
}

# Whether Linux uses the first of two routes with one key, although it is listed behind the other.
function is_used_before(r, other) {
  if (is_passed_over(r) != is_passed_over(other)) return is_passed_over(other)
  return preference(route[r, "words"]) > preference(route[other, "words"])
}

# Whether Linux lists the route and does not use it: all its next hops are dead, or it has expired.
function is_passed_over(r,   h) {
  if (route[r, "words"] ~ / expires [-0]/) return 1
  for (h = 1; h <= route[r, "hops"]; h++) if (!hop[r, h, "dead"]) return 0
  return route[r, "hops"] > 0
}

function is_our_entry(e) {
  return is_ours(part[e, "route"])
}

# --- Which default route ------------------------------------------------------
#
# The best default route may not be the one to the network of this host: if it leads through a
# tunnel, or if another one is as good. Then an operator has to choose among devices (`doubtful`).
# For example, if these have default routes:
#                                   devs   equals     doubtful
#   eth0                            eth0   eth0
#   eth0, eth1 with a worse metric  eth0   eth0
#   eth0, eth1 with the same one    eth0   eth0/eth1  eth0/eth1
#   tun0, eth0 with a worse metric  tun0   tun0       tun0/eth0
#   tun0                            tun0   tun0       tun0
#   tap0                            tap0   tap0       tap0, if a card has an address
#   ppp0                            ppp0   ppp0
#
# Variables: default_route (defaults), seen; doubtful, choice, remedy

# Whether it is for all packets, and not one of ours, which may go.
function is_default(r) {
  if (route[r, "prefix"] !~ /\/0$/ || route[r, "type"] != "" || is_ours(r)) return 0
  if (is_for_some_packets(r)) return 0
  return route[r, "words"] !~ / expires [-0]/ # its time is over
}

# Inserts it into the default routes, the best first.
function add_default(r,   family, i) {
  family = route[r, "family"]
  seen[family] = seen[family] " [" route[r, "text"] "]"
  for (i = ++defaults[family]; i > 1 && is_better(r, default_route[family, i - 1]); i--)
    default_route[family, i] = default_route[family, i - 1]
  default_route[family, i] = r
}

# Whether the first comes before the second: by table, metric and the preference of its router.
function is_better(r, than) {
  if (route[r, "table"] != route[than, "table"])
    return route[r, "table"] + 0 < route[than, "table"] + 0 # 0 is table main
  if (route[r, "metric"] != route[than, "metric"])
    return route[r, "metric"] + 0 < route[than, "metric"] + 0
  return preference(route[r, "words"]) > preference(route[than, "words"])
}

function preference(words) {
  if (words ~ / pref high/) return 1
  return words ~ / pref low/ ? -1 : 0
}

# Whether the default route can use this next hop; without a device, whether it leads out by it.
function is_by(r, h, dev) {
  if (hop[r, h, "dead"]) return 0
  return dev == "" ? leads_out(hop[r, h, "dev"]) : hop[r, h, "dev"] == dev
}

# The best default route by a device, in any table or in table main only; without a device, the best
# one of table main that leads out; 0 if there is none.
function best_default(family, dev, only_main,   i, r, h) {
  for (i = 1; i <= defaults[family]; i++) {
    r = default_route[family, i]
    if (route[r, "table"] != "" && (only_main || dev == "")) continue
    for (h = 1; h <= route[r, "hops"]; h++) if (is_by(r, h, dev)) return r
  }
  return 0
}

# The known devices, and those by which a default route leads out: "eth0/eth1".
function devs_out(r, known,   h) {
  for (h = 1; h <= route[r, "hops"]; h++) {
    if (!is_by(r, h, "") || index("/" known "/", "/" hop[r, h, "dev"] "/")) continue
    known = known (known == "" ? "" : "/") hop[r, h, "dev"]
  }
  return known
}

# These devices, and those of all default routes as good as this one.
function devs_of_equals(used, devs,   family, i, r) {
  family = route[used, "family"]
  for (i = 1; i <= defaults[family]; i++) {
    r = default_route[family, i]
    if (!is_better(r, used) && !is_better(used, r)) devs = devs_out(r, devs)
  }
  return devs
}

# The best default route of table main that leads out by no tunnel; 0 if there is none.
function default_beside_tunnels(family,   i, r, devs) {
  for (i = 1; i <= defaults[family]; i++) {
    r = default_route[family, i]
    devs = devs_out(r, "")
    if (route[r, "table"] == "" && devs != "" && !has_tunnel(devs)) return r
  }
  return 0
}

function has_tunnel(devs,   n, dev) {
  for (n = split(devs, dev, "/"); n; n--) if (class[dev[n]] ~ /^(tunnel|tap|line)$/) return 1
  return 0
}

# Whether these devices can be all that leads out: lines of a provider, or taps where no card has an
# address. A VPN has its tap beside a card; a virtual machine can have a tap as its card.
function can_be_only_uplink(family, devs,   n, dev, i, of_lines, taps, card) {
  n = split(devs, dev, "/")
  for (i = 1; i <= n; i++) {
    of_lines += class[dev[i]] == "line"
    taps += class[dev[i]] == "tap"
  }
  if (of_lines == n) return 1
  if (taps < n) return 0
  for (card in class) if ((family, card) in has_address && is_card(card)) return 0
  return 1
}

# Whether one of these devices is a tunnel, which can be that of a VPN.
function is_vpn(family, devs) {
  if (!has_tunnel(devs)) return 0
  return default_beside_tunnels(family) || !can_be_only_uplink(family, devs)
}

# Sets `doubtful`: the devices among which an operator has to choose, or "". If there are some, it
# also sets `choice`, what a route without a device needs, and `remedy`, what an operator can do.
function find_doubt(family,   used, devs, equals) {
  doubtful[family] = ""
  used = best_default(family, "")
  if (!used) return
  devs = devs_out(used, "")
  equals = devs_of_equals(used, devs)
  words_for["route"] = route[used, "text"]
  # Linux lists several routers that advertise themselves as one route.
  if (equals != devs || (name_for("proto", route[used, "protocol"]) == "ra" && devs ~ /\//)) {
    doubtful[family] = equals
    choice[family] = in_words("equal")
  }
  if (is_vpn(family, devs)) { # if both are true, this is said
    doubtful[family] = devs_out(default_beside_tunnels(family), equals)
    choice[family] = in_words("tunnel")
  }
  if (doubtful[family] == "") return
  words_for["devs"] = alternatives(doubtful[family])
  remedy[choice[family]] = in_words("choose")
}

# The devices as hostrouting lists them: "a", "b" or "c"; after four, how many more there are.
function alternatives(devs,   n, dev, i, text) {
  n = split(devs, dev, "/")
  text = "\"" dev[1] "\""
  for (i = 2; i <= n && i <= 4; i++) text = text (i == n ? " or " : ", ") "\"" dev[i] "\""
  if (n > 4) text = text " or " (n - 4) " more"
  return text
}

# The expected device that can have the default route, if there is exactly one. An expected device
# that is not there now counts: it may have the default route when it comes.
function only_expected_dev(   dev, able) {
  for (dev in is_expected) {
    if (dev in class && !leads_out(dev)) continue
    if (able != "") return ""
    able = dev
  }
  return able
}

# --- What is missing for a next hop ---------------------------------------------
# Variables: best_by

function missing_for_hop(r, h,   gateway, family) {
  gateway = gateway_of(r, h)
  family = route[r, "family"]
  if (gateway == "" || gateway ~ /^inet6 /) return ""
  words_for["dev"] = hop[r, h, "dev"]
  words_for["gateway"] = gateway
  # Linux refuses the route, or accepts it and loses the packets.
  if (is_own_address(gateway, hop[r, h, "dev"], family)) return in_words("own")
  if (is_link_local(gateway)) return ""
  if (hop[r, h, "onlink"]) {
    if (!is_elsewhere(gateway, hop[r, h, "dev"])) return ""
  } else if (is_near(gateway, hop[r, h, "dev"], family)) return ""
  return in_words("near")
}

function is_own_address(address, dev, family) {
  if (is_link_local(address)) return (whole(address, family), dev) in is_own
  return whole(address, family) in is_own
}

# Whether Linux would find it on the link of the device.
function is_near(gateway, dev, family,   best) {
  best = best_line(gateway, dev, family)
  return best && !has_gateway(on_link_line[best])
}

# Whether Linux refuses this IPv6 gateway with `onlink`: if a route leads to it by another device,
# and that is not a default route.
function is_elsewhere(gateway, dev,   best, word) {
  best = best_line(gateway, "", 6)
  if (!best || index(on_link_line[best] " ", " dev " dev " ")) return 0
  split(on_link_line[best], word, " ")
  if (name_for("type", word[1]) in is_refusing) return 0
  return word[2] != "default" && word[2] !~ /^::\//
}

# The number of the line of the best route to the gateway, by the device if one is given; 0 if there
# is none.
function best_line(gateway, dev, family,   hex, i, to, best) {
  if ((gateway, dev) in best_by) return best_by[gateway, dev]
  hex = hex_of(gateway)
  for (i = 1; i <= on_link_lines; i++) {
    to = on_link_to[i]
    if (begins_differently(gateway, to) || family_of(to, on_link_line[i]) != family) continue
    if (dev != "" && !index(on_link_line[i] " ", " dev " dev " ")) continue
    read_block(whole(to, family))
    if (hex < first || last < hex) continue
    if (best && precedence_of_line(i) <= precedence_of_line(best)) continue
    best = i
  }
  return best_by[gateway, dev] = best + 0
}

function precedence_of_line(i,   text, metric) {
  text = on_link_line[i]
  metric = match(text, / metric [0-9]+/) ? substr(text, RSTART + 8, RLENGTH - 8) : 0
  return precedence(whole(on_link_to[i], family_of(on_link_to[i], text)), metric, text)
}

# Whether the first 16 bits of an IPv6 prefix already differ. With 100,000 routes, that is quick.
function begins_differently(gateway, prefix) {
  if (gateway !~ /^[1-9a-f].*:/ || prefix !~ /:/ || prefix ~ /\/([0-9]|1[0-5])$/) return 0
  return substr(gateway, 1, index(gateway, ":")) != substr(prefix, 1, index(prefix, ":"))
}

# The higher, the earlier Linux uses a route: by the length of its prefix, its metric (32 bits), and
# in IPv6 the preference of its router (one of three).
function precedence(prefix, metric, words) {
  sub(/.*\//, "", prefix)
  return (prefix * 4294967296 - metric) * 3 + preference(words)
}

# What is missing if Linux would look for a gateway by this IPv6 route itself: then it refuses
# further routes by that gateway, also the default route of the host when that is added anew.
function missing_if_it_hides(w,   i, missing) {
  if (route[w, "family"] == 4 || hop[w, 1, "via"] == "") return ""
  missing = missing_if_it_hides_one_of(w, w)
  for (i = 1; i <= defaults[6] && missing == ""; i++)
    missing = missing_if_it_hides_one_of(w, default_route[6, i])
  return missing
}

# The same for the gateways of one route.
function missing_if_it_hides_one_of(w, r,   h) {
  for (h = 1; h <= route[r, "hops"]; h++)
    if (is_hidden(w, r, h)) {
      words_for["gateway"] = gateway_of(r, h)
      return in_words("hides")
    }
  return ""
}

# Whether Linux would look for the gateway of this next hop by the route w: the gateway is on the
# link of a device that w uses, is covered by w, and no better route leads to it.
function is_hidden(w, r, h,   gateway, dev, place) {
  if (hop[r, h, "dead"] || hop[r, h, "onlink"]) return 0
  gateway = gateway_of(r, h)
  dev = hop[r, h, "dev"]
  if (gateway == "" || is_link_local(gateway)) return 0
  place = hex_of(gateway)
  read_block(route[w, "prefix"])
  if (place < first || last < place) return 0
  if (!uses_dev(w, dev) || !is_near(gateway, dev, 6)) return 0
  return precedence(route[w, "prefix"], route[w, "metric"], "") >= \
    precedence_of_line(best_line(gateway, dev, 6))
}

# The address alone; `hop` has the words " via ADDRESS".
function gateway_of(r, h) {
  return substr(hop[r, h, "via"], 6)
}

function uses_dev(r, dev,   h) {
  for (h = 1; h <= route[r, "hops"]; h++) if (hop[r, h, "dev"] == dev) return 1
  return 0
}

# --- Planning a configured route ----------------------------------------------
# Variables: last_seen, is_needed, fate, is_added

function plan_wanted(   w) {
  for (w = 1; w <= wanted; w++) plan_route(w)
}

function plan_route(w,   missing, existing) {
  missing = complete(w)
  if (missing != "") {
    existing = existing_route(w)
    if (existing) {
      mark_right_entries(existing) # its own entries are right, so they are not deleted
      note_existing(w, missing)
      return
    }
    keep_all(key_of(w))
    if (!is_optional(w)) say_missing(w, missing)
    return
  }
  make_parts(w)
  mark_right_entries(w)
  if (!is_in_conflict(w)) add_missing(w)
  else if (is_optional(w)) keep_all(key_of(w))
  else say_conflict(w)
}

# Gives the configured route its next hops, and the scope that Linux would list; returns what is
# missing for that, or "". A single next hop has no weight.
function complete(w,   missing, h) {
  missing = take_hops(w)
  for (h = 1; h <= route[w, "hops"] && missing == ""; h++) missing = missing_for_hop(w, h)
  if (missing == "") missing = missing_if_it_hides(w)
  if (route[w, "hops"] == 1) hop[w, 1, "weight"] = 1
  if (route[w, "family"] == 4 && !is_by_gateway(w)) route[w, "words"] = " scope 253"
  return missing
}

function is_by_gateway(r,   h) {
  for (h = 1; h <= route[r, "hops"]; h++) if (hop[r, h, "via"] != "") return 1
  return 0
}

# From which default route: the rules 1 to 3 at the top of this script. Returns what is missing, or
# "". Rule 4 is in plan_route.
function take_hops(w,   dev, family, from) {
  dev = named[w, "dev"]
  family = route[w, "family"]
  words_for["dev"] = dev
  if (dev != "" && !(dev in is_up)) return in_words("absent")
  if (dev != "" && !is_up[dev]) return in_words("down")
  if (is_optional(w)) {
    add_hop(w, "", dev)
    return ""
  }
  if (dev != "") return take_from(w, best_default(family, dev), dev) # 1
  if (doubtful[family] == "") return take_from(w, best_default(family, ""), "") # 2
  dev = only_expected_dev() # 3
  if (dev == "") return choice[family]
  from = best_default(family, dev, 1) # in table main only
  return from ? take_from(w, from, dev) : missing_default(family, dev)
}

# The next hops of the default route by this device; without a device, all by which it leads out.
# `from` is 0 where there is no such default route.
function take_from(w, from, dev,   h) {
  if (named[w, "via"] != "") return take_gateway(w, named[w, "via"], from, dev)
  for (h = 1; h <= route[from, "hops"]; h++) if (is_by(from, h, dev)) copy_hop(w, from, h)
  return route[w, "hops"] ? "" : missing_default(route[w, "family"], dev)
}

# The one next hop with this gateway. It need not be that of a default route if the device is known,
# by its name or from the default route.
function take_gateway(w, gateway, from, dev,   family, h) {
  family = route[w, "family"]
  for (h = 1; h <= route[from, "hops"]; h++) {
    if (!is_by(from, h, dev) || hop[from, h, "via"] != " via " gateway) continue
    copy_hop(w, from, h)
    return ""
  }
  if (dev == "" && !from) return missing_default(family, dev)
  if (dev == "") dev = device_of(gateway, family, devs_out(from, ""))
  add_hop(w, " via " gateway, dev)
  return ""
}

# The first of these devices ("eth0/eth1") that reaches the gateway; if none does, the first of all.
function device_of(gateway, family, devs,   n, i, dev) {
  n = split(devs, dev, "/")
  for (i = 1; i <= n; i++) if (is_near(gateway, dev[i], family)) return dev[i]
  return dev[1]
}

function missing_default(family, dev,   missing) {
  words_for["family"] = family
  words_for["dev"] = dev
  missing = in_words(dev == "" ? "default" : "default-on")
  last_seen[missing] = "; last seen:" (family in seen ? seen[family] : " none")
  return missing
}

# The route of ours that Linux uses for this key, if it can stay while something is missing for the
# wanted one; else 0.
function existing_route(w,   key, r, h, dev, family) {
  key = key_of(w)
  if (!count_at[key]) return 0
  r = part[at_key[key, 1], "route"]
  if (!is_ours(r) || route[r, "type"] != "" || !route[r, "hops"]) return 0
  if (is_passed_over(r)) return 0
  family = route[w, "family"]
  dev = named[w, "dev"]
  if (dev == "" && doubtful[family] != "") dev = only_expected_dev()
  for (h = 1; h <= route[r, "hops"]; h++) if (!is_usable(r, h, dev, named[w, "via"])) return 0
  return r
}

# Whether a next hop of ours is right where this device and this gateway are wanted, if they are.
function is_usable(r, h, wanted_dev, wanted_gateway,   dev, gateway) {
  dev = hop[r, h, "dev"]
  gateway = gateway_of(r, h)
  if (!(dev in is_up) || !is_up[dev]) return 0
  if (missing_for_hop(r, h) != "") return 0
  if (wanted_gateway != "" && gateway != wanted_gateway) return 0
  if (wanted_dev != "") return dev == wanted_dev
  return leads_out(dev) && (dev == only_expected_dev() || !is_vpn(route[r, "family"], dev))
}

# Compares the parts of this route with the entries that have its key. An entry that is the same as
# a part is right, whoever added it. A part without such an entry is still needed (is_needed).
function mark_right_entries(r,   key, p, i, e) {
  split("", is_needed)
  for (p = first_part[r]; p <= last_part[r]; p++) is_needed[part[p, "identity"]] = 1
  key = key_of(r)
  for (i = 1; i <= count_at[key]; i++) {
    e = at_key[key, i]
    if (!(part[e, "identity"] in is_needed)) continue
    is_needed[part[e, "identity"]] = 0
    fate[e] = "right"
    if (is_our_entry(e) && part[e, "hops"]) keep_those_behind(key, i)
  }
}

# Those of ours behind the right route stay if a command to delete them could hit the right one: see
# "Deleting" above. Linux uses the right one before them.
function keep_those_behind(key, i,   right, e, r, of_right) {
  right = at_key[key, i]
  of_right = part[right, "route"]
  while (++i <= count_at[key]) {
    e = at_key[key, i]
    r = part[e, "route"]
    if (!is_ours(r) || route[r, "type"] != route[of_right, "type"]) continue
    if (!has_words_of(of_right, r)) continue
    if (index(part[e, "to"], part[right, "to"]) == 1 && fate[e] == "") fate[e] = "stays"
  }
}

# Whether a route has the words of another one, beside which it may have attributes of its own.
function has_words_of(r, other,   words, left) {
  words = lasting_words(r) " "
  left = lasting_words(other)
  while (match(left, / (src|mtu|advmss) [^ ]+/)) {
    if (!index(words, substr(left, RSTART, RLENGTH) " ")) return 0
    left = substr(left, 1, RSTART - 1) substr(left, RSTART + RLENGTH)
  }
  gsub(/ (src|mtu|advmss) [^ ]+/, "", words)
  return words == left " "
}

# Whether another program has a route in the place of this one. What counts is the route that Linux
# will use: the first one that stays. If that is not ours, it has to be the same as the wanted one.
function is_in_conflict(w,   key, i, e) {
  key = key_of(w)
  for (i = 1; i <= count_at[key]; i++) {
    e = at_key[key, i]
    if (is_our_entry(e) && fate[e] != "right") continue
    return !is_our_entry(e) && !is_as_wanted(e, w)
  }
  return 0
}

# Whether all parts of the route that begins with this entry are right, and as many as are wanted.
function is_as_wanted(e, w,   final) {
  final = last_part[part[e, "route"]]
  if (final - e != last_part[w] - first_part[w]) return 0
  for (; e <= final; e++) if (fate[e] != "right") return 0
  return 1
}

# Leaves all alone, whoever added them.
function keep_all(key,   i) {
  for (i = 1; i <= count_at[key]; i++) fate[at_key[key, i]] = "stays"
}

# Not "replace", which would hit a route that another program sets at this moment.
function add_missing(w,   p, key, verb) {
  key = key_of(w)
  for (p = first_part[w]; p <= last_part[w]; p++) {
    if (!is_needed[part[p, "identity"]]) continue
    is_added[key] = is_added[key] "|" part[p, "to"]
    verb = "add " # which fails if another program has taken the place meanwhile
    if (count_at[key] || p > first_part[w]) verb = "append "
    change(is_optional(w) ? "optional" : "add", verb part[p, "addition"], part[p, "deletion"])
  }
}

# --- Deleting what is left of ours --------------------------------------------

# Fewer next hops first, then more attributes first, then the last listed first: see "Deleting"
# above. For example, of these two,
#   10.1.0.0/16 via A
#   10.1.0.0/16 nexthop via A nexthop via B
# "via A" goes first, although it is in use: the command for the other one would delete it.
function delete_others(   n, most, attributes, e) {
  for (e = 1; e <= entries; e++) if (part[e, "hops"] > most) most = part[e, "hops"]
  for (n = 0; n <= most; n++)
    for (attributes = 3; attributes >= 0; attributes--) # as many as attributes_of counts at most
      for (e = entries; e; e--) {
        if (!is_our_entry(e) || fate[e] != "" || part[e, "hops"] != n) continue
        if (attributes_of(part[e, "route"]) != attributes) continue
        change(step_of_deletion(e), part[e, "deletion"], "append " part[e, "addition"])
      }
}

function attributes_of(r,   words) {
  words = route[r, "words"]
  return gsub(/ (src|mtu|advmss) /, "", words)
}

# "before", "after" or "optional": see "Deleting" above.
function step_of_deletion(e,   r, is_joined) {
  r = part[e, "route"]
  is_joined = last_part[r] > first_part[r]
  # Of several IPv6 next hops, those behind the first may be of another program, and then Linux does
  # not delete them. Where nothing is wanted in their place, that is fine; else it is a conflict,
  # which has to be known before anything is added.
  if (is_joined && !(key_of(r) in is_wanted_key)) return "optional"
  if (is_joined && e > first_part[r]) return "before"
  # The command that takes the new one back could hit this one.
  if (part[e, "hops"] && index(is_added[key_of(r)], "|" part[e, "to"])) return "before"
  return "after"
}

# --- Printing -----------------------------------------------------------------
# Variables: command_of, undo_of, count; existing_for, first_for, shared_missing (shared)

# `ip -batch` would take the device "a#b" for "a": it reads comments, quotes and joined lines.
function change(step, command, undo) {
  if (command ~ "#| [\"\047]|\\\\( |$)")
    print "refused\tip would misread the name of the device in this command: route " command \
      "\trename the device; then: " restart
  command_of[step, ++count[step]] = "route " command
  undo_of[step, count[step]] = "route " undo
}

function print_changes(   n, i, step) {
  split("before add after", step, " ")
  for (n = 1; n <= 3; n++) for (i = 1; i <= count[step[n]]; i++)
    print "change\t" command_of[step[n], i] "\t" undo_of[step[n], i]
  for (i = 1; i <= count["optional"]; i++) print "optional\t" command_of["optional", i]
}

# Behind what is missing: the default routes that were seen, or the devices that can be named.
function say_missing(w, missing) {
  words_for["route"] = route[w, "text"]
  words_for["missing"] = missing
  if (missing in last_seen) words_for["missing"] = missing last_seen[missing]
  if (missing in remedy) words_for["missing"] = missing "; " remedy[missing]
  print "missing\tROUTE-WAITS: " in_words("waits")
}

# Routes that would wait for the same thing share a line.
function note_existing(w, missing) {
  if (!existing_for[missing]++) {
    first_for[missing] = route[w, "text"]
    shared_missing[++shared] = missing
  }
}

function print_notes(   i, n, missing) {
  for (i = 1; i <= shared; i++) {
    missing = shared_missing[i]
    n = existing_for[missing]
    words_for["route"] = n > 1 ? n " routes, such as " first_for[missing] "," : first_for[missing]
    words_for["missing"] = missing
    print "note\tROUTE-STAYS: " in_words("stays") "; " \
      (missing in remedy ? remedy[missing] : in_words("pin"))
  }
}

# The fact, and what an operator can do: each becomes a line of the log.
function say_conflict(w,   place, text, lowest, edit) {
  place = route[w, "prefix"]
  words_for["prefix"] = place
  name_holders(key_of(w))
  words_for["reason"] = in_words("held")
  text = "ROUTE-CONFLICT: " in_words("conflict")
  if (words_for["devs"] != "") text = text "\t" place ": " in_words("address")
  words_for["left"] = named[w, "left"]
  words_for["right"] = named[w, "right"]
  edit = ""
  lowest = route[w, "family"] == 6 ? 1 : 0
  if (route[w, "metric"] > lowest) edit = in_words("metric")
  else if (can_be_added(named[w, "left"]) && can_be_added(named[w, "right"]))
    edit = in_words("halves")
  if (edit != "")
    text = text "\t" place ": option A: " edit "; then, as root: " apply \
      "\t" place ": option B: " in_words("delete")
  else if (words_for["left"] == "")
    text = text "\t" place ": the only option: " in_words("single") "; " in_words("delete")
  else text = text "\t" place ": the only option: " in_words("delete")
  print "refused\t" text "; then: " restart
}

# Sets all routes of other programs with this key, the commands that delete them, and the devices
# with whose addresses Linux has added some.
function name_holders(key,   i, r, held, devs, deletion_commands, last_one) {
  for (i = 1; i <= count_at[key]; i++) {
    r = part[at_key[key, i], "route"]
    if (is_ours(r) || r == last_one) continue
    held = held (held == "" ? "" : "], [") route[r, "text"]
    deletion_commands = deletion_commands (last_one ? " && " : "") command_to_delete(r)
    if (is_network_of_an_address(r)) devs = devs (devs == "" ? "" : ", ") hop[r, 1, "dev"]
    last_one = r
  }
  words_for["held"] = held
  words_for["devs"] = devs
  words_for["delete"] = deletion_commands
}

function can_be_added(half) {
  return half != "" && !(half in is_wanted_prefix) && !(as_listed(half) in is_held)
}

# Whether Linux seems to have added the route with an address (proto kernel).
function is_network_of_an_address(r) {
  return route[r, "protocol"] == 2 && route[r, "type"] == "" && route[r, "hops"] == 1
}

# The command that deletes the route of another program. It does not find a route with a nexthop
# object by its device. Without a metric, Linux deletes the first route that has the rest.
function command_to_delete(r,   text) {
  text = "ip " (route[r, "family"] == 6 ? "-6 " : "") "route del " route[r, "prefix"]
  if (match(route[r, "words"], / nhid [0-9]+/))
    text = text substr(route[r, "words"], RSTART, RLENGTH)
  else if (route[r, "type"] == "" && route[r, "hops"] == 1)
    text = text hop[r, 1, "via"] " dev " quoted(hop[r, 1, "dev"])
  text = text " table main"
  if (route[r, "metric"]) text = text " metric " route[r, "metric"]
  return text " proto " route[r, "protocol"]
}

# A word for a shell: a device may be called $(reboot). \047 is an apostrophe.
function quoted(word) {
  if (word !~ /[^A-Za-z0-9_@%+=:,.\/-]/) return word
  gsub("\047", "\047\"\047\"\047", word)
  return "\047" word "\047"
}

# A listed route with names in place of the numbers of its type, protocol, scope and table.
function with_names(text,   n, word, i, shown) {
  n = split(text, word, " ")
  shown = name_for("type", word[1])
  for (i = 2; i <= n; i++) {
    shown = shown " " word[i]
    if (word[i] == "expires") i++ # a new number each time would be a new line for the guard
    if (word[i] !~ /^(dev|proto|scope|table)$/) continue
    shown = shown " " name_for(word[i], word[i + 1])
    i++
  }
  return shown
}
'

main "${2:-60}"
