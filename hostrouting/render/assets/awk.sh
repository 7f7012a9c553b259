# How both scripts run awk. Its program stands at the end of the script, where awk reads it and the shell never comes:
# merely to hand over a text of that size would take the shell as long as awk takes to understand it.

# What is read once and again is this file, also when another one has come in its place.
exec {script}<"$0"

# The one that begins quickest, where a host has more than one.
awk='awk'
hash mawk 2>/dev/null && awk=mawk

# In the place of this shell, with these options.
run_awk() {
  exec <"/dev/fd/$script" && mapfile -n "$shell_ends" && exec "$awk" "$@" -f - <(state)
}

# What awk reads: the settings, and then what `ip` says of the host.
state() {
  printf 'setting %s\n' "${configuration[@]}"
  printf 'state\n'
  exec ip -4 -N -d -o -batch - 2>&1 < <(printf '%s\n' 'rule show' 'route show table all' 'link show' 'netconf show')
}
