// tests/elf/script_test.cpp: the #! line, each case also put to the running kernel.
#include "files.hpp"

#include <spawn.h>
#include <sys/wait.h>

extern "C" {
#include "elf/internal.h"
}

using files::Bytes;

extern char **environ;

namespace
{

struct Parsed {
    bool is_script;
    elf_script_line line;
};

Parsed parse(const Bytes &text)
{
    Parsed parsed{};
    parsed.is_script = elf_parse_script_line(text.data(), text.size(), &parsed.line);
    return parsed;
}

TEST(script_line, splits_interpreter_and_argument)
{
    Parsed parsed = parse("#! \t/bin/sh \t-e  -u\t \nmore\n");
    ASSERT_TRUE(parsed.is_script);
    EXPECT_STREQ(parsed.line.interpreter, "/bin/sh");
    EXPECT_TRUE(parsed.line.has_argument);
    EXPECT_STREQ(parsed.line.argument, "-e  -u");
}

TEST(script_line, has_no_argument_behind_trailing_blanks)
{
    Parsed parsed = parse("#!/bin/sh \t \n");
    ASSERT_TRUE(parsed.is_script);
    EXPECT_FALSE(parsed.line.has_argument);
    EXPECT_STREQ(parsed.line.argument, "");
}

TEST(script_line, needs_the_mark)
{
    for (const char *text : {"", "#", "!#/bin/sh\n", "# !/bin/sh\n", " #!/bin/sh\n"})
        EXPECT_FALSE(parse(text).is_script) << text;
}

TEST(script_line, needs_an_interpreter)
{
    for (const char *text : {"#!\n", "#! \t\n"})
        EXPECT_FALSE(parse(text).is_script) << text;
    EXPECT_FALSE(parse("#!" + Bytes(400, ' ') + "/bin/sh\n").is_script);
}

TEST(script_line, needs_a_whole_interpreter)
{
    EXPECT_FALSE(parse("#!/" + Bytes(300, 'x') + "\n").is_script);
    EXPECT_FALSE(parse("#!/" + Bytes(253, 'x')).is_script);
    EXPECT_TRUE(parse("#!/" + Bytes(252, 'x') + "\n").is_script);
}

TEST(script_line, cuts_an_argument_that_is_too_long)
{
    Parsed parsed = parse("#!/bin/sh " + Bytes(300, 'x') + "\n");
    ASSERT_TRUE(parsed.is_script);
    EXPECT_EQ(std::strlen(parsed.line.argument), 245u);
}

// The interpreter prints its arguments, and those that the kernel passes to it are compared.
class script_line_kernel : public files::Directory
{
  protected:
    void SetUp() override
    {
        Directory::SetUp();
        shower = compile("i", "", R"(
            #include <stdio.h>
            int main(int count, char **v)
            {
                for (int i = 0; i < count; i++)
                    printf("[%s]", v[i]);
                return 0;
            })");
        ASSERT_NE(shower, "");
    }

    // The program's output, or the error of execve as a number.
    std::string run(const std::string &path) const
    {
        int ends[2];
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
        char word[] = "word", *argv[] = {const_cast<char *>(path.c_str()), word, nullptr};
        pid_t pid;
        int error = posix_spawn(&pid, path.c_str(), &actions, nullptr, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        close(ends[1]);
        std::string text;
        char buffer[512];
        for (ssize_t count; (count = read(ends[0], buffer, sizeof(buffer))) > 0;)
            text.append(buffer, static_cast<size_t>(count));
        close(ends[0]);
        if (error != 0)
            return std::to_string(error);
        waitpid(pid, nullptr, 0);
        return text;
    }

    std::string expected(const std::string &path, const Bytes &text) const
    {
        Parsed parsed = parse(text);
        if (!parsed.is_script)
            return std::to_string(ENOEXEC);
        if (parsed.line.interpreter[0] == '\0')
            return std::to_string(EACCES); // the kernel opens the working directory
        if (parsed.line.interpreter != shower)
            return std::to_string(ENOENT);
        std::string argument = parsed.line.argument;
        return "[" + shower + "]" + (parsed.line.has_argument ? "[" + argument + "]" : "") + "[" +
               path + "][word]";
    }

    std::string shower;
};

TEST_F(script_line_kernel, agrees)
{
    const Bytes start = "#!" + shower;
    const Bytes zero(1, '\0');
    const size_t room = ELF_SCRIPT_LINE - start.size();
    std::vector<Bytes> texts = {start,
                                start + "\n",
                                start + " ",
                                start + " \n",
                                start + "\t\t",
                                start + " a",
                                start + " a\n",
                                start + " a ",
                                start + " a \n",
                                start + " a b\t\nrest\n",
                                "#! \t " + shower + "\ta\n",
                                start + zero + " a\n",
                                start + " a" + zero + "b\n",
                                start + " " + zero + "\n",
                                start + " a b" + zero,
                                "#!",
                                "#!\n",
                                "#! ",
                                "#! \n",
                                "#!" + zero,
                                "#!  " + zero + "\n",
                                "#!\n" + shower + "\n",
                                start + " " + Bytes(400, 'x') + "\n",
                                start + Bytes(400, ' '),
                                start + Bytes(400, ' ') + "\n",
                                "#!" + Bytes(400, ' ') + shower + "\n",
                                start + "\r\n",
                                start + "\nx" + zero,
                                start + " '\"a\\ b\"'\n"};
    for (size_t length = room - 4; length <= room + 2; length++) {
        texts.push_back(start + " " + Bytes(length - 1, 'x'));
        texts.push_back(start + " " + Bytes(length - 1, 'x') + "\n");
        texts.push_back(start + Bytes(length, ' '));
        texts.push_back(start + Bytes(length, ' ') + "\n");
        texts.push_back(start + Bytes(length, ' ') + "x");
        texts.push_back(start + Bytes(length, ' ') + "x\n");
        texts.push_back("#!" + Bytes(length, ' ') + shower + "\n");
        texts.push_back(start + Bytes(length, 'x') + "\n");
        texts.push_back(start + Bytes(length, 'x'));
    }
    for (const Bytes &text : texts) {
        std::string path = write("script", text);
        EXPECT_EQ(expected(path, text), run(path)) << testing::PrintToString(text);
    }
}

} // namespace
