# shellcheck shell=sh
# packaging/lib/source.sh: what is packed, for the scripts that source this from the top of the repository.

version=$(sed -n 's/^project(onespace VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

# source_tree DIRECTORY: the files as they are here, without what git ignores. In a copy without git .gitignore is not asked:
# what it names, and what scripts have fetched, is left out here. DIRECTORY may be below `build`.
source_tree() {
    mkdir -p "$1"
    if [ -e .git ]; then
        git ls-files -z --cached --others --exclude-standard --deduplicate
    else
        find . -mindepth 1 \( -path ./build -o -path './build-*' -o -path ./bench/results -o -path ./.venv -o -path ./.arm64 \
            -o -path ./.kernels -o -path ./.libcs -o -name .pytest_cache -o -name __pycache__ \) -prune -o -not -type d -print0
    fi | tar --null --no-recursion --files-from=- --create --file=- | tar --extract --directory="$1" --file=-
}
