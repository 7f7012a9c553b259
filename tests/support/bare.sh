#!/bin/bash
# Runs a command as on a bare Debian: the programs of all other packages are gone, for this command alone.
#   tests/support/bare.sh COMMAND...
# A bare Debian has root, what Debian requires of every system, what README.md asks for (Python, pip, git, make), and ip.
# A test that needs more says so with the mark `needs`. Where the mark is forgotten, a machine that has the program does
# not show it: here, the test fails.
# Belongs here: what a bare Debian has, and how the rest disappears. Which package has which program: needs.py.
set -euo pipefail
[[ -n ${IN_A_MOUNT_NAMESPACE-} ]] || IN_A_MOUNT_NAMESPACE=yes exec unshare --mount "$0" "$@"
unset IN_A_MOUNT_NAMESPACE
bare=(git iproute2 make python3-pip)
cd "$(dirname "$0")/../.."

# shellcheck disable=SC2016  # dpkg-query expands it
mapfile -t required < <(dpkg-query --show --showformat='${Package} ${Essential} ${Priority}\n' |
  awk '$2 == "yes" || $3 == "required" { print $1 }')
# Where one package can replace another, as gawk replaces mawk, this has both. The table's packages go in any case.
kept=$(apt-cache depends --installed --recurse --important --no-conflicts --no-breaks --no-replaces "${bare[@]}" "${required[@]}")
# shellcheck disable=SC2016  # dpkg-query expands it
mapfile -t others < <(
  dpkg-query --show --showformat='${Package}\n' | grep -vxFf <(sed -n 's/^\([a-z0-9][^:]*\).*/\1/p' <<<"$kept")
  python3 -c 'from tests.support.needs import PACKAGES; print(*PACKAGES.values(), sep="\n")' |
    grep -vxFf <(printf '%s\n' "${required[@]}" "${bare[@]}")
)
gone=()
while read -r file; do
  if [[ ! -d $file || -L $file ]]; then gone+=("$file"); fi
done < <(dpkg --listfiles "${others[@]}" 2>/dev/null |
  grep -E '^(/usr)?/(s?bin|games|lib/systemd|share/bash-completion|share/keyrings)/[^/]+$')

# In an overlay, a deleted file is absent. A file with something mounted on it would still be found, and refused.
work=$(mktemp -d)
trap 'umount --lazy "$work"; rmdir "$work"' EXIT
mount -t tmpfs tmpfs "$work"
mapfile -t folders < <(printf '%s\n' "${gone[@]%/*}" | sort -u | xargs realpath | sort -u)
for folder in "${folders[@]}"; do
  mkdir -p "$work/upper$folder" "$work/work$folder"
  mount -t overlay overlay -o "lowerdir=$folder,upperdir=$work/upper$folder,workdir=$work/work$folder" "$folder"
done
for file in "${gone[@]}"; do
  # Whatever is not in an overlay would be deleted for good.
  if [[ -d $work/upper$(realpath "${file%/*}") ]]; then rm -f "$file"; fi
done
[[ -e /usr/bin/awk ]] || ln -sf mawk /usr/bin/awk # another package's was the one in use

"$@"
