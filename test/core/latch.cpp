// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests latch on one thread, with both ways to wait.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/local_gate_scene.hpp>
#include <support/start.hpp>
#include <tuple>
#include <turnstile/latch.hpp>
#include <type_traits>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

constexpr std::ptrdiff_t smallest = std::numeric_limits<std::ptrdiff_t>::min();
constexpr std::ptrdiff_t largest = std::numeric_limits<std::ptrdiff_t>::max();

/// Calls a function before each allocation.
template <class T>
class hooked_allocator
{
public:
    using value_type = T;

    explicit hooked_allocator(const std::function<void()>& hook) noexcept
        : hook_(&hook)
    {
    }

    template <class U>
    hooked_allocator(const hooked_allocator<U>& other) noexcept
        : hook_(&other.hook())
    {
    }

    [[nodiscard]] T* allocate(std::size_t n)
    {
        (*hook_)();
        return std::allocator<T>().allocate(n);
    }

    void deallocate(T* p, std::size_t n) noexcept { std::allocator<T>().deallocate(p, n); }

    [[nodiscard]] const std::function<void()>& hook() const noexcept { return *hook_; }

    template <class U>
    friend bool operator==(const hooked_allocator& a, const hooked_allocator<U>& b) noexcept
    {
        return &a.hook() == &b.hook();
    }

private:
    const std::function<void()>* hook_;
};

/// A latch, and a context for all operations.
struct scene : local_gate_scene<latch>
{
    using local_gate_scene::local_gate_scene;

    void arrive_and_wait(passage& a)
    {
        start(a, [this] { return gate.async_arrive_and_wait(); });
    }
};

/// A latch with one missing arrival.
struct local_latch : latch
{
    static constexpr bool stays_open = true;

    explicit local_latch(asio::io_context& context)
        : latch(context, 1)
    {
    }

    void open(int /*waiters*/) { count_down(); }
    [[nodiscard]] bool is_open() const { return try_wait(); }
};

using local_gates = std::tuple<local_latch>;

/// The number of missing arrivals; opens the latch.
std::ptrdiff_t missing(latch& gate)
{
    std::ptrdiff_t n = 0;
    for (; !gate.try_wait(); ++n)
        gate.count_down();
    return n;
}

}  // namespace

#include <support/local_gate_suite.hpp>

// --- construction -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_latch_has_a_name_and_an_executor)
{
    asio::io_context context;
    const latch a(context, 1, "a");
    const latch b(context.get_executor(), 1, "b");
    const latch c(context, 1);
    BOOST_TEST(a.name() + b.name() + c.name() == "ab");
    BOOST_CHECK(a.get_executor() == context.get_executor());
    BOOST_CHECK(b.get_executor() == context.get_executor());
    static_assert(!std::is_copy_constructible_v<latch>);
    static_assert(!std::is_move_constructible_v<latch>);
}

BOOST_AUTO_TEST_CASE(an_impossible_count_is_rejected)
{
    asio::io_context context;
    for (const std::ptrdiff_t count :
         {smallest, std::ptrdiff_t{-7}, std::ptrdiff_t{-1}, latch::max_count + 1, largest})
    {
        const auto text = text_of(errc::invalid_count, [&] { latch(context, count); });
        BOOST_TEST(contains(text, "latch of " + std::to_string(count)));
        BOOST_TEST(contains(text, "at least 0 and at most " + std::to_string(latch::max_count)));
        text_of(errc::invalid_count, [&] { latch(context.get_executor(), count); });
    }
}

BOOST_AUTO_TEST_CASE(the_largest_count_can_be_used)
{
    static_assert(latch::max_count > std::numeric_limits<std::int32_t>::max());
    scene t(path::handler, latch::max_count);
    BOOST_TEST(!t.gate.try_wait());
    t.gate.count_down(latch::max_count - 1);
    BOOST_TEST(!t.gate.try_wait());
    text_of(errc::over_release, [&] { t.gate.count_down(2); });
    t.gate.count_down();
    BOOST_TEST(t.gate.try_wait());
}

// --- counting ---------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(less_than_one_arrival_is_rejected)
{
    scene t(path::handler, 2);
    for (const std::ptrdiff_t n : {smallest, std::ptrdiff_t{-3}, std::ptrdiff_t{0}})
    {
        const auto text = text_of(errc::invalid_count, [&] { t.gate.count_down(n); });
        BOOST_TEST(contains(text, "count_down by " + std::to_string(n)));
    }
    BOOST_TEST(missing(t.gate) == 2);
    // The same if the latch is open.
    text_of(errc::invalid_count, [&] { t.gate.count_down(0); });
}

