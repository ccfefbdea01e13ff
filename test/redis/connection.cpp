// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// A connection that works: its set-up, its answers, and its end.

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <dlfcn.h>
#include <fcntl.h>
#include <future>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <optional>
#include <pthread.h>
#include <redis/transport/connection.hpp>
#include <redis/transport/scripts.hpp>
#include <string>
#include <string_view>
#include <support/connection_scene.hpp>
#include <support/lock_client.hpp>
#include <support/redis_server.hpp>
#include <support/running_context.hpp>
#include <sys/socket.h>
#include <turnstile/redis/config.hpp>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

// A name server that does not answer until the test lets it.
std::atomic<bool> is_resolving{false};
std::atomic<bool> may_answer{false};

}  // namespace

/// Replaces the function of the C library.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" int getaddrinfo(const char* name, const char* service, const addrinfo* hints,
                           addrinfo** result)
{
    if (name != nullptr && std::string_view(name) == "unanswered.test")
    {
        is_resolving = true;
        is_resolving.notify_one();
        may_answer.wait(false);
        return EAI_AGAIN;
    }
    static const auto original =
        reinterpret_cast<decltype(&getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
    return original(name, service, hints, result);
}

namespace {

using turnstile::redis::config;
using turnstile::redis::detail::reply;
using turnstile::redis::detail::script;
using turnstile::test::connection_scene;
using turnstile::test::redis_server;

/// A script that belongs to the test, and the SHA-1 by which the server knows it.
class own_script
{
public:
    own_script(const redis_server& server, std::string source)
        : text_(std::move(source))
        , sha1_(server.cli({"SCRIPT", "LOAD", text_}))
    {
    }

    own_script(const own_script&) = delete;
    own_script& operator=(const own_script&) = delete;

    operator const script&() const { return script_; }

private:
    std::string text_;
    std::string sha1_;
    script script_{"own", text_, sha1_};
};

/// Our sockets that are connected to the port.
std::vector<int> sockets_to(std::uint16_t port)
{
    std::vector<int> found;
    for (int fd = 0; fd < 1024; ++fd)
    {
        sockaddr_in peer{};
        socklen_t size = sizeof peer;
        if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
            peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
            found.push_back(fd);
    }
    return found;
}

/// Whether at least one of our sockets is connected to the port, and all of these have TCP_NODELAY.
bool has_no_delay(std::uint16_t port)
{
    const std::vector<int> found = sockets_to(port);
    return !found.empty() &&
           std::ranges::all_of(found,
                               [](int fd)
                               {
                                   int on = 0;
                                   socklen_t size = sizeof on;
                                   ::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &size);
                                   return on != 0;
                               });
}

}  // namespace

BOOST_AUTO_TEST_CASE(commands_are_sent_without_delay_also_on_the_next_connection)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    BOOST_TEST(has_no_delay(server.port()));
    BOOST_TEST(server.cli({"CLIENT", "KILL", "TYPE", "pubsub"}) == "1");
    BOOST_REQUIRE(scene.until_seen("cdc"));
    BOOST_TEST(has_no_delay(server.port()));
    scene.close();
}

BOOST_AUTO_TEST_CASE(connects_over_tcp_and_knows_the_server)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    BOOST_TEST(scene.seen.server.run_id == server.run_id());
    BOOST_TEST(scene.seen.server.version == server.info("redis_version"));
    BOOST_TEST(scene.seen.incarnations.at(0) == 0U);
    BOOST_TEST(scene.it->trouble() == "");
    BOOST_TEST(scene.ask({"PING"}).text() == "PONG");
    scene.close();
    BOOST_TEST(scene.seen.calls == "c");
}

BOOST_AUTO_TEST_CASE(connects_over_a_unix_socket)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.unix_url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    BOOST_TEST(scene.ask({"PING"}).text() == "PONG");
    scene.close();
}

BOOST_AUTO_TEST_CASE(the_connection_has_the_configured_name_and_database)
{
    const redis_server server({"--databases", "4"});
    connection_scene scene(config::from_url(server.url() + "/3?client_name=tester"));
    BOOST_REQUIRE(scene.until_seen("c"));
    const std::string self(scene.ask({"CLIENT", "LIST"}).text());
    BOOST_TEST(self.find(" name=tester ") != std::string::npos);
    BOOST_TEST(self.find(" db=3 ") != std::string::npos);
    scene.close();
}

