# shellcheck shell=sh
# packaging/lib/chroot.sh: chroots of Debian's and Ubuntu's releases, for the scripts that source this, with their name in
# me. Needs root and mmdebstrap. They are kept in ONESPACE_CHROOTS (/var/cache/onespace-chroots): what is there is not made again.
# recipes and sbom also run as other users, and keep what they need in .cache/onespace-chroots of the home directory.

default=/var/cache/onespace-chroots
[ "$(id -u)" = 0 ] || default=${XDG_CACHE_HOME:-$HOME/.cache}/onespace-chroots
chroots=${ONESPACE_CHROOTS:-$default}

# private_directory DIRECTORY: makes it, for this user alone. The caller will execute what it finds there, so a directory that
# another user made or may write to is refused, and so is a link.
private_directory() {
    mkdir -p -m 700 "$1" &&
        [ -n "$(find "${1%/}" -maxdepth 0 -type d -uid "$(id -u)" -not -perm /022)" ] && return
    echo "$me: $1 is not a directory that belongs to $(id -un) and that no other user may write to: remove it, or" \
        "name another directory in ONESPACE_CHROOTS" >&2
    return 1
}

# chroot_needs: says what is missing, once for all.
chroot_needs() {
    if [ "$(id -u)" != 0 ]; then
        echo "$me: a chroot needs root: run this as root" >&2
        return 1
    fi
    for program in mmdebstrap unshare chroot; do
        command -v $program >/dev/null && continue
        echo "$me: no $program: run scripts/setup packages" >&2
        return 1
    done
}

# chroot_archive: the Debian archive that this machine's apt uses, or nothing, and mmdebstrap has its own.
chroot_archive() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null | sed -n 1p
}

# ubuntu_keyring: a file with the keys of Ubuntu's archive, out of Debian 13's package.
ubuntu_keyring() {
    file=$chroots/ubuntu-keyring/usr/share/keyrings/ubuntu-archive-keyring.gpg
    archive=$(chroot_archive)
    [ -e "$file" ] || mmdebstrap --quiet --variant=extract --include=ubuntu-keyring trixie "$chroots/ubuntu-keyring" \
        ${archive:+"$archive"} >"$chroots/ubuntu-keyring.log" 2>&1 || return 1
    echo "$file"
}

# chroot_make NAME SUITE PACKAGE...: $chroots/NAME with these packages, unless it is there. $chroots/NAME.packages: the versions
# of all that is in it.
chroot_make() {
    name=$1 suite=$2
    shift 2
    private_directory "$chroots" || return 1
    [ ! -e "$chroots/$name/.made" ] || [ ! -e "$chroots/$name.packages" ] || return 0
    chroot_needs || return 1
    rm -rf "${chroots:?}/$name"
    include=$(echo "$*" | tr ' ' ,)
    archive=
    components=main
    keyring=
    case $suite in
    bullseye | bookworm | trixie | forky | sid) archive=$(chroot_archive) ;;
    *) components=main,universe keyring=$(ubuntu_keyring) ;;
    esac
    # A mirror may be a snapshot, whose lists have expired.
    echo "$me: making a chroot of $suite, $name" >&2
    if ! mmdebstrap --quiet --variant=apt --components="$components" --include="$include" \
        --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Retries "3"' \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        ${keyring:+--keyring="$keyring"} "$suite" "$chroots/$name" ${archive:+"$archive"} >"$chroots/$name.log" 2>&1; then
        echo "$me: mmdebstrap of $suite failed:" >&2
        tail -n 20 "$chroots/$name.log" >&2
        return 1
    fi
    # shellcheck disable=SC2016
    chroot "$chroots/$name" dpkg-query --show --showformat='${Package}_${Version}_${Architecture}\n' >"$chroots/$name.packages" &&
        : >"$chroots/$name/.made"
}

# chroot_make_oldest: build-bullseye, of the oldest release, where archive and wheels are compiled.
chroot_make_oldest() {
    chroot_make build-bullseye bullseye ca-certificates ccache g++ gcc libc6-dev libffi-dev libhwloc-dev libmpich-dev \
        libopenmpi-dev libssl-dev make ninja-build pkg-config python3 python3-dev python3-venv xz-utils zlib1g-dev
}

# chroot_copy FROM TO: a fresh copy, to install something in.
chroot_copy() {
    rm -rf "${chroots:?}/$2"
    cp -a --reflink=auto "$chroots/$1" "$chroots/$2"
}

# chroot_run NAME DIRECTORY COMMAND...: runs the command there, with the directory as /onespace and a clean environment. What
# it starts ends with it, and so do the mounts.
chroot_run() {
    name=$1 directory=$2
    shift 2
    mkdir -p "$chroots/$name/onespace"
    unshare --mount --pid --fork --kill-child sh -euc '
        root=$1 directory=$2
        shift 2
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount --rbind /dev "$root/dev"
        mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
        mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
        mount --bind "$directory" "$root/onespace"
        # A link there would name a file of this machine.
        cp --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
        # MPICH 3 looks its own host up.
        [ -e "$root/etc/hosts" ] || echo "127.0.0.1 localhost $(uname -n)" >"$root/etc/hosts"
        # The certificates that this machine trusts, for pip.
        if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
            mkdir -p "$root/etc/ssl/certs"
            cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/onespace-host.crt"
        fi
        # Where a chroot has ccache, its compilers use it: the same sources are compiled for each package, in directories
        # that are named anew each time.
        exec env -i ${ONESPACE_JOBS:+CMAKE_BUILD_PARALLEL_LEVEL="$ONESPACE_JOBS"} CCACHE_DIR=/var/cache/ccache CCACHE_BASEDIR=/ CCACHE_NOHASHDIR=1 PATH=/usr/lib/ccache:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
            DEBIAN_FRONTEND=noninteractive PIP_CERT=/etc/ssl/certs/onespace-host.crt PIP_DISABLE_PIP_VERSION_CHECK=1 \
            PIP_ROOT_USER_ACTION=ignore ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
            OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
            chroot "$root" "$@"
    ' sh "$chroots/$name" "$directory" "$@"
}
