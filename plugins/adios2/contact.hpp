// plugins/adios2/contact.hpp: the file that tells programs outside a space where a stream is.
#pragma once

#include <string>

namespace onespace_adios
{

// NAME.onespace, beside where SST has NAME.sst: from the writer's Open to its Close.
class Contact
{
  public:
    // Best effort: without it, a reader outside the space finds out by its time limit.
    explicit Contact(const std::string &stream);
    ~Contact();
    Contact(const Contact &) = delete;
    Contact &operator=(const Contact &) = delete;

  private:
    std::string path;
};

// Whether a writer that lives has such a file; `where` says where it is, and what to do.
bool find_contact(const std::string &stream, std::string *where);
// Whether a writer by SST has its file.
bool find_sst(const std::string &stream);

} // namespace onespace_adios
