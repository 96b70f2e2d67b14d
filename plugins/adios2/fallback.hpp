// plugins/adios2/fallback.hpp: streams whose ends are not in one space: another engine of ADIOS2
// serves them, and a contact file tells readers outside the space where the writer is.
#pragma once

#include "configuration.hpp"

#include <adios2.h>

#include <string>
#include <vector>

namespace onespace_adios
{

// The engine that the parameter Fallback names, opened in the program's IO, so that the program's
// variables are its own. Interoperates with programs that have chosen that engine.
class FallbackEngine
{
  public:
    FallbackEngine(adios2::IO program_io, const std::string &stream, adios2::Mode mode,
                   const Parameters &parameters, const Ranks &ranks);

    adios2::MinVarInfo *blocks(const std::string &variable, size_t step);

    adios2::Engine engine;

  private:
    template <class T> adios2::MinVarInfo *blocks_of_type(const std::string &name, size_t step);

    adios2::IO io;
    // Referenced by the last MinVarInfo that blocks() returned.
    std::vector<adios2::Dims> dims;
    std::vector<std::string> texts;
    std::vector<const char *> text_addresses;
    std::vector<std::vector<unsigned char>> values;
};

// The file NAME.onespace, beside the NAME.sst that SST would write, from the writer's Open to its
// Close. It names the node, the writer and its space.
class ContactFile
{
  public:
    // On an error there is no file: readers outside the space then time out.
    explicit ContactFile(const std::string &stream);
    ~ContactFile();
    ContactFile(const ContactFile &) = delete;
    ContactFile &operator=(const ContactFile &) = delete;

  private:
    std::string path;
};

// Whether a live writer has a contact file. `advice` gets where the writer is and what to do.
bool find_contact(const std::string &stream, std::string *advice);
// Whether a writer has opened the stream with SST.
bool find_sst(const std::string &stream);

} // namespace onespace_adios
