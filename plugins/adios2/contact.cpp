// plugins/adios2/contact.cpp: writes, finds and removes a stream's contact file.
#include "contact.hpp"

#include <onespace.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
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

} // namespace

// By renaming, so that it is never half there.
Contact::Contact(const std::string &stream) : path(stream + ".onespace")
{
    std::string fresh = path + "." + std::to_string(getpid());
    std::ofstream file(fresh);
    file << host_name() << ' ' << getpid() << ' ' << onespace_pid(0) << '\n';
    file.close();
    if (!file || rename(fresh.c_str(), path.c_str()) != 0) {
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
    std::ifstream file(stream + ".onespace");
    std::string host;
    long writer = 0, root = 0;
    if (!(file >> host >> writer >> root))
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
