// tests/elf/map_test.cpp: elf_map's pages, protections and zeroes, and that nothing is left on
// failure.
#include "files.hpp"

#include <algorithm>

using files::Bytes;
using files::Crafted;
using files::Descriptor;

namespace
{

const char LINKER[] = "/lib64/ld-linux-x86-64.so.2";

struct Area {
    uintptr_t low, high;
    int prot;
};

// The lines of /proc/self/maps for [low, high), clipped to it.
std::vector<Area> areas(uintptr_t low, uintptr_t high)
{
    std::vector<Area> found;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        unsigned long from, to;
        char flags[8];
        if (std::sscanf(line.c_str(), "%lx-%lx %7s", &from, &to, flags) != 3)
            continue;
        if (from >= high || to <= low)
            continue;
        int prot = (flags[0] == 'r' ? PROT_READ : 0) | (flags[1] == 'w' ? PROT_WRITE : 0) |
                   (flags[2] == 'x' ? PROT_EXEC : 0);
        found.push_back({std::max<uintptr_t>(from, low), std::min<uintptr_t>(to, high), prot});
    }
    return found;
}

// A free address for the image: the kernel chooses it, and it is unmapped again.
uintptr_t place_for(const elf_info &info)
{
    size_t size = info.high - info.low + info.align;
    void *room = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(room, MAP_FAILED);
    munmap(room, size);
    return (reinterpret_cast<uintptr_t>(room) + info.align - 1) & ~(info.align - 1);
}

const unsigned char *memory(uintptr_t address)
{
    return reinterpret_cast<const unsigned char *>(address);
}

// A mapped image, unmapped at the end of the test.
struct Mapped {
    elf_info info{};
    elf_mapping mapping{};
    int status;

    explicit Mapped(int fd)
    {
        elf_problem problem{};
        status = elf_read(fd, &info, &problem);
        EXPECT_EQ(status, 0) << problem.reason;
        if (status == 0)
            status = elf_map(fd, &info, place_for(info), &mapping);
    }
    ~Mapped()
    {
        if (status == 0)
            munmap(reinterpret_cast<void *>(mapping.base), mapping.size);
    }
    uintptr_t end(const elf_segment &segment) const
    {
        return page_ceiling(mapping.bias + segment.vaddr + segment.memsz);
    }
};

TEST(elf_map, gives_each_segment_its_protection)
{
    Descriptor fd(LINKER);
    Mapped mapped(fd);
    ASSERT_EQ(mapped.status, 0);
    for (unsigned i = 0; i < mapped.info.segment_count; i++) {
        const elf_segment &segment = mapped.info.segments[i];
        uintptr_t low = page_floor(mapped.mapping.bias + segment.vaddr);
        uintptr_t covered = 0;
        for (const Area &area : areas(low, mapped.end(segment))) {
            EXPECT_EQ(area.prot, segment.prot) << "segment " << i;
            covered += area.high - area.low;
        }
        EXPECT_EQ(covered, mapped.end(segment) - low) << "segment " << i;
    }
}

TEST(elf_map, shows_the_bytes_of_the_file)
{
    Bytes file = files::contents(LINKER);
    Descriptor fd(LINKER);
    Mapped mapped(fd);
    ASSERT_EQ(mapped.status, 0);
    for (unsigned i = 0; i < mapped.info.segment_count; i++) {
        const elf_segment &segment = mapped.info.segments[i];
        EXPECT_EQ(std::memcmp(memory(mapped.mapping.bias + segment.vaddr),
                              file.data() + segment.offset, segment.filesz),
                  0)
            << "segment " << i;
    }
}

TEST(elf_map, zeroes_the_rest_of_a_writable_segments_last_page)
{
    Descriptor fd(LINKER);
    Mapped mapped(fd);
    ASSERT_EQ(mapped.status, 0);
    for (unsigned i = 0; i < mapped.info.segment_count; i++) {
        const elf_segment &segment = mapped.info.segments[i];
        if ((segment.prot & PROT_WRITE) == 0)
            continue;
        uintptr_t at = mapped.mapping.bias + segment.vaddr + segment.filesz;
        EXPECT_EQ(std::count(memory(at), memory(mapped.end(segment)), 0), mapped.end(segment) - at);
    }
}

