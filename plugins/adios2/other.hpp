// plugins/adios2/other.hpp: another engine of ADIOS2 in place of the space.
#pragma once

#include "parameters.hpp"
#include "ranks.hpp"

#include <adios2.h>

#include <string>

namespace onespace_adios
{

// Opens `stream` with the engine that the parameter Fallback names, in the same IO, so that the
// program's variables are its own. Interoperates with programs that have chosen that engine.
class Other
{
  public:
    Other(adios2::IO program_io, const std::string &stream, adios2::Mode mode,
          const Parameters &parameters, const Ranks &ranks);

    adios2::Engine engine;
    adios2::IO io;

    adios2::MinVarInfo *blocks(const std::string &variable, size_t step);

  private:
    template <class T> adios2::MinVarInfo *blocks_of(const std::string &name, size_t step);
    // What a MinVarInfo points to, until the next one.
    std::vector<adios2::Dims> numbers;
    std::vector<std::string> texts;
    std::vector<const char *> characters;
    std::vector<std::vector<unsigned char>> values;
};

} // namespace onespace_adios
