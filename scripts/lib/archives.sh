# shellcheck shell=sh
# scripts/lib/archives.sh: packages of other releases, for scripts that source this with their name in $me. Nothing is installed,
# and this machine's package lists do not change. Sets $debian to the Debian archive of this machine's apt, or to nothing, and
# $scratch to a directory that is removed when the script ends. $architecture selects another architecture.

# The first of the configured archives that is Debian's.
# shellcheck disable=SC2016
debian=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | sed -n 1p)
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
trusted=
[ ! -e $keyring ] || trusted="[signed-by=$keyring] "

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$scratch/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$scratch/lists" -o Dir::State::status="$scratch/status" -o Dir::Cache="$scratch/cache" \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o APT::Sandbox::User= ${architecture:+-o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"} "$@"
}

# use_debian RELEASE: fetches the lists of that release, and drops others.
use_debian() {
    rm -rf "$scratch/lists" "$scratch/cache"
    mkdir -p "$scratch/lists/partial" "$scratch/cache/archives/partial"
    : >"$scratch/status"
    echo "deb $trusted$debian $1 main" >"$scratch/sources.list"
    apt update
}

# unpack PACKAGE: downloads it as $scratch/packages/PACKAGE_….deb and unpacks it into $scratch/unpacked.
unpack() {
    rm -rf "$scratch/packages" "$scratch/unpacked"
    mkdir -p "$scratch/packages"
    (cd "$scratch/packages" && apt download "$1") && dpkg-deb -x "$scratch/packages/"*.deb "$scratch/unpacked"
}

# unpack_ubuntu SUITE PACKAGE: unpacks it with its dependencies into $scratch/unpacked. A package of Debian has Ubuntu's keys.
unpack_ubuntu() {
    if ! command -v mmdebstrap >/dev/null; then
        echo "no mmdebstrap: scripts/setup packages" >&2
        return 1
    fi
    keys=$scratch/ubuntu.gpg
    if [ ! -e "$keys" ]; then
        use_debian trixie && unpack ubuntu-keyring || return
        mv "$scratch/unpacked/usr/share/keyrings/ubuntu-archive-keyring.gpg" "$keys"
    fi
    rm -rf "$scratch/unpacked"
    mmdebstrap --quiet --variant=extract --aptopt='APT::Install-Recommends "false"' --keyring="$keys" --include="$2" "$1" \
        "$scratch/unpacked"
}
