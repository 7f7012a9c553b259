# Addresses. A text for programs of awk. It has to be the first part of a program: the BEGIN of
# another part may already read addresses.
# Variables: first, last
addresses='
# An address is its family and its hexadecimal digits: 10.0.0.1 is 4:0a000001. So the order of these
# texts is the order of the addresses.
function hex_of(address,   gap, left, right) {
  if (address !~ /:/) return "4:" hex_of_bytes(address)
  if (match(address, /[0-9]+[.][0-9.]+$/)) { # as in ::ffff:10.0.0.1
    right = hex_of_bytes(substr(address, RSTART))
    address = substr(address, 1, RSTART - 1) substr(right, 1, 4) ":" substr(right, 5)
  }
  gap = index(address, "::") # where groups of zeros are left out
  if (!gap) return "6:" hex_of_groups(address)
  left = hex_of_groups(substr(address, 1, gap - 1))
  right = hex_of_groups(substr(address, gap + 2))
  return "6:" left substr(ZEROS, 1, 32 - length(left right)) right
}
function hex_of_bytes(bytes,   byte) {
  split(bytes, byte, ".")
  return sprintf("%02x%02x%02x%02x", byte[1], byte[2], byte[3], byte[4])
}
function hex_of_groups(groups,   n, group, i, hex) {
  n = split(groups, group, ":")
  for (i = 1; i <= n; i++) hex = hex substr("0000" group[i], length(group[i]) + 1)
  return hex
}
function digit_at(hex, i) { return index(DIGITS, substr(hex, i, 1)) - 1 }
function digit(value_of_digit) { return substr(DIGITS, value_of_digit + 1, 1) }

# Sets the first and the last address of a block, or of a single address. For example, 10.12.0.0/14
# is 4:0a0c0000 to 4:0a0fffff: its addresses begin with 4:0a0, then comes one of the four digits c
# to f, then four digits of any value.
function read_block(block,   piece, common, free, values, lowest, i) {
  split(block, piece, "/")
  first = last = hex_of(piece[1])
  common = 2 + int(piece[2] / 4) # characters that all addresses have in common
  free = length(first) - common - 1 # digits of any value; the one before them has some values
  if (piece[2] == "" || free < 0) return # a single address, also with its whole length, as in /32
  values = 16 # of that one digit: half as many for each bit that all have in common
  for (i = piece[2] % 4; i > 0; i--) values /= 2
  lowest = digit_at(first, common + 1)
  lowest -= lowest % values
  first = substr(first, 1, common) digit(lowest) substr(ZEROS, 1, free)
  last = substr(last, 1, common) digit(lowest + values - 1) substr(HIGHEST, 1, free)
}
BEGIN {
  DIGITS = "0123456789abcdef"
  ZEROS = "00000000000000000000000000000000"
  HIGHEST = "ffffffffffffffffffffffffffffffff"
}
'
