/* src/api/lookup.c: finds a symbol of another task by reading its ELF tables.
 *
 * The task's own dlsym is never called, because it would run the task's ld.so on our thread, with
 * our thread pointer. The tables may change or be unmapped meanwhile, so every read is a system
 * call on our own address space, which fails where a load would fault. */
#include "onespace.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/raw.h"
#include "elf/elf.h"
#include "space/child.h"
#include "space/registry.h"
#include "space/member.h"

enum {
    OBJECTS_MAX = 4096,
    CHAIN_MAX = 1 << 20,
    PART_MAX = 4096, /* bytes of a file that are compared with memory at once */
    LOAD_TIMEOUT_MS = 20000,
    LOAD_SLICE_MS = 20
};

static int peek(uintptr_t from, void *to, size_t size)
{
    struct iovec local = {to, size}, remote = {(void *)from, size};
    return raw(__NR_process_vm_readv, getpid(), &local, 1, &remote, 1, 0) == (long)size ? 0
                                                                                        : -EFAULT;
}

static int peek_string(uintptr_t from, char *to, size_t size)
{
    for (size_t done = 0; done + 1 < size;) {
        size_t part = 256 - (from + done) % 256; /* never crosses a page */
        if (part > size - 1 - done)
            part = size - 1 - done;
        if (peek(from + done, to + done, part) != 0)
            return -EFAULT;
        if (memchr(to + done, 0, part))
            return 0;
        done += part;
    }
    to[size - 1] = 0;
    return 0;
}

struct object {
    uintptr_t bias;
    uintptr_t symbols, strings, gnu_hash, hash, versions;
};

static int read_object(uintptr_t bias, uintptr_t dynamic, struct object *object)
{
    Elf64_Dyn entry;
    memset(object, 0, sizeof(*object));
    object->bias = bias;
    for (unsigned i = 0; i < 512; i++) {
        if (peek(dynamic + i * sizeof(entry), &entry, sizeof(entry)) != 0)
            return -EFAULT;
        /* ld.so has relocated the address, unless the section is read-only or ld.so is musl's. */
        uintptr_t value = entry.d_un.d_ptr < bias ? bias + entry.d_un.d_ptr : entry.d_un.d_ptr;
        if (entry.d_tag == DT_NULL)
            return object->symbols && object->strings ? 0 : -ENOENT;
        else if (entry.d_tag == DT_SYMTAB)
            object->symbols = value;
        else if (entry.d_tag == DT_STRTAB)
            object->strings = value;
        else if (entry.d_tag == DT_GNU_HASH)
            object->gnu_hash = value;
        else if (entry.d_tag == DT_HASH)
            object->hash = value;
        else if (entry.d_tag == DT_VERSYM)
            object->versions = value;
    }
    return -ENOENT;
}

/* Whether symbol `index` is a definition, of the default version, of `name`. */
static int matches(const struct object *object, uint32_t index, const char *name, Elf64_Sym *symbol)
{
    char text[512];
    uint16_t version = 0;
    if (peek(object->symbols + index * sizeof(*symbol), symbol, sizeof(*symbol)) != 0 ||
        symbol->st_shndx == SHN_UNDEF ||
        peek_string(object->strings + symbol->st_name, text, sizeof(text)) != 0 ||
        strcmp(text, name) != 0)
        return 0;
    if (object->versions && peek(object->versions + index * 2, &version, 2) != 0)
        return 0;
    return !(version & 0x8000); /* hidden: an old version kept for old programs */
}

static uint32_t gnu_hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static int find_gnu(const struct object *object, const char *name, Elf64_Sym *symbol)
{
    uint32_t head[4], index, chain,
        hash = gnu_hash_of(name); /* buckets, first, bloom words, shift */
    if (peek(object->gnu_hash, head, sizeof(head)) != 0 || head[0] == 0)
        return 0;
    uintptr_t buckets = object->gnu_hash + sizeof(head) + head[2] * sizeof(uint64_t);
    uintptr_t chains = buckets + head[0] * sizeof(uint32_t);
    if (peek(buckets + hash % head[0] * sizeof(uint32_t), &index, sizeof(index)) != 0 ||
        index < head[1])
        return 0;
    for (unsigned steps = 0; steps < CHAIN_MAX; steps++, index++) {
        if (peek(chains + (uintptr_t)(index - head[1]) * sizeof(chain), &chain, sizeof(chain)) != 0)
            return 0;
        if ((chain | 1) == (hash | 1) && matches(object, index, name, symbol))
            return 1;
        if (chain & 1)
            return 0;
    }
    return 0;
}

