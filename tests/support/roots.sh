#!/bin/bash
# Makes a root of each release that is named, for `make releases`: roots.sh DIRECTORY RELEASE...
# Each is made once, and again when the list of packages changes. A debootstrap that was killed leaves file systems
# mounted: nothing in them is deleted.
set -euo pipefail
directory=$1
packages=systemd,systemd-sysv,systemd-container,dbus,iproute2,libpam-systemd,nftables,procps,python3

# Debian 12 has no package of Ubuntu's keys. This one is Ubuntu 22.04's own.
ubuntu=http://archive.ubuntu.com/ubuntu
keys=pool/main/u/ubuntu-keyring/ubuntu-keyring_2021.03.26_all.deb
keys_sum=0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f
get_ubuntu_keys() {
  wget --quiet --output-document="$directory/keys.deb" "$ubuntu/$keys"
  echo "$keys_sum  $directory/keys.deb" | sha256sum --check --quiet
  dpkg-deb --extract "$directory/keys.deb" "$directory/keys"
}

mkdir -p "$directory"
for release in "${@:2}"; do
  [[ -d $directory/$release && $(cat "$directory/$release.packages" 2>/dev/null) == "$packages" ]] && continue
  echo "making a root of $release, once"
  options=(--variant=minbase "--include=$packages")
  source=()
  if [[ $release == jammy || $release == noble ]]; then
    get_ubuntu_keys
    options+=('--components=main,universe' "--keyring=$directory/keys/usr/share/keyrings/ubuntu-archive-keyring.gpg")
    source=("$ubuntu" gutsy) # the script for all of Ubuntu's releases; Debian 12 knows noble by no other name
  fi
  rm -rf --one-file-system "$directory/new"
  if ! debootstrap "${options[@]}" "$release" "$directory/new" "${source[@]}" >"$directory/$release.log" 2>&1
  then
    tail -n 3 "$directory/$release.log" >&2
    exit 1
  fi
  rm -rf --one-file-system "${directory:?}/$release"
  mv "$directory/new" "$directory/$release" # whole, or not there
  echo "$packages" >"$directory/$release.packages"
done
