# shellcheck shell=sh
# packaging/lib/source.sh: what is packed, for the scripts that source this from the top of the repository.

version=$(sed -n 's/^project(onespace VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

# source_tree DIRECTORY: the files as they are here, without what git ignores. In a copy without git, that is all.
source_tree() {
    mkdir -p "$1"
    if [ -e .git ]; then
        git ls-files -z --cached --others --exclude-standard --deduplicate
    else
        find . -mindepth 1 -not -type d -print0
    fi | tar --null --no-recursion --files-from=- --create --file=- | tar --extract --directory="$1" --file=-
}
