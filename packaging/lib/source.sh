# shellcheck shell=sh
# packaging/lib/source.sh: what is packed, for the scripts that source this from the top of the repository.

version=$(sed -n 's/^project(onespace VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

# The time of all that is packed: that of the commit, where git tells it.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}

# source_names FILE: prints the names of the files as they are here, without what git ignores, each with a NUL behind it. In a
# copy without git .gitignore is not asked: what it names, and what scripts have fetched, is left out here. FILE is scratch.
source_names() {
    if [ -e .git ]; then
        git ls-files -z --cached --others --exclude-standard --deduplicate >"$1" &&
            # A file that was removed, but not from git's index, is no file here.
            xargs -0 sh -c 'for file; do [ ! -e "$file" ] && [ ! -L "$file" ] || printf "%s\0" "$file"; done' sh <"$1"
    else
        find . -mindepth 1 \( -path ./build -o -path './build-*' -o -path ./bench/results -o -path ./.venv -o -path ./.arm64 \
            -o -path ./.kernels -o -path ./.libcs -o -path ./.nodes -o -name .pytest_cache -o -name __pycache__ \) -prune \
            -o -not -type d -print0
    fi
}

# source_tree DIRECTORY: copies these files there. DIRECTORY may be below `build`. No pipeline: its status would be that of the
# last command alone.
source_tree() (
    copied=$(mktemp -d) && trap 'rm -rf "$copied"' EXIT && mkdir -p "$1" &&
        source_names "$copied/all" >"$copied/names" &&
        tar --null --no-recursion --files-from="$copied/names" --create --file="$copied/tar" &&
        tar --extract --directory="$1" --file="$copied/tar"
)
