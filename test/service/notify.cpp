// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Call-backs, with an HTTP server that receives them.

#include "http_client.hpp"
#include "server_files.hpp"
#include "server_process.hpp"
#include "sleeping_machine.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"
#include "support/tls_files.hpp"
#include "support/undisturbed_url.hpp"

#include <arpa/inet.h>
#include <array>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <openssl/ssl.h>
#include <poll.h>
#include <string>
#include <sys/stat.h>
#include <thread>
#include <tuple>
#include <vector>

using turnstile::test::ask;
using turnstile::test::http_answer;
using turnstile::test::http_client;
using turnstile::test::metric;
using turnstile::test::redis_server;
using turnstile::test::request_text;
using turnstile::test::server_files;
using turnstile::test::server_process;
using turnstile::test::sleeping_machine;
using turnstile::test::tcp_proxy;
using turnstile::test::tls_files;
using turnstile::test::undisturbed_url;
using namespace std::chrono_literals;

namespace {

/// A call that a receiver got.
struct call
{
    std::string head;
    std::string body;
    /// The name that the client of a TLS connection asked for.
    std::string server_name;
};

/// A server for one request at a time.
class receiver
{
public:
    receiver()
    {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof own;
        auto* const address = reinterpret_cast<sockaddr*>(&own);
        BOOST_TEST_REQUIRE(::bind(listener_, address, size) == 0);
        BOOST_TEST_REQUIRE(::listen(listener_, 16) == 0);
        BOOST_TEST_REQUIRE(::getsockname(listener_, address, &size) == 0);
        port_ = std::to_string(ntohs(own.sin_port));
        place_ = "127.0.0.1:" + port_;
    }

    /// A receiver with https.
    explicit receiver(const tls_files& files)
        : receiver()
    {
        tls_.reset(::SSL_CTX_new(::TLS_server_method()));
        BOOST_TEST_REQUIRE(
            ::SSL_CTX_use_certificate_chain_file(tls_.get(), files.certificate().c_str()) == 1);
        BOOST_TEST_REQUIRE(
            ::SSL_CTX_use_PrivateKey_file(tls_.get(), files.key().c_str(), SSL_FILETYPE_PEM) == 1);
        // The client may have gone before the end of the session is sent.
        std::signal(SIGPIPE, SIG_IGN);
    }

    receiver(const receiver&) = delete;
    receiver& operator=(const receiver&) = delete;

    ~receiver() { ::close(listener_); }

    [[nodiscard]] const std::string& place() const noexcept { return place_; }

    [[nodiscard]] const std::string& port() const noexcept { return port_; }

    [[nodiscard]] std::string url() const
    {
        return (tls_ ? "https://" : "http://") + place_ + "/hook?x=1";
    }

    /// Waits for a call, and answers it. Calls @p meanwhile before the answer.
    [[nodiscard]] call take(
        const std::string& status, const std::string& headers = {},
        const std::function<void()>& meanwhile = [] {}) const
    {
        const int client = ::accept(listener_, nullptr, nullptr);
        std::unique_ptr<SSL, decltype(&::SSL_free)> session(nullptr, &::SSL_free);
        std::string server_name;
        if (tls_)
        {
            session.reset(::SSL_new(tls_.get()));
            ::SSL_set_fd(session.get(), client);
            BOOST_TEST_REQUIRE(::SSL_accept(session.get()) == 1);
            const char* const asked =
                ::SSL_get_servername(session.get(), TLSEXT_NAMETYPE_host_name);
            server_name = asked == nullptr ? "" : asked;
        }
        std::string text;
        const auto is_whole = [&]
        {
            const std::size_t end = text.find("\r\n\r\n");
            const std::size_t length = text.find("Content-Length: ");
            return end != std::string::npos && length != std::string::npos &&
                   text.size() == end + 4 + std::stoul(text.substr(length + 16));
        };
        char buffer[4096];
        ssize_t size = 1;
        const auto receive = [&]() -> ssize_t
        {
            return session ? ::SSL_read(session.get(), buffer, sizeof buffer)
                           : ::recv(client, buffer, sizeof buffer, 0);
        };
        while (!is_whole() && (size = receive()) > 0)
            text.append(buffer, static_cast<std::size_t>(size));
        BOOST_TEST_REQUIRE(is_whole());
        meanwhile();
        const std::string answer =
            "HTTP/1.1 " + status + "\r\n" + headers + "Content-Length: 0\r\n\r\n";
        if (session)
            ::SSL_write(session.get(), answer.data(), static_cast<int>(answer.size()));
        else
            ::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
        ::close(client);
        const std::size_t end = text.find("\r\n\r\n");
        return {text.substr(0, end + 2), text.substr(end + 4), server_name};
    }

