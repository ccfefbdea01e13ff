// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A process forks while it has a session. The child cannot use it, and the parent still can.

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <support/attempt.hpp>
#include <support/end_of.hpp>
#include <support/lock_client.hpp>
#include <support/redis_server.hpp>
#include <support/start.hpp>
#include <sys/wait.h>
#include <thread>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/session.hpp>
#include <unistd.h>

namespace {

namespace asio = boost::asio;
namespace data = boost::unit_test::data;
using namespace std::chrono_literals;
using turnstile::redis::async_mutex;
using turnstile::redis::config;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::test::attempt;
using turnstile::test::drain;
using turnstile::test::end_of;
using turnstile::test::path;
using turnstile::test::redis_server;
using turnstile::test::start;
using turnstile::test::undisturbed;
using turnstile::test::until;
using guard_attempt = attempt<async_mutex::guard_type>;

/// Runs a function in a forked process. Returns whether the function returned true there.
template <class Function>
bool in_a_child(asio::io_context& context, Function function)
{
    context.notify_fork(asio::execution_context::fork_prepare);
    const pid_t child = ::fork();
    if (child == 0)
    {
        context.notify_fork(asio::execution_context::fork_child);
        ::alarm(60);
        ::_exit(function() ? 0 : 1);
    }
    context.notify_fork(asio::execution_context::fork_parent);
    int status = -1;
    return ::waitpid(child, &status, 0) == child && status == 0;
}

/// The renewals come soon, and long before the end of the lease.
config frequent_renewals(const redis_server& server)
{
    config result = undisturbed(server.url());
    result.lease = 20s;
    result.claim_lease = result.lease;
    result.renew_fraction = 0.05;
    result.health_check = 6s;
    return result;
}

}  // namespace

BOOST_DATA_TEST_CASE(a_forked_child_finds_its_session_closed, data::make({false, true}), own)
{
    const redis_server server;
    asio::io_context context;
    // Nothing runs the context while the child lives.
    auto s = std::make_unique<session>(context, undisturbed(server.url()),
                                       own ? session_thread::own : session_thread::shared);
    async_mutex mutex(*s, "a");
    guard_attempt holder;
    start(path::handler, asio::any_io_executor(context.get_executor()), holder,
          [&] { return mutex.async_lock(); });
    const auto completes = [&](const auto& who)
    {
        return until(
            [&]
            {
                drain(context);
                return who.is_complete();
            });
    };
    BOOST_REQUIRE(completes(holder));

    BOOST_TEST(in_a_child(context,
                          [&]
                          {
                              guard_attempt heir;
                              start(path::handler, asio::any_io_executor(context.get_executor()),
                                    heir, [&] { return mutex.async_lock(); });
                              attempt<> ready;
                              turnstile::test::launch(path::handler, context.get_executor(), ready,
                                                      [&] { return s->async_ready(); });
                              const bool refused = completes(heir) && completes(ready) &&
                                                   heir.state() == "the session is closed";
                              // In the child, these statements neither release the parent's lock nor block.
                              holder.value() = {};
                              s.reset();
                              return refused;
                          }));

    // The parent's session still works.
    BOOST_TEST(holder.value().valid());
    attempt<> ping;
    turnstile::test::launch(path::handler, context.get_executor(), ping,
                            [&] { return s->async_ping(); });
    BOOST_TEST(completes(ping));
    BOOST_TEST(ping.state() == "done");
    BOOST_TEST(s->metrics().connections == 1U);
    attempt<> release;
    turnstile::test::launch(path::handler, context.get_executor(), release,
                            [&] { return holder.value().async_unlock(); });
    BOOST_TEST(completes(release));
    BOOST_TEST(release.state() == "done");
}

