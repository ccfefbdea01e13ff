// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Waiters of one session hand a lock over among themselves, over a real server.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <support/expect.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/redis_server.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_mutex;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::redis::mutex_options;
using turnstile::redis::redis_error;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::test::candidate;
using turnstile::test::contains;
using turnstile::test::lock_client;
using turnstile::test::lock_view;
using turnstile::test::redis_server;
using turnstile::test::scripts_run;
using turnstile::test::undisturbed;
using turnstile::test::until;

using candidates = std::vector<std::unique_ptr<candidate>>;

mutex_options cohort_of(std::uint32_t hand_overs)
{
    mutex_options result;
    return result.cohort(hand_overs);
}

/// A session whose cohort for "a" makes this many hand-overs per run.
struct cohort_client : lock_client
{
    cohort_client(const redis_server& server, std::uint32_t hand_overs,
                  const std::string& name = "turnstile")
        : lock_client(undisturbed(server.url() + "?client_name=" + name))
    {
        choose("a", cohort_of(hand_overs));
        BOOST_TEST(!ready());
        // The ping is answered after the session has registered its description.
        BOOST_TEST(!ping());
    }

    candidates lock_all(std::size_t count)
    {
        candidates result;
        for (std::size_t i = 0; i < count; ++i)
            result.push_back(lock("a"));
        return result;
    }
};

/// The data that a lock protects, with checks that the lock excludes others.
struct notebook
{
    bool is_open = false;
    std::uint64_t newest = 0;
    int entries = 0;
};

asio::awaitable<void> write(async_mutex& mutex, notebook& book, int entries)
{
    const auto executor = co_await asio::this_coro::executor;
    for (int i = 0; i < entries; ++i)
    {
        auto guard = co_await mutex.async_lock();
        BOOST_TEST(!book.is_open);
        BOOST_TEST(guard.valid());
        BOOST_TEST(guard.fencing_token() > book.newest);
        book.is_open = true;
        book.newest = guard.fencing_token();
        ++book.entries;
        co_await asio::post(executor, asio::deferred);
        book.is_open = false;
        if (i % 2 == 0)
            co_await guard.async_unlock();
    }
}

template <class Function>
std::string refusal(const Function& make)
{
    asio::io_context context;
    session unconnected(context, config());
    try
    {
        make(unconnected);
    }
    catch (const redis_error& error)
    {
        BOOST_TEST(error.code() == make_error_code(errc::invalid_config));
        return error.what();
    }
    return "nothing was thrown";
}

}  // namespace

BOOST_AUTO_TEST_CASE(hand_overs_within_a_cohort_need_no_commands)
{
    const redis_server server;
    cohort_client client(server, 10);
    const std::uint64_t before = scripts_run(server);
    const candidates all = client.lock_all(5);
    std::uint64_t last = 0;
    for (const auto& each : all)
    {
        BOOST_TEST(each->result() == "held");
        BOOST_TEST(each->holds());
        BOOST_TEST(each->fence() > last);
        last = each->fence();
        BOOST_TEST(each->unlock() == error_code());
        BOOST_TEST(!each->holds());
    }
    BOOST_TEST(client.metrics().handed_over == 4U);
    BOOST_TEST(client.metrics().acquires == 1U);
    BOOST_TEST(client.metrics().releases == 1U);
    BOOST_TEST(client.metrics().lock_wait.count == 5U);
    BOOST_TEST(scripts_run(server) == before + 2);
    // The server knows the last token of the run.
    BOOST_TEST(lock_view(server, "a").number("fence") == last);
    BOOST_TEST(lock_view(server, "a").holder() == "");
}

BOOST_AUTO_TEST_CASE(without_a_cohort_each_acquire_sends_a_command)
{
    const redis_server server;
    cohort_client client(server, 0);
    const std::uint64_t before = scripts_run(server);
    for (const auto& each : client.lock_all(5))
    {
        BOOST_TEST(each->result() == "held");
        BOOST_TEST(each->unlock() == error_code());
    }
    BOOST_TEST(client.metrics().handed_over == 0U);
    BOOST_TEST(scripts_run(server) == before + 10);
}