TEST(elf_map, tells_where_everything_went)
{
    Crafted crafted;
    crafted.entries[Crafted::CODE].p_vaddr = 0x400000;
    crafted.entries[Crafted::DATA].p_vaddr = 0x402000;
    crafted.header.e_entry = 0x400800;
    Descriptor fd(files::memory_file(crafted.bytes()));
    Mapped mapped(fd);
    ASSERT_EQ(mapped.status, 0);
    EXPECT_EQ(mapped.mapping.bias, mapped.mapping.base - 0x400000);
    EXPECT_EQ(mapped.mapping.size, 0x4000u);
    EXPECT_EQ(mapped.mapping.entry, mapped.mapping.base + 0x800);
    EXPECT_EQ(mapped.mapping.phdr, mapped.mapping.base + sizeof(Elf64_Ehdr));
}

TEST(elf_map, gives_no_table_address_where_there_is_none)
{
    Crafted crafted;
    crafted.header.e_phoff = 0x2000;
    crafted.size = 0x3000;
    Descriptor fd(files::memory_file(crafted.bytes()));
    Mapped mapped(fd);
    ASSERT_EQ(mapped.status, 0);
    EXPECT_EQ(mapped.mapping.phdr, 0u);
}

TEST(elf_map, leaves_gaps_without_access)
{
    Descriptor fd(files::memory_file(Crafted().bytes()));
    Mapped mapped(fd);
    ASSERT_EQ(mapped.status, 0);
    std::vector<Area> gap = areas(mapped.mapping.base + 0x1000, mapped.mapping.base + 0x2000);
    ASSERT_EQ(gap.size(), 1u);
    EXPECT_EQ(gap[0].prot, PROT_NONE);
    EXPECT_EQ(gap[0].high - gap[0].low, 0x1000u);
}

TEST(elf_map, zeroes_behind_a_read_only_segment_too)
{
    Crafted crafted;
    crafted.entries[Crafted::DATA].p_flags = PF_R;
    Descriptor fd(files::memory_file(crafted.bytes()));
    Mapped mapped(fd);
    ASSERT_EQ(mapped.status, 0);
    uintptr_t data = mapped.mapping.bias + 0x2000;
    EXPECT_EQ(memory(data)[0xff], 'x');
    EXPECT_EQ(std::count(memory(data + 0x100), memory(data + 0x2000), 0), 0x1f00);
    for (const Area &area : areas(data, data + 0x2000))
        EXPECT_EQ(area.prot, PROT_READ);
}

TEST(elf_map, maps_a_segment_that_starts_within_a_page)
{
    Crafted crafted;
    crafted.entries[Crafted::DATA].p_offset = 0x1010;
    crafted.entries[Crafted::DATA].p_vaddr = 0x2010;
    crafted.entries[Crafted::DATA].p_filesz = 0x20;
    Bytes bytes = crafted.bytes();
    bytes.replace(0x1000, 0x10, Bytes(0x10, 'b'));
    Descriptor fd(files::memory_file(bytes));
    Mapped mapped(fd);
    ASSERT_EQ(mapped.status, 0);
    EXPECT_EQ(memory(mapped.mapping.bias + 0x2000)[0], 'b') << "as in a mapping of the file";
    EXPECT_EQ(memory(mapped.mapping.bias + 0x2010)[0x1f], 'x');
    EXPECT_EQ(memory(mapped.mapping.bias + 0x2010)[0x20], 0);
}

TEST(elf_map, maps_a_segment_of_zeroes_only)
{
    Crafted crafted;
    crafted.add(PT_LOAD, PF_R | PF_W, 0, 0x5123, 0, 0x2000);
    Descriptor fd(files::memory_file(crafted.bytes()));
    Mapped mapped(fd);
    ASSERT_EQ(mapped.status, 0);
    uintptr_t low = mapped.mapping.bias + 0x5000;
    EXPECT_EQ(std::count(memory(low), memory(low + 0x3000), 0), 0x3000);
}

