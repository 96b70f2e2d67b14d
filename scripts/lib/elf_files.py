"""scripts/lib/elf_files.py: the programs and libraries among files and directories."""


def elf_files(paths):
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and not (file.is_symlink() and file != path):
                with file.open("rb") as start:
                    head = start.read(18)
                if head[:4] == b"\x7fELF" and head[16] in (2, 3):  # ET_EXEC, ET_DYN
                    yield file