BOOST_AUTO_TEST_CASE(other_sessions_are_granted_the_lock_after_the_maximum_of_hand_overs)
{
    const redis_server server;
    cohort_client first(server, 3);
    cohort_client second(server, 3);
    const lock_view view(server, "a");
    candidates ours = first.lock_all(10);
    BOOST_TEST(ours[0]->result() == "held");
    candidates theirs = second.lock_all(2);
    BOOST_TEST(until([&] { return view.queued() == 1; }));

    std::uint64_t last = 0;
    const auto pass = [&](const candidate& each)
    {
        BOOST_TEST(each.fence() > last);
        last = each.fence();
    };
    // A run consists of the granted waiter and three more.
    for (std::size_t i = 0; i < 4; ++i)
    {
        BOOST_TEST(ours[i]->result() == "held");
        BOOST_TEST(!theirs[0]->is_complete());
        pass(*ours[i]);
        if (i < 3)
            BOOST_TEST(ours[i]->unlock() == error_code());
    }
    // The session's next waiter is queued behind the other session's.
    BOOST_TEST(until([&] { return view.queued() == 2; }));
    BOOST_TEST(ours[3]->unlock() == error_code());
    for (const auto& each : theirs)
    {
        BOOST_TEST(each->result() == "held");
        BOOST_TEST(!ours[4]->is_complete());
        pass(*each);
        BOOST_TEST(each->unlock() == error_code());
    }
    for (std::size_t i = 4; i < ours.size(); ++i)
    {
        BOOST_TEST(ours[i]->result() == "held");
        pass(*ours[i]);
        BOOST_TEST(ours[i]->unlock() == error_code());
    }
    // The ten grants took three runs. Two of the runs ended because they had reached the limit.
    BOOST_TEST(first.metrics().acquires == 3U);
    BOOST_TEST(first.metrics().handed_over == 7U);
    BOOST_TEST(second.metrics().handed_over == 1U);
}

BOOST_AUTO_TEST_CASE(tokens_rise_under_contention_of_two_sessions)
{
    constexpr int writers = 12;
    constexpr int entries = 10;
    const redis_server server;
    asio::io_context context;
    session one(context, undisturbed(server.url()), session_thread::own);
    session two(context, undisturbed(server.url()), session_thread::own);
    // The first session uses two mutex objects for the same lock.
    async_mutex first(one, "a", cohort_of(5));
    async_mutex again(one, "a", cohort_of(5));
    async_mutex second(two, "a", cohort_of(3));
    notebook book;
    const auto rethrow = [](const std::exception_ptr& failure)
    {
        if (failure)
            std::rethrow_exception(failure);
    };
    for (int i = 0; i < writers; ++i)
    {
        async_mutex& mutex = i % 4 == 0 ? again : i % 2 == 0 ? first : second;
        asio::co_spawn(context, write(mutex, book, entries), rethrow);
    }
    context.run();
    BOOST_TEST(book.entries == writers * entries);
    const auto sections = std::uint64_t{writers} * entries;
    // Each critical section began with an acquire or with a hand-over.
    BOOST_TEST(until(
        [&]
        {
            const auto first_metrics = one.metrics();
            const auto second_metrics = two.metrics();
            return first_metrics.handed_over > 0U && second_metrics.handed_over > 0U &&
                   first_metrics.acquires + first_metrics.handed_over + second_metrics.acquires +
                           second_metrics.handed_over ==
                       sections;
        }));
}

BOOST_AUTO_TEST_CASE(a_loss_in_the_middle_of_a_run_is_reported_and_the_next_one_waits)
{
    const redis_server server;
    cohort_client first(server, 10, "first");
    cohort_client second(server, 10, "second");
    const lock_view view(server, "a");
    candidates ours = first.lock_all(3);
    BOOST_TEST(ours[0]->result() == "held");
    BOOST_TEST(ours[0]->unlock() == error_code());
    BOOST_TEST(ours[1]->result() == "held");
    // The server forgets the holder, and grants the lock to the other session.
    server.run({"DEL", view.keys[0], view.keys[1], view.keys[2]});
    const auto other = second.lock("a");
    BOOST_TEST(other->result() == "held");
    BOOST_TEST(other->fence() > ours[1]->fence());
    const std::uint64_t connections = first.metrics().connections;
    BOOST_TEST(turnstile::test::kill_connections(server, "first") == 1);
    BOOST_TEST(until([&] { return first.metrics().connections > connections; }));
    BOOST_TEST(until([&] { return ours[1]->knows_of_loss(); }));
    BOOST_TEST(!ours[1]->holds());
    BOOST_TEST(ours[1]->unlock() == make_error_code(turnstile::errc::lost));
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(!ours[2]->is_complete());
    BOOST_TEST(other->unlock() == error_code());
    BOOST_TEST(ours[2]->result() == "held");
    BOOST_TEST(ours[2]->fence() > other->fence());
}

BOOST_AUTO_TEST_CASE(the_position_of_a_cancelled_waiter_passes_to_the_next_one)
{
    const redis_server server;
    cohort_client first(server, 3);
    cohort_client second(server, 3);
    const lock_view view(server, "a");
    const auto other = second.lock("a");
    BOOST_TEST(other->result() == "held");
    candidates ours = first.lock_all(3);
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    const auto last = second.lock("a");
    ours[0]->cancel();
    ours[1]->cancel();
    const std::string aborted = error_code(asio::error::operation_aborted).message();
    BOOST_TEST(ours[0]->result() == aborted);
    BOOST_TEST(ours[1]->result() == aborted);
    BOOST_TEST(first.metrics().cancels == 0U);
    BOOST_TEST(view.queued() == 1);
    BOOST_TEST(other->unlock() == error_code());
    BOOST_TEST(last->result() == "held");
    BOOST_TEST(last->unlock() == error_code());
    BOOST_TEST(ours[2]->result() == "held");
}