BOOST_AUTO_TEST_CASE(more_arrivals_than_are_missing_are_rejected)
{
    scene t(path::handler, 2);
    for (const std::ptrdiff_t n :
         {std::ptrdiff_t{3}, (std::ptrdiff_t{1} << 60) + 1, std::ptrdiff_t{1} << 60, largest})
    {
        const auto text = text_of(errc::over_release, [&] { t.gate.count_down(n); });
        BOOST_TEST(contains(text, "count_down by " + std::to_string(n)));
    }
    BOOST_TEST(missing(t.gate) == 2);
    text_of(errc::over_release, [&] { t.gate.count_down(); });
    BOOST_TEST(t.gate.try_wait());
}

// --- waiting ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_coroutine_that_need_not_wait_is_not_suspended)
{
    // The number of handlers that a coroutine with this number of passages needs.
    const auto handlers = [](int passages)
    {
        asio::io_context context;
        latch gate(context, 0), counted(context, passages);
        const auto body = [&]() -> asio::awaitable<void>
        {
            for (int i = 0; i < passages; ++i)
            {
                co_await gate.async_wait();
                co_await counted.async_count_down(1);
                BOOST_CHECK(co_await gate.async_wait_for(1h) == std::cv_status::no_timeout);
            }
            BOOST_TEST(counted.try_wait());
        };
        asio::co_spawn(context, body(), rethrower{});
        return context.poll();
    };
    BOOST_TEST(handlers(10) == handlers(0));
}

// --- arriving and waiting ---------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_last_arrival_is_not_suspended)
{
    expect_last_arrival_not_suspended<latch>();
}

BOOST_AUTO_TEST_CASE(the_arrival_counts_when_the_operation_is_started)
{
    scene t(path::handler, 1);
    const auto operation = t.gate.async_arrive_and_wait();
    BOOST_TEST(!t.gate.try_wait());
    passage a;
    operation(receiver<void>(a, t.context.get_executor(), true));
    BOOST_TEST(t.gate.try_wait());
    BOOST_TEST(!a.is_complete());
    drain(t.context);
    BOOST_TEST(a.state() == "done");
}

BOOST_AUTO_TEST_CASE(a_lazy_arrival_counts_when_it_is_awaited)
{
    asio::io_context context;
    latch gate(context, 1);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto arrival = gate.async_arrive_and_wait(asio::use_awaitable);
        BOOST_TEST(!gate.try_wait());
        co_await std::move(arrival);
        BOOST_TEST(gate.try_wait());
    };
    run(context, body());
}

TURNSTILE_TEST_BOTH_PATHS(an_open_latch_rejects_arrivals)
{
    scene t(how, 0);
    passage a;
    t.arrive_and_wait(a);
    BOOST_TEST(a.state() == "over release");
    BOOST_TEST(t.gate.try_wait());
}

BOOST_AUTO_TEST_CASE(a_surplus_arrival_names_the_rule_of_a_latch)
{
    asio::io_context context;
    latch gate(context, 2);
    const auto counted = text_of(errc::over_release, [&] { gate.count_down(3); });
    BOOST_TEST(contains(counted, "count_down by 3, 2 arrivals are missing"));
    BOOST_TEST(!contains(counted, "units"));
    const auto wrong = text_of(errc::invalid_count, [&] { gate.count_down(0); });
    BOOST_TEST(!contains(wrong, "units"));
    gate.count_down(2);
    const auto body = [&]() -> asio::awaitable<void>
    {
        try
        {
            co_await gate.async_arrive_and_wait();
            BOOST_ERROR("nothing was thrown");
        }
        catch (const system_error& error)
        {
            BOOST_TEST(error.code() == errc::over_release);
            const std::string text = error.what();
            BOOST_TEST(!contains(text, "units"));
            BOOST_TEST(contains(text, "everybody has arrived already") == has_await_fast_path);
        }
    };
    run(context, body());
}

BOOST_AUTO_TEST_CASE(an_arrival_that_finds_no_memory_to_wait_does_not_count)
{
    for (const bool fails : {true, false})
    {
        scene t(path::handler, 2);
        const std::function<void()> hook = [&]
        {
            if (fails)
                throw std::bad_alloc();
        };
        bool has_failed = false;
        try
        {
            t.gate.async_arrive_and_wait(
                asio::bind_allocator(hooked_allocator<void>(hook), [](const error_code&) {}));
        }
        catch (const std::bad_alloc&)
        {
            has_failed = true;
        }
        BOOST_TEST(has_failed == fails);
        BOOST_TEST(missing(t.gate) == (fails ? 2 : 1));
        drain(t.context);
    }
}

