// plugins/adios2/contact.cpp: writes, finds and removes a stream's contact file.
#include "contact.hpp"

#include <onespace.h>

#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace onespace_adios
{
namespace
{

std::string host_name()
{
    char name[256] = "";
    gethostname(name, sizeof(name) - 1);
    return name;
}

// A new file under a name that another user may have guessed: what lies there is removed, never
// followed or overwritten. -1: it cannot be made.
int create_new(const std::string &path)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = open(path.c_str(), flags, 0666);
    if (fd < 0 && errno == EEXIST && unlink(path.c_str()) == 0)
        fd = open(path.c_str(), flags, 0666);
    return fd;
}

// The first line of a contact file; empty: there is none. Another user may have put anything there.
std::string read_line(const std::string &path)
{
    char text[512];
    struct stat status;
    ssize_t size = -1;
    int fd = open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return "";
    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        size = read(fd, text, sizeof(text));
    close(fd);
    return size > 0 ? std::string(text, static_cast<size_t>(size)) : "";
}

bool is_host_name(const std::string &host)
{
    for (char c : host)
        if (!isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.' && c != '_')
            return false;
    return true;
}

} // namespace

// By renaming, so that it is never half there.
Contact::Contact(const std::string &stream) : path(stream + ".onespace")
{
    std::string fresh = path + "." + std::to_string(getpid());
    std::string line =
        host_name() + ' ' + std::to_string(getpid()) + ' ' + std::to_string(onespace_pid(0)) + '\n';
    int fd = create_new(fresh);
    bool is_made = fd >= 0 && write(fd, line.data(), line.size()) == ssize_t(line.size());
    if (fd >= 0)
        close(fd);
    if (!is_made || rename(fresh.c_str(), path.c_str()) != 0) {
        if (fd >= 0)
            unlink(fresh.c_str());
        path.clear();
    }
}

Contact::~Contact()
{
    if (!path.empty())
        unlink(path.c_str());
}

bool find_contact(const std::string &stream, std::string *where)
{
    std::istringstream file(read_line(stream + ".onespace"));
    std::string host;
    long writer = 0, root = 0;
    if (!(file >> host >> writer >> root) || writer <= 0 || !is_host_name(host))
        return false;
    if (host == host_name() && kill((pid_t)writer, 0) != 0 && errno == ESRCH)
        return false; // it was killed
    *where =
        "process " + std::to_string(writer) + " on " + host +
        " writes it in the space of process " + std::to_string(root) +
        (host == host_name()
             ? ": start the reader in that space too"
             : ": start the reader there, since a space is of one node, or the writer in none");
    return true;
}

bool find_sst(const std::string &stream)
{
    struct stat status;
    return stat((stream + ".sst").c_str(), &status) == 0;
}

} // namespace onespace_adios