BOOST_AUTO_TEST_CASE(authenticates_with_a_password)
{
    const redis_server server({"--requirepass", "se/cret@1"});
    config settings = config::from_url(server.url());
    settings.password = "se/cret@1";
    connection_scene scene(settings);
    BOOST_REQUIRE(scene.until_seen("c"));
    scene.close();
    BOOST_TEST(scene.log.find("se/cret") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(loads_every_script)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    BOOST_REQUIRE(!turnstile::redis::detail::scripts().empty());
    for (const script& each : turnstile::redis::detail::scripts())
        BOOST_TEST(scene.ask({"SCRIPT", "EXISTS", std::string(each.sha1)}).text() == "1",
                   each.name);
    scene.close();
}

BOOST_AUTO_TEST_CASE(replies_of_every_kind_arrive_as_texts)
{
    const redis_server server;
    const own_script own(server, "return {7, 'text', {1, {}}, false, redis.status_reply('fine')}");
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    const reply r = scene.run(own, {}, {});
    BOOST_TEST((r.result == reply::status::ok));
    BOOST_TEST(r.texts == (std::vector<std::string>{"7", "text", "1", "", "fine"}));
    scene.close();
}

BOOST_AUTO_TEST_CASE(keys_and_arguments_arrive_as_they_are)
{
    const redis_server server;
    const own_script own(server, "return {#KEYS, #ARGV, KEYS[2], ARGV[1]}");
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    const std::string odd("a\0b\r\n$5 \xc3\xa4", 10);
    const reply r = scene.run(own, {"", odd}, {odd, "", "x"});
    BOOST_TEST((r.texts == std::vector<std::string>{"2", "3", odd, odd}));
    scene.close();
}

BOOST_AUTO_TEST_CASE(an_error_of_the_server_does_not_end_the_connection)
{
    const redis_server server;
    const own_script own(server, "return redis.error_reply('ODD this is odd')");
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    const reply r = scene.run(own, {}, {});
    BOOST_TEST((r.result == reply::status::error));
    BOOST_TEST(r.error == "ODD this is odd");
    BOOST_TEST((scene.ask({"GET"}).result == reply::status::error));
    BOOST_TEST((scene.ask({"PING"}).result == reply::status::ok));
    BOOST_TEST(scene.seen.calls == "c");
    scene.close();
}

BOOST_AUTO_TEST_CASE(script_flush_is_not_noticed)
{
    const redis_server server;
    const own_script own(server, "return 'here'");
    const own_script other(server, "return 'there'");
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    server.run({"SCRIPT", "FLUSH"});
    server.run({"CONFIG", "RESETSTAT"});

    const std::vector<std::string> none;
    int answers = 0;
    for (int i = 0; i < 50; ++i)
        for (const own_script* each : {&own, &other})
            scene.it->eval(*each, none, none,
                           [&, each](const reply& r)
                           {
                               ++answers;
                               BOOST_TEST(r.text() == (each == &own ? "here" : "there"));
                           });
    BOOST_TEST(scene.until([&] { return answers == 100; }));
    // The scripts were really missing, and each was loaded again once.
    BOOST_TEST(server.info("errorstat_NOSCRIPT") == "count=100");
    BOOST_TEST(server.info("cmdstat_script|load").starts_with("calls=2,"));
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_script_that_cannot_be_loaded_is_an_error)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    const script wrong{"wrong", "this is no lua", "0123456789012345678901234567890123456789"};
    const reply r = scene.run(wrong, {}, {});
    BOOST_TEST((r.result == reply::status::error));
    BOOST_TEST(r.error.starts_with("NOSCRIPT"));
    scene.close();
}

BOOST_AUTO_TEST_CASE(only_messages_for_the_own_channel_arrive)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    server.run({"PUBLISH", connection_scene::channel(1), "not for us"});
    server.run({"PUBLISH", connection_scene::channel(0), "for us"});
    BOOST_TEST(scene.until([&] { return !scene.seen.messages.empty(); }));
    BOOST_TEST(scene.seen.messages == std::vector<std::string>{"for us"});
    scene.close();
}

BOOST_AUTO_TEST_CASE(three_hundred_messages_arrive_while_commands_are_in_flight)
{
    const redis_server server;
    const own_script own(server,
                         "for i = 1, 300 do redis.call('PUBLISH', ARGV[1], i) end return 300");
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    int answers = 0;
    for (int i = 0; i < 4; ++i)
        scene.it->eval(own, {}, std::vector{connection_scene::channel(0)},
                       [&](const reply& r) { answers += r.text() == "300" ? 1 : 0; });
    BOOST_TEST(scene.until([&] { return answers == 4 && scene.seen.messages.size() >= 1200; }));
    BOOST_TEST(scene.seen.messages.at(299) == "300");
    BOOST_TEST(scene.seen.messages.at(300) == "1");
    BOOST_TEST((scene.ask({"PING"}).result == reply::status::ok));
    scene.close();
}