// Otherwise a waiter could destroy the latch while the first participant still uses it.
BOOST_AUTO_TEST_CASE(a_latch_does_not_open_before_its_participants_wait)
{
    scene t(path::handler, 2);
    passage a;
    t.wait(a);
    int completions = 0;
    bool is_first = true;
    const std::function<void()> hook = [&]
    {
        if (!std::exchange(is_first, false))
            return;
        t.gate.count_down();
        BOOST_TEST(!t.gate.try_wait());
    };
    t.gate.async_arrive_and_wait(asio::bind_allocator(
        hooked_allocator<void>(hook), [&](error_code error) { completions += !error; }));
    BOOST_TEST(t.gate.try_wait());
    drain(t.context);
    BOOST_TEST(completions == 1);
    BOOST_TEST(a.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(the_last_arrival_resumes_the_waiters)
{
    scene t(how, 3);
    passage a, b, c, late;
    t.wait(a);
    t.arrive_and_wait(b);
    t.gate.count_down();
    t.arrive_and_wait(c);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(c.state() == "done");
    t.arrive_and_wait(late);
    BOOST_TEST(late.state() == "over release");
}

// --- destruction ------------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(when_a_context_is_destroyed_waiters_of_another_keep_waiting)
{
    asio::io_context mine;
    latch gate(mine, 2);
    passage a, b, arrived;
    {
        asio::io_context context;
        test::start(how, context, a, [&] { return gate.async_wait(); });
        test::start(how, context, arrived, [&] { return gate.async_arrive_and_wait(); });
        test::start(how, mine, b, [&] { return gate.async_wait(); });
    }
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(arrived.state() == "dropped");
    BOOST_TEST(b.state() == "waiting");
    gate.count_down();
    drain(mine);
    BOOST_TEST(b.state() == "done");
}

TURNSTILE_TEST_BOTH_PATHS(an_undeliverable_opening_has_no_effect_on_others)
{
    asio::io_context mine;
    latch gate(mine, 1);
    passage a, b;
    {
        asio::io_context context;
        test::start(how, context, a, [&] { return gate.async_wait(); });
        test::start(how, mine, b, [&] { return gate.async_wait(); });
        gate.count_down();
    }
    drain(mine);
    BOOST_TEST(a.state() == "dropped");
    BOOST_TEST(b.state() == "done");
    BOOST_TEST(gate.try_wait());
}

// --- executors --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_handler_without_an_executor_runs_on_that_of_the_latch)
{
    scene t(path::handler, 1);
    int completions = 0;
    const auto count = [&](error_code error)
    {
        completions += !error;
        BOOST_TEST(t.context.get_executor().running_in_this_thread());
    };
    t.gate.async_wait(count);
    t.gate.async_count_down(1, count);
    t.gate.async_wait(count);
    BOOST_TEST(completions == 0);
    t.context.run();
    BOOST_TEST(completions == 3);
}

BOOST_AUTO_TEST_CASE(immediate_completions_use_the_immediate_executor)
{
    scene t(path::handler, 2);
    int completions = 0;
    const auto here = [&](auto f)
    { return asio::bind_immediate_executor(asio::system_executor(), std::move(f)); };
    const auto count = [&](error_code error) { completions += !error; };
    t.gate.async_count_down(1, here(count));
    BOOST_TEST(completions == 1);
    t.gate.async_arrive_and_wait(here(count));
    BOOST_TEST(completions == 2);
    t.gate.async_wait(here(count));
    BOOST_TEST(completions == 3);
    t.gate.async_wait_for(1h, here([&](error_code error, std::cv_status) { count(error); }));
    BOOST_TEST(completions == 4);
    t.gate.async_count_down(
        1, here([&](error_code error) { completions += error == errc::over_release; }));
    BOOST_TEST(completions == 5);
    t.gate.async_try_wait(here([&](error_code, bool yes) { completions += yes; }));
    BOOST_TEST(completions == 6);
}

// --- tokens, flavours -------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(each_token_can_be_used)
{
    asio::io_context context;
    latch gate(context, 3);
    const auto body = [&]() -> asio::awaitable<void>
    {
        auto [late] = co_await gate.async_wait(asio::cancel_after(1ms, asio::as_tuple));
        BOOST_TEST(late == asio::error::operation_aborted);
        BOOST_CHECK(co_await gate.async_wait_for(1ms, asio::use_awaitable) ==
                    std::cv_status::timeout);
        co_await gate.async_count_down(1, asio::use_awaitable);
        error_code error;
        co_await gate.async_arrive_and_wait(asio::cancel_after(1ms, asio::redirect_error(error)));
        BOOST_TEST(error == asio::error::operation_aborted);
        BOOST_TEST(missing(gate) == 1);
        co_await gate.async_wait(asio::use_awaitable);
    };
    run(context, body());

    auto open = gate.async_wait(asio::use_future);
    auto wrong = gate.async_count_down(1, asio::use_future);
    context.restart();
    context.run();
    open.get();
    BOOST_CHECK_THROW(wrong.get(), system_error);
}
