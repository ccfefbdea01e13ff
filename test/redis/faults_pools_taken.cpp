// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Units that are taken and added for good (P and V). After each failure, the available units, the held units and the
// units outside add up to the capacity, and each client that has received an outcome knows which units it has taken.

#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <string>
#include <support/attempt.hpp>
#include <support/candidates.hpp>
#include <support/fault_leases.hpp>
#include <support/fault_scene.hpp>
#include <support/lock_client.hpp>
#include <support/lock_process.hpp>
#include <support/lock_view.hpp>
#include <support/pool_view.hpp>
#include <support/redis_server.hpp>
#include <support/run_until.hpp>
#include <support/start.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/event_reset.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/event.hpp>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::event_reset;
using turnstile::redis::config;
using turnstile::redis::event;
using turnstile::redis::session;
using turnstile::test::aborted;
using turnstile::test::attempt;
using turnstile::test::candidate;
using turnstile::test::endless;
using turnstile::test::enqueued;
using turnstile::test::errors;
using turnstile::test::expiring;
using turnstile::test::granted;
using turnstile::test::kill_connections;
using turnstile::test::lock_client;
using turnstile::test::lock_process;
using turnstile::test::never_within;
using turnstile::test::path;
using turnstile::test::pool_fault_scene;
using turnstile::test::pool_view;
using turnstile::test::redis_server;
using turnstile::test::run_until;
using turnstile::test::scripts_run;
using turnstile::test::start;
using turnstile::test::surviving;
using turnstile::test::tcp_proxy;
using turnstile::test::until;

/// Claim leases expire soon, also those of other sessions that this one grants, but no session gives up its connection.
config claiming(const std::string& url)
{
    config settings = endless(url);
    settings.claim_lease = 6s;
    return settings;
}

using claiming_pool = pool_fault_scene<5, claiming>;

/// A process that the test kills, connected through a proxy, and a session. They share a semaphore with three units.
struct pool_process_scene
{
    pool_process_scene() { client.size("a", 3); }

    const redis_server server;
    tcp_proxy proxy{server.port()};
    lock_process process{server, expiring(proxy.url())};
    lock_client client{surviving(server.url())};
    const pool_view view{server, "a"};
};

}  // namespace

