// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Several servers over one Redis server. Each test has a Redis server of its own, so it starts without semaphores.

#include "event_stream.hpp"
#include "http_client.hpp"
#include "server_files.hpp"
#include "server_process.hpp"
#include "waiting_clients.hpp"

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <map>
#include <memory>
#include <random>
#include <redis/transport/scripts.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <support/redis_server.hpp>
#include <support/tcp_proxy.hpp>
#include <support/undisturbed_url.hpp>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace turnstile::test;
using namespace std::chrono_literals;

/// The options of a server over Redis, which ends no connection because something is slow.
std::vector<std::string> options_for(const std::string& url, const std::string& settings = {})
{
    return {"--request-timeout", "600",
            "--idle-timeout",    "3600",
            "--redis",           undisturbed_url(url) + settings};
}

/// Grants that a killed or stopped server does not confirm expire soon.
const std::string short_claims = "&claim_lease=4s";

/// Starts servers with the same Redis server.
struct scene
{
    explicit scene(int count = 3, const std::string& settings = {})
    {
        for (int i = 0; i < count; ++i)
            servers.push_back(std::make_unique<server_process>(options_for(redis.url(), settings)));
    }

    [[nodiscard]] const site& at(std::size_t i) const
    {
        return servers.at(i % servers.size())->address();
    }

    redis_server redis;
    std::vector<std::unique_ptr<server_process>> servers;
};

std::string text_of(const std::string& body, const std::string& name)
{
    const std::string key = '"' + name + "\":\"";
    const std::size_t start = body.find(key);
    // Throws, because the threads of workers call this, and BOOST_TEST belongs to the main thread.
    if (start == std::string::npos)
        throw std::logic_error("no field " + name + " in " + body);
    return body.substr(start + key.size(), body.find('"', start + key.size()) - start - key.size());
}

/// A server with readers of its events, and another one that changes the semaphores.
class observed_scene
{
public:
    [[nodiscard]] const site& observed() const { return observed_.address(); }

    [[nodiscard]] const site& other() const { return other_.at(0); }

    void change(const std::string& route, const std::string& name,
                const std::string& more = {}) const
    {
        BOOST_TEST_REQUIRE(
            ask(other(), "POST", "/semaphore" + route, R"({"name":")" + name + '"' + more + '}')
                .status == 200);
    }

    /// The server cannot compare the whole list with the state that its readers know.
    void stop_comparisons()
    {
        // A comparison asks for 1000 names, and for one more to find the end of the list.
        proxy_.cut_before("\r\n$4\r\n1001\r\n", 1'000'000);
    }

    void resume_comparisons() { proxy_.cut_before("", 0); }

    /// Delays the commands and answers of the observed server.
    void delay_redis(std::chrono::milliseconds by) { proxy_.delay(by); }

private:
    scene other_{1};
    tcp_proxy proxy_{other_.redis.port()};
    server_process observed_{options_for(proxy_.url())};
};

/// The last data of each other semaphore before the first event of @p end.
std::map<std::string, std::string> last_data_before(event_stream& reader, const std::string& end)
{
    std::map<std::string, std::string> data;
    while (true)
    {
        const auto found = reader.next();
        BOOST_TEST_REQUIRE(found.kind != "");
        const std::string name = text_of(found.data, "name");
        if (name == end)
            return data;
        data[name] = found.data;
    }
}

/// The load of one client on one server. At the end, it takes a unit for good, unless its server was killed.
class worker
{
public:
    worker(const scene& where, std::size_t home, unsigned seed)
        : scene_(where)
        , home_(home)
        , random_(seed)
    {
    }

