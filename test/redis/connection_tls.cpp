// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <future>
#include <openssl/ssl.h>
#include <pty.h>
#include <redis/transport/boost_redis_config.hpp>
#include <string>
#include <support/connection_scene.hpp>
#include <support/redis_server.hpp>
#include <support/tls_files.hpp>
#include <sys/wait.h>
#include <thread>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>
#include <unistd.h>

namespace {

namespace ssl = boost::asio::ssl;
using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using turnstile::error_code;
using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::test::connection_scene;
using turnstile::test::free_port;
using turnstile::test::redis_server;
using turnstile::test::tls_files;

/// A server that talks TLS, as localhost.
struct secure_server
{
    [[nodiscard]] std::string url(const std::string& host, const std::string& options) const
    {
        return "rediss://" + host + ":" + port + "?" + options;
    }

    tls_files files{"DNS:localhost"};
    /// Whether clients need a certificate that is signed by that of the server. Redis requires one by default.
    std::string asks = "no";
    std::string port = std::to_string(free_port());
    redis_server server{{"--tls-port", port, "--tls-cert-file", files.certificate(),
                         "--tls-key-file", files.key(), "--tls-ca-cert-file", files.certificate(),
                         "--tls-auth-clients", asks}};
};

/// A master and a sentinel that talk TLS with the same certificate. The sentinel names the master by
/// its address, 127.0.0.1.
struct secure_deployment
{
    explicit secure_deployment(const std::string& names)
        : files(names)
    {
    }

    [[nodiscard]] std::string url(const std::string& sentinel_host,
                                  const std::string& options = "") const
    {
        return "rediss+sentinel://" + sentinel_host + ":" + sentinel_port +
               "/main?max_backoff=50ms&ca_file=" + files.certificate() + options;
    }

    tls_files files;
    std::uint16_t port = free_port();
    redis_server master{{"--tls-port", std::to_string(port), "--tls-cert-file", files.certificate(),
                         "--tls-key-file", files.key(), "--tls-ca-cert-file", files.certificate(),
                         "--tls-auth-clients", "no"}};
    std::string sentinel_port = std::to_string(free_port());
    redis_server sentinel{port, "main",
                          "tls-port " + sentinel_port + "\ntls-cert-file " + files.certificate() +
                              "\ntls-key-file " + files.key() + "\ntls-ca-cert-file " +
                              files.certificate() + "\ntls-auth-clients no\ntls-replication yes\n"};
};

/// Accepts one connection, and records the server name in its TLS handshake.
class name_catcher
{
public:
    name_catcher()
    {
        tls_.use_certificate_file(files_.certificate(), ssl::context::pem);
        tls_.use_private_key_file(files_.key(), ssl::context::pem);
        SSL_CTX_set_tlsext_servername_callback(tls_.native_handle(), &name_catcher::on_name);
        SSL_CTX_set_tlsext_servername_arg(tls_.native_handle(), this);
        acceptor_.async_accept(stream_.next_layer(),
                               [this](const error_code& error)
                               {
                                   if (!error)
                                       stream_.async_handshake(ssl::stream_base::server,
                                                               [](const error_code&) {});
                               });
        thread_ = std::thread([this] { context_.run(); });
    }
    name_catcher(const name_catcher&) = delete;
    name_catcher& operator=(const name_catcher&) = delete;
    ~name_catcher()
    {
        context_.stop();
        thread_.join();
    }

    [[nodiscard]] std::string port() const
    {
        return std::to_string(acceptor_.local_endpoint().port());
    }

    /// The requested server name; "none" if the client sent none.
    std::future<std::string> name() { return name_.get_future(); }

private:
    static int on_name(SSL* stream, int*, void* self)
    {
        const char* const name = SSL_get_servername(stream, TLSEXT_NAMETYPE_host_name);
        static_cast<name_catcher*>(self)->name_.set_value(name == nullptr ? "none" : name);
        return SSL_TLSEXT_ERR_OK;
    }