TEST(elf_map, refuses_a_place_that_is_partly_taken)
{
    elf_info info;
    elf_mapping mapping = {1, 2, 3, 4, 5};
    Descriptor fd(LINKER);
    ASSERT_EQ(elf_read(fd, &info, nullptr), 0);
    uintptr_t place = place_for(info);
    size_t size = info.high - info.low;
    char *page = static_cast<char *>(
        mmap(reinterpret_cast<void *>(place + size - ARCH_PAGE), ARCH_PAGE, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
    ASSERT_NE(page, MAP_FAILED);
    page[7] = 'k';
    EXPECT_EQ(elf_map(fd, &info, place, &mapping), -EEXIST);
    EXPECT_EQ(page[7], 'k');
    EXPECT_EQ(areas(place, place + size).size(), 1u) << "only the page that was there";
    EXPECT_EQ(mapping.base, 1u);
    munmap(page, ARCH_PAGE);
}

TEST(elf_map, refuses_a_misaligned_place)
{
    elf_info info;
    elf_mapping mapping;
    Crafted crafted;
    crafted.entries[Crafted::CODE].p_align = 0x200000;
    Descriptor fd(files::memory_file(crafted.bytes()));
    ASSERT_EQ(elf_read(fd, &info, nullptr), 0);
    EXPECT_EQ(elf_map(fd, &info, place_for(info) + 0x1000, &mapping), -EINVAL);
    EXPECT_EQ(elf_map(fd, &info, 0, &mapping), -EINVAL);
}

TEST(elf_map, leaves_nothing_when_the_file_was_cut)
{
    elf_info info;
    elf_mapping mapping;
    Descriptor fd(files::memory_file(Crafted().bytes()));
    ASSERT_EQ(elf_read(fd, &info, nullptr), 0);
    ASSERT_EQ(ftruncate(fd, 0x1080), 0);
    uintptr_t place = place_for(info);
    EXPECT_EQ(elf_map(fd, &info, place, &mapping), -ELIBBAD);
    EXPECT_TRUE(areas(place, place + info.high - info.low).empty());
}

TEST(elf_map, leaves_nothing_when_the_file_cannot_be_mapped)
{
    elf_info info;
    elf_mapping mapping;
    Descriptor fd(LINKER), other("/proc/self", O_RDONLY | O_DIRECTORY);
    ASSERT_EQ(elf_read(fd, &info, nullptr), 0);
    uintptr_t place = place_for(info);
    EXPECT_EQ(elf_map(other, &info, place, &mapping), -ENODEV);
    EXPECT_TRUE(areas(place, place + info.high - info.low).empty());
}

TEST(elf_map, reports_addresses_that_cannot_be_reserved)
{
    elf_info info;
    elf_mapping mapping;
    Crafted crafted;
    crafted.entries[Crafted::DATA].p_memsz = UINT64_C(1) << 46;
    Descriptor fd(files::memory_file(crafted.bytes()));
    ASSERT_EQ(elf_read(fd, &info, nullptr), 0);
    EXPECT_EQ(elf_map(fd, &info, UINT64_C(0x700000000000), &mapping), -ENOMEM);
    EXPECT_EQ(elf_map(fd, &info, UINT64_C(0xfffff00000000000), &mapping), -EINVAL) << "wraps";
}

} // namespace

TEST(elf_read_image, gives_what_a_mapping_shows)
{
    Descriptor fd(LINKER);
    Mapped image(fd);
    ASSERT_EQ(image.status, 0);
    std::vector<unsigned char> loaded(image.info.high - image.info.low);
    ASSERT_EQ(elf_read_image(fd, &image.info, loaded.data()), 0);
    for (unsigned i = 0; i < image.info.segment_count; i++) {
        const elf_segment &segment = image.info.segments[i];
        EXPECT_EQ(std::memcmp(loaded.data() + (segment.vaddr - image.info.low),
                              memory(image.mapping.bias + segment.vaddr), segment.memsz),
                  0)
            << "segment " << i;
    }
}

TEST(elf_read_image, says_when_the_file_was_cut)
{
    elf_info info;
    Descriptor fd(files::memory_file(Crafted().bytes()));
    ASSERT_EQ(elf_read(fd, &info, nullptr), 0);
    ASSERT_EQ(ftruncate(fd, 0x1080), 0);
    std::vector<unsigned char> loaded(info.high - info.low);
    EXPECT_EQ(elf_read_image(fd, &info, loaded.data()), -ELIBBAD);
}