    /// Waits for a client that ends the connection during the TLS handshake.
    [[nodiscard]] bool is_distrusted() const
    {
        const int client = ::accept(listener_, nullptr, nullptr);
        const std::unique_ptr<SSL, decltype(&::SSL_free)> session(::SSL_new(tls_.get()),
                                                                  &::SSL_free);
        ::SSL_set_fd(session.get(), client);
        // With TLS 1.3, the client checks the certificate after the server's part of the handshake.
        char byte = 0;
        const bool silent =
            ::SSL_accept(session.get()) != 1 || ::SSL_read(session.get(), &byte, 1) <= 0;
        ::close(client);
        return silent;
    }

    [[nodiscard]] bool has_calls() const
    {
        pollfd state{listener_, POLLIN, 0};
        return ::poll(&state, 1, 0) != 0;
    }

private:
    int listener_ = -1;
    std::string port_;
    std::string place_;
    std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> tls_{nullptr, &::SSL_CTX_free};
};

/// A listener whose queue of connections is full, so it does not respond to further ones.
class unresponsive_place
{
public:
    unresponsive_place(const std::string& address, const std::string& port)
    {
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
        BOOST_TEST_REQUIRE(::inet_pton(AF_INET, address.c_str(), &own.sin_addr) == 1);
        const auto* const place = reinterpret_cast<const sockaddr*>(&own);
        for (int& each : sockets_)
            each = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        BOOST_TEST_REQUIRE(::bind(sockets_[0], place, sizeof own) == 0);
        BOOST_TEST_REQUIRE(::listen(sockets_[0], 0) == 0);
        for (std::size_t i = 1; i < sockets_.size(); ++i)
            std::ignore = ::connect(sockets_[i], place, sizeof own);
    }

    unresponsive_place(const unresponsive_place&) = delete;
    unresponsive_place& operator=(const unresponsive_place&) = delete;

    ~unresponsive_place()
    {
        for (const int each : sockets_)
            ::close(each);
    }

private:
    std::array<int, 4> sockets_{};
};

/// A server that is permitted to call a receiver.
struct calling_server : server_process
{
    explicit calling_server(const receiver& to, std::vector<std::string> more = {},
                            const std::string& log = {}, std::vector<std::string> variables = {})
        : server_process(arguments(to, std::move(more)), with_secret(std::move(variables)), log)
    {
    }

    http_answer post(const std::string& target, const std::string& body) const
    {
        return ask(address(), "POST", target, body);
    }

    http_answer notify(const std::string& url, const std::string& more = {}) const
    {
        return post("/semaphore/notify", R"({"name":"a","url":")" + url + '"' + more + '}');
    }

    /// Creates the semaphore "a" with the value 0.
    void create_empty() const
    {
        BOOST_TEST_REQUIRE(post("/semaphore", R"({"name":"a","value":1})").status == 200);
        BOOST_TEST_REQUIRE(post("/semaphore/down", R"({"name":"a"})").status == 200);
    }

    void up() const { BOOST_TEST_REQUIRE(post("/semaphore/up", R"({"name":"a"})").status == 200); }

    void await_waiters(int count) const
    {
        const std::string text = "\"waiters\":" + std::to_string(count) + ',';
        while (ask(address(), "GET", "/semaphore").body.find(text) == std::string::npos)
            std::this_thread::yield();
    }

private:
    static std::vector<std::string> arguments(const receiver& to, std::vector<std::string> more)
    {
        more.insert(more.end(), {"--notify-host", to.place()});
        return more;
    }

    static std::vector<std::string> with_secret(std::vector<std::string> variables)
    {
        variables.emplace_back("TURNSTILE_NOTIFY_SECRET=secret");
        return variables;
    }
};

/// The arguments of a server with each backend.
std::vector<std::vector<std::string>> backends(const redis_server& redis)
{
    return {{}, {"--redis", undisturbed_url(redis.url())}};
}

std::string member(const std::string& json, const std::string& name)
{
    const std::string key = '"' + name + "\":\"";
    const std::size_t start = json.find(key);
    BOOST_TEST_REQUIRE(start != std::string::npos, json);
    return json.substr(start + key.size(), json.find('"', start + key.size()) - start - key.size());
}