    /// Counts its grants in @p grants.
    void run(const std::atomic<bool>& stop, std::atomic<int>& grants)
    {
        http_client client(scene_.at(home_));
        while (!stop)
        {
            // The units of the server that is killed need leases.
            const bool leased = home_ == 0 || random_() % 2 == 0;
            client.send(request_text("POST", "/semaphore/down",
                                     leased ? R"({"name":"a","wait":1,"lease":3})"
                                            : R"({"name":"a","wait":1})"));
            const http_answer answer = client.receive();
            is_cut_off_ = answer.status == 0;
            if (is_cut_off_)
                return;
            if (answer.status != 200)
                continue;
            ++grants;
            if (leased)
                end_permit(answer.body);
            else
                up(client);
        }
        client.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":3600})"));
        const int status = client.receive().status;
        takes_one_ = status == 200;
        is_cut_off_ = status == 0;
    }

    [[nodiscard]] bool takes_one() const noexcept { return takes_one_; }
    [[nodiscard]] bool is_cut_off() const noexcept { return is_cut_off_; }
    [[nodiscard]] const std::vector<std::string>& tokens() const noexcept { return tokens_; }

private:
    void up(http_client& client)
    {
        client.send(request_text("POST", "/semaphore/up", R"({"name":"a"})"));
        if (client.receive().status != 200)
            throw std::logic_error("a unit was not returned");
    }

    /// Releases a permit through a server that is not killed, or lets it expire.
    void end_permit(const std::string& body)
    {
        tokens_.push_back(body.substr(body.find("\"token\":")));
        if (random_() % 50 == 0)
            return;
        ask(scene_.at(1 + random_() % 2), "POST", "/semaphore/up",
            R"({"name":"a","permit":")" + text_of(body, "permit") + "\"}");
    }

    const scene& scene_;
    std::size_t home_;
    std::mt19937 random_;
    bool takes_one_ = false;
    bool is_cut_off_ = false;
    std::vector<std::string> tokens_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(permit_of_a_killed_server_is_renewed_and_released_through_another)
{
    scene all;
    BOOST_TEST(ask(all.at(0), "POST", "/semaphore", R"({"name":"a","value":2})").status == 200);
    // One permit is granted at once, and the other one after a wait.
    const std::string first =
        ask(all.at(0), "POST", "/semaphore/down", R"({"name":"a","n":2,"lease":600})").body;
    http_client waiter(all.at(0));
    http_client control(all.at(1));
    waiter.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600,"lease":600})"));
    while (listed(control, "waiters") != 1)
        std::this_thread::yield();
    up(control, 1);
    const std::string second = waiter.receive().body;
    all.servers[0]->kill();
    for (const std::string& body : {first, second})
    {
        const std::string permit = R"({"name":"a","permit":")" + text_of(body, "permit") + '"';
        BOOST_TEST(ask(all.at(1), "POST", "/semaphore/renew", permit + ",\"lease\":1200}").status ==
                   200);
        BOOST_TEST(ask(all.at(2), "POST", "/semaphore/up", permit + '}').status == 200);
        BOOST_TEST(ask(all.at(1), "POST", "/semaphore/up", permit + '}').status == 409);
    }
    BOOST_TEST(listed(control, "value") == 3);
    BOOST_TEST(listed(control, "permits") == 0);
}

BOOST_AUTO_TEST_CASE(waiters_of_all_servers_are_granted_in_order)
{
    const scene all;
    create_empty(all.at(0));
    http_client control(all.at(1));
    std::vector<std::unique_ptr<http_client>> waiters;
    for (std::size_t i = 0; i < 30; ++i)
    {
        waiters.push_back(std::make_unique<http_client>(all.at(i)));
        wait_for_unit(*waiters.back(), control, static_cast<int>(i) + 1);
    }
    for (std::size_t i = 0; i < waiters.size(); ++i)
    {
        up(control, 1);
        BOOST_TEST_REQUIRE(waiters[i]->receive().status == 200);
        // No other waiter has received the unit.
        while (listed(control, "waiters") != static_cast<int>(waiters.size() - i) - 1)
            std::this_thread::yield();
    }
    BOOST_TEST(listed(control, "value") == 0);
}

