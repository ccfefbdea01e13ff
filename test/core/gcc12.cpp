// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the forms that GCC 12 compiles correctly. It destroys the captures of a lambda twice if they are not
// trivial and the lambda is a temporary inside a co_await expression:
//
//   co_await with_lock(mutex, [kept](auto&) { … });  // does not compile with g++ 12 if kept is a shared_ptr
//
// Captures by reference are trivial, and a named lambda is not a temporary. If one of these forms were unsafe,
// a count would be wrong, or the address sanitizer would stop the program.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <support/expect.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using text = std::shared_ptr<std::string>;

/// Runs a test with a shared object. At the end, only the test may refer to it.
template <class Test>
void check_count(Test test)
{
    asio::io_context context;
    async_mutex mutex(context);
    text kept = std::make_shared<std::string>("kept");
    const std::weak_ptr<std::string> witness = kept;
    {
        const auto body = [&]() -> asio::awaitable<void> { co_await test(mutex, kept); };
        run(context, body());
    }
    BOOST_TEST(kept.use_count() == 1);
    BOOST_TEST(!witness.expired());
    BOOST_TEST(!mutex.is_locked());
}

/// Leaves the stack, which may still contain an operation that has just ended.
asio::awaitable<void> suspend()
{
    co_await asio::post(asio::deferred);
}

}  // namespace

// --- captures by reference --------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(with_lock_may_be_given_a_lambda_that_captures_by_reference)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        text local = kept;
        co_await with_lock(mutex,
                           [&](auto&) -> asio::awaitable<void>
                           {
                               co_await suspend();
                               BOOST_TEST(local.use_count() == 2);
                               *local += '.';
                           });
        const auto size = co_await with_lock(mutex,
                                             [&](auto&) -> asio::awaitable<std::size_t>
                                             {
                                                 co_await suspend();
                                                 co_return local->size();
                                             });
        BOOST_TEST(size == 5U);
        co_await with_lock(mutex, [&](auto&) { *local += '.'; });
        const text result = co_await with_lock(mutex, [&](auto&) { return local; });
        BOOST_TEST(*result == "kept..");
        BOOST_TEST(local.use_count() == 3);
    };
    check_count(test);
}

BOOST_AUTO_TEST_CASE(with_permit_may_be_given_a_lambda_that_captures_by_reference)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        async_semaphore semaphore(mutex.get_executor(), 2);
        text local = kept;
        const text result = co_await with_permit(semaphore, 2,
                                                 [&](auto&) -> asio::awaitable<text>
                                                 {
                                                     co_await suspend();
                                                     co_return local;
                                                 });
        co_await with_permit(semaphore, 1, [&](auto&) { *local += '.'; });
        BOOST_TEST(*result == "kept.");
        BOOST_TEST(local.use_count() == 3);
        BOOST_TEST(semaphore.available() == 2);
    };
    check_count(test);
}

BOOST_AUTO_TEST_CASE(async_with_may_be_given_a_lambda_that_captures_by_reference)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        monitor<text> m(mutex.get_executor());
        text local = kept;
        co_await m.async_with(
            [&](auto& section) -> asio::awaitable<void>
            {
                co_await suspend();
                *section = local;
            });
        const auto count =
            co_await m.async_with([&](auto& section) { return section->use_count(); });
        BOOST_TEST(count == 3);
    };
    check_count(test);
}

BOOST_AUTO_TEST_CASE(async_wait_may_be_given_a_predicate_that_captures_by_reference)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        monitor<int> m(mutex.get_executor());
        auto changed = m.make_condition();
        text local = kept;
        auto waiting = [&](auto& section) -> asio::awaitable<void>
        {
            co_await section.async_wait(changed,
                                        [&](const int& n) { return n > 0 && local != nullptr; });
            *local += '.';
        };
        asio::co_spawn(mutex.get_executor(), m.async_with(waiting, asio::use_awaitable),
                       [](const std::exception_ptr& error) { BOOST_TEST(!error); });
        co_await suspend();
        co_await m.async_with(
            [&](auto& section)
            {
                *section = 1;
                section.notify_all(changed);
            });
        for (int i = 0; i < 10 && *kept == "kept"; ++i)
            co_await suspend();
        BOOST_TEST(*kept == "kept.");
        condition ready(mutex);
        auto guard = co_await mutex.async_lock();
        co_await ready.async_wait(guard, [&] { return local != nullptr; });
        BOOST_TEST(local.use_count() == 2);
    };
    check_count(test);
}

