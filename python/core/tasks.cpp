// python/core/tasks.cpp: membership, spawn, wait, signals and the barrier.
#include "module.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <onespace.h>
#include <onespace/call.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

using Strings = std::vector<std::string>;

namespace
{

std::string reason(int result)
{
    return std::strerror(-result);
}

int init()
{
    int id = onespace_init();
    if (id == -EPERM)
        errors::raise_errno(
            id, "this process is a forked child of a member of a space, and no member itself: "
                "use onespace in the parent, or start children with onespace.spawn");
    if (id < 0)
        errors::raise_errno(id, "cannot make a space: " + reason(id) +
                                    ": `onespace doctor` says what is missing");
    return id;
}

std::vector<char *> pointers(const Strings &strings, const char *what)
{
    std::vector<char *> result;
    for (const std::string &text : strings)
        result.push_back(const_cast<char *>(errors::c_string(text, what)));
    result.push_back(nullptr);
    return result;
}

// The signals that the caller ignores, except those that only Python ignores: as subprocess does
// with restore_signals.
sigset_t ignored_signals()
{
    sigset_t set;
    sigemptyset(&set);
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (number != SIGPIPE && number != SIGXFSZ && sigaction(number, nullptr, &action) == 0 &&
            action.sa_handler == SIG_IGN)
            sigaddset(&set, number);
    }
    return set;
}

struct Affinity { // a CPU set of any size
    std::vector<cpu_set_t> sets;
    explicit Affinity(const std::vector<int> &cpus)
    {
        for (int number : cpus) {
            if (number < 0 || number > 65535)
                errors::raise(PyExc_ValueError, "cpus: there is no CPU " + std::to_string(number));
            size_t needed = static_cast<size_t>(number) / CPU_SETSIZE + 1;
            if (sets.size() < needed)
                sets.resize(needed, cpu_set_t{});
            CPU_SET_S(static_cast<size_t>(number), sets.size() * sizeof(cpu_set_t), sets.data());
        }
    }
};

Strings strings_of(const std::vector<nb::bytes> &values)
{
    Strings result;
    for (const nb::bytes &value : values)
        result.emplace_back(value.c_str(), value.size());
    return result;
}

// Words and variables as the system has them: bytes.
int spawn(const std::vector<nb::bytes> &words,
          const std::optional<std::vector<nb::bytes>> &variables, int directory,
          const std::vector<std::pair<int, int>> &descriptors, int number, int ntasks,
          unsigned flags, const std::vector<int> &cpus)
{
    const Strings arguments = strings_of(words);
    const Strings environment = variables ? strings_of(*variables) : Strings();
    const std::string &file = arguments.at(0);
    struct onespace_spawn_attr attr = ONESPACE_SPAWN_ATTR_INIT;
    char message[1024] = "";
    init();
    std::vector<onespace_fd_map> map;
    for (auto [source, target] : descriptors)
        map.push_back({source, target});
    Affinity affinity(cpus);
    sigset_t ignored = ignored_signals();
    attr.flags = flags;
    attr.directory = directory;
    attr.fds = map.data();
    attr.fd_count = map.size();
    attr.number = number;
    attr.ntasks = ntasks;
    attr.ignored_signals = &ignored;
    attr.message = message;
    attr.message_size = sizeof(message);
    if (!affinity.sets.empty()) {
        attr.cpus = affinity.sets.data();
        attr.cpus_size = affinity.sets.size() * sizeof(cpu_set_t);
    }
    const char *path = errors::c_string(file, "the program's name");
    std::vector<char *> argv = pointers(arguments, "an argument"),
                        envp = pointers(environment, "a variable of the environment");
    int id;
    {
        GilRelease unlocked;
        id = onespace_spawn(path, argv.data(), variables ? envp.data() : nullptr, &attr);
    }
    if (id < 0)
        errors::raise_errno(id, *message ? message : file + ": cannot be started: " + reason(id));
    return id;
}

// Appends (process id, status as from waitpid, seconds in user mode, seconds in the kernel) to a
// list of the caller's, which has it even if a signal handler raises an exception before this
// returns. False after the timeout.
bool wait(int id, std::optional<double> timeout, nb::list ended)
{
    struct onespace_status status = {};
    init();
    int result = errors::wait_for(errors::Deadline(timeout),
                                  [&](int ms) { return onespace_wait(id, &status, ms); });
    if (result == -ETIMEDOUT)
        return false;
    if (result == -ECHILD)
        errors::raise_errno(
            result, "task " + std::to_string(id) +
                        " was not started by this program, or its status was already requested");
    if (result < 0)
        errors::raise_errno(result,
                            "cannot wait for task " + std::to_string(id) + ": " + reason(result));
    ended.append(nb::make_tuple(status.pid, status.status,
                                static_cast<double>(status.user_us) * 1e-6,
                                static_cast<double>(status.system_us) * 1e-6));
    return true;
}

void kill_task(int id, int number)
{
    init();
    int result = onespace_kill(id, number);
    if (result < 0)
        errors::raise_errno(result,
                            "cannot signal task " + std::to_string(id) + ": " + reason(result));
}

int numbered(int result, const char *what)
{
    if (result == -ENOENT)
        errors::raise(PyExc_LookupError, std::string("this member has no ") + what +
                                             ": start it with `onespace run -n N`, under an MPI "
                                             "launcher, or with spawn(..., number=, ntasks=)");
    return result;
}