/// The HMAC-SHA256, computed by another implementation.
std::string signature(const std::string& body)
{
    const std::string command =
        "printf %s '" + body + "' | openssl dgst -sha256 -hmac secret -hex | sed 's/.*= //'";
    // NOLINTNEXTLINE(bugprone-command-processor,cert-env33-c): the words are those of the test.
    std::FILE* const output = ::popen(command.c_str(), "r");
    char text[65] = {};
    BOOST_TEST_REQUIRE(std::fgets(text, sizeof text, output) != nullptr);
    ::pclose(output);
    return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(granted_permit_is_sent_to_the_receiver)
{
    const redis_server redis;
    for (const std::vector<std::string>& backend : backends(redis))
    {
        const receiver to;
        const calling_server server(to, backend);
        server.create_empty();
        // The case of a scheme does not matter.
        const http_answer accepted = server.notify("HTTP" + to.url().substr(4), R"(,"lease":600)");
        BOOST_TEST(accepted.status == 202);
        server.await_waiters(1);
        BOOST_TEST(!to.has_calls());
        server.up();

        const call got = to.take("204 No Content");
        BOOST_TEST(got.head.starts_with("POST /hook?x=1 HTTP/1.1\r\nHost: " + to.place() + "\r\n"));
        BOOST_TEST(member(got.body, "event") == "granted");
        BOOST_TEST(member(got.body, "name") == "a");
        BOOST_TEST(member(got.body, "id") == member(accepted.body, "id"));
        BOOST_TEST(got.body.find("\"token\":") != std::string::npos);
        BOOST_TEST(got.head.find("\r\nX-Turnstile-Signature: sha256=" + signature(got.body) +
                                 "\r\n") != std::string::npos);
        const std::string permit = R"({"name":"a","permit":")" + member(got.body, "permit") + "\"}";
        BOOST_TEST(server.post("/semaphore/up", permit).status == 200);
    }
}

BOOST_AUTO_TEST_CASE(failed_call_is_repeated_and_no_redirect_is_followed)
{
    const receiver to;
    const receiver elsewhere;
    const calling_server server(to, {"--notify-host", elsewhere.place()});
    server.create_empty();
    server.up();
    BOOST_TEST(server.notify(to.url(), R"(,"lease":600)").status == 202);
    const auto begin = std::chrono::steady_clock::now();
    const call first = to.take("500 Internal Server Error");
    const call second = to.take("307 Temporary Redirect", "Location: " + elsewhere.url() + "\r\n");
    const call third = to.take("200 OK");
    // The delays are 0.5 and 1 seconds.
    BOOST_TEST((std::chrono::steady_clock::now() - begin >= 1500ms));
    BOOST_TEST(first.body == second.body);
    BOOST_TEST(first.body == third.body);
    BOOST_TEST(!elsewhere.has_calls());
    // The permit remains.
    BOOST_TEST(server
                   .post("/semaphore/renew",
                         R"({"name":"a","permit":")" + member(third.body, "permit") + "\"}")
                   .status == 200);
}

BOOST_AUTO_TEST_CASE(interim_answers_end_no_call)
{
    const std::string interim = "103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 ";
    const receiver to;
    const calling_server server(to, {"--notify-attempts", "1", "--max-notifications", "1"});
    server.create_empty();
    server.up();
    BOOST_TEST(server.notify(to.url(), R"(,"lease":600)").status == 202);
    const call got = to.take(interim + interim + "200 OK");
    // The next call-back is accepted when this one has ended.
    while (server.notify(to.url()).status != 202)
        std::this_thread::yield();
    const std::string permit = R"({"name":"a","permit":")" + member(got.body, "permit") + "\"}";
    BOOST_TEST(server.post("/semaphore/up", permit).status == 200);

    BOOST_TEST(member(to.take("200 OK").body, "event") == "open");
    while (server.notify(to.url(), R"(,"lease":600)").status != 202)
        std::this_thread::yield();
    std::string endless;
    for (int i = 0; i < 17; ++i)
        endless += interim;
    BOOST_TEST(member(to.take(endless + "200 OK").body, "event") == "granted");
    BOOST_TEST(server.post("/semaphore/down", R"({"name":"a","wait":600})").status == 200);
}