// --- a named lambda ---------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(with_lock_may_be_given_a_named_lambda)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        auto awaited = [kept](auto&) -> asio::awaitable<void>
        {
            co_await suspend();
            BOOST_TEST(kept.use_count() == 3);
            *kept += '.';
        };
        co_await with_lock(mutex, awaited);
        BOOST_TEST(kept.use_count() == 2);
        auto plain = [kept](auto&)
        {
            BOOST_TEST(kept.use_count() == 4);
            *kept += '.';
            return kept;
        };
        const text result = co_await with_lock(mutex, plain);
        BOOST_TEST(*result == "kept..");
        co_await suspend();
        BOOST_TEST(kept.use_count() == 4);
    };
    check_count(test);
}

BOOST_AUTO_TEST_CASE(with_lock_may_be_given_a_named_lambda_that_has_to_wait)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        auto guard = co_await mutex.async_lock();
        auto holder = [&]() -> asio::awaitable<void>
        {
            co_await suspend();
            guard.unlock();
        };
        asio::co_spawn(mutex.get_executor(), holder(),
                       [](const std::exception_ptr& error) { BOOST_TEST(!error); });
        auto awaited = [kept](auto&) -> asio::awaitable<text>
        {
            co_await suspend();
            co_return kept;
        };
        const text result = co_await with_lock(mutex, std::ref(awaited));
        BOOST_TEST(kept.use_count() == 3);
    };
    check_count(test);
}

BOOST_AUTO_TEST_CASE(with_lock_may_be_given_a_named_lambda_that_throws)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        auto awaited = [kept](auto&) -> asio::awaitable<void>
        {
            co_await suspend();
            throw kept;
        };
        int caught = 0;
        try
        {
            co_await with_lock(mutex, std::ref(awaited));
        }
        catch (const text&)
        {
            ++caught;
        }
        co_await suspend();
        BOOST_TEST(kept.use_count() == 2);
        auto plain = [kept](auto&) { throw kept; };
        try
        {
            co_await with_lock(mutex, std::ref(plain));
        }
        catch (const text&)
        {
            ++caught;
        }
        co_await suspend();
        BOOST_TEST(kept.use_count() == 3);
        BOOST_TEST(caught == 2);
    };
    check_count(test);
}

BOOST_AUTO_TEST_CASE(with_permit_may_be_given_a_named_lambda)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        async_semaphore semaphore(mutex.get_executor(), 2);
        auto awaited = [kept](auto&) -> asio::awaitable<void>
        {
            co_await suspend();
            BOOST_TEST(kept.use_count() == 2);
        };
        co_await with_permit(semaphore, 2, std::ref(awaited));
        BOOST_TEST(kept.use_count() == 2);
        auto plain = [kept](auto&) { return kept.use_count(); };
        BOOST_TEST(co_await with_permit(semaphore, 1, std::ref(plain)) == 3);
        co_await suspend();
        BOOST_TEST(kept.use_count() == 3);
    };
    check_count(test);
}

BOOST_AUTO_TEST_CASE(async_with_may_be_given_a_named_lambda)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        monitor<int> m(mutex.get_executor());
        auto awaited = [kept](auto& section) -> asio::awaitable<void>
        {
            co_await suspend();
            *section = static_cast<int>(kept.use_count());
        };
        co_await m.async_with(std::ref(awaited));
        BOOST_TEST(kept.use_count() == 2);
        auto plain = [kept](auto& section)
        { return *section + static_cast<int>(kept.use_count()); };
        BOOST_TEST(co_await m.async_with(std::ref(plain)) == 5);
        co_await suspend();
        BOOST_TEST(kept.use_count() == 3);
    };
    check_count(test);
}

BOOST_AUTO_TEST_CASE(async_wait_may_be_given_a_named_predicate)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        condition ready(mutex);
        auto guard = co_await mutex.async_lock();
        auto holds = [kept] { return kept.use_count() >= 2; };
        co_await ready.async_wait(guard, std::ref(holds));
        co_await suspend();
        BOOST_TEST(kept.use_count() == 2);
        auto never = [kept] { return false; };
        const bool held =
            co_await ready.async_wait_for(guard, std::chrono::seconds(0), std::ref(never));
        BOOST_TEST(!held);
        co_await suspend();
        BOOST_TEST(kept.use_count() == 3);
    };
    check_count(test);
}

// --- a stored operation -----------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_operation_may_be_named_and_moved)
{
    const auto test = [](async_mutex& mutex, text& kept) -> asio::awaitable<void>
    {
        auto body = [kept](auto&) -> asio::awaitable<void>
        {
            co_await suspend();
            BOOST_TEST(kept.use_count() == 3);
        };
        auto operation = with_lock(mutex, body);
        BOOST_TEST(kept.use_count() == 3);
        co_await std::move(operation);
    };
    check_count(test);
}
