// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The options --tls-cert and --tls-key, with a client that uses OpenSSL itself.

#include "http_client.hpp"
#include "server_process.hpp"
#include "support/tls_files.hpp"

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using turnstile::test::http_client;
using turnstile::test::log_of_failure;
using turnstile::test::request_text;
using turnstile::test::server_process;
using turnstile::test::tls_files;

namespace {

/// A connection that accepts one certificate.
class tls_client
{
public:
    tls_client(const server_process& server, const tls_files& files,
               int newest_version = TLS1_3_VERSION)
        : context_(::SSL_CTX_new(::TLS_client_method()), &::SSL_CTX_free)
    {
        ::SSL_CTX_load_verify_locations(context_.get(), files.certificate().c_str(), nullptr);
        ::SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
        // OpenSSL sends the end of the session to a server that may have ended.
        std::signal(SIGPIPE, SIG_IGN);
        // Otherwise, the client itself would refuse the old versions.
        ::SSL_CTX_set_security_level(context_.get(), 0);
        ::SSL_CTX_set_min_proto_version(context_.get(), TLS1_VERSION);
        ::SSL_CTX_set_max_proto_version(context_.get(), newest_version);
        stream_.reset(::BIO_new_ssl_connect(context_.get()));
        ::BIO_set_conn_hostname(stream_.get(), ("127.0.0.1:" + server.address().port).c_str());
        if (::BIO_do_connect(stream_.get()) <= 0)
            throw std::runtime_error("no connection");
    }

    void send(const std::string& text)
    {
        BOOST_TEST_REQUIRE(::BIO_write(stream_.get(), text.data(), static_cast<int>(text.size())) ==
                           static_cast<int>(text.size()));
    }

    /// The status and the body of one answer.
    std::string receive()
    {
        std::string text;
        while (true)
        {
            const std::size_t end = text.find("\r\n\r\n");
            const std::size_t length = text.find("Content-Length: ");
            if (end != std::string::npos &&
                text.size() == end + 4 + std::stoul(text.substr(length + 16)))
                return text.substr(9, 4) + text.substr(end + 4);
            char buffer[4096];
            const int size = ::BIO_read(stream_.get(), buffer, sizeof buffer);
            BOOST_TEST_REQUIRE(size > 0);
            text.append(buffer, static_cast<std::size_t>(size));
        }
    }

    /// Whether the server ends the session without a further byte.
    bool ends()
    {
        char byte = 0;
        SSL* tls = nullptr;
        ::BIO_get_ssl(stream_.get(), &tls);
        return ::BIO_read(stream_.get(), &byte, 1) <= 0 &&
               (::SSL_get_shutdown(tls) & SSL_RECEIVED_SHUTDOWN) != 0;
    }

    std::string ask(const std::string& method, const std::string& target,
                    const std::string& body = {})
    {
        send(request_text(method, target, body));
        return receive();
    }

private:
    std::unique_ptr<SSL_CTX, decltype(&::SSL_CTX_free)> context_;
    struct free_stream
    {
        void operator()(BIO* stream) const { ::BIO_free_all(stream); }
    };
    std::unique_ptr<BIO, free_stream> stream_;
};

/// A server with a certificate.
struct tls_server : server_process
{
    explicit tls_server(const tls_files& files, const std::string& request_timeout = "10")
        : server_process({"--tls-cert", files.certificate(), "--tls-key", files.key(),
                          "--request-timeout", request_timeout})
    {
    }
};

}  // namespace

