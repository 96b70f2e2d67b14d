// tests/remote_call/cxx_test.cpp: <onespace/call.hpp>.
#include "caller.hpp"
#include "onespace/call.hpp"

using namespace fixture;
using namespace caller;

using call_cxx = SpaceTest;

TEST_F(call_cxx, function_is_called_by_its_type)
{
    Callee callee;
    onespace::Function<long(int, int, int, int, int, int)> weigh(callee.id(), "weigh");
    EXPECT_EQ(weigh(1, 2, 3, 4, 5, 6), 654321);
    onespace::Function<int(const void *)> add(callee.id(),
                                              address_of(callee.function("add_global")));
    EXPECT_EQ(add(reinterpret_cast<const void *>(-2)), 38);
    onespace::Function<void(long)> heap(callee.id(), "use_heap");
    heap(3);
    onespace::Function<bool(std::nullptr_t)> visit(callee.id(), "visit");
    EXPECT_TRUE(visit(nullptr));
}

TEST_F(call_cxx, failure_is_an_exception_with_code_and_message)
{
    Callee callee;
    onespace::Function<void(const char *)> throws(callee.id(), "throws");
    try {
        throws("x");
        FAIL() << "nothing was thrown";
    } catch (const onespace::CallError &error) {
        EXPECT_EQ(error.code().value(), ECANCELED);
        EXPECT_NE(std::string(error.what()).find("std::runtime_error"), std::string::npos);
    }
    EXPECT_THROW(onespace::Function<int()>(callee.id(), "no_such_function"), onespace::CallError);
}