BOOST_AUTO_TEST_CASE(units_return_if_the_receiver_fails)
{
    const redis_server redis;
    for (std::vector<std::string> arguments : backends(redis))
    {
        const receiver to;
        const server_files where;
        arguments.insert(arguments.end(), {"--notify-attempts", "2", "--max-notifications", "1"});
        const calling_server server(to, arguments, where.log());
        server.create_empty();
        server.up();
        const http_answer accepted = server.notify(to.url(), R"(,"lease":600)");
        BOOST_TEST(accepted.status == 202);
        const call first = to.take("500 Internal Server Error");
        const call second = to.take("404 Not Found");
        BOOST_TEST(first.body == second.body);
        BOOST_TEST(server.post("/semaphore/down", R"({"name":"a","wait":600})").status == 200);
        BOOST_TEST(!to.has_calls());
        BOOST_TEST(metric(server.address(), "undone_total") == 1);
        // The path of a receiver is often a secret.
        const std::string log = where.read("log");
        BOOST_TEST(log.find("warning call-back failed id=\"" + member(accepted.body, "id") +
                            "\" host=\"127.0.0.1\" port=\"" + to.port() + "\"\n") !=
                       std::string::npos,
                   log);

        // A call that announces units holds none.
        server.up();
        BOOST_TEST(server.notify(to.url()).status == 202);
        BOOST_TEST(member(to.take("500 Internal Server Error").body, "event") == "open");
        std::ignore = to.take("404 Not Found");
        // The next call-back is accepted when this one has ended.
        while (server.notify(to.url()).status != 202)
            std::this_thread::yield();
        BOOST_TEST(metric(server.address(), "undone_total") == 1);
    }
}

BOOST_AUTO_TEST_CASE(permit_that_the_receiver_has_renewed_outlasts_a_failed_call)
{
    const redis_server redis;
    for (std::vector<std::string> arguments : backends(redis))
    {
        const receiver to;
        sleeping_machine machine;
        arguments.insert(arguments.end(), {"--notify-attempts", "20", "--max-notifications", "1"});
        const calling_server server(to, arguments, {}, machine.variables());
        server.create_empty();
        server.up();
        BOOST_TEST(server.notify(to.url(), R"(,"lease":60)").status == 202);
        const std::string permit = R"({"name":"a","permit":")" +
                                   member(to.take("500 Internal Server Error").body, "permit") +
                                   '"';
        BOOST_TEST(server.post("/semaphore/renew", permit + R"(,"lease":600})").status == 200);
        // The lease of the grant ends during the second call.
        std::ignore = to.take("500 Internal Server Error", {}, [&] { machine.sleep_for(100s); });
        // The next call-back is accepted when this one has ended.
        while (server.notify(to.url()).status != 202)
            std::this_thread::yield();
        BOOST_TEST(server.post("/semaphore/renew", permit + '}').status == 200);
    }
}

BOOST_AUTO_TEST_CASE(receiver_that_has_released_its_permit_is_not_counted)
{
    const redis_server redis;
    for (std::vector<std::string> arguments : backends(redis))
    {
        const receiver to;
        arguments.insert(arguments.end(), {"--notify-attempts", "2", "--max-notifications", "1"});
        const calling_server server(to, arguments);
        server.create_empty();
        server.up();
        BOOST_TEST(server.notify(to.url(), R"(,"lease":600)").status == 202);
        const std::string permit = R"({"name":"a","permit":")" +
                                   member(to.take("500 Internal Server Error").body, "permit") +
                                   "\"}";
        BOOST_TEST(server.post("/semaphore/up", permit).status == 200);
        std::ignore = to.take("500 Internal Server Error");
        while (server.notify(to.url()).status != 202)
            std::this_thread::yield();
        // Another request of the server to Redis ends after that of the failed call.
        BOOST_TEST(server.post("/semaphore/up", R"({"name":"a"})").status == 200);
        BOOST_TEST(metric(server.address(), "undone_total") == 0);
    }
}

BOOST_AUTO_TEST_CASE(receiver_may_answer_with_a_long_head)
{
    const receiver to;
    const calling_server server(to, {"--notify-attempts", "1", "--max-notifications", "1"});
    server.create_empty();
    server.up();
    BOOST_TEST(server.notify(to.url(), R"(,"lease":600)").status == 202);
    const call got = to.take("200 OK", "X-Long: " + std::string(32 * 1024, 'x') + "\r\n");
    // The next call-back is accepted when this one has ended.
    while (server.notify(to.url()).status != 202)
        std::this_thread::yield();
    const std::string permit = R"({"name":"a","permit":")" + member(got.body, "permit") + "\"}";
    BOOST_TEST(server.post("/semaphore/renew", permit).status == 200);
}