BOOST_AUTO_TEST_CASE(commands_from_within_replies_and_messages)
{
    struct echo final : turnstile::redis::detail::connection::observer
    {
        void connected(std::uint64_t, const turnstile::redis::detail::server_info&) override
        {
            send();
        }
        void disconnected(turnstile::error_code) override {}
        void message(std::string_view) override
        {
            if (++messages < 1000)
                send();
        }
        void send()
        {
            it->command(std::vector<std::string>{"PUBLISH", connection_scene::channel(0), "x"},
                        [this](const reply&)
                        {
                            it->command(std::vector<std::string>{"PING"},
                                        [this](const reply&) { ++pongs; });
                        });
        }

        turnstile::redis::detail::connection* it = nullptr;
        int messages = 0;
        int pongs = 0;
    };

    const redis_server server;
    boost::asio::io_context context;
    echo e;
    config settings = config::from_url(server.url());
    connection_scene::be_patient(settings);
    const auto c = turnstile::redis::detail::connection::make(
        boost::asio::make_strand(context), settings,
        [](std::uint64_t n) { return connection_scene::channel(n); }, e);
    e.it = c.get();
    c->start();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{120};
    while (e.pongs < 1000 && context.run_one_until(deadline) != 0)
    {
    }
    BOOST_TEST(e.messages == 1000);
    c->close([] {});
    context.run();
}

BOOST_AUTO_TEST_CASE(closing_fails_commands_in_flight_and_sends_nothing_more)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    server.pause();
    std::string completed;
    scene.it->command(std::vector<std::string>{"PING"}, [&](const reply& r)
                      { completed += r.result == reply::status::unknown ? 'u' : '?'; });
    scene.it->close([&] { completed += 'c'; });
    scene.it->command(std::vector<std::string>{"PING"}, [&](const reply& r)
                      { completed += r.result == reply::status::unknown ? 'n' : '?'; });
    BOOST_TEST(completed == "");
    scene.context->run_for(std::chrono::seconds{20});
    BOOST_TEST(completed == "nuc");
    BOOST_TEST(scene.seen.calls == "c");
}

BOOST_AUTO_TEST_CASE(closing_does_not_wait_for_a_name_server)
{
    connection_scene scene{config("redis://unanswered.test")};
    scene.context->poll();
    is_resolving.wait(false);
    bool closed = false;
    scene.it->close([&] { closed = true; });
    BOOST_TEST(scene.until([&] { return closed; }));
    may_answer = true;
    may_answer.notify_one();
    // The attempt to connect ends in the background.
    BOOST_TEST(scene.context->run_for(std::chrono::seconds{20}) < 100U);
    BOOST_TEST(scene.context->stopped());
    BOOST_TEST(scene.seen.calls == "");
}

BOOST_AUTO_TEST_CASE(a_silent_name_server_is_not_taken_for_a_silent_server)
{
    is_resolving = false;
    may_answer = false;
    connection_scene scene{
        config("redis://unanswered.test?lease=1s&health_check=10ms&connect_timeout=10ms")};
    scene.context->poll();
    is_resolving.wait(false);
    // This timer ends after that of the attempt.
    boost::asio::steady_timer later(*scene.context, std::chrono::milliseconds{200});
    bool is_later = false;
    later.async_wait([&](const turnstile::error_code&) { is_later = true; });
    BOOST_TEST(scene.until([&] { return is_later; }));
    scene.context->poll();
    may_answer = true;
    may_answer.notify_one();
    BOOST_TEST(scene.until_seen("d"));
    BOOST_TEST(scene.log.find("cannot connect to redis://unanswered.test") != std::string::npos,
               scene.log);
    BOOST_TEST(scene.log.find("the connection is open") == std::string::npos, scene.log);
    scene.close();
}

namespace {

/// Lets the system refuse to start threads.
class lack_of_threads
{
public:
    lack_of_threads()
    {
        BOOST_REQUIRE(::pthread_getattr_default_np(&usual_) == 0);
        pthread_attr_t attributes;
        BOOST_REQUIRE(::pthread_getattr_default_np(&attributes) == 0);
        // No address space has room for such a stack.
        BOOST_REQUIRE(::pthread_attr_setstacksize(&attributes, std::size_t{1} << 60U) == 0);
        BOOST_REQUIRE(::pthread_setattr_default_np(&attributes) == 0);
        ::pthread_attr_destroy(&attributes);
    }