static int find_sysv(const struct object *object, const char *name, Elf64_Sym *symbol)
{
    uint32_t head[2], hash = 0, index; /* buckets, chains */
    for (const unsigned char *at = (const unsigned char *)name; *at; at++) {
        hash = (hash << 4) + *at;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    if (peek(object->hash, head, sizeof(head)) != 0 || head[0] == 0)
        return 0;
    uintptr_t at = object->hash + sizeof(head) + hash % head[0] * sizeof(uint32_t);
    for (uint32_t steps = 0; steps <= head[1]; steps++) {
        if (peek(at, &index, sizeof(index)) != 0 || index == 0)
            return 0;
        if (matches(object, index, name, symbol))
            return 1;
        at = object->hash + sizeof(head) + (head[0] + (uintptr_t)index) * sizeof(uint32_t);
    }
    return 0;
}

static int store_result(uintptr_t bias, const Elf64_Sym *symbol, void **address, size_t *size)
{
    unsigned type = ELF64_ST_TYPE(symbol->st_info);
    if (type == STT_TLS || type == STT_GNU_IFUNC)
        return -ENOTSUP;
    *address = (void *)((symbol->st_shndx == SHN_ABS ? 0 : bias) + symbol->st_value);
    if (size)
        *size = symbol->st_size;
    return 0;
}

static int find_in_object(uintptr_t bias, uintptr_t dynamic, const char *name, void **address,
                          size_t *size)
{
    struct object object;
    Elf64_Sym symbol;
    if (read_object(bias, dynamic, &object) != 0)
        return -ENOENT;
    if (!(object.gnu_hash && find_gnu(&object, name, &symbol)) &&
        !(object.hash && find_sysv(&object, name, &symbol)))
        return -ENOENT;
    return store_result(bias, &symbol, address, size);
}

static int is_in_memory(int fd, uint64_t offset, uint64_t size, uintptr_t address)
{
    unsigned char in_file[PART_MAX], in_memory[PART_MAX];
    return size <= PART_MAX && pread(fd, in_file, size, (off_t)offset) == (ssize_t)size &&
           peek(address, in_memory, size) == 0 && memcmp(in_file, in_memory, size) == 0;
}

/* Whether the file's header and notes, a build id among them, are those in memory: its name may be
 * another file's by now. */
static int is_mapped(int fd, uintptr_t bias)
{
    Elf64_Ehdr header;
    Elf64_Phdr segments[ELF_SEGMENTS_MAX];
    if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        header.e_phnum > ELF_SEGMENTS_MAX)
        return 0;
    size_t size = header.e_phnum * sizeof(segments[0]);
    if (pread(fd, segments, size, (off_t)header.e_phoff) != (ssize_t)size)
        return 0;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        const Elf64_Phdr *segment = &segments[i];
        if (segment->p_type == PT_LOAD && segment->p_offset == 0 &&
            !is_in_memory(fd, 0, sizeof(header), bias + segment->p_vaddr))
            return 0;
        if (segment->p_type == PT_NOTE &&
            !is_in_memory(fd, segment->p_offset, segment->p_filesz, bias + segment->p_vaddr))
            return 0;
    }
    return 1;
}

static int find_in_file(const char *path, uintptr_t bias, const char *name, void **address,
                        size_t *size)
{
    Elf64_Sym symbol;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return -ENOENT;
    int is_found = is_mapped(fd, bias) && elf_symbol(fd, name, &symbol) == 0;
    close(fd);
    return is_found ? store_result(bias, &symbol, address, size) : -ENOENT;
}

/* The first link map that the task's ld.so publishes for debuggers, or 0. */
static uintptr_t first_link_map(const struct space_slot *slot)
{
    void *found;
    uintptr_t at = 0;
    struct r_debug debug;
    if (slot->link_map)
        return slot->link_map;
    uintptr_t bias = slot->interpreter_bias, dynamic = slot->interpreter_dynamic;
    if (find_in_object(bias, dynamic, "_r_debug", &found, NULL) == 0)
        at = (uintptr_t)found; /* glibc */
    else if (find_in_object(bias, dynamic, "_dl_debug_addr", &found, NULL) == 0 &&
             peek((uintptr_t)found, &at, sizeof(at)) != 0) /* musl: a pointer to it */
        return 0;
    if (!at || peek(at, &debug, sizeof(debug)) != 0)
        return 0;
    return (uintptr_t)debug.r_map;
}