BOOST_AUTO_TEST_CASE(receiver_may_answer_with_a_long_body)
{
    const receiver to;
    const calling_server server(to, {"--notify-attempts", "1", "--max-notifications", "1"});
    server.create_empty();
    server.up();
    BOOST_TEST(server.notify(to.url(), R"(,"lease":600)").status == 202);
    // The head ends here, so the receiver sends the beginning of a body and closes the connection.
    const call got = to.take("200 OK", "Content-Length: 9000000\r\n\r\n");
    // The next call-back is accepted when this one has ended.
    while (server.notify(to.url()).status != 202)
        std::this_thread::yield();
    const std::string permit = R"({"name":"a","permit":")" + member(got.body, "permit") + "\"}";
    BOOST_TEST(server.post("/semaphore/renew", permit).status == 200);
}

BOOST_AUTO_TEST_CASE(no_receiver_is_called_after_the_end_of_the_lease)
{
    const receiver to;
    // All attempts would take days.
    const calling_server server(to, {"--max-notifications", "1", "--notify-attempts", "20"});
    server.create_empty();
    BOOST_TEST(server.notify(to.url(), R"(,"lease":3)").status == 202);
    server.await_waiters(1);
    http_client next(server.address());
    next.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
    server.await_waiters(2);
    server.up();
    // The receiver fails after its lease has ended, and the next client holds the unit. A server that is paused for the
    // whole lease does not call it.
    BOOST_TEST(next.receive().status == 200);
    if (to.has_calls())
        BOOST_TEST(member(to.take("500 Internal Server Error").body, "event") == "granted");
    // The next call-back is accepted when this one has ended.
    do
        BOOST_TEST_REQUIRE(!to.has_calls());
    while (server.notify(to.url()).status != 202);
}

BOOST_AUTO_TEST_CASE(no_receiver_is_called_if_the_machine_has_slept_for_the_whole_lease)
{
    const receiver to;
    sleeping_machine machine;
    const calling_server server(to, {"--max-notifications", "1", "--notify-attempts", "20"}, {},
                                machine.variables());
    BOOST_TEST(server.post("/semaphore", R"({"name":"a","value":1})").status == 200);
    BOOST_TEST(server.notify(to.url(), R"(,"lease":60)").status == 202);
    const call got = to.take("500 Internal Server Error", {}, [&] { machine.sleep_for(100s); });
    BOOST_TEST(member(got.body, "event") == "granted");
    // The next call-back is accepted when this one has ended.
    do
        BOOST_TEST_REQUIRE(!to.has_calls());
    while (server.notify(to.url()).status != 202);
}

// The lease begins in Redis. The server learns of that one second later, and then reads the semaphore for two seconds.
BOOST_AUTO_TEST_CASE(no_receiver_is_called_if_redis_answers_after_the_end_of_the_lease)
{
    const redis_server redis;
    tcp_proxy proxy(redis.port());
    const receiver to;
    const calling_server server(
        to, {"--max-notifications", "1", "--redis", undisturbed_url(proxy.url())});
    const calling_server other(
        to, {"--request-timeout", "600", "--redis", undisturbed_url(redis.url())});
    other.create_empty();
    BOOST_TEST(server.notify(to.url(), R"(,"lease":1)").status == 202);
    other.await_waiters(1);
    http_client next(other.address());
    next.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
    other.await_waiters(2);
    proxy.delay(1s);
    other.up();
    // The lease has ended, and the next client holds the unit.
    BOOST_TEST(next.receive().status == 200);
    // The next call-back is accepted when this one has ended.
    while (server.notify(to.url()).status != 202)
        std::this_thread::yield();
    BOOST_TEST(!to.has_calls());
}

BOOST_AUTO_TEST_CASE(without_a_lease_no_unit_is_taken)
{
    const receiver to;
    const calling_server server(to);
    server.create_empty();
    // A URL needs no path.
    BOOST_TEST(server.notify("http://" + to.place() + "?x=1").status == 202);
    server.await_waiters(1);
    server.up();
    const call got = to.take("200 OK");
    BOOST_TEST(member(got.body, "event") == "open");
    BOOST_TEST(got.head.starts_with("POST /?x=1 HTTP/1.1\r\n"));
    BOOST_TEST(got.body.find("permit") == std::string::npos);
    BOOST_TEST(ask(server.address(), "GET", "/semaphore/value/a").body ==
               R"({"name":"a","value":1})");
}

