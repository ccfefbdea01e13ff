// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Processes that hold a lock, or wait for one, are killed and stopped.

#include <boost/test/unit_test.hpp>
#include <memory>
#include <string>
#include <support/candidates.hpp>
#include <support/fault_leases.hpp>
#include <support/fault_scene.hpp>
#include <support/lock_client.hpp>
#include <support/lock_process.hpp>
#include <support/lock_view.hpp>
#include <support/raw_client.hpp>
#include <support/redis_server.hpp>
#include <support/undisturbed_url.hpp>
#include <vector>

namespace {

using turnstile::error_code;
using turnstile::test::brief;
using turnstile::test::candidate;
using turnstile::test::enqueued;
using turnstile::test::expiring;
using turnstile::test::expiring_lease;
using turnstile::test::granted;
using turnstile::test::listeners;
using turnstile::test::lock_client;
using turnstile::test::lock_fault_scene;
using turnstile::test::lock_process;
using turnstile::test::lock_view;
using turnstile::test::raw_client;
using turnstile::test::redis_server;
using turnstile::test::scripts_run;
using turnstile::test::surviving;
using turnstile::test::undisturbed_url;
using turnstile::test::until;
using turnstile::test::write_register;

/// The time of the server's clock, in microseconds.
std::uint64_t server_time(const redis_server& server)
{
    const std::string both = server.cli({"TIME"});
    const auto end = both.find('\n');
    return std::stoull(both.substr(0, end)) * 1'000'000 + std::stoull(both.substr(end + 1));
}

/// A process that waits for the lock "a", ahead of a waiter of another session.
template <std::string Settings(const std::string& url)>
struct waiting_process
{
    waiting_process()
    {
        process.send("lock a");
        BOOST_TEST(until([&] { return view.queued() == 1; }));
        next = enqueued(third.lock("a"), view, 2);
    }

    const redis_server server;
    const lock_view view{server, "a"};
    lock_process process{server, Settings(server.url())};
    lock_client first{turnstile::redis::config(Settings(server.url()))};
    lock_client third{turnstile::redis::config(Settings(server.url()))};
    const std::unique_ptr<candidate> holder = granted(first.lock("a"));
    std::unique_ptr<candidate> next;
};

}  // namespace

// Fails without the nudge at the end of the holder's lease, and without expire_grant() in the scripts.
BOOST_AUTO_TEST_CASE(holder_sigkilled)
{
    const redis_server server;
    lock_process holder(server, expiring(server.url()));
    lock_client client(surviving(server.url()));
    const std::uint64_t first = std::stoull(holder.ask("lock a", "held a"));
    BOOST_TEST(holder.ask("write a", "accepted") == "a");
    const auto waiter = enqueued(client.lock("a"), lock_view(server, "a"), 1);

    BOOST_TEST(holder.kill());
    const std::uint64_t deadline = lock_view(server, "a").number("deadline");
    BOOST_TEST(waiter->result() == "held");
    // A token is the time of its grant, so the grant did not precede the end of the lease. A nudge of the waiter
    // ended the lease.
    BOOST_TEST(waiter->fence() >= deadline);
    BOOST_TEST(waiter->fence() > first);
    BOOST_TEST(client.metrics().nudges > 0U);
    BOOST_TEST(write_register(server, "a", waiter->fence()));
}

// Fails without fencing tokens that rise, and if the client does not end its lease by its own clock.
BOOST_AUTO_TEST_CASE(holder_sigstopped_for_two_leases_then_continued)
{
    const redis_server server;
    lock_process holder(server, expiring(server.url()));
    lock_client client(brief(server.url()));
    holder.ask("lock a", "held a");
    BOOST_TEST(holder.ask("write a", "accepted") == "a");
    BOOST_TEST(holder.ask("valid a", "valid a") == "yes");
    const auto waiter = enqueued(client.lock("a"), lock_view(server, "a"), 1);

    BOOST_TEST(holder.stop());
    const std::uint64_t stopped = server_time(server);
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(write_register(server, "a", waiter->fence()));
    BOOST_TEST(until([&] { return server_time(server) > stopped + 12'000'000; }));
    BOOST_TEST(!holder.has_said("lost"));
    // When the process continues, it writes first.
    holder.send("write a");
    holder.go_on();
    BOOST_TEST(holder.hear("refused") == "a");
    BOOST_TEST(holder.hear("lost") == "a");
    BOOST_TEST(holder.ask("valid a", "valid a") == "no");
    BOOST_TEST(holder.ask("unlock a", "released a") != "ok");
    BOOST_TEST(!holder.has_said("accepted"));
    BOOST_TEST(waiter->holds());
    BOOST_TEST(write_register(server, "a", waiter->fence()));
}