BOOST_AUTO_TEST_CASE(unit_of_an_expired_permit_reaches_the_next_waiter)
{
    // The waiters learn of the end of the permit, which is earlier than all others by minutes.
    const scene all(1);
    create_empty(all.at(0));
    http_client control(all.at(0));
    http_client first(all.at(0));
    http_client second(all.at(0));
    first.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600,"lease":1})"));
    while (listed(control, "waiters") != 1)
        std::this_thread::yield();
    wait_for_unit(second, control, 2);
    up(control, 1);
    BOOST_TEST(first.receive().status == 200);
    BOOST_TEST(second.receive().status == 200);
}

BOOST_AUTO_TEST_CASE(unit_that_a_stopped_server_was_granted_reaches_the_next_waiter)
{
    const scene all(2, short_claims);
    create_empty(all.at(1));
    http_client control(all.at(1));
    http_client first(all.at(0));
    http_client second(all.at(1));
    wait_for_unit(first, control, 1);
    wait_for_unit(second, control, 2);
    all.servers[0]->signal(SIGSTOP);
    up(control, 1);
    BOOST_TEST(second.receive().status == 200);
    all.servers[0]->signal(SIGCONT);
}

BOOST_AUTO_TEST_CASE(no_hang_up_over_redis_swallows_a_unit)
{
    const scene all;
    create_empty(all.at(0));
    check_hang_ups(all.at(0), all.at(1), all.at(2), scaled(50));
}

// The server finds the grant and the end of the connection at the same time, in either order.
BOOST_AUTO_TEST_CASE(each_hang_up_over_redis_is_counted_as_a_withdrawal_or_as_an_undone_grant)
{
    constexpr int rounds = 20;
    const scene all(2);
    create_empty(all.at(0));
    http_client control(all.at(1));
    for (int i = 0; i < rounds; ++i)
    {
        {
            http_client leaver(all.at(0));
            wait_for_unit(leaver, control, 1);
            all.servers[0]->signal(SIGSTOP);
            up(control, 1);
        }
        all.servers[0]->signal(SIGCONT);
        control.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":3600})"));
        BOOST_TEST_REQUIRE(control.receive().status == 200);
    }
    const auto ended = [&]
    { return metric(all.at(0), "withdrawn_total") + metric(all.at(0), "undone_total"); };
    while (ended() < rounds)
        std::this_thread::yield();
    BOOST_TEST(ended() == rounds);
}

BOOST_AUTO_TEST_CASE(client_that_ends_its_side_takes_no_unit_even_without_a_wait)
{
    const scene all(1);
    create_empty(all.at(0));
    http_client control(all.at(0));
    up(control, 1);
    http_client client(all.at(0));
    // The request and the end arrive together.
    all.servers[0]->signal(SIGSTOP);
    client.send(request_text("POST", "/semaphore/down", R"({"name":"a"})"));
    client.end_sending();
    all.servers[0]->signal(SIGCONT);
    BOOST_TEST(client.ends());
    BOOST_TEST(listed(control, "value") == 1);
}

BOOST_AUTO_TEST_CASE(waiters_survive_broken_connections)
{
    const scene all;
    create_empty(all.at(0));
    http_client control(all.at(1));
    http_client first(all.at(0));
    http_client second(all.at(2));
    wait_for_unit(first, control, 1);
    wait_for_unit(second, control, 2);
    all.redis.run({"CLIENT", "KILL", "TYPE", "pubsub"});
    // A disconnected waiter is skipped until its server has reported it again.
    up(control, 2);
    BOOST_TEST(first.receive().status == 200);
    BOOST_TEST(second.receive().status == 200);
    BOOST_TEST(listed(control, "value") == 0);
}