BOOST_AUTO_TEST_CASE(no_moment_of_a_kill_loses_the_unit_of_a_call_back_without_a_lease)
{
    const server_files where;
    std::size_t start = 0;
    {
        const receiver to;
        const calling_server server(to, where.arguments());
        server.create_empty();
        server.up();
        start = where.read("state").size();
        BOOST_TEST(server.notify(to.url()).status == 202);
        BOOST_TEST(member(to.take("200 OK").body, "event") == "open");
    }
    // After a kill, the file may contain only a beginning of the history.
    const std::string whole = where.read("state");
    BOOST_TEST(whole.size() > start);
    for (std::size_t end = start; end != std::string::npos; end = whole.find('\n', end))
    {
        end += end == start ? 0 : 1;
        where.write(whole.substr(0, end));
        const server_process server(where.arguments());
        const std::string list = ask(server.address(), "GET", "/semaphore").body;
        const bool is_available = list.find("\"value\":1,") != std::string::npos;
        const bool is_held = list.find("\"permits\":1}") != std::string::npos;
        BOOST_TEST(is_available != is_held, list);
    }
}

BOOST_AUTO_TEST_CASE(call_backs_and_waiting_clients_share_one_queue)
{
    const receiver to;
    const calling_server server(to);
    server.create_empty();
    http_client before(server.address());
    before.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
    server.await_waiters(1);
    BOOST_TEST(server.notify(to.url(), R"(,"lease":600)").status == 202);
    server.await_waiters(2);
    http_client after(server.address());
    after.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
    server.await_waiters(3);
    server.up();
    BOOST_TEST(before.receive().status == 200);
    BOOST_TEST(!to.has_calls());
    server.up();
    BOOST_TEST(member(to.take("200 OK").body, "event") == "granted");
    server.up();
    BOOST_TEST(after.receive().status == 200);
}

BOOST_AUTO_TEST_CASE(end_of_the_wait_is_reported)
{
    const receiver to;
    const calling_server server(to);
    server.create_empty();
    BOOST_TEST(server.notify(to.url(), R"(,"wait":0.01)").status == 202);
    BOOST_TEST(member(to.take("200 OK").body, "event") == "timeout");
    BOOST_TEST(server.notify(to.url()).status == 202);
    server.await_waiters(1);
    BOOST_TEST(ask(server.address(), "DELETE", "/semaphore/a").status == 200);
    BOOST_TEST(member(to.take("200 OK").body, "event") == "deleted");
}

BOOST_AUTO_TEST_CASE(only_allowed_receivers_are_called)
{
    const receiver to;
    const receiver other;
    const calling_server server(to);
    server.create_empty();
    const std::string beginning = to.place().substr(0, to.place().size() - 1);
    for (const std::string& url :
         std::vector<std::string>{other.url(), "http://localhost" + to.place().substr(9),
                                  "http://127.0.0.1/", "http://" + beginning + '/'})
        BOOST_TEST(server.notify(url).status == 403, url);
    for (const std::string& url : std::vector<std::string>{
             "ftp://a/", "https://", "http://", "http://x@" + to.place() + '/',
             "http://127.0.0.1:80x/", "/path", to.url() + "#part", to.url() + "\\r\\nX: y",
             to.url() + " x", "http://127.0.0.1:x/", "http://:80/"})
        BOOST_TEST(server.notify(url).status == 400, url);
    BOOST_TEST(server.post("/semaphore/notify", R"({"name":"a"})").status == 400);
    BOOST_TEST(
        server.post("/semaphore/notify", R"({"name":"b","url":")" + to.url() + "\"}").status ==
        404);
    BOOST_TEST(!other.has_calls());

    const server_process silent;
    ask(silent.address(), "POST", "/semaphore", R"({"name":"a","value":1})");
    BOOST_TEST(ask(silent.address(), "POST", "/semaphore/notify",
                   R"({"name":"a","url":")" + to.url() + "\"}")
                   .status == 403);
    BOOST_TEST(!to.has_calls());
    BOOST_CHECK_THROW(server_process({"--notify-host", to.place()}), std::runtime_error);
    // A path would suggest that other paths are not allowed. The others are no hosts.
    for (const std::string& wrong :
         {to.place() + "/a", std::string("::1"), std::string("[::1"), std::string("a:0"),
          std::string("a:65536"), std::string("a:"), std::string("*"), std::string("*.a")})
        BOOST_CHECK_THROW(server_process({"--notify-host", wrong}, {"TURNSTILE_NOTIFY_SECRET=x"}),
                          std::runtime_error);
}