    tls_files files_{"DNS:localhost"};
    std::promise<std::string> name_;
    ssl::context tls_{ssl::context::tls_server};
    boost::asio::io_context context_;
    tcp::acceptor acceptor_{context_, {boost::asio::ip::address_v4::loopback(), 0}};
    ssl::stream<tcp::socket> stream_{context_, tls_};
    std::thread thread_;
};

/// The server name that a connection sends in its TLS handshake.
std::string asked_name(const std::string& host, const std::string& options = "")
{
    name_catcher server;
    connection_scene scene{
        config("rediss://" + host + ":" + server.port() + "?verify=no" + options)};
    auto name = server.name();
    BOOST_TEST(scene.until([&] { return name.wait_for(0s) == std::future_status::ready; }));
    scene.close();
    return name.get();
}

/// Expects that each attempt to connect fails because of the certificate, before the set-up.
void expect_mistrust(const std::string& url, const std::string& remedy,
                     errc code = errc::untrusted_certificate)
{
    connection_scene scene{config(url)};
    BOOST_TEST(scene.until_seen("ff"));
    BOOST_TEST(scene.seen.last == make_error_code(code));
    BOOST_TEST(scene.it->trouble().find(remedy) != std::string::npos, scene.it->trouble());
    BOOST_TEST_MESSAGE(scene.it->trouble());
    scene.close();
}

}  // namespace

BOOST_AUTO_TEST_CASE(tls_with_a_certificate_that_is_trusted)
{
    const secure_server secure;
    connection_scene scene{
        config(secure.url("localhost", "ca_file=" + secure.files.certificate()))};
    BOOST_REQUIRE(scene.until_seen("c"));
    BOOST_TEST(scene.ask({"PING"}).text() == "PONG");
    BOOST_TEST(secure.server.cli({"CLIENT", "KILL", "TYPE", "pubsub"}) == "1");
    BOOST_TEST(scene.until_seen("cdc"));
    scene.close();
}

BOOST_AUTO_TEST_CASE(tls_with_a_certificate_of_somebody_else)
{
    const secure_server secure;
    const tls_files other("DNS:localhost");
    expect_mistrust(secure.url("localhost", "ca_file=" + other.certificate()), "ca_file");
    // The system does not trust the certificate either.
    expect_mistrust(secure.url("localhost", ""), "ca_file");
}

BOOST_AUTO_TEST_CASE(tls_with_the_certificate_of_another_host)
{
    const secure_server secure;
    expect_mistrust(
        secure.url("127.0.0.1", "ca_file=" + secure.files.certificate()),
        "the server's certificate is not for 127.0.0.1; connect to the host that it names, "
        "or give that name as tls_name");
}

BOOST_AUTO_TEST_CASE(tls_without_verification)
{
    const secure_server secure;
    connection_scene scene{config(secure.url("127.0.0.1", "verify=no"))};
    BOOST_TEST(scene.until_seen("c"));
    scene.close();
}

BOOST_AUTO_TEST_CASE(tls_to_a_server_that_talks_plainly)
{
    const redis_server server;
    // The server answers the handshake as if it were a command, or waits for the rest of it.
    connection_scene scene{config("rediss://localhost:" + std::to_string(server.port()) +
                                  "?verify=no&connect_timeout=500ms")};
    const auto is_expected = [&]
    {
        return scene.seen.calls.size() > 1 &&
               scene.it->trouble().find("redis:// instead of rediss://") != std::string::npos;
    };
    BOOST_TEST(scene.until(is_expected), scene.it->trouble());
    scene.close();
}

BOOST_AUTO_TEST_CASE(plain_text_to_a_server_that_talks_tls)
{
    const secure_server secure;
    connection_scene scene{config("redis://localhost:" + secure.port)};
    BOOST_TEST(scene.until_seen("dd"));
    BOOST_TEST(scene.seen.last == make_error_code(errc::unreachable));
    BOOST_TEST(scene.it->trouble().find("rediss:// instead of redis://") != std::string::npos,
               scene.it->trouble());
    BOOST_TEST_MESSAGE(scene.it->trouble());
    scene.close();
}

BOOST_AUTO_TEST_CASE(tls_with_a_certificate_of_the_client)
{
    const secure_server secure{.asks = "yes"};
    const std::string trusted = "ca_file=" + secure.files.certificate();
    const auto presenting = [&](const tls_files& of)
    {
        return secure.url("localhost",
                          trusted + "&cert_file=" + of.certificate() + "&key_file=" + of.key());
    };
    connection_scene scene{config(presenting(secure.files))};
    BOOST_TEST(scene.until_seen("c"), scene.log);
    scene.close();

    expect_mistrust(secure.url("localhost", trusted), "give cert_file and key_file");
    const tls_files stranger("DNS:localhost");
    expect_mistrust(presenting(stranger),
                    "the server does not accept the certificate in cert_file");

    const std::string none = secure.files.certificate() + ".none";
    expect_mistrust(
        secure.url("localhost", trusted + "&cert_file=" + none + "&key_file=" + secure.files.key()),
        "cert_file=" + none + ": cannot be read", errc::invalid_config);
    expect_mistrust(secure.url("localhost", trusted + "&cert_file=" + secure.files.certificate() +
                                                "&key_file=" + stranger.key()),
                    "cannot be read as the private key of cert_file", errc::invalid_config);
}

