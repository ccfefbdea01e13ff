// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests transactions on a local state of any type. The conformance suite of monitors tests the rest.

#include <boost/asio/io_context.hpp>
#include <boost/describe/class.hpp>
#include <boost/system/errc.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/transaction.hpp>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;

namespace {

struct counted
{
    int inherited = 0;
};

/// This state is not described.
struct numbers : counted
{
    std::int8_t tiny = 0;
    std::uint16_t natural = 0;
    std::int64_t whole = 0;
    std::uint64_t most = 0;
    char letter = 'a';
    std::vector<std::string> names{};
    double real = 0;
};

struct described
{
    int number = std::numeric_limits<int>::min();
};

BOOST_DESCRIBE_STRUCT(described, (), (number))

using change = transaction<numbers>;

template <class T>
struct scene
{
    /// Executes a transaction. Returns "done", "not done" or the text of the error.
    template <class... Steps>
    std::string transact(const transaction<T, Steps...>& what)
    {
        std::string result = "nothing";
        guarded.async_transact(what,
                               [&](const std::exception_ptr& error, bool done)
                               {
                                   result = done ? "done" : "not done";
                                   if (error)
                                       result = text_of(error);
                               });
        run();
        return result;
    }

    static std::string text_of(const std::exception_ptr& error)
    {
        try
        {
            std::rethrow_exception(error);
        }
        catch (const system_error& e)
        {
            BOOST_TEST(e.code() == boost::system::errc::result_out_of_range);
            return e.what();
        }
    }

    T look()
    {
        T result;
        guarded.async_with([&](auto& section) { result = *section; },
                           [](const std::exception_ptr&) {});
        run();
        return result;
    }

    void run()
    {
        context.restart();
        // Not run(), which would wait for all waiters.
        context.poll();
    }

    boost::asio::io_context context;
    monitor<T> guarded{context};
};

}  // namespace

namespace users_own {

struct state
{
    int number = 0;
    std::string text{};
};

// Functions with the names of the library's own steps.

template <class A, class B>
bool does_hold(const A&, const B&);

template <class A, class B>
void assign(A&, B&);

template <class A, class B>
void notify(const A&, B&);

template <class T, class M, class Amount>
M sum_of(M T::*, M, Amount);

}  // namespace users_own

BOOST_AUTO_TEST_CASE(functions_in_the_namespace_of_the_state_are_not_called)
{
    using users_own::state;
    scene<state> s;
    BOOST_TEST(s.transact(transaction<state>()
                              .require(&state::number, std::equal_to(), 0)
                              .add(&state::number, 2)
                              .set(&state::text, "x")) == "done");
    BOOST_TEST(s.look().number == 2);
    BOOST_TEST(s.look().text == "x");
}

BOOST_AUTO_TEST_CASE(a_sum_that_its_member_cannot_represent_changes_nothing)
{
    scene<numbers> s;
    const auto out_of = [](const std::string& text, const std::string& what)
    { return text.starts_with("a member: " + what); };

    BOOST_TEST(s.transact(change().add(&numbers::tiny, 127)) == "done");
    BOOST_TEST(
        out_of(s.transact(change().add(&numbers::tiny, 1)), "127 + 1 is not between -128 and 127"));
    BOOST_TEST(s.transact(change().add(&numbers::tiny, -255)) == "done");
    BOOST_TEST(out_of(s.transact(change().add(&numbers::tiny, -1)), "-128 - 1 is not"));
    BOOST_TEST(out_of(s.transact(change().add(&numbers::natural, -1)),
                      "0 - 1 is not between 0 and 65535"));
    BOOST_TEST(s.transact(change().add(&numbers::natural, 65535)) == "done");
    BOOST_TEST(out_of(s.transact(change().add(&numbers::natural, 1)), "65535 + 1 is not"));

    constexpr auto least = std::numeric_limits<std::int64_t>::min();
    constexpr auto most = std::numeric_limits<std::int64_t>::max();
    BOOST_TEST(s.transact(change().add(&numbers::whole, least)) == "done");
    BOOST_TEST(out_of(s.transact(change().add(&numbers::whole, -1)), std::to_string(least)));
    BOOST_TEST(s.transact(change().add(&numbers::whole, most).add(&numbers::whole, most)) ==
               "done");
    BOOST_TEST(s.look().whole == most - 1);
    BOOST_TEST(out_of(s.transact(change().add(&numbers::whole, 2)), std::to_string(most - 1)));
    BOOST_TEST(s.transact(change().add(&numbers::most, most).add(&numbers::most, most)) == "done");
    BOOST_TEST(out_of(s.transact(change().add(&numbers::most, 2)), "18446744073709551614 + 2"));
    BOOST_TEST(s.transact(change().add(&numbers::most, 1)) == "done");
    BOOST_TEST(s.transact(change().add(&numbers::most, least)) == "done");
    BOOST_TEST(s.look().most == static_cast<std::uint64_t>(most));
    BOOST_TEST(out_of(s.transact(change().add(&numbers::most, least)),
                      "9223372036854775807 - 9223372036854775808"));
    BOOST_TEST(s.transact(change().add(&numbers::letter, 2)) == "done");
    BOOST_TEST(s.look().letter == 'c');
}