BOOST_AUTO_TEST_CASE(https_receiver_is_called_if_its_certificate_is_valid)
{
    const tls_files files("IP:127.0.0.1,DNS:localhost");
    const receiver to(files);
    const calling_server server(
        to, {"--notify-host", "localhost:" + to.port(), "--notify-ca", files.certificate()});
    server.create_empty();
    BOOST_TEST(server.notify(to.url()).status == 202);
    BOOST_TEST(server.notify("https://localhost:" + to.port() + '/').status == 202);
    server.up();
    const call by_address = to.take("200 OK");
    BOOST_TEST(member(by_address.body, "event") == "open");
    BOOST_TEST(by_address.server_name == "");
    const call by_name = to.take("200 OK");
    BOOST_TEST(member(by_name.body, "event") == "open");
    BOOST_TEST(by_name.server_name == "localhost");
}

BOOST_AUTO_TEST_CASE(https_receiver_without_a_valid_certificate_learns_nothing)
{
    const tls_files files("IP:127.0.0.1");
    const tls_files other_name("DNS:localhost");
    const tls_files other_authority("IP:127.0.0.1");
    const auto refuses = [](const tls_files& shown, std::vector<std::string> trusted)
    {
        const receiver to(shown);
        trusted.insert(trusted.end(), {"--notify-attempts", "1"});
        const calling_server server(to, trusted);
        server.create_empty();
        server.up();
        BOOST_TEST(server.notify(to.url(), R"(,"lease":600)").status == 202);
        BOOST_TEST(to.is_distrusted());
        // The unit returns.
        BOOST_TEST(server.post("/semaphore/down", R"({"name":"a","wait":600})").status == 200);
    };
    refuses(files, {});
    refuses(files, {"--notify-ca", other_authority.certificate()});
    refuses(other_name, {"--notify-ca", other_name.certificate()});
}

BOOST_AUTO_TEST_CASE(receivers_may_be_addresses_in_brackets)
{
    const auto status = [](const server_process& server, const std::string& url)
    {
        return ask(server.address(), "POST", "/semaphore/notify",
                   R"({"name":"missing","url":")" + url + "\"}")
            .status;
    };
    // The server checks the receiver before the name of the semaphore.
    const std::vector<std::string> secret{"TURNSTILE_NOTIFY_SECRET=x"};
    const server_process one({"--notify-host", "[::1]"}, secret);
    BOOST_TEST(status(one, "http://[::1]/") == 404);
    BOOST_TEST(status(one, "https://[::1]/") == 404);
    BOOST_TEST(status(one, "http://[::1]:81/") == 403);
    const server_process several(
        {"--notify-host", "[::1],[fd00::2]", "--notify-host", "c:81,[fd00::4]"}, secret);
    // Upper and lower case make no difference in the name of a host.
    for (const std::string host : {"[::1]", "[fd00::2]", "c:81", "C:81", "[fd00::4]", "[FD00::4]"})
        BOOST_TEST(status(several, "http://" + host + '/') == 404, host);
}

