# What the check does, with all that is defined before. It stands last: a program whose end is missing does nothing.

$1 == "setting" && $2 == "mode" { mode = $3 }
$1 == "setting" && $2 == "cidr" { cidr_text[++cidrs] = $3; next }
$1 == "setting" && $2 == "device" { expect($3); configured = 1 }
$1 == "setting" && $2 == "allow" { allowed[++patterns] = as_regex($3) }
$1 == "setting" { next }

$1 == "state" { take_cidrs(); next }
{ read_line() }

END {
  # `ip` ends with the first command that fails, so that the last one tells of all.
  if (!all_said) { print "<3>check-route-overlap: ip failed: " complaint; exit FAILED }
  if (!final && complaint ~ /interrupted/) exit DIFFERING
  prepare()
  if (!final && !(expected_count && devices_are_up())) exit NOT_YET
  if (expected_count) ask()
  judge()
}