// Fails if units are taken at the grant, and not claimed first.
BOOST_FIXTURE_TEST_CASE(taker_sigkilled_before_it_received_its_grant, pool_process_scene)
{
    proxy.swallow(tcp_proxy::to_client);
    process.send("take a 3 2");
    BOOST_TEST(until([&] { return view.held() == 2; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(process.kill());
    BOOST_TEST(client.value("a") == 1);
    // Another client can take the units after the claim lease has expired.
    BOOST_TEST(client.take("a", 3)->result() == "taken");
    BOOST_TEST(view.outside() == 3);
    BOOST_TEST(view.held() == 0);
    BOOST_TEST(view.holders() == 0);
    BOOST_TEST(client.value("a") == 0);
}

BOOST_FIXTURE_TEST_CASE(taker_sigkilled_before_it_received_the_confirmation, pool_process_scene)
{
    const auto holder = granted(client.acquire("a", 3));
    process.send("take a 3 2");
    BOOST_TEST(until([&] { return view.queued() == 1; }));

    // The process receives the grant. The server receives its confirmation at once or never.
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(until([&] { return view.outside() == 2; }));
    BOOST_TEST(process.kill());
    // The units stay outside, because the process took them before it was killed.
    BOOST_TEST(view.held() == 0);
    BOOST_TEST(client.value("a") == 1);
    BOOST_TEST(client.add("a", 2) == error_code());
    BOOST_TEST(client.value("a") == 3);
    BOOST_TEST(client.add("a", 1) == make_error_code(turnstile::errc::over_release));
}

// Fails without the claim, and if the release that leaves units outside does not count them in
// the same script.
BOOST_AUTO_TEST_CASE(takers_sigkilled_at_any_moment)
{
    constexpr int takers = 8;
    constexpr int units = 40;
    const redis_server server;
    lock_client client(surviving(server.url()));
    client.size("a", units);
    const pool_view view(server, "a");
    std::ptrdiff_t reported = 0;
    std::ptrdiff_t asked = 0;
    for (int i = 0; i < takers; ++i)
    {
        lock_process taker(server, expiring(server.url()));
        for (int j = 0; j < 4; ++j)
            taker.send("take a " + std::to_string(units) + " 1");
        asked += 4;
        // The process is killed after this many takes.
        for (int j = 0; j < i % 4; ++j)
        {
            BOOST_TEST(taker.hear("taken a") == "ok");
            ++reported;
        }
        BOOST_TEST(taker.kill());
        // The process may have completed more takes before it was killed.
        while (taker.has_said("taken a"))
        {
            BOOST_TEST(taker.hear("taken a") == "ok");
            ++reported;
        }
    }
    // Units that were granted but not taken are available again after a claim lease.
    BOOST_TEST(until([&] { return client.value("a") >= 0 && view.held() == 0; }));
    const auto outside = static_cast<std::ptrdiff_t>(view.outside());
    BOOST_TEST(outside >= reported);
    BOOST_TEST(outside <= asked);
    BOOST_TEST(reported >= 12);
    BOOST_TEST(client.value("a") + outside == units);
    BOOST_TEST(client.add("a", outside) == error_code());
    BOOST_TEST(client.add("a", 1) == make_error_code(turnstile::errc::over_release));
    BOOST_TEST(client.acquire("a", units)->result() == "held");
}

// Fails if a V does not serve the queue in the same script.
BOOST_FIXTURE_TEST_CASE(adder_sigkilled_before_it_received_the_confirmation, pool_process_scene)
{
    BOOST_TEST(client.take("a", 3)->result() == "taken");
    const auto waiter = enqueued(client.acquire("a", 2), view, 1);

    proxy.swallow(tcp_proxy::to_client);
    process.send("add a 3 2");
    BOOST_TEST(waiter->result() == "held");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(process.kill());
    BOOST_TEST(!process.has_said("added"));
    BOOST_TEST(view.outside() == 1);
    BOOST_TEST(client.value("a") == 0);
    BOOST_TEST(view.adds_up());
}

// Fails without resync.
BOOST_FIXTURE_TEST_CASE(reply_to_a_take_lost, pool_fault_scene<5>)
{
    BOOST_TEST(far.ready() == error_code());

    proxy.swallow(tcp_proxy::to_client);
    const auto taker = far.take("a", 2);
    BOOST_TEST(until([&] { return view.held() == 2; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    proxy.mend();
    BOOST_TEST(taker->result() == "taken");
    BOOST_TEST(view.outside() == 2);
    BOOST_TEST(near.value("a") == 3);
    BOOST_TEST(far.metrics().acquires == 1U);
}

BOOST_FIXTURE_TEST_CASE(cancelled_taker_does_not_wait_again_if_its_grant_expired, claiming_pool)
{
    const auto holder = granted(near.acquire("a", 5));
    const auto taker = enqueued(far.take("a", 2), view, 1);
    // The client receives the grant, but the server does not receive that the client takes the units.
    proxy.swallow(tcp_proxy::to_server);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(near.take("a", 5)->result() == "taken");
    taker->cancel();
    BOOST_TEST(never_within(50ms, [&] { return taker->is_complete(); }));
    proxy.mend();
    BOOST_TEST(taker->result() == aborted);
    BOOST_TEST(view.queued() == 0);
}

BOOST_AUTO_TEST_CASE(timed_out_wait_for_an_event_does_not_wait_again_if_its_grant_expired)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    attempt<std::cv_status> waiter;
    attempt<> setting;
    attempt<> next;
    boost::asio::io_context context;
    session client(context, claiming(proxy.url()));
    session other(context, claiming(server.url()));
    event signal(client, "a", event_reset::automatic);
    event same(other, "a", event_reset::automatic);
    const pool_view view(server, "a", "event");
    // The waiter has to be in the queue before its limit expires.
    constexpr auto limit = 6s;
    start(path::handler, context, waiter, [&] { return signal.async_wait_for(limit); });
    BOOST_TEST(run_until(context, [&] { return view.queued() == 1; }));
    proxy.swallow(tcp_proxy::to_server);
    start(path::handler, context, setting, [&] { return same.async_set(); });
    start(path::handler, context, next, [&] { return same.async_wait(); });
    const auto now = [] { return std::chrono::steady_clock::now(); };
    BOOST_TEST(
        run_until(context, [&, end = now() + limit] { return now() > end && next.is_complete(); }));
    BOOST_TEST(!waiter.is_complete());
    proxy.mend();
    BOOST_TEST(run_until(context, [&] { return waiter.is_complete(); }));
    BOOST_TEST(waiter.error() == error_code());
    BOOST_TEST((waiter.value() == std::cv_status::timeout));
}

// Fails without the name of each V, and if the pool does not remember the last result of each slot.
BOOST_AUTO_TEST_CASE(connections_killed_while_units_are_taken_and_added)
{
    constexpr int rounds = 40;
    const redis_server server;
    lock_client client(endless(server.url(), "mover"));
    lock_client other(endless(server.url()));
    client.size("a", 10);
    other.size("a", 10);
    const pool_view view(server, "a");
    BOOST_TEST(client.ready() == error_code());
    int killed = 0;
    for (int i = 0; i < rounds; ++i)
    {
        // The takes need twice the capacity, so some of them wait for units that are added.
        std::vector<std::unique_ptr<candidate>> all;
        for (int j = 0; j < 5; ++j)
            all.push_back(client.take("a", 4));
        killed += kill_connections(server, "mover");
        for (int j = 0; j < 5; ++j)
        {
            // At least four units are outside, so the next V is valid.
            BOOST_REQUIRE(until([&] { return view.outside() >= 4; }));
            all.push_back(client.start_add("a", 4));
            if (j == 2)
                killed += kill_connections(server, "mover");
            BOOST_REQUIRE(all.back()->result() == "added");
        }
        for (int j = 0; j < 5; ++j)
            BOOST_REQUIRE(all[static_cast<std::size_t>(j)]->result() == "taken");
        BOOST_REQUIRE(view.outside() == 0);
        BOOST_REQUIRE(other.value("a") == 10);
    }
    BOOST_TEST(killed >= rounds);
    BOOST_TEST(view.held() == 0);
}

// Fails if a V has no name, or if the pool does not remember it.
BOOST_FIXTURE_TEST_CASE(reply_to_an_addition_lost, pool_fault_scene<5>)
{
    BOOST_TEST(near.take("a", 5)->result() == "taken");
    BOOST_TEST(far.ready() == error_code());

    proxy.swallow(tcp_proxy::to_client);
    const auto adder = far.start_add("a", 2);
    BOOST_TEST(until([&] { return view.outside() == 3; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!adder->is_complete());
    const std::uint64_t before = scripts_run(server);
    proxy.mend();
    BOOST_TEST(adder->result() == "added");
    // The addition was sent again, but added nothing.
    BOOST_TEST(scripts_run(server) > before);
    BOOST_TEST(view.outside() == 3);
    BOOST_TEST(near.value("a") == 2);
}

// Fails if the pool does not store the memory of additions in one of its keys.
BOOST_AUTO_TEST_CASE(restart_with_aof_preserves_taken_and_added_units)
{
    redis_server server({"--appendonly", "yes", "--appendfsync", "always"});
    tcp_proxy proxy(server.port());
    lock_client client(endless(proxy.url()));
    client.size("a", 10);
    const pool_view view(server, "a");
    BOOST_TEST(client.take("a", 6)->result() == "taken");
    BOOST_TEST(client.add("a", 1) == error_code());
    const auto holder = granted(client.acquire("a", 2));
    proxy.swallow(tcp_proxy::to_client);
    const auto adder = client.start_add("a", 2);
    BOOST_TEST(until([&] { return view.outside() == 3; }));

    server.restart();
    proxy.mend();
    BOOST_TEST(adder->result() == "added");
    BOOST_TEST(view.outside() == 3);
    BOOST_TEST(holder->holds());
    BOOST_TEST(client.value("a") == 5);
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(client.value("a") == 7);
}

namespace {

/// Leases of a session whose claims expire soon, so that a test can wait for that. Its other leases outlast the test.
config short_claims(const std::string& url)
{
    return config(url + "?lease=10min&claim_lease=1s&" + turnstile::test::calm);
}

using short_claim_pool = pool_fault_scene<3, short_claims>;

}  // namespace

// Fails if units are taken at the grant, and not claimed first.
BOOST_FIXTURE_TEST_CASE(units_of_a_cancelled_take_come_back_after_its_session_has_ended,
                        short_claim_pool)
{
    BOOST_TEST(far.ready() == error_code());

    proxy.swallow(tcp_proxy::to_client);
    const auto taker = far.take("a", 2);
    BOOST_TEST(until([&] { return view.held() + view.outside() == 2; }));
    // Neither the answer to the take nor the cancellation arrives.
    taker->cancel();
    BOOST_TEST(taker->result() == aborted);
    far.destroy_session();
    BOOST_TEST(until([&] { return near.value("a") == 3; }));
    BOOST_TEST(view.outside() == 0);
}

// Fails if units are taken at the grant, and not claimed first.
BOOST_AUTO_TEST_CASE(units_of_a_take_whose_cancellation_was_refused_come_back)
{
    const redis_server server;
    server.run({"ACL", "SETUSER", "taker", "on", ">pw", "~*", "&*", "+@all"});
    config settings = short_claims(server.url());
    settings.username = "taker";
    settings.password = "pw";
    lock_client taking(settings);
    lock_client other(short_claims(server.url()));
    taking.size("a", 3);
    other.size("a", 3);
    const pool_view view(server, "a");
    const auto holder = granted(other.acquire("a", 3));
    const auto taker = enqueued(taking.take("a", 2), view, 1);

    server.run({"ACL", "SETUSER", "taker", "-evalsha"});
    const std::uint64_t before = errors(server, "NOPERM");
    taker->cancel();
    BOOST_TEST(taker->result() == aborted);
    BOOST_TEST(until([&] { return errors(server, "NOPERM") > before; }));
    server.run({"ACL", "SETUSER", "taker", "+evalsha"});

    // The server does not know of the cancellation, and grants the units.
    BOOST_TEST(holder->unlock() == error_code());
    BOOST_TEST(until([&] { return other.value("a") == 3; }));
    BOOST_TEST(view.outside() == 0);
}

namespace {

/// The units that sessions have taken and added, as far as the sessions know.
struct account
{
    std::ptrdiff_t out = 0;
    std::ptrdiff_t perhaps_taken = 0;
    std::ptrdiff_t perhaps_added = 0;
    int taken = 0;
    int cancelled = 0;
};

/// A session that moves units. It has a proxy of its own, and a user that can lose its rights.
class mover
{
public:
    static constexpr std::ptrdiff_t capacity = 12;

    mover(const redis_server& server, account& book)
        : book_(book)
        , proxy(server.port())
        , client_(settings(proxy.url()))
    {
        client_.size("a", capacity);
        BOOST_TEST(client_.ready() == error_code());
    }

    void take(std::ptrdiff_t units) { takes_.push_back({client_.take("a", units), units}); }

    void cancel_every_other_take()
    {
        for (std::size_t i = 0; i < takes_.size(); i += 2)
            takes_[i].who->cancel();
    }

    /// Records completed operations, and adds the taken units again. Returns whether all operations have completed.
    bool go_on()
    {
        std::erase_if(takes_,
                      [this](const move& each) { return each.who->is_complete() && book(each); });
        std::erase_if(adds_, [this](const move& each)
                      { return each.who->is_complete() && book_add(each); });
        for (const std::ptrdiff_t units : std::exchange(to_add_, {}))
            adds_.push_back({client_.start_add("a", units), units});
        return takes_.empty() && adds_.empty();
    }

private:
    struct move
    {
        std::unique_ptr<candidate> who;
        std::ptrdiff_t units;
    };

    static config settings(const std::string& url)
    {
        config result = short_claims(url);
        result.client_name = "mover";
        result.username = "mover";
        result.password = "pw";
        return result;
    }

    bool book(const move& take)
    {
        const error_code error = take.who->error();
        if (!error)
        {
            book_.out += take.units;
            ++book_.taken;
            to_add_.push_back(take.units);
        }
        else if (error == turnstile::redis::errc::unknown_outcome)
            book_.perhaps_taken += take.units;
        else if (error == boost::asio::error::operation_aborted)
            ++book_.cancelled;
        return true;
    }

    bool book_add(const move& add)
    {
        const error_code error = add.who->error();
        BOOST_TEST((error != turnstile::errc::over_release));
        if (!error)
            book_.out -= add.units;
        else if (error == turnstile::redis::errc::unknown_outcome)
            book_.perhaps_added += add.units;
        else
            to_add_.push_back(add.units);
        return true;
    }

    account& book_;

public:
    tcp_proxy proxy;

private:
    lock_client client_;
    std::vector<move> takes_;
    std::vector<move> adds_;
    std::vector<std::ptrdiff_t> to_add_;
};

}  // namespace

// Fails without the name of each V, without the claim, and if the refusal of a repeated command does not
// make its outcome unknown.
BOOST_AUTO_TEST_CASE(units_add_up_under_kills_stalls_and_lost_rights)
{
    constexpr int rounds = 32;
    const redis_server server;
    server.run({"ACL", "SETUSER", "mover", "on", ">pw", "~*", "&*", "+@all"});
    account book;
    std::vector<std::unique_ptr<mover>> movers;
    for (int i = 0; i < 4; ++i)
        movers.push_back(std::make_unique<mover>(server, book));
    lock_client judge(short_claims(server.url()));
    judge.size("a", mover::capacity);

    for (int i = 0; i < rounds; ++i)
    {
        // The takes need twice the capacity, so some of them wait.
        const auto take = [&](std::ptrdiff_t units)
        {
            for (const auto& each : movers)
                each->take(units);
        };
        tcp_proxy& proxy = movers[static_cast<std::size_t>(i / 4 % 4)]->proxy;
        const std::uint64_t refused = errors(server, "NOPERM");
        take(3);
        take(2);
        switch (i % 4)
        {
        case 0:
            BOOST_TEST(kill_connections(server, "mover") > 0);
            break;
        case 1:
            proxy.hold();
            break;
        case 2:
            proxy.hold();
            kill_connections(server, "mover");
            break;
        default:
            server.run({"ACL", "SETUSER", "mover", "-evalsha"});
        }
        take(1);
        for (const auto& each : movers)
        {
            each->go_on();
            each->cancel_every_other_take();
        }
        switch (i % 4)
        {
        case 0:
            kill_connections(server, "mover");
            break;
        case 1:
            proxy.resume();
            break;
        case 2:
            proxy.cut();
            proxy.resume();
            break;
        default:
            BOOST_TEST(until([&] { return errors(server, "NOPERM") > refused; }));
            server.run({"ACL", "SETUSER", "mover", "+evalsha"});
        }
        BOOST_REQUIRE(until(
            [&]
            {
                bool is_over = true;
                for (const auto& each : movers)
                    is_over = each->go_on() && is_over;
                return is_over;
            }));
    }
    BOOST_TEST(book.taken > rounds);
    BOOST_TEST(book.cancelled > rounds);
    // Units that were granted to a cancelled take are available again when its claim has expired.
    const auto adds_up = [&]
    {
        const std::ptrdiff_t value = judge.value("a");
        return value >= mover::capacity - book.out - book.perhaps_taken &&
               value <= mover::capacity - book.out + book.perhaps_added;
    };
    BOOST_TEST(until(adds_up), "available: " << judge.value("a") << ", out: " << book.out
                                             << ", perhaps taken: " << book.perhaps_taken
                                             << ", perhaps added: " << book.perhaps_added);
}
