// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests monitor on one thread, with a handler and in a coroutine, with bodies that are coroutines and with
// plain functions.

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <support/attempt.hpp>
#include <support/expect.hpp>
#include <support/local_monitor_scene.hpp>
#include <support/section_attempt.hpp>
#include <support/tracker_executor.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/observe.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using scene = local_monitor_scene;
using number = scene::number;
using section = scene::section;
using body = scene::body;
using body_int = scene::body_int;
using plain = scene::plain;
using predicate = bool (*)(const int&);

/// A state whose address operator does not return its address, like some smart pointers.
struct handle
{
    handle* operator&() noexcept { return nullptr; }  // NOLINT(google-runtime-operator)

    int value = 1;
};

}  // namespace

// --- construction -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_monitor_has_a_name_a_value_and_an_executor)
{
    asio::io_context context;
    number a(context), b(context.get_executor(), 7, "b");
    const auto condition = b.make_condition("c");
    const auto nameless = b.make_condition();
    BOOST_TEST(a.name() + b.name() + condition.name() + nameless.name() == "bc");
    BOOST_CHECK(a.get_executor() == context.get_executor());
    BOOST_CHECK(b.get_executor() == context.get_executor());
    const auto read = [&](number& m)
    {
        int result = -1;
        m.async_with([](section& s) { return *s; },
                     [&](const std::exception_ptr&, int value) { result = value; });
        drain(context);
        return result;
    };
    BOOST_TEST(read(a) == 0);
    BOOST_TEST(read(b) == 7);
    static_assert(!std::is_copy_constructible_v<number>);
    static_assert(!std::is_move_constructible_v<number>);
}

BOOST_AUTO_TEST_CASE(a_section_can_not_be_kept)
{
    // A copy would give access to the state without the lock.
    BOOST_TEST(!std::is_copy_constructible_v<section>);
    BOOST_TEST(!std::is_copy_assignable_v<section>);
    BOOST_TEST(!std::is_default_constructible_v<section>);
}

BOOST_AUTO_TEST_CASE(any_type_can_be_guarded)
{
    struct no_default
    {
        explicit no_default(int n)
            : owned(std::make_unique<int>(n))
        {
        }

        std::unique_ptr<int> owned;
    };
    asio::io_context context;
    monitor<no_default> m(context, no_default(3));
    auto result = m.async_with([](auto& s) { return ++*s->owned; }, asio::use_future);
    context.run();
    BOOST_TEST(result.get() == 4);
}

// --- critical sections ------------------------------------------------------------------------

TURNSTILE_TEST_BOTH_PATHS(a_body_that_throws_releases_the_lock)
{
    scene t(how);
    attempt<> awaited, short_one;
    attempt<int> result, plain_result;
    const auto fail = [](section& s)
    {
        ++*s;
        throw owner_mismatch(owner_token(1), owner_token(7));
    };
    t.run(awaited,
          [&](section& s) -> asio::awaitable<void>
          {
              co_await t.go.async_wait();
              fail(s);
          });
    BOOST_TEST(!t.look().has_value());
    t.go.set();
    drain(t.context);
    t.run_plain(short_one, fail);
    t.run(result,
          [&](section& s) -> asio::awaitable<int>
          {
              fail(s);
              co_return 1;
          });
    t.run_plain(plain_result,
                [&](section& s)
                {
                    fail(s);
                    return 1;
                });
    const auto check = [](const auto& each)
    { BOOST_TEST(each.text() == "Owner token mismatch. Expected 1 but received 7"); };
    check(awaited);
    check(short_one);
    check(result);
    check(plain_result);
    // Earlier changes remain.
    BOOST_TEST(*t.look() == 4);
}

BOOST_AUTO_TEST_CASE(the_body_is_stored_by_value)
{
    scene t(path::handler);
    const auto kept = std::make_shared<int>(0);
    attempt<> a;
    {
        auto counting = [&t, kept](section& s) -> asio::awaitable<void>
        {
            co_await t.go.async_wait();
            *s = ++*kept;
        };
        t.guarded.async_with(counting, section_receiver<void>(a, t.context.get_executor()));
    }
    BOOST_TEST(kept.use_count() == 2);
    drain(t.context);
    t.go.set();
    drain(t.context);
    BOOST_TEST(kept.use_count() == 1);
    BOOST_TEST(*t.look() == 1);
}

namespace {

/// A body without a move constructor. Its copies throw on request.
struct fragile_body
{
    explicit fragile_body(const bool& throws)
        : throws_(&throws)
    {
    }

    fragile_body(const fragile_body& other)
        : throws_(other.throws_)
    {
        if (*throws_)
            throw std::runtime_error("fragile");
    }

    fragile_body& operator=(const fragile_body&) = delete;
    ~fragile_body() = default;

