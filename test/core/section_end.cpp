// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests that the end of a section does not use the fallback executor of its object. Another thread may destroy the
// object meanwhile, and then the context of that executor.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/require.hpp>
#include <boost/test/unit_test.hpp>
#include <exception>
#include <stdexcept>
#include <string>
#include <support/minimal_executor.hpp>
#include <turnstile/async_mutex.hpp>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/job_queue.hpp>
#include <turnstile/monitor.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/with_job.hpp>
#include <turnstile/with_lock.hpp>
#include <utility>

namespace {

namespace asio = boost::asio;
using turnstile::synchronized;

/// The executor of an io_context. Counts its copies.
class counted_executor : public turnstile::test::minimal_executor<counted_executor>
{
public:
    explicit counted_executor(asio::io_context& context) noexcept
        : minimal_executor(context)
    {
    }

    counted_executor(const counted_executor& other) noexcept
        : minimal_executor(other)
    {
        ++copies;
    }

    counted_executor(counted_executor&&) noexcept = default;
    counted_executor& operator=(const counted_executor&) = delete;
    ~counted_executor() = default;

    template <class F>
    void execute(F f) const
    {
        asio::require(query(asio::execution::context).get_executor(),
                      asio::execution::blocking.never)
            .execute(std::move(f));
    }

    inline static int copies = 0;
};

/// Starts a section on a context of its own. Its body calls the function that it receives when it is about to end.
template <class Start>
void check(Start start)
{
    asio::io_context own;
    int before = -1;
    bool is_done = false;
    const auto at_end = [&] { before = counted_executor::copies; };
    start(at_end, asio::bind_executor(own,
                                      [&](std::exception_ptr)
                                      {
                                          BOOST_TEST(counted_executor::copies == before);
                                          is_done = true;
                                      }));
    own.run();
    BOOST_TEST(is_done);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_end_of_a_section_does_not_use_the_executor_of_its_object)
{
    asio::io_context context;
    const counted_executor executor(context);
    turnstile::basic_async_mutex<counted_executor, synchronized> mutex(executor);
    turnstile::basic_async_semaphore<counted_executor, synchronized> semaphore(executor, 1);
    const auto start_with_lock = [&](auto at_end, auto handler)
    { turnstile::with_lock(mutex, [=](auto&) { at_end(); }, handler); };
    const auto start_with_permit = [&](auto at_end, auto handler)
    {
        const auto body = [=](auto&) -> asio::awaitable<void>
        {
            at_end();
            co_return;
        };
        turnstile::with_permit(semaphore, 1, body, handler);
    };
    check(start_with_lock);
    check(start_with_permit);
}

BOOST_AUTO_TEST_CASE(the_end_of_a_job_does_not_use_the_executor_of_its_queue)
{
    asio::io_context context;
    const counted_executor executor(context);
    turnstile::basic_job_queue<std::string, counted_executor, synchronized> jobs(executor);
    asio::cancellation_signal stop;
    const auto start_and_finish = [&](auto at_end, auto handler)
    { turnstile::with_job(jobs, [=](auto&) { at_end(); }, handler); };
    const auto start_and_fail = [&](auto at_end, auto handler)
    {
        const auto body = [=](auto&)
        {
            at_end();
            throw std::runtime_error("a failure");
        };
        turnstile::with_job(jobs, body, handler);
    };
    const auto start_and_release = [&](auto at_end, auto handler)
    {
        const auto body = [&stop, at_end](auto&)
        {
            stop.emit(asio::cancellation_type::terminal);
            at_end();
            throw std::runtime_error("cancelled");
        };
        turnstile::with_job(jobs, body, asio::bind_cancellation_slot(stop.slot(), handler));
    };
    const auto count = [&]
    {
        turnstile::job_counts counts;
        jobs.async_counts(asio::bind_executor(
            context, [&](const turnstile::error_code&, const turnstile::job_counts& result)
            { counts = result; }));
        context.restart();
        context.run();
        return counts;
    };
    jobs.async_push("finished", asio::detached);
    check(start_and_finish);
    BOOST_TEST(count().waiting == 0U);
    jobs.async_push("returned, then dead", turnstile::push_options().attempts(2), asio::detached);
    check(start_and_release);
    BOOST_TEST(count().waiting == 1U);
    check(start_and_fail);
    BOOST_TEST(count().dead == 1U);
}