BOOST_AUTO_TEST_CASE(receiver_is_called_although_its_first_address_does_not_respond)
{
    const receiver to;
    const unresponsive_place first("127.0.0.2", to.port());
    const std::string place = "two.example:" + to.port();
    const server_process server(
        {"--notify-host", place, "--notify-attempts", "1"},
        {"TURNSTILE_NOTIFY_SECRET=secret", std::string("LD_PRELOAD=") + TURNSTILE_RESOLVER_SHIM});
    const auto post = [&](const std::string& target, const std::string& body)
    { return ask(server.address(), "POST", target, body).status; };
    BOOST_TEST(post("/semaphore", R"({"name":"a","value":1})") == 200);
    BOOST_TEST(post("/semaphore/notify",
                    R"({"name":"a","lease":600,"url":"http://)" + place + "/\"}") == 202);
    // The server releases the permit if it cannot call the receiver.
    const auto has = [&](const std::string& text)
    { return ask(server.address(), "GET", "/semaphore").body.find(text) != std::string::npos; };
    while (!to.has_calls() && !has(R"("permits":1)"))
        std::this_thread::yield();
    while (!to.has_calls() && has(R"("permits":1)"))
        std::this_thread::yield();
    BOOST_TEST_REQUIRE(to.has_calls());
    BOOST_TEST(member(to.take("200 OK").body, "event") == "granted");
}

BOOST_AUTO_TEST_CASE(slow_lookup_delays_only_the_calls_of_its_name)
{
    const receiver to;
    const server_files where;
    const std::string lookup = where.path / "lookup";
    BOOST_TEST_REQUIRE(::mkfifo(lookup.c_str(), 0600) == 0);
    const std::string slow = "slow.example:" + to.port();
    const std::string other = "two.example:" + to.port();
    const server_process server({"--notify-host", slow + ',' + other + ',' + to.place()},
                                {"TURNSTILE_NOTIFY_SECRET=secret",
                                 std::string("LD_PRELOAD=") + TURNSTILE_RESOLVER_SHIM,
                                 "TURNSTILE_SLOW_LOOKUP=" + lookup});
    const auto post = [&](const std::string& target, const std::string& body)
    { return ask(server.address(), "POST", target, body).status; };
    const auto notify = [&](const std::string& place)
    {
        BOOST_TEST(post("/semaphore/notify", R"({"name":"a","url":"http://)" + place + "/\"}") ==
                   202);
    };
    BOOST_TEST(post("/semaphore", R"({"name":"a","value":1})") == 200);
    for (int i = 0; i < 4; ++i)
        notify(slow);
    // Each call that follows another one looks its name up again.
    for (const std::string& place : {to.place(), other, other})
    {
        notify(place);
        BOOST_TEST(to.take("200 OK").head.find("\r\nHost: " + place + "\r\n") != std::string::npos);
    }
    BOOST_TEST(!to.has_calls());
    // This opens the FIFO when the server looks the name up.
    std::ofstream(lookup).close();
    for (int i = 0; i < 4; ++i)
        BOOST_TEST(to.take("200 OK").head.find("\r\nHost: " + slow + "\r\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(file_of_authorities_has_to_be_readable)
{
    const receiver to;
    BOOST_CHECK_THROW(calling_server(to, {"--notify-ca", "/nonexistent"}), std::runtime_error);
}

BOOST_AUTO_TEST_CASE(number_of_call_backs_is_bounded)
{
    const receiver to;
    const calling_server server(to, {"--max-notifications", "1"});
    server.create_empty();
    BOOST_TEST(server.notify(to.url()).status == 202);
    BOOST_TEST(server.notify(to.url()).status == 503);
    server.await_waiters(1);
    server.up();
    BOOST_TEST(member(to.take("200 OK").body, "event") == "open");
    while (server.notify(to.url()).status != 202)
        std::this_thread::yield();
}

BOOST_AUTO_TEST_CASE(call_backs_count_as_waits_of_their_client)
{
    const redis_server redis;
    for (std::vector<std::string> arguments : backends(redis))
    {
        const receiver to;
        arguments.insert(arguments.end(), {"--max-waiters-per-client", "1"});
        const calling_server server(to, arguments);
        // A refused call-back does not count.
        BOOST_TEST(server.notify(to.url()).status == 404);
        server.create_empty();
        for (int i = 0; i < 2; ++i)
        {
            BOOST_TEST(server.notify(to.url()).status == 202);
            BOOST_TEST_REQUIRE(server.notify(to.url()).status == 429);
            server.await_waiters(1);
            BOOST_TEST(server.post("/semaphore/down", R"({"name":"a","wait":600})").status == 429);
            server.up();
            // A call-back that has received its units waits no longer: see the next round.
            BOOST_TEST(member(to.take("200 OK").body, "event") == "open");
            BOOST_TEST(server.post("/semaphore/down", R"({"name":"a","wait":600})").status == 200);
        }
    }
}

BOOST_AUTO_TEST_CASE(stopping_server_does_not_wait_for_receivers)
{
    const receiver to;
    const server_files where;
    // The attempts would take days.
    calling_server server(to, {"--notify-attempts", "20"}, where.log());
    server.create_empty();
    server.up();
    // The first call is never answered, the second one waits for a unit.
    BOOST_TEST(server.notify(to.url(), R"(,"lease":600)").status == 202);
    BOOST_TEST(server.notify(to.url(), R"(,"lease":600)").status == 202);
    while (!to.has_calls())
        std::this_thread::yield();
    server.await_waiters(1);
    server.signal(SIGTERM);
    BOOST_TEST(server.exit_status() == 0);
    BOOST_TEST(where.read("log").find("call-back failed") == std::string::npos);
}
