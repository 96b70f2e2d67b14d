#!/bin/sh
# Makes the seeds in corpus/: tiny ELF files of each kind, and first lines of scripts.
# Needs cc, objcopy and strip. The seeds are kept in the repository; run this to change them.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
elf=corpus/elf_read_fuzz
script=corpus/script_line_fuzz
rm -rf "$elf" "$script"
mkdir -p "$elf" "$script"

cat > "$work/tiny.c" <<'END'
char zeroes[5000];
int data = 1;
__attribute__((weak)) int weakling(void) { return 2; }
static int local_one(void) { return data; }
int main(void) { return zeroes[data] + local_one() + weakling(); }
void _start(void) { main(); for (;;) ; }
END
cat > "$work/versions.c" <<'END'
__asm__(".symver main_old, main@ONE\n.symver main_new, main@@TWO");
int main_old(void) { return 1; }
int main_new(void) { return 2; }
int __asan_init(void) { return 3; }
END
printf 'ONE { };\nTWO { } ONE;\n' > "$work/versions.map"

make_elf() { # name, options...
    name=$1
    shift
    cc -Os -nostdlib -fno-asynchronous-unwind-tables -Wl,--build-id=none -Wl,-z,noseparate-code \
        -o "$elf/$name" "$@"
}
make_elf libversions.so -shared -fPIC "$work/versions.c" -Wl,--version-script="$work/versions.map"
make_elf pie -fPIE -pie "$work/tiny.c"
make_elf pie_needs_library -fPIE -pie "$work/tiny.c" -Wl,--no-as-needed "$elf/libversions.so"
make_elf pie_four_segments -fPIE -pie "$work/tiny.c" -Wl,-z,separate-code
make_elf static_pie -fPIE -static-pie "$work/tiny.c"
make_elf static_pie_aligned -fPIE -static-pie "$work/tiny.c" -Wl,-z,max-page-size=0x4000
make_elf fixed -fno-pie -no-pie "$work/tiny.c"
make_elf executable_stack -fPIE -pie "$work/tiny.c" -Wl,-z,execstack
cc -Os -fPIE -c "$work/tiny.c" -o "$elf/object.o"
cp "$elf/pie" "$elf/no_sections"
strip --strip-section-headers "$elf/no_sections" 2>/dev/null ||
    dd if=/dev/zero of="$elf/no_sections" bs=1 seek=40 count=8 conv=notrunc 2>/dev/null
cp "$elf/pie" "$elf/bits32" # the class byte
printf '\001' | dd of="$elf/bits32" bs=1 seek=4 conv=notrunc 2>/dev/null
head -c 100 "$elf/pie" > "$elf/truncated"
head -c 2000 "$elf/static_pie" > "$elf/truncated_segment"

printf '#!/bin/sh\n' > "$script/plain"
printf '#! \t/usr/bin/env  python3 -u \t\nrest\n' > "$script/argument"
printf '#!/bin/sh -e  ' > "$script/no_newline"
printf '#!/bin/sh\0-e\n' > "$script/zero_byte"
printf '#!' > "$script/nothing"
printf '#!\n' > "$script/no_name"
printf '#!   \t \n' > "$script/blanks"
printf '#!/bin/sh %0250d\n' 1 > "$script/argument_cut"
printf '#!/%0300d\n' 1 > "$script/name_cut"
printf '#!%300s' ' ' > "$script/all_blanks"

# Machine code: what is patched, and what must not be. The nops leave room for decoding to fall into step.
patch=corpus/patch_fuzz
rm -rf "$patch"
mkdir -p "$patch"
nops=$(printf '%0600d' 0 | sed 's/00/90/g')
make_code() { # name, hexadecimal bytes
    perl -e 'print pack "H*", $ARGV[0]' "$2" >"$patch/$1"
}
make_code call b8090000000f05c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3
make_code call_behind_moves b8010100004c89e7bf9cffffff0f05c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3
make_code call_inside "${nops}41b8090000000f05${nops}"
make_code call_long_form 48c7c00b0000000f05c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3
make_code call_shared "${nops}b895000000eb05b80b0000004889d60f05${nops}"
make_code call_shared_far "${nops}b895000000e931010000${nops}b80b0000004889d60f05${nops}"
make_code cpuid b80400000031c90fa289074489c84489c10fa2c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3
make_code exit bee7000000ba3c000000eb08909090909090909089d00f05f4f4f4f4f4f4f4f4
make_code exit_later bae7000000eb0a909090909090909090f489d00f05f4f4f4f4f4f4f4f4
make_code own_stack b80b0000000f054831ffb83c0000000f05f4f4f4f4f4f4f4f4
# Found by the fuzzer after three million inputs: a branch of 16 bits leads into a place.
make_code xbegin_of_16_bits "$(tr -d ' \n' <<'END'
b8090000000f05c365fe4c0000005bc7c70007b8020000c7f8d8443132b80002007e9066c7f8ffc3b8040000c7c70101930068c8ffffff92838383
b80436000083e8e8b80400000083e883b80400000083e8e8ffffe8e8b80400000083e8e8e8e8004489c1bee73d90667e9066c7f8d8443036b80002
007e9066c7f8ffc3b8040000c70200000031c90fa289074489c84489c10fa2c3ff00c7c7c70000830007b80200000031c90fa289074489c84489c1
0fa2c30031c90fa289074489c84489c10fa266c7f8ffccb80407b8020000c7f8d8443132b80002007e9066c7f8ffc3b8040000c7c70101bee73d90
667e9066c7f8d8443036b80002007e9066c7f804ffc70000c3b802000007b80200000031c90fa289074489c84489c10fa2c30031c90fa289074489
c84489c10fa266c7f8ffc3b8040000c7c7b80200000031c90fa289074489c84489c10fa2c3ff04080089c83e89c3c3b804000e0000c73d00
END
)"