    void operator()(section& s) const { ++*s; }

private:
    const bool* throws_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_body_whose_move_throws_prevents_the_section)
{
    scene t(path::handler);
    bool throws = false;
    const fragile_body body(throws);
    auto operation = t.guarded.async_with(body);
    throws = true;
    BOOST_CHECK_THROW(std::move(operation)(asio::detached), std::runtime_error);
    throws = false;
    BOOST_TEST(*t.look() == 0);
    t.guarded.async_with(body, asio::detached);
    drain(t.context);
    BOOST_TEST(*t.look() == 1);
}

BOOST_AUTO_TEST_CASE(a_section_that_was_not_started_does_nothing)
{
    scene t(path::handler);
    auto operation = t.guarded.async_with([](section& s) { ++*s; });
    BOOST_TEST(*t.look() == 0);
    attempt<> a;
    std::move(operation)(section_receiver<void>(a, t.context.get_executor()));
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(*t.look() == 1);
}

// --- classics ---------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_bounded_buffer_neither_loses_nor_doubles_anything)
{
    constexpr int producers = 5, consumers = 4, items = 20;
    constexpr std::size_t capacity = 3;
    using buffer = std::deque<std::pair<int, int>>;
    asio::io_context context;
    monitor<buffer> shared(context);
    auto not_full = shared.make_condition("not_full"),
         not_empty = shared.make_condition("not_empty");
    std::vector<std::pair<int, int>> taken;
    std::size_t most = 0;
    const auto produce = [&](int who) -> asio::awaitable<void>
    {
        for (int item = 0; item < items; ++item)
        {
            auto put = [&](auto& s) -> asio::awaitable<void>
            {
                co_await s.async_wait(not_full,
                                      [](const buffer& b) { return b.size() < capacity; });
                s->emplace_back(who, item);
                most = std::max(most, s->size());
                s.notify_one(not_empty);
            };
            co_await shared.async_with(put);
        }
    };
    const auto consume = [&](int much) -> asio::awaitable<void>
    {
        for (int i = 0; i < much; ++i)
        {
            auto get = [&](auto& s) -> asio::awaitable<std::pair<int, int>>
            {
                co_await s.async_wait(not_empty, [](const buffer& b) { return !b.empty(); });
                const auto item = s->front();
                s->pop_front();
                s.notify_one(not_full);
                co_return item;
            };
            taken.push_back(co_await shared.async_with(get));
        }
    };
    for (int who = 0; who < producers; ++who)
        asio::co_spawn(context, produce(who), rethrower{});
    for (int who = 0; who < consumers; ++who)
        asio::co_spawn(context, consume(producers * items / consumers), rethrower{});
    context.run();

    BOOST_TEST(taken.size() == static_cast<std::size_t>(producers * items));
    BOOST_TEST(most == capacity);
    for (int who = 0; who < producers; ++who)
    {
        int next = 0;
        for (const auto& [from, item] : taken)
            if (from == who)
                BOOST_TEST(item == next++);
        BOOST_TEST(next == items);
    }
}

namespace {

struct room
{
    int readers = 0;
    int writers = 0;
    int waiting_writers = 0;
    int writes = 0;
};

/// The textbook's readers and writers with preference for writers.
struct library
{
    explicit library(asio::io_context& context)
        : state(context)
        , ok_to_read(state.make_condition())
        , ok_to_write(state.make_condition())
    {
    }

    static void check(const room& r)
    {
        BOOST_REQUIRE(r.writers >= 0);
        BOOST_REQUIRE(r.readers >= 0);
        BOOST_REQUIRE(r.writers <= 1);
        BOOST_REQUIRE((r.writers == 0 || r.readers == 0));
    }

    asio::awaitable<void> read()
    {
        auto enter = [this](auto& s) -> asio::awaitable<void>
        {
            co_await s.async_wait(ok_to_read, [](const room& r)
                                  { return r.writers == 0 && r.waiting_writers == 0; });
            most_readers = std::max(most_readers, ++s->readers);
            check(*s);
        };
        auto leave = [this](auto& s)
        {
            check(*s);
            if (--s->readers == 0)
                s.notify_one(ok_to_write);
        };
        co_await state.async_with(enter);
        co_await asio::post(asio::deferred);
        co_await state.async_with(leave);
    }

    asio::awaitable<void> write()
    {
        auto enter = [this](auto& s) -> asio::awaitable<void>
        {
            ++s->waiting_writers;
            co_await s.async_wait(ok_to_write,
                                  [](const room& r) { return r.writers == 0 && r.readers == 0; });
            --s->waiting_writers;
            ++s->writers;
            check(*s);
        };
        auto leave = [this](auto& s)
        {
            check(*s);
            --s->writers;
            ++s->writes;
            s.notify_one(ok_to_write);
            s.notify_all(ok_to_read);
        };
        co_await state.async_with(enter);
        co_await asio::post(asio::deferred);
        co_await state.async_with(leave);
    }