BOOST_AUTO_TEST_CASE(encrypted_requests_have_the_same_answers)
{
    const tls_files files("IP:127.0.0.1");
    const tls_server server(files);
    tls_client client(server, files);
    BOOST_TEST(client.ask("POST", "/semaphore", R"({"name":"a","value":1})") ==
               R"(200 {"name":"a","value":1})");
    BOOST_TEST(client.ask("POST", "/semaphore/down", R"({"name":"a","wait":600})") ==
               R"(200 {"name":"a","value":0})");
    // A request that waits, and another one, which the client sends before the answer to the first one.
    tls_client waiter(server, files, TLS1_2_VERSION);
    waiter.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})") +
                request_text("GET", "/healthz"));
    while (client.ask("GET", "/semaphore").find("\"waiters\":1,") == std::string::npos)
        std::this_thread::yield();
    client.ask("POST", "/semaphore/up", R"({"name":"a"})");
    BOOST_TEST(waiter.receive() == R"(200 {"name":"a","value":0})");
    BOOST_TEST(waiter.receive() == "200 ok");
    BOOST_TEST(client.ask("POST", "/semaphore", std::string(100'000, 'x')).substr(0, 3) == "413");
    BOOST_TEST(client.ends());
}

BOOST_AUTO_TEST_CASE(encrypted_grant_that_meets_a_hang_up_is_returned)
{
    const tls_files files("IP:127.0.0.1");
    const tls_server server(files);
    tls_client client(server, files);
    client.ask("POST", "/semaphore", R"({"name":"a","value":1})");
    client.ask("POST", "/semaphore/down", R"({"name":"a"})");
    for (int i = 0; i < 20; ++i)
    {
        {
            tls_client leaver(server, files);
            leaver.send(request_text("POST", "/semaphore/down", R"({"name":"a","wait":600})"));
            while (client.ask("GET", "/semaphore").find("\"waiters\":1,") == std::string::npos)
                std::this_thread::yield();
            // When the stopped server continues, it finds first the unit and then the end of the connection.
            server.signal(SIGSTOP);
            client.send(request_text("POST", "/semaphore/up", R"({"name":"a"})"));
        }
        server.signal(SIGCONT);
        client.receive();
        BOOST_TEST(client.ask("POST", "/semaphore/down", R"({"name":"a","wait":600})") ==
                   R"(200 {"name":"a","value":0})");
    }
}

BOOST_AUTO_TEST_CASE(clients_without_modern_encryption_are_refused)
{
    const tls_files files("IP:127.0.0.1");
    const tls_server server(files);
    BOOST_CHECK_THROW(tls_client(server, files, TLS1_1_VERSION), std::runtime_error);
    http_client plain(server.address());
    plain.send(request_text("GET", "/healthz"));
    BOOST_TEST(plain.receive().status == 0);
    BOOST_TEST(tls_client(server, files).ask("GET", "/healthz") == "200 ok");
}

BOOST_AUTO_TEST_CASE(old_versions_are_refused_although_the_system_allows_them)
{
    const tls_files files("IP:127.0.0.1");
    const std::string settings = files.key() + ".cnf";
    std::ofstream(settings) << "openssl_conf = all\n[all]\nssl_conf = each\n[each]\n"
                               "system_default = weak\n[weak]\nMinProtocol = TLSv1\n"
                               "CipherString = DEFAULT@SECLEVEL=0\n";
    const server_process server({"--tls-cert", files.certificate(), "--tls-key", files.key()},
                                {"OPENSSL_CONF=" + settings});
    for (const int version : {TLS1_VERSION, TLS1_1_VERSION})
        BOOST_CHECK_THROW(tls_client(server, files, version), std::runtime_error);
    BOOST_TEST(tls_client(server, files, TLS1_2_VERSION).ask("GET", "/healthz") == "200 ok");
}

BOOST_AUTO_TEST_CASE(surplus_connections_are_closed_without_plain_text)
{
    const tls_files files("IP:127.0.0.1");
    const server_process server(
        {"--tls-cert", files.certificate(), "--tls-key", files.key(), "--max-connections", "1"});
    tls_client client(server, files);
    BOOST_TEST(client.ask("GET", "/healthz") == "200 ok");
    http_client surplus(server.address());
    BOOST_TEST(surplus.ends());
}

BOOST_AUTO_TEST_CASE(stopping_server_ends_the_tls_session)
{
    const tls_files files("IP:127.0.0.1");
    tls_server server(files);
    tls_client client(server, files);
    BOOST_TEST(client.ask("GET", "/healthz") == "200 ok");
    server.signal(SIGTERM);
    BOOST_TEST(client.ends());
    BOOST_TEST(server.exit_status() == 0);
}

BOOST_AUTO_TEST_CASE(stopping_server_waits_for_no_handshake)
{
    const tls_files files("IP:127.0.0.1");
    tls_server server(files, "86400");
    http_client silent(server.address());
    http_client slow(server.address());
    // The head of a record with a greeting that does not follow.
    slow.send(std::string("\x16\x03\x01\x01\x00", 5));
    // The server accepts its clients in order.
    BOOST_TEST(tls_client(server, files).ask("GET", "/healthz") == "200 ok");
    server.signal(SIGTERM);
    for (http_client* const client : {&silent, &slow})
    {
        client->ends();
        // A client that has waited in vain is still connected.
        BOOST_TEST_REQUIRE(client->has_ended());
    }
    BOOST_TEST(server.exit_status() == 0);
}

BOOST_AUTO_TEST_CASE(handshake_has_a_time_limit)
{
    const tls_files files("IP:127.0.0.1");
    const tls_server server(files, "1");
    http_client silent(server.address());
    silent.ends();
    // A client that has waited in vain is still connected.
    BOOST_TEST(silent.has_ended());
}

BOOST_AUTO_TEST_CASE(server_does_not_ask_for_the_pass_phrase_of_its_key)
{
    const tls_files files("IP:127.0.0.1");
    const std::string key = files.key() + ".encrypted";
    const std::string command =
        "openssl pkey -aes256 -passout pass:secret -in " + files.key() + " -out " + key;
    // NOLINTNEXTLINE(concurrency-mt-unsafe,bugprone-command-processor): the words are those of the test.
    BOOST_TEST_REQUIRE(std::system(command.c_str()) == 0);
    const std::string text = log_of_failure({"--tls-cert", files.certificate(), "--tls-key", key});
    BOOST_TEST(text.find("--tls-key: cannot use \"" + key + '"') != std::string::npos, text);
    BOOST_TEST(text.find("pass phrase") == std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(unusable_files_are_refused)
{
    const tls_files files("IP:127.0.0.1");
    const tls_files others("IP:127.0.0.1");
    using list = std::vector<std::string>;
    for (const list& arguments :
         {list{"--tls-cert", files.certificate()}, list{"--tls-key", files.key()},
          list{"--tls-cert", "/nothing", "--tls-key", files.key()},
          list{"--tls-cert", files.key(), "--tls-key", files.key()},
          list{"--tls-cert", files.certificate(), "--tls-key", others.key()}})
        BOOST_CHECK_THROW(server_process{arguments}, std::runtime_error);
}