int task_of_number(int number)
{
    init();
    int id = onespace_task(number);
    std::string name = "task number " + std::to_string(number);
    if (id == -EINVAL || id == -ESRCH)
        errors::raise(PyExc_LookupError,
                      name + (id == -EINVAL
                                  ? " does not exist among those that were started together"
                                  : " has not been started yet"));
    if (id < 0)
        errors::raise_errno(id, name + " has ended");
    return id;
}

int spawner()
{
    init();
    int id = onespace_spawner(nullptr);
    if (id == -ENOENT)
        errors::raise(PyExc_LookupError, "the root of a space was spawned by no member");
    return id;
}

void barrier(std::optional<double> timeout)
{
    init();
    int result =
        errors::wait_for(errors::Deadline(timeout), [](int ms) { return onespace_barrier(ms); });
    numbered(result, "place in a barrier");
    if (result == -ETIMEDOUT)
        errors::raise_errno(result,
                            "not all tasks that were started together reached the barrier in time");
    if (result < 0)
        errors::raise_errno(
            result, "the barrier cannot be completed: a task that was started together with this "
                    "one has ended");
}

// A Python argument of a call as a C value: an integer, None (NULL), or the address of an object
// with the buffer protocol, whose memory does not move during the call.
class Argument : private NonCopyable
{
  public:
    explicit Argument(nb::handle given)
    {
        if (given.is_none())
            return;
        if (PyLong_Check(given.ptr())) {
            int overflow = 0;
            long long number = PyLong_AsLongLongAndOverflow(given.ptr(), &overflow);
            value = overflow > 0 ? static_cast<intptr_t>(PyLong_AsUnsignedLongLong(given.ptr()))
                                 : static_cast<intptr_t>(number);
            if (overflow < 0 || PyErr_Occurred())
                errors::raise(PyExc_OverflowError,
                              "an argument has more than 64 bits: pass it in memory");
        } else if (PyObject_GetBuffer(given.ptr(), &buffer, PyBUF_SIMPLE) == 0) {
            value = reinterpret_cast<intptr_t>(buffer.buf);
        } else {
            PyErr_Clear();
            errors::raise(
                PyExc_TypeError,
                std::string("an argument is of type ") + nb::inst_name(given).c_str() +
                    ": give an integer, None, bytes, or an object with a contiguous buffer");
        }
    }
    ~Argument()
    {
        if (buffer.obj)
            PyBuffer_Release(&buffer);
    }
    intptr_t value = 0;

  private:
    Py_buffer buffer = {};
};

long long call(int id, const std::string &name, const nb::args &given)
{
    std::deque<Argument> arguments;
    intptr_t values[ONESPACE_CALL_ARGUMENTS] = {}, value = 0;
    init();
    if (given.size() > ONESPACE_CALL_ARGUMENTS)
        errors::raise(PyExc_TypeError, name + " can have " +
                                           std::to_string(ONESPACE_CALL_ARGUMENTS) +
                                           " arguments at most");
    for (nb::handle argument : given) {
        arguments.emplace_back(argument);
        values[arguments.size() - 1] = arguments.back().value;
    }
    const char *function = errors::c_string(name, "the name of a function");
    int result;
    {
        GilRelease unlocked;
        result = onespace_call_name(id, function, values, &value);
    }
    if (result == -ENOENT)
        errors::raise(PyExc_LookupError, onespace_call_message());
    if (result < 0)
        errors::raise_errno(result, onespace_call_message());
    return value;
}

} // namespace

void add_tasks(nb::module_ &module)
{
    module.def("init", init);
    module.def("number", [] { return init(), numbered(onespace_number(), "number"); });
    module.def("ntasks", [] { return init(), numbered(onespace_ntasks(), "number"); });
    module.def("spawner", spawner);
    module.def("task_of_number", task_of_number, nb::arg("number"));
    module.def(
        "pid", [](int id) { return init(), onespace_pid(id); }, nb::arg("id"));
    module.def("spawn", spawn, nb::arg("words"), nb::arg("variables").none(), nb::arg("directory"),
               nb::arg("descriptors"), nb::arg("number"), nb::arg("ntasks"), nb::arg("flags"),
               nb::arg("cpus"));
    module.def("wait", wait, nb::arg("id"), nb::arg("timeout").none(), nb::arg("ended"));
    module.def("kill", kill_task, nb::arg("id"), nb::arg("signal"));
    module.def("call", call, nb::arg("id"), nb::arg("name"), nb::arg("args"));
    module.def("serve_calls", [] {
        init();
        int result = onespace_call_serve();
        if (result < 0)
            errors::raise_errno(result, onespace_call_message());
    });
    module.def("barrier", barrier, nb::arg("timeout").none());
    module.def("version", onespace_version);
    module.attr("CLOSE_FDS") = ONESPACE_SPAWN_CLOSE_FDS;
    module.attr("SESSION") = ONESPACE_SPAWN_SESSION;
    module.attr("HOLD") = ONESPACE_SPAWN_HOLD;
    module.attr("CALLS") = ONESPACE_SPAWN_CALLS;
    module.attr("ROOT") = ONESPACE_ROOT;
    module.attr("TASKS_MAX") = ONESPACE_TASKS_MAX;
}
