// plugins/adios2/reader.hpp: the reading end of a stream in a space.
#pragma once

#include "configuration.hpp"
#include "step.hpp"

#include <adios2.h>
#include <onespace/insitu.h>

#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace onespace_adios
{

class Reader
{
  public:
    // Opens the channel within OpenTimeoutSecs. Meanwhile it calls `why_not_in_space`; a reason
    // that is not empty ends the wait with NotInSpace. Other failures throw std::runtime_error.
    // `readers` must outlive the object.
    Reader(adios2::IO program_io, const std::string &stream, const Parameters &parameters,
           const Ranks &readers, const std::function<std::string()> &why_not_in_space);
    ~Reader();

    adios2::StepStatus begin_step(adios2::StepMode mode, float timeout_s);
    void end_step();
    size_t current_step() const
    {
        return reads_first_step ? 0 : step.step;
    }
    void get(const Request &request, void *values, bool is_deferred);
    void perform_gets();
    adios2::MinVarInfo *blocks(const std::string &variable);
    void close();

  private:
    // A block of the step, of one writer.
    struct BlockRef {
        const Block *block;
        Loan *loan; // NULL: the block is of this reader (AddressVariable)
        unsigned writer;
        Dims start, count; // in the array; in a joined array, where the block is placed
        bool has_statistics = false;
        alignas(16) unsigned char min[16], max[16];
    };
    // The addresses of an array's blocks, which Addresses="on" shows as another variable.
    struct AddressVariable {
        std::string name;
        std::vector<uint64_t> addresses;
        uint64_t count;
        Block block;
    };
    // A variable of the step, and its definition in the program's IO.
    struct VariableState {
        Element element = Element::none;
        size_t element_bytes = 0;
        Shape shape_kind = Shape::global_value; // as written
        Dims shape;                             // as a global array
        std::vector<BlockRef> blocks;
        bool is_defined = false; // in the program's IO
        Dims defined_shape;
        std::unique_ptr<AddressVariable> address_variable;
    };
    struct DeferredGet {
        Request request;
        void *values;
    };

    // Open and steps (reader.cpp).
    void open_channels(const Parameters &parameters,
                       const std::function<std::string()> &why_not_in_space);
    void verify_abi(const Control &shown) const;
    void arrive(Control &shown) const;
    adios2::StepStatus take_step(int timeout_ms);
    adios2::StepStatus take_common_step(int timeout_ms);
    bool begin_first_step();
    void release_control();
    [[noreturn]] void fail(const char *call, const std::string &reason) const;

    // The variables of a step (reader_variables.cpp).
    void read_variables();
    void find_parts();
    void add_block(const Block &block, unsigned writer, Loan *loan);
    void compute_shape(VariableState &variable);
    void define(const std::string &variable_name, VariableState &variable);
    template <class T> void define_type(const std::string &variable_name, VariableState &variable);
    void undefine(const std::string &variable_name, VariableState &variable);
    void define_attributes(const Part &part);
    void add_address_variables();
    static const Block &address_block(const std::string &variable_name, VariableState &variable);

    // Data (reader_get.cpp).
    void copy(const Request &request, void *values);
    void verify_dimensions(const Request &request, const std::string &box, const Dims &start,
                           const Dims &count, size_t dimensions) const;
    void verify_limits(const Request &request, const std::string &box, const Dims &start,
                       const Dims &count, const Dims &limits) const;
    void verify_selection(const Request &request, const Dims &shape) const;
    void verify_memory(const Request &request, const Dims &count) const;
    void copy_values(const VariableState &variable, const Request &request, void *values);
    void copy_block(const VariableState &variable, const Request &request, void *values);
    void copy_selected_box(const VariableState &variable, const Request &request, void *values);
    void compute_statistics(const VariableState &variable, BlockRef &block) const;

    adios2::IO io;
    const std::string name;
    const Ranks &ranks;
    const bool has_statistics, shows_addresses, takes_latest;
    Polling polling;
    onespace_insitu *channel = nullptr, *control_channel = nullptr;
    onespace_insitu_step step = {};
    bool has_next = false; // `step` was taken for a later BeginStep
    // FirstTimestepPrecious: the writer's control, and the step of its channel that is held.
    const Control *control = nullptr;
    onespace_insitu_step control_step = {};
    bool reads_first_step = false, has_read_first_step = false; // by the control
    std::map<std::string, VariableState, std::less<>> variables;
    std::vector<DeferredGet> deferred;
    std::vector<const Part *> parts;          // of this step, by writer
    std::vector<uint64_t> attribute_versions; // of the last step, by writer
    bool in_step = false, is_over = false;
};

} // namespace onespace_adios