// Fails without the clock bound. Because of this bound, a client first confirms a grant that may be
// late, and enters it afterwards.
BOOST_FIXTURE_TEST_CASE(waiter_sigstopped_with_a_grant_in_its_buffers, waiting_process<expiring>)
{
    BOOST_TEST(process.stop());
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(next->result() == "held");
    // The next grant comes a claim lease after the unconfirmed one.
    BOOST_TEST(next->fence() >= holder->fence() + expiring_lease);
    process.go_on();
    // The stopped process has read the grant when it answers, because it reads messages before the answers behind them.
    BOOST_TEST(until([&] { return view.queued() == 1; }));
    BOOST_TEST(process.ask("valid a", "valid a") == "no");
    BOOST_TEST(!process.has_said("held"));
    BOOST_TEST(next->holds());
    BOOST_TEST(next->unlock() == error_code());
    BOOST_TEST(std::stoull(process.hear("held a")) > next->fence());
}

// Fails without PUBSUB NUMSUB before a grant.
BOOST_FIXTURE_TEST_CASE(waiter_sigkilled_at_the_head, waiting_process<undisturbed_url>)
{
    BOOST_TEST(listeners(server) == 3);
    BOOST_TEST(process.kill());
    BOOST_TEST(until([&] { return listeners(server) == 2; }));
    const std::uint64_t before = scripts_run(server);
    BOOST_TEST(holder->unlock() == error_code());
    // The release itself granted the lock: the leases are long, and no other script ran.
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(scripts_run(server) == before + 1);
    BOOST_TEST(view.queued() == 0);
    BOOST_TEST(until([&] { return third.metrics().granted_by_message == 1; }));
}

// Fails if the script relies on the result of PUBLISH instead of asking PUBSUB NUMSUB before a grant.
BOOST_FIXTURE_TEST_CASE(a_subscriber_of_all_channels_does_not_count_as_the_waiter,
                        waiting_process<undisturbed_url>)
{
    raw_client spy(server);
    spy.send({"PSUBSCRIBE", "*"});
    BOOST_TEST(until([&] { return server.cli({"PUBSUB", "NUMPAT"}) == "1"; }));
    BOOST_TEST(process.kill());
    BOOST_TEST(until([&] { return listeners(server) == 2; }));

    // PUBLISH would report one receiver, the spy.
    const std::uint64_t before = scripts_run(server);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(next->result() == "held");
    BOOST_TEST(scripts_run(server) == before + 1);
    BOOST_TEST(spy.hear("grant "));
}

// Fails without the answer `more`, and without the nudge that follows it.
BOOST_FIXTURE_TEST_CASE(ten_thousand_crashed_waiters, lock_fault_scene<>)
{
    constexpr int dead = 10'000;
    const auto holder = granted(far.lock("a"));
    const auto waiter = enqueued(near.lock("a"), view, 1);
    // The crashed waiters are ahead of the connected one.
    std::vector<std::string> words{"ZADD", view.keys[1]};
    for (int i = 1; i <= dead; ++i)
    {
        words.push_back(std::to_string(i));
        words.push_back("dead#1." + std::to_string(i));
    }
    BOOST_TEST(server.cli(words) == std::to_string(dead));
    BOOST_TEST(view.queued() == dead + 1);

    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(view.queued() == 0);
    // A script removes at most 64 crashed waiters, so it does not block the server for long.
    const std::uint64_t nudges = far.metrics().nudges + near.metrics().nudges;
    BOOST_TEST(nudges >= dead / 64U);
    BOOST_TEST(nudges <= dead / 64U + 2);
}