BOOST_AUTO_TEST_CASE(unit_reaches_its_waiter_or_is_returned_although_its_semaphore_cannot_be_read)
{
    const auto scripts = turnstile::redis::detail::scripts();
    const auto reading =
        std::ranges::find(scripts, "pool_states", &turnstile::redis::detail::script::name);
    const scene all(1);
    tcp_proxy proxy(all.redis.port());
    const server_process server(options_for(proxy.url()));
    create_empty(all.at(0));
    http_client control(all.at(0));
    http_client waiter(server.address());
    // The server keeps the unit, and then reads the semaphore. It sends a command five times at most.
    wait_for_unit(waiter, control, 1);
    proxy.cut_before(std::string(reading->sha1), 5);
    up(control, 1);
    http_answer answer = waiter.receive();
    BOOST_TEST(answer.status == 200);
    BOOST_TEST(answer.body == R"({"name":"a","value":0})");
    BOOST_TEST(listed(control, "value") == 0);
    BOOST_TEST(proxy.cuts() == 5U);

    for (const std::string end : {"}", ",\"lease\":600}"})
    {
        waiter.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600)" + end));
        while (listed(control, "waiters") != 1)
            std::this_thread::yield();
        proxy.cut_before(std::string(reading->sha1), 10);
        up(control, 1);
        answer = waiter.receive();
        BOOST_TEST(answer.status == 503);
        BOOST_TEST(answer.body ==
                   "Redis: it is unknown whether the server has executed the command");
        BOOST_TEST(listed(control, "value") == 1);
        BOOST_TEST(listed(control, "permits") == 0);
        ask(all.at(0), "POST", "/semaphore/down", R"({"name":"a"})");
    }
}

BOOST_AUTO_TEST_CASE(waiter_learns_that_its_unit_may_have_been_taken)
{
    const scene all(1);
    all.redis.run({"ACL", "SETUSER", "confined", "on", ">secret", "~*", "&*", "+@all"});
    const server_process server(
        options_for("redis://confined:secret@127.0.0.1:" + std::to_string(all.redis.port())));
    create_empty(all.at(0));
    http_client control(all.at(0));
    http_client waiter(server.address());
    wait_for_unit(waiter, control, 1);
    // The server keeps the unit, and then can neither read the semaphore nor return the unit.
    all.redis.run({"ACL", "SETUSER", "confined", "-zcard"});
    up(control, 1);
    const http_answer answer = waiter.receive();
    BOOST_TEST(answer.status == 503);
    BOOST_TEST(answer.body ==
               "Redis: the server's ACL lacks a rule; the units may have been taken");
    BOOST_TEST(metric(server.address(), "withdrawn_total") == 1);
}

BOOST_AUTO_TEST_CASE(no_unit_is_lost_or_doubled_when_a_server_is_killed_under_load)
{
    scene all(3, short_claims);
    constexpr int units = 10;
    BOOST_TEST(ask(all.at(0), "POST", "/semaphore", R"({"name":"a","value":10})").status == 200);
    const auto seed = std::random_device()();
    BOOST_TEST_MESSAGE("seed " << seed);
    std::vector<std::unique_ptr<worker>> workers;
    for (unsigned i = 0; i < 12; ++i)
        workers.push_back(std::make_unique<worker>(all, i % 3, seed + i));
    std::atomic<bool> stop = false;
    std::atomic<int> grants = 0;
    std::vector<std::thread> threads;
    for (const auto& each : workers)
        threads.emplace_back([&] { each->run(stop, grants); });
    const auto work = [&]
    {
        const int begin = grants;
        while (grants < begin + scaled(500))
            std::this_thread::yield();
    };
    work();
    all.servers[0]->kill();
    work();
    stop = true;
    for (std::thread& each : threads)
        each.join();

    std::set<std::string> tokens;
    std::size_t permits = 0;
    for (std::size_t i = 0; i < workers.size(); ++i)
    {
        BOOST_TEST(workers[i]->is_cut_off() == (i % 3 == 0));
        BOOST_TEST(workers[i]->takes_one() == (i % 3 != 0));
        permits += workers[i]->tokens().size();
        tokens.insert(workers[i]->tokens().begin(), workers[i]->tokens().end());
    }
    BOOST_TEST(tokens.size() == permits);
    // The permits of the killed server and its unfinished grants expire.
    http_client control(all.at(1));
    while (listed(control, "permits") != 0 || listed(control, "waiters") != 0)
        std::this_thread::yield();
    BOOST_TEST(listed(control, "value") == units - 8);
}