// The session's thread posts a handler to the context, which may run it and fork before the thread has finished the
// post.
BOOST_AUTO_TEST_CASE(a_child_that_is_forked_during_a_completion_finds_its_session_closed)
{
    const redis_server server;
    asio::io_context context;
    session s(context, undisturbed(server.url()), session_thread::own);
    attempt<> connected;
    turnstile::test::launch(path::handler, context.get_executor(), connected,
                            [&] { return s.async_ready(); });
    BOOST_REQUIRE(end_of(context, connected) == "done");
    for (int i = 0; i < 50; ++i)
    {
        attempt<> ping;
        turnstile::test::launch(path::handler, context.get_executor(), ping,
                                [&] { return s.async_ping(); });
        BOOST_REQUIRE(end_of(context, ping) == "done");
        BOOST_REQUIRE(in_a_child(context,
                                 [&]
                                 {
                                     attempt<> ready;
                                     turnstile::test::launch(path::handler, context.get_executor(),
                                                             ready,
                                                             [&] { return s.async_ready(); });
                                     return end_of(context, ready) == "the session is closed" &&
                                            s.metrics().connections == 0;
                                 }));
    }
}

// A token, and a part of a permit, are stored in data of the session.
BOOST_AUTO_TEST_CASE(a_child_that_is_forked_during_the_use_of_a_guard_can_destroy_its_mutex)
{
    const redis_server server;
    asio::io_context context;
    session s(context, undisturbed(server.url()), session_thread::own);
    auto mutex = std::make_unique<async_mutex>(s, "a");
    guard_attempt holder;
    start(path::handler, context, holder, [&] { return mutex->async_lock(); });
    BOOST_REQUIRE(end_of(context, holder) == "done");
    std::atomic<bool> ends = false;
    std::thread user(
        [&]
        {
            while (!ends)
            {
                const turnstile::owner_token token = holder.value().release();
                holder.value() = async_mutex::guard_type(*mutex, token, turnstile::adopt_lock);
            }
        });
    int children = 0;
    while (children < 50 && in_a_child(
                                context,
                                [&]
                                {
                                    mutex.reset();
                                    return true;
                                }))
        ++children;
    ends = true;
    user.join();
    BOOST_TEST(children == 50);
    BOOST_TEST(holder.value().valid());
}

// The kernel's timer is in an epoll set that both processes share.
BOOST_AUTO_TEST_CASE(a_child_that_destroys_its_session_leaves_the_renewals_to_its_parent)
{
    redis_server server;
    server.kill();
    asio::io_context context;
    auto s = std::make_unique<session>(context, frequent_renewals(server));
    drain(context);

    // While the session connects, its timer has no other owner. The child does not call notify_fork().
    const pid_t child = ::fork();
    if (child == 0)
    {
        s.reset();
        ::_exit(0);
    }
    int status = -1;
    BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);

    server.start();
    async_mutex mutex(*s, "a");
    guard_attempt holder;
    start(path::handler, context, holder, [&] { return mutex.async_lock(); });
    BOOST_REQUIRE(end_of(context, holder) == "done");
    BOOST_TEST(until(
        [&]
        {
            drain(context);
            return s->metrics().renewals > 3;
        }));
}

// Both processes share the kernel's timer for the leases.
BOOST_AUTO_TEST_CASE(a_child_that_runs_its_context_leaves_the_renewals_to_its_parent)
{
    const redis_server server;
    asio::io_context context;
    session s(context, frequent_renewals(server));
    async_mutex mutex(s, "a");
    guard_attempt holder;
    start(path::handler, context, holder, [&] { return mutex.async_lock(); });
    BOOST_REQUIRE(end_of(context, holder) == "done");

    int to_parent[2];
    BOOST_REQUIRE(::pipe(to_parent) == 0);
    context.notify_fork(asio::execution_context::fork_prepare);
    const pid_t child = ::fork();
    if (child == 0)
    {
        context.notify_fork(asio::execution_context::fork_child);
        context.poll();
        // If the parent fails, nobody ends this process.
        ::alarm(120);
        if (::write(to_parent[1], "", 1) == 1)
            context.run();
        ::pause();
    }
    context.notify_fork(asio::execution_context::fork_parent);
    char ready = 1;
    BOOST_REQUIRE(::read(to_parent[0], &ready, 1) == 1);
    const auto so_far = s.metrics().renewals;
    BOOST_TEST(until(
        [&]
        {
            drain(context);
            return s.metrics().renewals > so_far + 3;
        }));
    BOOST_TEST(holder.value().valid());
    ::kill(child, SIGKILL);
    BOOST_TEST(::waitpid(child, nullptr, 0) == child);
    for (const int end : to_parent)
        ::close(end);
}