BOOST_AUTO_TEST_CASE(a_transaction_changes_everything_or_nothing)
{
    scene<numbers> s;
    const auto what = change()
                          .set(&numbers::names, {"x"})
                          .add(&numbers::inherited, 5)
                          .add(&numbers::tiny, 5)
                          .add(&numbers::natural, -1);
    BOOST_TEST(s.transact(what).starts_with("a member"));
    const numbers before = s.look();
    BOOST_TEST(before.inherited == 0);
    BOOST_TEST(before.tiny == 0);
    BOOST_TEST(before.names.empty());
    // A transaction is a value that can be executed again.
    BOOST_TEST(s.transact(change().add(&numbers::natural, 1)) == "done");
    BOOST_TEST(s.transact(what) == "done");
    const numbers after = s.look();
    BOOST_TEST(after.inherited == 5);
    BOOST_TEST(after.natural == 0);
    BOOST_TEST((after.names == std::vector<std::string>{"x"}));
}

BOOST_AUTO_TEST_CASE(an_error_names_the_member_if_that_is_described)
{
    scene<described> s;
    const auto what = transaction<described>().add(&described::number, -1);
    const std::string text = s.transact(what);
    BOOST_TEST(text.starts_with("member 'number': -2147483648 - 1 is not between"), text);
}

BOOST_AUTO_TEST_CASE(members_of_any_type_can_be_compared)
{
    scene<numbers> s;
    BOOST_TEST(s.transact(change().require(&numbers::names, std::equal_to(), {})) == "done");
    BOOST_TEST(s.transact(change().require(&numbers::real, std::less(), 0)) == "not done");
    BOOST_TEST(s.transact(change().require(&numbers::real, std::less_equal(), 0)) == "done");
    BOOST_TEST(s.transact(change().require(&numbers::inherited, std::not_equal_to(), 0)) ==
               "not done");
    BOOST_TEST(s.transact(change().require(&numbers::letter, std::greater(), 'a')) == "not done");
    BOOST_TEST(s.transact(change().require(&numbers::letter, std::greater_equal(), 'a')) == "done");
}

BOOST_AUTO_TEST_CASE(requirements_are_checked_before_the_changes)
{
    scene<numbers> s;
    const auto once = change()
                          .add(&numbers::inherited, 1)
                          .require(&numbers::inherited, std::equal_to(), 0)
                          .set(&numbers::real, 1)
                          .require(&numbers::real, std::equal_to(), 0);
    BOOST_TEST(s.transact(once) == "done");
    BOOST_TEST(s.transact(once) == "not done");
}

BOOST_AUTO_TEST_CASE(transactions_notify_waiters)
{
    scene<numbers> s;
    auto positive = s.guarded.make_condition("positive");
    std::string completed;
    const auto take = change()
                          .require(&numbers::inherited, std::greater(), 0)
                          .wait_on(positive)
                          .add(&numbers::inherited, -1);
    for (const char name : {'a', 'b', 'c'})
        s.guarded.async_transact(take,
                                 [&completed, name](const std::exception_ptr& error, bool done)
                                 {
                                     BOOST_TEST(!error);
                                     BOOST_TEST(done);
                                     completed += name;
                                 });
    s.run();
    BOOST_TEST(completed == "");
    const auto two = change().add(&numbers::inherited, 2);
    BOOST_TEST(s.transact(two.notify_one(positive)) == "done");
    BOOST_TEST(completed == "a");
    BOOST_TEST(s.transact(two.notify_all(positive)) == "done");
    BOOST_TEST(completed == "abc");
    BOOST_TEST(s.look().inherited == 1);
}