BOOST_AUTO_TEST_CASE(changes_of_another_server_appear_in_the_events)
{
    const scene all(2);
    create_empty(all.at(0));
    event_stream stream(all.at(0));
    BOOST_TEST(stream.skip_state().size() == 1U);
    http_client control(all.at(1));
    up(control, 1);
    const auto found = stream.next();
    BOOST_TEST(found.kind == "changed");
    BOOST_TEST(found.data == R"({"name":"a","value":1,"waiters":0,"permits":0})");
    ask(all.at(1), "POST", "/semaphore", R"({"name":"b","value":4})");
    BOOST_TEST(stream.next_of("b").kind == "created");
    ask(all.at(1), "DELETE", "/semaphore/b");
    BOOST_TEST(stream.next_of("b").kind == "deleted");
}

BOOST_AUTO_TEST_CASE(all_readers_receive_the_changes_since_the_last_comparison)
{
    // Without comparisons, the first server learns nothing of the changes by the second one.
    observed_scene all;
    create_empty(all.other());
    for (const std::string name : {"b", "d", "z"})
        all.change("", name, ",\"value\":1");
    event_stream first(all.observed());
    first.skip_state();

    all.stop_comparisons();
    all.change("", "e", ",\"value\":1");
    all.change("/up", "b");
    BOOST_TEST(ask(all.other(), "DELETE", "/semaphore/d").status == 200);
    // Its state is that of the last comparison.
    event_stream second(all.observed());
    second.skip_state();
    all.change("/up", "z");
    all.resume_comparisons();
    for (event_stream* const reader : {&first, &second})
    {
        auto found = last_data_before(*reader, "z");
        BOOST_TEST(found["b"] == R"({"name":"b","value":2,"waiters":0,"permits":0})");
        BOOST_TEST(found["e"].starts_with(R"({"name":"e","value":1,)"));
        BOOST_TEST(reader->next_of("d").kind == "deleted");
    }
}

BOOST_AUTO_TEST_CASE(changes_during_a_comparison_are_reported_once)
{
    observed_scene all;
    // Redis describes 50 semaphores at a time, so a comparison takes several round trips.
    for (int i = 100; i < 500; ++i)
        all.change("", std::to_string(i), ",\"value\":1");
    event_stream reader(all.observed());
    reader.skip_state();
    // All readers share the comparisons.
    event_stream second(all.observed());
    second.skip_state();
    all.delay_redis(100ms);
    std::map<std::string, std::string> expected;
    const auto change = [&](const std::string& method, const std::string& target,
                            const std::string& name, const std::string& kind)
    {
        const std::string body =
            method == "POST" ? R"({"name":")" + name + R"(","value":1})" : std::string();
        BOOST_TEST(ask(all.observed(), method, "/semaphore" + target, body).status == 200);
        expected[name] = kind + ' ';
    };
    for (int i = 100; i < 108; ++i)
    {
        const std::string name = std::to_string(i);
        change("DELETE", '/' + name, name, "deleted");
        change("POST", "", 'a' + name, "created");
        change("POST", "", '0' + name, "created");
        change("POST", "/up", std::to_string(i + 100), "value");
        change("POST", "/up", std::to_string(i + 300), "value");
    }
    all.change("", "z", ",\"value\":1");
    std::map<std::string, std::string> found;
    while (true)
    {
        const sent_event next = reader.next();
        BOOST_TEST_REQUIRE(next.kind != "");
        const std::string name = text_of(next.data, "name");
        if (name == "z")
            break;
        found[name] += next.kind + ' ';
    }
    BOOST_TEST((found == expected));
}

BOOST_AUTO_TEST_CASE(comparisons_have_pauses)
{
    const scene all(1);
    event_stream reader(all.at(0));
    reader.skip_state();
    const auto scripts = [&]
    {
        const std::string key = "cmdstat_evalsha:calls=";
        const std::string statistics = all.redis.cli({"INFO", "commandstats"});
        return std::stoi(statistics.substr(statistics.find(key) + key.size()));
    };
    const auto begin = std::chrono::steady_clock::now();
    const int before = scripts();
    while (scripts() < before + 2)
        std::this_thread::yield();
    BOOST_TEST((std::chrono::steady_clock::now() - begin >= 1s));
}

