#!/bin/bash
# Packs the hostrouting.pyz and the manual page of a release as a .deb: deb.sh DIST
# It stands here, and not in a folder debian/, because it only packs files that are made: nothing is built by debhelper.
# No script of the package runs, so that to install, upgrade or remove it changes nothing in /etc, and no unit.
set -euo pipefail
dist=$1
read -r _ version _ < <("$dist/hostrouting.pyz" --version)
version=${version/rc/~rc} # before the release itself
maintainer='The hostrouting developers <nobody@hostrouting.invalid>'

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
umask 022
chmod 755 "$tree"
documents=$tree/usr/share/doc/hostrouting
manual=$tree/usr/share/man/man1
completion=$tree/usr/share/bash-completion/completions
mkdir -p "$tree"/{DEBIAN,usr/bin,usr/lib/hostrouting} "$documents" "$manual" "$completion"

install -m 755 "$dist/hostrouting.pyz" "$tree/usr/lib/hostrouting/"
# A link: so the name that hostrouting prints in commands is the one that is in PATH.
ln -s ../lib/hostrouting/hostrouting.pyz "$tree/usr/bin/hostrouting"

python3 - "$dist" >"$manual/hostrouting.1" <<'END'
import glob, sys, zipfile
[path] = glob.glob(f"{sys.argv[1]}/*.whl")
with zipfile.ZipFile(path) as wheel:
    [name] = [name for name in wheel.namelist() if name.endswith("/hostrouting.1")]
    sys.stdout.write(wheel.read(name).decode())
END
gzip -9n "$manual/hostrouting.1"

cat >"$completion/hostrouting" <<'END'
# It needs the package python3-argcomplete.
! command -v register-python-argcomplete >/dev/null || eval "$(register-python-argcomplete hostrouting)"
END

copyright=$(sed -n 's/^Copyright (c)/Copyright:/p' LICENSE)
{
  echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
  printf '\nFiles: *\n%s\nLicense: Expat\n' "$copyright"
  printf '\nFiles: usr/lib/hostrouting/hostrouting.pyz\n%s\n %s\nLicense: Expat\n' "$copyright" \
    '2015 Hynek Schlawack and the attrs contributors'
  printf '\nLicense: Expat\n'
  sed -e '1,/^Permission/{/^Permission/!d}' -e 's/^$/./' -e 's/^/ /' LICENSE
} >"$documents/copyright"

gzip -9nc CHANGELOG.md >"$documents/NEWS.md.gz"
gzip -9n >"$documents/changelog.gz" <<END
hostrouting ($version) unstable; urgency=medium

  * See NEWS.md.gz.

 -- $maintainer  $(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")
END

size=$(du -ks "$tree/usr" | cut -f1)
cat >"$tree/DEBIAN/control" <<END
Package: hostrouting
Version: $version
Section: net
Priority: optional
Architecture: all
Installed-Size: $size
Maintainer: $maintainer
Depends: python3 (>= 3.10)
Recommends: systemd (>= 249)
Suggests: nftables, python3-argcomplete
Description: correct a host's routing before its Kubernetes node starts
 On some GPU hosts, packets to the Kubernetes cluster go into the InfiniBand
 network and are lost. hostrouting finds and repairs this, and can keep
 kubelet from starting until it is repaired.
 .
 The package brings the command alone. Nothing of a node changes before
 "hostrouting apply", and it stays when the package is removed: that is what
 "hostrouting remove" is for.
END
(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"

find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
export DPKG_DEB_THREADS_MAX=1 # the bytes would depend on the number of processors
dpkg-deb --root-owner-group -Zxz --build "$tree" "$dist/hostrouting_${version}_all.deb" >/dev/null