/* Sets the path of the program's file, and returns whether it is static. Both lie in the task's
 * memory, which may be unmapped by now. The root has no record, but a link map unless it is static.
 */
static int read_program(const struct space_slot *slot, char *path, size_t size)
{
    const struct child *child = (const struct child *)slot->child_record;
    uint32_t is_static = 0;
    path[0] = 0;
    if (!child) {
        snprintf(path, size, "/proc/%d/exe", atomic_load(&slot->pid));
        if (access(path, R_OK) != 0 && slot->program[0] == '/') /* before 5.16: see dumpable.c */
            snprintf(path, size, "%s", slot->program);
        return 1;
    }
    (void)peek_string((uintptr_t)child->program, path, size);
    (void)peek((uintptr_t)&child->is_static, &is_static, sizeof(is_static));
    return is_static != 0;
}

static int find_in_task(const struct space_slot *slot, const char *name, void **address,
                        size_t *size)
{
    char path[PATH_MAX], program[PATH_MAX];
    int is_static = read_program(slot, program, sizeof(program));
    int result = -ENOENT;
    uintptr_t first = first_link_map(slot), at = first;
    struct link_map map;
    if (!first && is_static)
        return find_in_file(program, slot->interpreter_bias, name, address, size);
    if (!first && atomic_load_explicit(&slot->loaded, memory_order_relaxed))
        return -ESRCH; /* its memory is unmapped already */
    if (!first)        /* ld.so has not begun */
        return slot_is_alive(slot_state(slot)) ? -ETIMEDOUT : -ENOENT;
    for (unsigned i = 0; at && i < OBJECTS_MAX && result == -ENOENT;
         i++, at = (uintptr_t)map.l_next) {
        if (peek(at, &map, sizeof(map)) != 0)
            break;
        result = find_in_object(map.l_addr, (uintptr_t)map.l_ld, name, address, size);
    }
    /* Programs export few symbols; their files often name the rest. */
    at = first;
    for (unsigned i = 0; at && i < OBJECTS_MAX && result == -ENOENT;
         i++, at = (uintptr_t)map.l_next) {
        if (peek(at, &map, sizeof(map)) != 0 ||
            peek_string((uintptr_t)map.l_name, path, sizeof(path)) != 0)
            break;
        result = find_in_file(at == first ? program : path, map.l_addr, name, address, size);
    }
    return result;
}

/* Waits until the task has loaded its libraries or ended. Acquire pairs with the agent's release
 * store: the link maps are complete for us, too. */
static void wait_until_loaded(struct space *space, struct space_slot *slot, int id)
{
    uint64_t deadline = futex_deadline(LOAD_TIMEOUT_MS);
    while (!atomic_load_explicit(&slot->loaded, memory_order_acquire) &&
           slot_find(space, id) == slot && slot_state(slot) <= SLOT_RUNNING &&
           futex_now_ns() < deadline)
        futex_wait(&slot->loaded, 0, futex_deadline(LOAD_SLICE_MS));
}

/* Holds the memory of a task that has ended, so that it stays mapped during the search. */
static int find_in_ended(struct space *space, struct space_slot *slot, int id, const char *symbol,
                         void **address, size_t *size)
{
    if (slot == &space->slots[0] || hold_take(space, slot, space_self()) != 0)
        return -ESRCH;
    int result = slot_find(space, id) == slot ? find_in_task(slot, symbol, address, size) : -ESRCH;
    (void)hold_release(space, slot, space_self());
    return result;
}

static int look_up(int id, const char *symbol, void **address, size_t *size)
{
    struct space *space = space_mine();
    if (!space)
        return -EPERM;
    if (!symbol || !*symbol || !address)
        return -EINVAL;
    struct space_slot *slot = slot_find(space, id);
    if (!slot)
        return -ESRCH;
    int result = force_libc_locking();
    if (result < 0)
        return result;
    if (slot_is_alive(slot_state(slot)) && slot != &space->slots[0])
        wait_until_loaded(space, slot, id); /* earlier, a later library's symbol could be found */
    if (!slot_is_alive(slot_state(slot)))
        return find_in_ended(space, slot, id, symbol, address, size);
    return slot_find(space, id) == slot ? find_in_task(slot, symbol, address, size) : -ESRCH;
}

int onespace_lookup(int id, const char *symbol, void **address, size_t *size)
{
    int cancel_state; /* as in onespace_spawn */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    int result = look_up(id, symbol, address, size);
    pthread_setcancelstate(cancel_state, NULL);
    return result;
}
