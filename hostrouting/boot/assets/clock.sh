# Sets `now`: the time since the boot, in 1/100 s. $SECONDS would jump with the time of day, which
# NTP sets at boot.
read_clock() {
  local words
  if { read -r now _ </proc/uptime; } 2>/dev/null; then
    now=$((10#${now/./})) # not octal: it can be 0.98
    return 0
  fi
  # ProcSubset=pid, in our services, hides that file. A process can still read when it began, which
  # is word 22, in 1/100 s; and the process of $(), which is `self` there, begins now. It is not the
  # first choice because five such processes would cost each start of a unit 3 ms.
  now=$(read -r -a words </proc/self/stat && echo "${words[21]}")
}
