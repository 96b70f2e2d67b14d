#!/bin/sh
# Prints the line coverage of src/elf by its tests: tests/elf/coverage.sh [architecture]
# Builds with gcc in a temporary directory; fails below 90 %.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
arch=${1:-x86_64}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
# Headers are included as LAYER/header.h, and those of the architecture as arch/header.h (cmake/layers.cmake).
ln -s "$root/src/arch/$arch" arch
compile() {
    source=$1 output=$2
    shift 2
    "$@" -g -O0 -iquote . -iquote "$root/src" -D_GNU_SOURCE -c "$source" -o "$output"
}
for source in "$root"/src/elf/*.c; do
    compile "$source" "$(basename "$source" .c).o" gcc -std=gnu11 --coverage
done
for source in "$root"/src/base/*.c; do
    compile "$source" "base_$(basename "$source" .c).o" gcc -std=gnu11
done
for source in "$root"/tests/elf/*.cpp; do
    compile "$source" "test_$(basename "$source" .cpp).o" g++ -std=c++20
done
g++ --coverage -Wl,--wrap=malloc ./*.o -o elf_test -lgtest_main -lgtest -lpthread
./elf_test --gtest_brief=1
# python.c needs interpreters of several kinds: tests/run covers it.
for source in "$root"/src/elf/*.c; do
    [ "$(basename "$source")" = python.c ] || gcov -n "$(basename "$source" .c).o" -s "$root" -r
done | grep -A1 "src/elf/.*[.]c'" | tee lines
awk -F'[:% ]' '/^Lines/ { all += $NF; hit += $NF * $3 / 100 }
    END { printf "src/elf: %.1f %% of %d lines\n", 100 * hit / all, all; exit hit < 0.9 * all }' lines