BOOST_AUTO_TEST_CASE(state_contains_the_changes_since_the_last_reader_has_hung_up)
{
    const scene all(1);
    create_empty(all.at(0));
    event_stream(all.at(0)).skip_state();
    while (metric(all.at(0), "event_readers") != 0)
        std::this_thread::yield();
    http_client control(all.at(0));
    up(control, 1);
    event_stream reader(all.at(0));
    BOOST_TEST(reader.skip_state().at(0).find(R"("name":"a","value":1,)") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(stream_ends_if_redis_cannot_be_reached)
{
    scene all(2);
    create_empty(all.at(0));
    event_stream reader(all.at(0));
    reader.skip_state();
    const scene connected(1);
    create_empty(connected.at(0));
    event_stream lasting(connected.at(0));
    lasting.skip_state();
    all.redis.stop();
    event_stream without_state(all.at(1));
    BOOST_TEST(without_state.head().status == 200);
    BOOST_TEST(reader.next().kind == "");
    BOOST_TEST(without_state.next().kind == "");
    // Streams over a server that can be reached last longer.
    http_client control(connected.at(0));
    up(control, 1);
    BOOST_TEST(lasting.next().kind == "value");
    // The old state is forgotten: a new stream has not begun with it when a later request is answered.
    event_stream next(all.at(0));
    BOOST_TEST(next.head().status == 200);
    BOOST_TEST(ask(all.at(0), "GET", "/healthz").status == 200);
    all.servers[0]->signal(SIGTERM);
    BOOST_TEST(next.next().kind == "");
    all.redis.start();
    while (event_stream(all.at(1)).skip_state().empty())
        std::this_thread::yield();
}

BOOST_AUTO_TEST_CASE(a_name_that_is_too_long_for_redis_is_missing)
{
    const redis_server redis;
    const std::vector<std::string> options{"--max-header", "1048576"};
    const server_process local(options);
    const server_process shared({options[0], options[1], "--redis", undisturbed_url(redis.url())});
    const std::string name(70'000, 'x');
    for (const server_process* const server : {&local, &shared})
        for (const auto& [method, target] :
             std::vector<std::pair<std::string, std::string>>{{"GET", "/semaphore/value/"},
                                                              {"GET", "/semaphore/detail/"},
                                                              {"DELETE", "/semaphore/"}})
            BOOST_TEST(ask(server->address(), method, target + name).status == 404);
}

BOOST_AUTO_TEST_CASE(warnings_about_redis_are_logged)
{
    redis_server redis;
    const server_files where;
    const server_process server(options_for(redis.url()), {}, where.log());
    const auto warns = [&](const std::string& text)
    { return where.read("log").find(" warning " + text) != std::string::npos; };
    redis.stop();
    while (!warns("cannot connect to " + redis.url()))
        std::this_thread::yield();
    BOOST_TEST(!warns("connected to " + redis.url()));
    redis.start();
    while (!warns("connected to " + redis.url()))
        std::this_thread::yield();
}

BOOST_AUTO_TEST_CASE(unreachable_redis_is_an_error_until_it_returns)
{
    scene all(1);
    create_empty(all.at(0));
    http_client waiter(all.at(0));
    waiter.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":1})"));
    all.redis.stop();
    for (const auto& [method, target] :
         std::vector<std::pair<std::string, std::string>>{{"GET", "/semaphore/value/a"},
                                                          {"GET", "/semaphore"},
                                                          {"GET", "/semaphore/detail/a"},
                                                          {"DELETE", "/semaphore/a"},
                                                          {"GET", "/readyz"}})
    {
        const http_answer answer = ask(all.at(0), method, target);
        BOOST_TEST(answer.status == 503);
        BOOST_TEST(answer.body.starts_with("Redis: "), answer.body);
    }
    BOOST_TEST(ask(all.at(0), "POST", "/semaphore/down", R"({"name":"a"})").status == 503);
    const int status = waiter.receive().status;
    BOOST_TEST((status == 503 || status == 409));
    BOOST_TEST(ask(all.at(0), "GET", "/healthz").status == 200);
    const http_answer metrics = ask(all.at(0), "GET", "/metrics");
    BOOST_TEST(metrics.body.find("\nturnstile_redis_connected 0\n") != std::string::npos);
    BOOST_TEST(metrics.body.find("turnstile_semaphores") == std::string::npos);
    all.redis.start();
    while (ask(all.at(0), "GET", "/readyz").status != 200)
        std::this_thread::yield();
    BOOST_TEST(ask(all.at(0), "POST", "/semaphore", R"({"name":"b","value":1})").status == 200);
    all.servers[0]->signal(SIGTERM);
    BOOST_TEST(all.servers[0]->exit_status() == 0);
}

BOOST_AUTO_TEST_CASE(stopping_server_answers_its_waiters_and_the_others_continue)
{
    scene all(2);
    create_empty(all.at(0));
    http_client control(all.at(1));
    http_client waiter(all.at(0));
    http_client other(all.at(1));
    wait_for_unit(waiter, control, 1);
    wait_for_unit(other, control, 2);
    all.servers[0]->signal(SIGTERM);
    BOOST_TEST(waiter.receive().status == 503);
    BOOST_TEST(all.servers[0]->exit_status() == 0);
    up(control, 1);
    BOOST_TEST(other.receive().status == 200);
}

BOOST_AUTO_TEST_CASE(stopping_server_answers_a_request_that_it_has_begun_to_read)
{
    const scene all(1);
    create_empty(all.at(0));
    const std::string request =
        request_text("POST", "/semaphore/down", R"({"name":"a","wait":3600})");
    http_client client(all.at(0));
    client.send(request.substr(0, 1));
    // The server has read that byte before it answers a later request, and it closes idle connections when it has
    // received the signal.
    http_client idle(all.at(0));
    BOOST_TEST(listed(idle, "value") == 0);
    all.servers[0]->signal(SIGTERM);
    BOOST_TEST(idle.ends());
    client.send(request.substr(1));
    const http_answer answer = client.receive();
    BOOST_TEST(answer.status == 503);
    BOOST_TEST(answer.body == "server is shutting down");
    BOOST_TEST(all.servers[0]->exit_status() == 0);
}

BOOST_AUTO_TEST_CASE(surplus_waiters_are_refused_and_withdrawn_ones_are_counted)
{
    const redis_server redis;
    const server_process server({"--max-waiters", "1", "--request-timeout", "600", "--idle-timeout",
                                 "3600", "--redis", undisturbed_url(redis.url())});
    create_empty(server.address());
    http_client control(server.address());
    http_client waiter(server.address());
    const std::string wait = R"({"name":"a","wait":3600})";
    wait_for_unit(waiter, control, 1);
    const http_answer surplus = ask(server.address(), "POST", "/semaphore/down", wait);
    BOOST_TEST(surplus.status == 503);
    BOOST_TEST(surplus.body == "too many clients are waiting");
    BOOST_TEST(ask(server.address(), "DELETE", "/semaphore/a").status == 200);
    BOOST_TEST(waiter.receive().status == 404);
    BOOST_TEST(metric(server.address(), "waiters") == 0);
    BOOST_TEST(metric(server.address(), "withdrawn_total") == 1);
    BOOST_TEST(metric(server.address(), "undone_total") == 0);
}

BOOST_AUTO_TEST_CASE(wrong_options_are_refused)
{
    const redis_server redis;
    const std::string both = log_of_failure({"--redis", redis.url(), "--snapshot", "/tmp/x"});
    BOOST_TEST(both.find("--redis and --snapshot exclude each other") != std::string::npos, both);
    const std::string url = log_of_failure({"--redis", "redis://user:secret@host:1/2?lease=never"});
    BOOST_TEST(url.find(" --redis: ") != std::string::npos, url);
    BOOST_TEST(url.find("lease") != std::string::npos, url);
    BOOST_TEST(url.find("secret") == std::string::npos, url);
}