    lack_of_threads(const lack_of_threads&) = delete;
    lack_of_threads& operator=(const lack_of_threads&) = delete;

    ~lack_of_threads()
    {
        ::pthread_setattr_default_np(&usual_);
        ::pthread_attr_destroy(&usual_);
    }

private:
    pthread_attr_t usual_;
};

}  // namespace

// The first attempt of a context starts the thread that resolves names.
BOOST_AUTO_TEST_CASE(an_attempt_that_the_system_has_no_thread_for_is_repeated)
{
    const redis_server server;
    std::optional<lack_of_threads> lack(std::in_place);
    connection_scene scene(config(server.url() + "?connect_timeout=2s"));
    // The attempt failed before the context ran, which had no other work then.
    scene.context->restart();
    BOOST_REQUIRE(scene.until_seen("d"));
    BOOST_TEST(scene.log.find("cannot connect to " + server.url() + ": thread: ") !=
                   std::string::npos,
               scene.log);
    lack.reset();
    BOOST_TEST(scene.until_seen("c"));
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_started_program_does_not_inherit_the_connection)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    const std::vector<int> found = sockets_to(server.port());
    BOOST_REQUIRE(found.size() == 1U);
    BOOST_TEST((::fcntl(found.front(), F_GETFD) & FD_CLOEXEC) != 0);
    scene.close();
}

BOOST_AUTO_TEST_CASE(closing_ends_the_connection_although_a_copy_of_the_socket_exists)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    const std::vector<int> found = sockets_to(server.port());
    BOOST_REQUIRE(found.size() == 1U);
    const int copy = ::dup(found.front());
    scene.close();
    BOOST_TEST(turnstile::test::until(
        [&] { return server.cli({"CLIENT", "LIST", "TYPE", "pubsub"}).empty(); }));
    ::close(copy);
}

BOOST_AUTO_TEST_CASE(a_connection_without_references_reports_nothing)
{
    const redis_server server;
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    scene.it.reset();
    server.run({"CLIENT", "KILL", "TYPE", "pubsub"});
    // There is no further attempt to connect.
    scene.context->run_for(std::chrono::seconds{20});
    BOOST_TEST(scene.context->stopped());
    BOOST_TEST(scene.seen.calls == "c");
}

BOOST_AUTO_TEST_CASE(a_context_destroys_the_handlers_of_its_connections)
{
    const redis_server server;
    for (const bool connected : {false, true})
    {
        connection_scene scene(config::from_url(server.url()));
        if (connected)
            BOOST_REQUIRE(scene.until_seen("c"));
        const auto handler = std::make_shared<int>();
        scene.it->command(std::vector<std::string>{"PING"}, [handler](const reply&) {});
        scene.it.reset();
        scene.context.reset();
        BOOST_TEST(handler.use_count() == 1);
    }
}

BOOST_AUTO_TEST_CASE(a_context_of_many_threads)
{
    const redis_server server;
    turnstile::test::witness seen;
    turnstile::test::running_context context(4);
    const auto strand = boost::asio::make_strand(context.get_executor());
    std::promise<void> done;
    int answers = 0;
    std::shared_ptr<turnstile::redis::detail::connection> c;
    const auto ping = [&]
    {
        c->command(std::vector<std::string>{"PING"},
                   [&](const reply&)
                   {
                       BOOST_REQUIRE(strand.running_in_this_thread());
                       if (++answers == 2000)
                           c->close([&] { done.set_value(); });
                   });
    };
    boost::asio::post(strand,
                      [&]
                      {
                          c = turnstile::redis::detail::connection::make(
                              strand, config::from_url(server.url()),
                              [](std::uint64_t n) { return connection_scene::channel(n); }, seen);
                          c->start();
                      });
    // All threads send; the first commands are sent before the connection is set up.
    for (int i = 0; i < 2000; ++i)
    {
        boost::asio::post(context.get_executor(), [&] { boost::asio::post(strand, ping); });
        if (i == 1000)
            server.run({"CLIENT", "KILL", "TYPE", "pubsub"});
    }
    done.get_future().wait();
    boost::asio::post(strand, [&] { c.reset(); });
    turnstile::test::settle(strand);
    BOOST_TEST(answers == 2000);
}