BOOST_AUTO_TEST_CASE(time_limits_and_tries)
{
    const redis_server server;
    cohort_client client(server, 3);
    const auto holder = client.lock("a");
    BOOST_TEST(holder->result() == "held");
    BOOST_TEST(client.try_lock("a")->result() == "not held");
    BOOST_TEST(client.try_lock_for("a", 10ms)->result() == "not held");
    const auto patient = client.try_lock_for("a", 1h);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(patient->result() == "held");
    BOOST_TEST(until([&] { return client.metrics().handed_over == 1U; }));
    BOOST_TEST(client.metrics().cancels == 0U);
}

BOOST_AUTO_TEST_CASE(owner_tokens_are_handed_over_within_a_cohort)
{
    const redis_server server;
    asio::io_context context;
    session one(context, undisturbed(server.url()), session_thread::own);
    async_mutex mutex(one, "a", cohort_of(3));
    std::vector<turnstile::owner_token> tokens;
    const auto enter = [&]() -> asio::awaitable<void>
    {
        const turnstile::owner_token mine = co_await mutex.async_enter();
        tokens.push_back(mine);
        co_await mutex.async_leave(mine);
        error_code again;
        co_await mutex.async_leave(mine, asio::redirect_error(asio::deferred, again));
        BOOST_TEST(again == make_error_code(turnstile::errc::not_owner));
    };
    for (int i = 0; i < 3; ++i)
        asio::co_spawn(context, enter(),
                       [](const std::exception_ptr& failure) { BOOST_TEST(!failure); });
    context.run();
    BOOST_TEST_REQUIRE(tokens.size() == 3U);
    BOOST_TEST(tokens[1].value() > tokens[0].value());
    BOOST_TEST(tokens[2].value() > tokens[1].value());
    BOOST_TEST(one.metrics().handed_over == 2U);
}

BOOST_AUTO_TEST_CASE(closing_a_session_releases_the_lock_and_fails_its_waiters)
{
    const redis_server server;
    cohort_client first(server, 3);
    cohort_client second(server, 3);
    candidates ours = first.lock_all(4);
    BOOST_TEST(ours[0]->result() == "held");
    BOOST_TEST(ours[0]->unlock() == error_code());
    BOOST_TEST(ours[1]->result() == "held");
    const auto other = second.lock("a");
    BOOST_TEST(first.close() == error_code());
    const std::string closed = make_error_code(errc::session_closed).message();
    BOOST_TEST(ours[2]->result() == closed);
    BOOST_TEST(ours[3]->result() == closed);
    BOOST_TEST(!ours[1]->holds());
    BOOST_TEST(other->result() == "held");
    BOOST_TEST(other->fence() > ours[1]->fence());
}

BOOST_AUTO_TEST_CASE(destroying_a_mutex_aborts_only_its_own_waiters)
{
    const redis_server server;
    asio::io_context context;
    session one(context, undisturbed(server.url()), session_thread::own);
    auto first = std::make_unique<async_mutex>(one, "a", cohort_of(3));
    async_mutex second(one, "a", cohort_of(3));
    async_mutex::guard_type guard;
    error_code gone;
    bool is_held = false;
    first->async_lock([&](error_code, async_mutex::guard_type got) { guard = std::move(got); });
    BOOST_TEST(context.run_one() == 1U);
    first->async_lock([&](error_code error, const async_mutex::guard_type&) { gone = error; });
    second.async_lock(
        [&](error_code error, const async_mutex::guard_type& got)
        {
            BOOST_TEST(!error);
            is_held = got.owns_lock();
        });
    first.reset();
    context.restart();
    BOOST_TEST(context.run_one() == 1U);
    BOOST_TEST(gone == error_code(asio::error::operation_aborted));
    BOOST_TEST(guard.valid());
    guard = async_mutex::guard_type();
    context.restart();
    BOOST_TEST(context.run_one() == 1U);
    BOOST_TEST(is_held);
    BOOST_TEST(until([&] { return one.metrics().handed_over == 1U; }));
}

BOOST_AUTO_TEST_CASE(cohorts_out_of_range_are_refused)
{
    BOOST_TEST(contains(
        refusal([](session& s) { async_mutex(s, "a", cohort_of(mutex_options::max_cohort + 1)); }),
        "10001, but has to be at most 10000"));
    BOOST_TEST(
        contains(refusal([](session& s) { async_mutex(s, "a", cohort_of(1).durability(1)); }),
                 "only mutexes without durability"));
    BOOST_TEST(
        contains(refusal([](session& s) { turnstile::redis::shared_mutex(s, "a", cohort_of(1)); }),
                 "only mutexes without durability"));
    BOOST_TEST(contains(
        refusal([](session& s) { turnstile::redis::async_semaphore(s, "a", 1, cohort_of(1)); }),
        "only mutexes without durability"));
}