# Requests of shims: see request_fuzz.c for the first byte; then the request, all zeroes but for the number of words (right
# behind header and flags), and the words.
request=corpus/request_fuzz
rm -rf "$request"
mkdir -p "$request"
cat > "$work/request.c" <<'END'
#include "launch/protocol.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    struct protocol_request request = {.argc = (uint32_t)atoi(argv[1]), .envc = (uint32_t)atoi(argv[2])};
    request.fd_count = 3;
    request.number = request.ntasks = -1;
    putchar(3);
    fwrite(&request, sizeof(request), 1, stdout);
    for (int i = 3; i < argc; i++)
        fwrite(argv[i], strlen(argv[i]) + 1, 1, stdout);
    return 0;
}
END
cc -I../../src -I../../src/arch/x86_64 -I../../include -D_GNU_SOURCE -o "$work/request" "$work/request.c"
"$work/request" 1 0 true >"$request/one_word"
"$work/request" 2 2 sh -c PATH=/bin HOME=/ >"$request/words"
"$work/request" 3 1 sh -c PATH=/bin >"$request/too_few"
"$work/request" 1 0 "" >"$request/empty_word"
"$work/request" 0 1 PATH=/bin >"$request/no_program"

# Messages with descriptors: see rights_fuzz.c.
rights=corpus/rights_fuzz
rm -rf "$rights"
mkdir -p "$rights"
make_rights() { # name, hexadecimal bytes
    perl -e 'print pack "H*", $ARGV[0]' "$2" >"$rights/$1"
}
make_rights one 0001040100
make_rights second_in_the_padding 0001040200
make_rights batch 00030c0300
make_rights two_batches 0008100420100400
make_rights in_parts 0003010301080003
make_rights too_many 00030cfa00
make_rights full_table 40030c0300
make_rights reply 8001ff0100
# Lists of CPUs and of Slurm's tasks: see lists_fuzz.c.
lists=corpus/lists_fuzz
rm -rf "$lists"
mkdir -p "$lists"
printf '\0000,2-4' >"$lists/cpus"
printf '\0017' >"$lists/cpu"
printf '\0030-1023,5' >"$lists/all_cpus"
printf '\2002(x3),1' >"$lists/tasks"
printf '\20316,8(x2),4(x1000000),1' >"$lists/many_tasks"
printf '\20199999999999999999999(x2),1' >"$lists/overflow"
# Hints: see storage_hints_fuzz.c; 8 bytes of size, a byte, then numbers of names and values.
hints=corpus/storage_hints_fuzz
rm -rf "$hints"
mkdir -p "$hints"
make_hints() { # name, a string as Perl has it
    perl -e 'print eval qq("$ARGV[0]")' "$2" >"$hints/$1"
}
size='\0\0\0\0\0\x01\x86\xa0\x01'
make_hints divided "$size"'\x027\0\x030.5\0\x04storage_first\0\x05true\0\x06false\0'
make_hints automatic "$size"'\x024096\0\x03auto\0\x04mem_first\0\x073\0\x08false\0'
make_hints styles "$size"'\x09read_once,write_once,random\0\x0a0640\0\x0b4\0\x0c65536\0'
make_hints refused "$size"'\x0a640\0\x031.5\0\x02-1\0\x09sequential,random\0'
make_hints largest '\xff\xff\xff\xff\xff\xff\xff\x0f\x01'

# Slots: see version_record_fuzz.c; a byte, two bytes of size, and the fields of the record.
record=corpus/version_record_fuzz
rm -rf "$record"
mkdir -p "$record"
make_record() { # name, what is right and size, fields from the version on
    perl -e 'print pack "H*", $ARGV[0] . "00" x 48 . $ARGV[1]' "$2" "$3" >"$record/$1"
}
make_record whole 0f0060 0c000000000000000000000002000000000000000000000088130000000000000100000000000000d204000000000000
make_record empty 0f0002 0c0000000000000000000000010000000000000000000000000000000000000001000000000000000000000000000000
make_record unsummed 070060 0c000000000000000000000002000000000000000000000088130000000000000100000000000000d204000000000000
make_record large 0f0060 ffffffffffffffff0000000001000000ffffffffffffff7fffffffffffffff3f01000000000000000000000000000000

# Directories: see versions_open_fuzz.c; six bytes of the window, and 17 of each file.
open=corpus/versions_open_fuzz
rm -rf "$open"
mkdir -p "$open"
make_directory() { # name, hexadecimal bytes
    perl -e 'print pack "H*", $ARGV[0]' "$2" >"$open/$1"
}
two=0300020000000002010100000000000000 # slot 0: version 2, marked and summed
make_directory nothing 020100000000
make_directory two_versions 020100000000${two}0304010000000002010100000000000000
make_directory larger 030100000000${two}0304030000000003010100000000000000
make_directory ranks 020100010001${two}0301020101000002010100000000000000
make_directory forged 0001000000000300fa00000000000001010100000000000000
make_directory kinds 02010000000010000000000000000000000000000000000000200400000000000000000000000000000000

du -sb corpus
