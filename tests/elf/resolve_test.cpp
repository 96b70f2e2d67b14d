// tests/elf/resolve_test.cpp: elf_resolve from a typed name to the program, and its refusals.
#include "files.hpp"

#include "failing_malloc.hpp"

#include <fstream>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/xattr.h>

using files::Bytes;
using files::Descriptor;

namespace
{

using Strings = std::vector<std::string>;

struct Resolved {
    int status;
    elf_problem problem;
    std::string path, interpreter;
    Strings argv;
    std::string reason() const
    {
        return problem.reason;
    }
};

class elf_resolve_real : public files::Directory
{
  protected:
    // Resolves argv[0] relative to `dirfd`.
    Resolved resolve(const Strings &argv, const char *path = nullptr, int dirfd = AT_FDCWD)
    {
        std::vector<char *> pointers;
        for (const std::string &argument : argv)
            pointers.push_back(const_cast<char *>(argument.c_str()));
        pointers.push_back(nullptr);
        elf_program program;
        std::memset(&program, 0x5a, sizeof(program));
        elf_program untouched = program;
        Resolved resolved{};
        resolved.status =
            elf_resolve(dirfd, pointers[0], pointers.data(), path, &program, &resolved.problem);
        if (resolved.status != 0) {
            EXPECT_EQ(resolved.problem.error, -resolved.status);
            EXPECT_NE(resolved.reason(), "");
            EXPECT_NE(std::string(resolved.problem.fix), "");
            EXPECT_EQ(std::memcmp(&program, &untouched, sizeof(program)), 0);
            return resolved;
        }
        resolved.path = program.path;
        resolved.interpreter = program.interpreter_path;
        for (char **at = program.argv; *at != nullptr; at++)
            resolved.argv.push_back(*at);
        elf_program_free(&program);
        return resolved;
    }
    // The same without root's rights.
    Resolved resolve_as_user(const Strings &argv, const char *path = nullptr)
    {
        bool privileged = geteuid() == 0;
        EXPECT_TRUE(!privileged || seteuid(65534) == 0);
        Resolved resolved = resolve(argv, path);
        EXPECT_TRUE(!privileged || seteuid(0) == 0);
        return resolved;
    }
};

std::string real(const char *path)
{
    return std::filesystem::canonical(path);
}

TEST_F(elf_resolve_real, takes_a_path_as_it_stands)
{
    std::string path = program("program");
    Resolved resolved = resolve({path, "one", ""});
    ASSERT_EQ(resolved.status, 0) << resolved.reason();
    EXPECT_EQ(resolved.path, path);
    EXPECT_EQ(resolved.interpreter, real("/lib64/ld-linux-x86-64.so.2"));
    EXPECT_EQ(resolved.argv, (Strings{path, "one", ""}));
}

TEST_F(elf_resolve_real, accepts_a_static_pie)
{
    std::string path = compile("static", "-static-pie -fPIE");
    if (path.empty())
        GTEST_SKIP() << "no static C library";
    Resolved resolved = resolve({path});
    ASSERT_EQ(resolved.status, 0) << resolved.reason();
    EXPECT_EQ(resolved.interpreter, "");
}

TEST_F(elf_resolve_real, accepts_a_musl_program)
{
    std::string path = compile("musl", "-fPIE -pie", "int main(void) { return 0; }", "musl-gcc");
    if (path.empty())
        GTEST_SKIP() << "no musl-gcc";
    Resolved resolved = resolve({path});
    ASSERT_EQ(resolved.status, 0) << resolved.reason();
    EXPECT_NE(resolved.interpreter.find("musl"), std::string::npos);
}

TEST_F(elf_resolve_real, follows_links_and_keeps_the_typed_name)
{
    std::string path = program("bin/program");
    std::filesystem::create_symlink("bin/program", at("link"));
    Resolved resolved = resolve({at("link"), "x"});
    ASSERT_EQ(resolved.status, 0) << resolved.reason();
    EXPECT_EQ(resolved.path, path);
    EXPECT_EQ(resolved.argv, (Strings{at("link"), "x"}));
}

TEST_F(elf_resolve_real, gives_an_empty_vector_one_empty_string)
{
    std::string path = program("program");
    char *none[] = {nullptr};
    for (char **argv : {static_cast<char **>(none), static_cast<char **>(nullptr)}) {
        elf_program found;
        ASSERT_EQ(elf_resolve(AT_FDCWD, path.c_str(), argv, nullptr, &found, nullptr), 0);
        EXPECT_STREQ(found.argv[0], "");
        EXPECT_EQ(found.argv[1], nullptr);
        elf_program_free(&found);
    }
}

TEST_F(elf_resolve_real, does_without_a_problem)
{
    elf_program found;
    char *none[] = {nullptr};
    EXPECT_EQ(elf_resolve(AT_FDCWD, "/no/such", none, nullptr, &found, nullptr), -ENOENT);
}

TEST_F(elf_resolve_real, takes_a_path_relative_to_the_directory)
{
    std::string path = program("bin/program");
    Descriptor dirfd(directory, O_RDONLY | O_DIRECTORY);
    Resolved resolved = resolve({"bin/program"}, nullptr, dirfd);
    ASSERT_EQ(resolved.status, 0) << resolved.reason();
    EXPECT_EQ(resolved.path, path);
    EXPECT_EQ(resolved.argv, (Strings{"bin/program"}));
}

// PATH

TEST_F(elf_resolve_real, has_a_default_path)
{
    Resolved resolved = resolve({"sh"});
    ASSERT_EQ(resolved.status, 0) << resolved.reason();
    EXPECT_EQ(resolved.path, real("/bin/sh"));
}

TEST_F(elf_resolve_real, takes_relative_and_empty_path_elements_from_the_directory)
{
    std::string inner = program("bin/inner"), outer = program("outer");
    Descriptor dirfd(directory, O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(resolve({"inner"}, "no:bin", dirfd).path, inner);
    for (const char *path : {"", ":no", "no:", "no::no"})
        EXPECT_EQ(resolve({"outer"}, path, dirfd).path, outer) << path;
}

// A PATH that another user set up: what lies in there is unknown, and not "found".
TEST_F(elf_resolve_real, finds_nothing_where_it_may_not_search)
{
    std::filesystem::create_directories(at("closed"));
    ASSERT_EQ(chmod(at("closed").c_str(), 0), 0);
    Resolved resolved = resolve_as_user({"no-such-program"}, at("closed").c_str());
    EXPECT_EQ(resolved.status, -ENOENT);
    EXPECT_EQ(resolved.reason(), "was not found in PATH");
    chmod(at("closed").c_str(), 0700); // so that a user can remove it
}

struct Case {
    const char *name, *make, *typed, *path;
    int status;
    const char *part; // of the reason; on success the program that was found
};

// '@' stands for the directory in all strings.
class elf_resolve_case : public elf_resolve_real, public testing::WithParamInterface<Case>
{
};

TEST_P(elf_resolve_case, is_found_or_refused_with_the_reason)
{
    make(GetParam().make);
    Resolved resolved = resolve({expand(GetParam().typed)}, expand(GetParam().path).c_str());
    EXPECT_EQ(resolved.status, GetParam().status);
    if (resolved.status != 0)
        EXPECT_REASON(resolved, expand(GetParam().part));
    else
        EXPECT_EQ(resolved.path, expand(GetParam().part));
}

Case found(const char *name, const char *make, const char *path, const char *program)
{
    return {name, make, "program", path, 0, program};
}

Case not_found(const char *name, const char *make, const char *path, int status, const char *part)
{
    return {name, make, "program", path, status, part};
}

Case refused(const char *name, const char *make, const char *typed, int status,
             const char *part = "")
{
    return {name, make, typed, "", status, part};
}

const std::string LongName(NAME_MAX + 1, 'x'), LongPart = "/" + LongName;
const std::string LongPath = "/" + std::string(PATH_MAX, 'x');
const std::string LongElement = "/" + std::string(2 * PATH_MAX, 'x') + ":@/bin";

INSTANTIATE_TEST_SUITE_P(
    search, elf_resolve_case,
    testing::Values(
        found("in_order", "pie second/program; pie third/program", "@/first:@/second:@/third",
              "@/second/program"),
        found("behind_not_executable", "data first/program; pie second/program", "@/first:@/second",
              "@/second/program"),
        found("behind_without_its_interpreter",
              "script first/program '#!/no/such/interpreter'; pie second/program",
              "@/first:@/second", "@/second/program"),
        found("behind_a_file", "data file; pie second/program", "@/file:@/second",
              "@/second/program"),
        found("behind_an_element_that_is_too_long", "pie bin/program", LongElement.c_str(),
              "@/bin/program"),
        not_found("not_executable", "data first/program", "@/first:@/second", -EACCES,
                  "was found as @/first/program, which is not executable"),
        not_found("directory_of_the_name", "mkdir first/program", "@/first", -EACCES,
                  "is a directory"),
        not_found("without_its_interpreter", "script first/program '#!/no/such/interpreter'",
                  "@/first:@/second", -ENOENT, "runs /no/such/interpreter, which does not exist"),
        not_found("stops_at_what_cannot_be_a_task", "fixed first/program; pie second/program",
                  "@/first:@/second", -ENOEXEC, ""),
        not_found("nothing", "data file", "@:@/file", -ENOENT, "was not found in PATH")),
    files::by_name);

INSTANTIATE_TEST_SUITE_P(
    refused, elf_resolve_case,
    testing::Values(
        refused("empty_name", "", "", -ENOENT),
        refused("too_long_name", "", LongName.c_str(), -ENAMETOOLONG),
        refused("too_long_path", "", LongPath.c_str(), -ENAMETOOLONG),
        refused("too_long_part", "", LongPart.c_str(), -ENAMETOOLONG),
        refused("missing", "", "@/nothing", -ENOENT, "does not exist"),
        refused("below_what_is_missing", "", "@/nothing/x", -ENOENT),
        refused("below_a_file", "data file", "@/file/x", -ENOTDIR),
        refused("directory", "", "@", -EACCES, "is a directory"),
        refused("fifo", "mkfifo -m 755 fifo", "@/fifo", -EACCES, "is not a regular file"),
        refused("device", "", "/dev/null", -EACCES), refused("terminal", "", "/dev/tty", -EACCES),
        refused("empty_file", ": >empty; chmod 755 empty", "@/empty", -ENOEXEC, "is empty"),
        refused("not_executable", "pie program; chmod 644 program", "@/program", -EACCES,
                "is not executable by this user"),
        refused("loop_of_links", "ln -s loop loop", "@/loop", -ELOOP),
        refused("fixed", "fixed program", "@/program", -ENOEXEC, "is not position independent"),
        refused("truncated", "pie program; truncate -s 700 program", "@/program", -ELIBBAD),
        refused("setuid", "pie program; chmod 4755 program", "@/program", -EPERM, "is setuid"),
        refused("setgid", "pie program; chmod 2755 program", "@/program", -EPERM, "is setgid"),
        refused("missing_interpreter", "pie program -Wl,--dynamic-linker=/no/such/ld.so",
                "@/program", -ENOENT, "needs the interpreter /no/such/ld.so, which does not exist"),
        refused("fixed_interpreter", "fixed ld.so; pie program -Wl,--dynamic-linker=$PWD/ld.so",
                "@/program", -ENOEXEC, "needs the interpreter @/ld.so, which is not position"),
        refused("script_as_interpreter",
                "script ld.so '#!/bin/sh'; pie program -Wl,--dynamic-linker=$PWD/ld.so",
                "@/program", -ENOEXEC),
        refused("interpreter_not_executable",
                "data ld.so; pie program -Wl,--dynamic-linker=$PWD/ld.so", "@/program", -EACCES),
        refused("shared_library_with_an_entry",
                "cc -o lib.so source.c -shared -fPIC -Wl,-e,main -Wl,--no-as-needed -lm",
                "@/lib.so", -ENOEXEC, "is a shared library"),
        refused("valgrind", "pie valgrind", "@/valgrind", -ENOEXEC, "non-PIE"),
        refused("link_to_valgrind", "pie valgrind; ln -s valgrind checker", "@/checker", -ENOEXEC,
                "non-PIE"),
        refused("script_of_itself", "script script \"#!$PWD/script\"", "@/script", -ELOOP),
        refused("script_without_interpreter", "printf '#!' >script; chmod 755 script", "@/script",
                -EACCES, "names no interpreter"),
        refused("script_of_a_fixed_program", "fixed fixed; script script \"#!$PWD/fixed\"",
                "@/script", -ENOEXEC, "runs @/fixed, which is not position independent")),
    files::by_name);

TEST_F(elf_resolve_real, finds_no_valgrind_where_there_is_none)
{
    EXPECT_EQ(resolve({"valgrind"}, at("elsewhere").c_str()).status, -ENOENT);
}

TEST_F(elf_resolve_real, refuses_a_file_that_may_not_be_read)
{
    std::string path = program("program");
    ASSERT_EQ(chmod(path.c_str(), 0111), 0);
    Resolved resolved = resolve_as_user({path});
    EXPECT_EQ(resolved.status, -EACCES);
    EXPECT_EQ(resolved.reason(), "may not be read by this user");
}

// A private mount namespace. An ordinary user needs a user namespace for it, in which no file can
// be created before its owner is mapped there.
static bool own_mounts()
{
    auto uid = getuid();
    auto gid = getgid();
    if (unshare(CLONE_NEWNS) == 0)
        return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << uid << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << gid << " 1";
    return true;
}

TEST_F(elf_resolve_real, refuses_a_file_system_without_execution)
{
    std::filesystem::create_directories(at("mount"));
    if (!own_mounts())
        GTEST_SKIP() << "no right to make a mount namespace";
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", at("mount").c_str(), "tmpfs", MS_NOEXEC, nullptr) != 0)
        GTEST_SKIP() << "no right to mount";
    Resolved resolved = resolve({program("mount/program")});
    umount(at("mount").c_str());
    EXPECT_EQ(resolved.status, -EACCES);
    EXPECT_REASON(resolved, "noexec");
}

TEST_F(elf_resolve_real, refuses_a_file_that_was_deleted)
{
    std::string path = program("program");
    Descriptor fd(path);
    ASSERT_EQ(unlink(path.c_str()), 0);
    Resolved resolved = resolve({"/proc/self/fd/" + std::to_string(fd)});
    // The descriptor leads to it, but its interpreter could not open it by any name.
    EXPECT_EQ(resolved.status, -ENOENT);
    EXPECT_REASON(resolved, "has no path");
}

TEST_F(elf_resolve_real, ignores_setgid_without_group_execution)
{
    std::string path = program("program");
    ASSERT_EQ(chmod(path.c_str(), 02745), 0);
    EXPECT_EQ(resolve({path}).status, 0);
}

TEST_F(elf_resolve_real, ignores_setuid_of_a_script)
{
    std::string path = script("script", "#!/bin/sh");
    ASSERT_EQ(chmod(path.c_str(), 04755), 0);
    EXPECT_EQ(resolve({path}).status, 0);
}

TEST_F(elf_resolve_real, refuses_file_capabilities)
{
    std::string path = program("program");
    vfs_cap_data capabilities{};
    capabilities.magic_etc = VFS_CAP_REVISION_2;
    capabilities.data[0].permitted = 1u << CAP_NET_RAW;
    if (setxattr(path.c_str(), "security.capability", &capabilities, XATTR_CAPS_SZ_2, 0) != 0)
        GTEST_SKIP() << "no right to set file capabilities here";
    Resolved resolved = resolve({path});
    EXPECT_EQ(resolved.status, -EPERM);
    EXPECT_REASON(resolved, "has file capabilities");
}

TEST_F(elf_resolve_real, takes_a_relative_interpreter_from_the_directory)
{
    std::filesystem::create_symlink("/lib64/ld-linux-x86-64.so.2", at("ld.so"));
    compile("program", "-Wl,--dynamic-linker=ld.so");
    Descriptor dirfd(directory, O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(resolve({"./program"}, nullptr, dirfd).interpreter,
              real("/lib64/ld-linux-x86-64.so.2"));
}

struct Sanitized {
    const char *name, *compiler, *options;
    bool accepted;
};

class elf_resolve_sanitizer : public elf_resolve_real, public testing::WithParamInterface<Sanitized>
{
};

TEST_P(elf_resolve_sanitizer, is_judged_by_its_memory)
{
    std::string path =
        compile("program", std::string("-fPIE -pie ") + GetParam().options,
                "int main(int count, char **v) { return v[0][count] + 1; }", GetParam().compiler);
    if (path.empty())
        GTEST_SKIP() << GetParam().compiler << " " << GetParam().options << " does not link here";
    Resolved resolved = resolve({path});
    EXPECT_EQ(resolved.status, GetParam().accepted ? 0 : -ENOEXEC) << resolved.reason();
    if (!GetParam().accepted) {
        EXPECT_REASON(resolved, "-fsanitize=");
    }
}

INSTANTIATE_TEST_SUITE_P(
    each, elf_resolve_sanitizer,
    testing::Values(
        Sanitized{"gcc_address", "gcc", "-fsanitize=address", false},
        Sanitized{"gcc_address_static", "gcc", "-fsanitize=address -static-libasan", false},
        Sanitized{"gcc_thread", "gcc", "-fsanitize=thread", false},
        Sanitized{"gcc_thread_static", "gcc", "-fsanitize=thread -static-libtsan", false},
        Sanitized{"gcc_undefined", "gcc", "-fsanitize=undefined", true},
        Sanitized{"clang_address", "clang", "-fsanitize=address", false},
        Sanitized{"clang_address_shared", "clang", "-fsanitize=address -shared-libsan", false},
        Sanitized{"clang_thread", "clang", "-fsanitize=thread", false},
        Sanitized{"clang_memory", "clang", "-fsanitize=memory", false},
        Sanitized{"clang_undefined", "clang", "-fsanitize=undefined", true}),
    files::by_name);

// Scripts

TEST_F(elf_resolve_real, puts_the_interpreter_before_the_script)
{
    std::string path = script("script", "#!/bin/sh");
    Resolved resolved = resolve({path, "one"});
    ASSERT_EQ(resolved.status, 0) << resolved.reason();
    EXPECT_EQ(resolved.path, real("/bin/sh"));
    EXPECT_EQ(resolved.argv, (Strings{"/bin/sh", path, "one"}));
}

TEST_F(elf_resolve_real, keeps_the_scripts_one_argument_whole)
{
    std::string path = script("script", "#! /bin/sh \t-e  -u \t");
    EXPECT_EQ(resolve({path, "one"}).argv, (Strings{"/bin/sh", "-e  -u", path, "one"}));
}

TEST_F(elf_resolve_real, looks_for_the_program_of_env_itself)
{
    std::string path = script("script", "#!/usr/bin/env tool"), tool = program("bin/tool");
    std::filesystem::create_directories(at("first/tool")); // no program
    Resolved resolved = resolve({path, "one"}, (at("first") + ":" + at("bin")).c_str());
    ASSERT_EQ(resolved.status, 0) << resolved.reason();
    EXPECT_EQ(resolved.path, tool);
    EXPECT_EQ(resolved.argv, (Strings{"tool", path, "one"}));
}

TEST_F(elf_resolve_real, leaves_to_env_what_is_more_than_a_name)
{
    program("bin/tool");
    for (std::string more : {"missing", "-S tool -x", "A=1 tool", "tool -x"}) {
        std::string path = script("script", "#!/usr/bin/env " + more);
        EXPECT_EQ(resolve({path}, at("bin").c_str()).argv, (Strings{"/usr/bin/env", more, path}))
            << more;
    }
}

TEST_F(elf_resolve_real, names_the_script_as_it_was_found)
{
    script("bin/script", "#!/bin/sh");
    Descriptor dirfd(directory, O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(resolve({"script"}, "bin", dirfd).argv, (Strings{"/bin/sh", "bin/script"}));
}

TEST_F(elf_resolve_real, takes_a_relative_script_interpreter_from_the_directory)
{
    std::string path = program("tool");
    script("script", "#!tool");
    Descriptor dirfd(directory, O_RDONLY | O_DIRECTORY);
    Resolved resolved = resolve({"./script"}, nullptr, dirfd);
    EXPECT_EQ(resolved.path, path);
    EXPECT_EQ(resolved.argv, (Strings{"tool", "./script"}));
}

TEST_F(elf_resolve_real, follows_five_script_lines_and_no_more)
{
    script("script1", "#!/bin/sh -1");
    Strings expected = {"/bin/sh", "-1", at("script1")};
    for (int i = 2; i <= ELF_SCRIPT_DEPTH + 1; i++) {
        std::string number = std::to_string(i);
        script("script" + number, "#!" + at("script" + std::to_string(i - 1)) + " -" + number);
        expected.push_back("-" + number);
        expected.push_back(at("script" + number));
    }
    expected.resize(expected.size() - 2);
    Resolved resolved = resolve({at("script5")});
    ASSERT_EQ(resolved.status, 0) << resolved.reason();
    EXPECT_EQ(resolved.argv, expected);
    EXPECT_EQ(resolve({at("script6")}).status, -ELOOP);
}

TEST_F(elf_resolve_real, runs_text_with_the_shell)
{
    std::string path = write("text", "echo hello\n");
    Resolved resolved = resolve({path, "one"});
    ASSERT_EQ(resolved.status, 0) << resolved.reason();
    EXPECT_EQ(resolved.path, real("/bin/sh"));
    EXPECT_EQ(resolved.argv, (Strings{"/bin/sh", path, "one"}));
}

TEST_F(elf_resolve_real, runs_a_script_with_the_shell_when_its_interpreter_is_text)
{
    std::string path = script("script", "#!" + write("text", "echo hello\n") + " -x");
    EXPECT_EQ(resolve({path, "one"}).argv, (Strings{"/bin/sh", path, "one"}));
}

TEST_F(elf_resolve_real, reports_missing_memory_wherever_it_is_missing)
{
    Strings argv = {script("script", "#!" + script("inner", "#!" + write("text", "echo\n")))};
    for (int successes = 0;; successes++) {
        ASSERT_LT(successes, 100);
        FailingMalloc failing(successes);
        Resolved resolved = resolve(argv);
        if (!failing.has_failed())
            break;
        // The search for sanitizers may fail: the program's own dynamic linker reports the error.
        EXPECT_TRUE(resolved.status == -ENOMEM || resolved.status == 0) << resolved.status;
    }
}

} // namespace