    monitor<room> state;
    monitor<room>::condition_type ok_to_read, ok_to_write;
    int most_readers = 0;
};

}  // namespace

BOOST_AUTO_TEST_CASE(readers_are_together_and_writers_alone)
{
    asio::io_context context;
    library l(context);
    int ended = 0;
    const auto many = [&](bool writes) -> asio::awaitable<void>
    {
        for (int i = 0; i < 10; ++i)
        {
            if (writes)
                co_await l.write();
            else
                co_await l.read();
        }
        ++ended;
    };
    for (int i = 0; i < 6; ++i)
        asio::co_spawn(context, many(false), rethrower{});
    for (int i = 0; i < 3; ++i)
        asio::co_spawn(context, many(true), rethrower{});
    context.run();
    BOOST_TEST(ended == 9);
    BOOST_TEST(l.most_readers > 1);
    auto writes = l.state.async_with([](auto& s) { return s->writes; }, asio::use_future);
    context.restart();
    context.run();
    BOOST_TEST(writes.get() == 30);
}

// --- executors, tokens, flavours --------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_body_runs_on_the_executor_of_the_handler)
{
    asio::io_context idle, context;
    number m(idle);
    auto changed = m.make_condition();
    const tracker_executor own(context.get_executor(), 7);
    std::string story;
    const auto where = [&](char name)
    {
        if (tracker_executor::current() == 7)
            story += name;
    };
    const body f = [&](section& s) -> asio::awaitable<void>
    {
        where('a');
        co_await s.async_wait(changed,
                              [&](const int& n)
                              {
                                  where('p');
                                  return n > 0;
                              });
        where('b');
    };
    const plain set = [&](section& s)
    {
        where('c');
        *s = 1;
        s.notify_all(changed);
    };
    const std::function<void(std::exception_ptr)> on_completion = [&](const std::exception_ptr&)
    { where('t'); };
    m.async_with(f, asio::bind_executor(own, on_completion));
    drain(context);
    BOOST_TEST(story == "ap");
    m.async_with(set, asio::bind_executor(own, on_completion));
    drain(context);
    BOOST_TEST(story == "apctpbt");
}

BOOST_AUTO_TEST_CASE(each_token_can_be_used)
{
    scene t(path::handler);
    const body_int waiting = [&](section& s) -> asio::awaitable<int>
    {
        co_await s.async_wait(t.changed, predicate([](const int& n) { return n > 0; }),
                              asio::use_awaitable);
        co_return *s;
    };
    const auto test = [&]() -> asio::awaitable<void>
    {
        const auto [late, none] = co_await t.guarded.async_with(
            waiting, asio::cancel_after(1ms, asio::as_tuple(asio::deferred)));
        text_of(asio::error::operation_aborted,
                [&, failed = late] { std::rethrow_exception(failed); });
        BOOST_TEST(none == 0);
        const body_int timed = [&](section& s) -> asio::awaitable<int>
        {
            const auto [error, holds] = co_await s.async_wait_for(
                t.changed, 1ms, predicate([](const int& n) { return n > 0; }),
                asio::as_tuple(asio::use_awaitable));
            co_return !error && !holds ? 1 : 2;
        };
        BOOST_TEST(co_await t.guarded.async_with(timed, asio::use_awaitable) == 1);
    };
    run(t.context, test());
    auto result = t.guarded.async_with(waiting, asio::use_future);
    auto set = t.guarded.async_with(
        [&](section& s)
        {
            *s = 9;
            s.notify_one(t.changed);
        },
        asio::use_future);
    t.context.restart();
    t.context.run();
    set.get();
    BOOST_TEST(result.get() == 9);
}

// --- observability ----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_section_is_reported_where_it_was_asked_for)
{
    asio::io_context context;
    auto watch = std::make_shared<lock_watch>();
    number guarded(context, 0, "n", watch);
    std::string file;
    std::size_t waiters = 0;
    unsigned line = 0;
    const auto here = std::source_location::current();
    const auto look = [&](section&)
    {
        const lock_snapshot now = guarded.snapshot();
        file = now.holder->where->file_name();
        waiters = now.waiters.size();
        if (waiters == 1)
            line = now.waiters.front().where.line();
    };
    const auto body = [&](section& s) -> asio::awaitable<void>
    {
        co_await asio::post(asio::deferred);
        look(s);
    };
    guarded.async_with(body, asio::detached);
    guarded.async_with([](section&) {}, asio::detached, here);
    drain(context);
    BOOST_TEST(contains(file, "monitor.cpp"));
    BOOST_TEST(waiters == 1U);
    BOOST_TEST(line == here.line());
    BOOST_TEST(guarded.snapshot().name == "n");
    BOOST_TEST(!guarded.snapshot().holder.has_value());
    BOOST_TEST(watch->counters().acquired == 2U);
}

BOOST_AUTO_TEST_CASE(a_state_may_overload_the_address_operator)
{
    asio::io_context context;
    monitor<handle> guarded(context);
    int value = 0;
    guarded.async_with([&](auto& s) { value = s->value; }, asio::detached);
    drain(context);
    BOOST_TEST(value == 1);
}