// OpenSSL asks for the password on the terminal by default, so this test needs one.
BOOST_AUTO_TEST_CASE(tls_with_an_encrypted_key)
{
    const tls_files files("DNS:localhost");
    const std::string encrypted = files.key() + ".encrypted";
    const std::string command =
        "openssl pkey -aes128 -passout pass:s3cr3t -in " + files.key() + " -out " + encrypted;
    // The test has one thread here, and the words are its own.
    // NOLINTNEXTLINE(concurrency-mt-unsafe,bugprone-command-processor)
    BOOST_REQUIRE(std::system(command.c_str()) == 0);
    const config settings("rediss://localhost?cert_file=" + files.certificate() +
                          "&key_file=" + encrypted);
    int terminal = -1;
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
    BOOST_REQUIRE(child >= 0);
    if (child == 0)
    {
        try
        {
            static_cast<void>(turnstile::redis::detail::make_tls_context(settings, nullptr));
        }
        catch (const turnstile::redis::redis_error& error)
        {
            ::_exit(std::string(error.what()).find("key_file=") == 0 ? 0 : 2);
        }
        ::_exit(1);
    }
    // Fails when the child has ended.
    char letter = 0;
    const bool asks = ::read(terminal, &letter, 1) == 1;
    BOOST_TEST(!asks);
    if (asks)
        ::kill(child, SIGKILL);
    int status = -1;
    BOOST_TEST(::waitpid(child, &status, 0) == child);
    BOOST_TEST(status == 0);
    ::close(terminal);
}

BOOST_AUTO_TEST_CASE(tls_with_a_name_instead_of_that_of_the_host)
{
    const secure_server secure;
    const std::string trusted = "ca_file=" + secure.files.certificate();
    connection_scene scene{config(secure.url("127.0.0.1", trusted + "&tls_name=localhost"))};
    BOOST_TEST(scene.until_seen("c"));
    scene.close();
    expect_mistrust(secure.url("localhost", trusted + "&tls_name=db.example"), "tls_name");
}

BOOST_AUTO_TEST_CASE(tls_sends_the_server_name)
{
    BOOST_TEST(asked_name("localhost") == "localhost");
    BOOST_TEST(asked_name("127.0.0.1") == "none");
    BOOST_TEST(asked_name("127.0.0.1", "&tls_name=db.example") == "db.example");
}

// --- sentinels ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(tls_with_the_certificate_of_the_master_that_the_sentinel_names)
{
    const secure_deployment d("DNS:localhost,IP:127.0.0.1");
    connection_scene scene{config(d.url("localhost"))};
    BOOST_TEST(scene.until_seen("c"));
    BOOST_TEST(scene.seen.server.run_id == d.master.run_id());
    scene.close();
}

BOOST_AUTO_TEST_CASE(tls_with_the_certificate_of_another_master)
{
    // The certificate is valid for the sentinel, but not for the master.
    const secure_deployment d("DNS:localhost");
    expect_mistrust(d.url("localhost"), "the server's certificate is not for 127.0.0.1");
    connection_scene scene{config(d.url("localhost", "&tls_name=localhost"))};
    BOOST_TEST(scene.until_seen("c"));
    scene.close();
}

BOOST_AUTO_TEST_CASE(tls_with_the_certificate_of_another_sentinel)
{
    // The certificate would be valid for the master, but not for the sentinel.
    const secure_deployment d("IP:127.0.0.1");
    expect_mistrust(d.url("localhost"), "the server's certificate is not for localhost");
    // The other sentinel may have a right certificate. The name of the other one does not make this one right.
    const turnstile::test::closed_port nobody;
    const std::string other = "127.0.0.1:" + std::to_string(nobody.number());
    connection_scene scene{config(d.url(other + ",localhost"))};
    BOOST_TEST(scene.until_seen("dd"), scene.log);
    BOOST_TEST(scene.it->trouble().find("not for localhost") != std::string::npos,
               scene.it->trouble());
    scene.close();
}

BOOST_AUTO_TEST_CASE(tls_with_the_certificate_of_the_second_sentinel)
{
    const secure_deployment d("DNS:localhost,IP:127.0.0.1");
    const turnstile::test::closed_port nobody;
    const std::string other = "127.0.0.2:" + std::to_string(nobody.number());
    connection_scene scene{config(d.url(other + ",localhost"))};
    BOOST_TEST(scene.until_seen("c"), scene.log);
    scene.close();
}
