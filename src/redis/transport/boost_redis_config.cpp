// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/transport/boost_redis_config.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <fmt/format.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <string_view>
#include <tuple>
#include <turnstile/redis/error.hpp>
#include <utility>

#include "redis/transport/diagnosis.hpp"
#include "redis/transport/identity.hpp"

namespace turnstile::redis::detail {

namespace {

boost::redis::address address_of(const host_and_port& from)
{
    return {from.host, std::to_string(from.port)};
}

void push_hello(boost::redis::request& to, const config& settings)
{
    const std::string name = identify(settings).name;
    to.clear();
    if (settings.username.empty() && settings.password.empty())
        to.hello_setname(name);
    else
        to.hello_setname(settings.username.empty() ? "default" : settings.username,
                         settings.password, name);
}

/// In RESP3, SUBSCRIBE has no reply, but a refused SUBSCRIBE has one. It would be taken for the reply to the
/// next command, and shift all later replies of the connection. So a command with a reply follows, which ends
/// the set-up at the refusal.
void push_setup(boost::redis::request& to, const config& settings, const std::string& channel)
{
    push_hello(to, settings);
    if (settings.database != 0)
        to.push("SELECT", settings.database);
    to.push("SUBSCRIBE", channel);
    to.push("PING");
}

void set_sentinels(boost::redis::sentinel_config& to, const config& settings)
{
    for (const host_and_port& each : settings.sentinels)
        to.addresses.push_back(address_of(each));
    to.master_name = settings.master_name;
    to.use_ssl = settings.tls;
    if (!settings.sentinel_username.empty() || !settings.sentinel_password.empty())
    {
        to.setup.clear();
        to.setup.hello(settings.sentinel_username.empty() ? "default" : settings.sentinel_username,
                       settings.sentinel_password);
    }
    to.resolve_timeout = to.connect_timeout = to.ssl_handshake_timeout = to.request_timeout =
        settings.connect_timeout;
}

/// Whether a text is a server's error. Boost.Redis appends `[category:value]` to a local reason why the set-up failed,
/// such as a broken connection.
bool is_server_error(std::string_view text)
{
    return !text.ends_with(']');
}

/// The host in a text such as `host:6379`, where an IPv6 address has no brackets.
std::string host_in(std::string_view text)
{
    return std::string(text.substr(0, text.rfind(':')));
}

/// The name that the certificate of the contacted server has to contain.
std::string name_in_certificate(const config& settings, const link_findings& findings)
{
    if (!settings.tls_name.empty())
        return settings.tls_name;
    if (settings.sentinels.empty())
        return settings.server.host;
    // A known master means that a sentinel has answered. Until then, Boost.Redis contacts the sentinels in their order.
    if (!findings.master.empty() || findings.failed_sentinels >= settings.sentinels.size())
        return host_in(findings.master);
    return settings.sentinels[findings.failed_sentinels].host;
}

/// Extracts the findings from a text such as `Sentinel at host:26379: responded with an error: NOAUTH ...`.
void note_sentinel(link_findings& findings, std::string_view text)
{
    static constexpr std::string_view answered = ": responded with an error: ";
    ++findings.failed_sentinels;
    findings.sentinel_failures += (findings.sentinel_failures.empty() ? "" : "; ") + redact(text);
    const std::size_t found = text.find(answered);
    if (found == std::string_view::npos)
        return;
    ++findings.refusing_sentinels;
    findings.sentinel_refusal = redact(text.substr(found + answered.size()));
}

/// Loads the certificate for servers that ask for one.
void use_certificate(boost::asio::ssl::context& context, const config& settings)
{
    if (settings.tls_cert_file.empty())
        return;
    error_code error;
    std::ignore = context.use_certificate_chain_file(settings.tls_cert_file, error);
    if (error)
        throw redis_error(errc::invalid_config,
                          fmt::format("cert_file={}: cannot be read as a certificate ({})",
                                      settings.tls_cert_file, error.message()));
    // OpenSSL would ask for the password of an encrypted key on the terminal, and block the session meanwhile.
    std::ignore = context.set_password_callback([](auto&&...) { return std::string(); }, error);
    std::ignore =
        context.use_private_key_file(settings.tls_key_file, boost::asio::ssl::context::pem, error);
    if (error)
        throw redis_error(
            errc::invalid_config,
            fmt::format("key_file={}: cannot be read as the private key of cert_file={} ({})",
                        settings.tls_key_file, settings.tls_cert_file, error.message()));
}

/// The reason why OpenSSL does not trust a certificate.
std::string mistrust_of(boost::asio::ssl::verify_context& certificate)
{
    const int why = X509_STORE_CTX_get_error(certificate.native_handle());
    const bool is_unknown = why == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
                            why == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
                            why == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT ||
                            why == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
                            why == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE;
    return fmt::format(
        "the server's certificate is not trusted ({}){}", X509_verify_cert_error_string(why),
        is_unknown ? "; name the certificate of the CA that signed it as ca_file" : "");
}

log_level level_of(boost::redis::logger::level level)
{
    return level <= boost::redis::logger::level::err ? log_level::info : log_level::debug;
}

}  // namespace

boost::redis::config make_redis_config(const config& settings, const std::string& channel)
{
    boost::redis::config to;
    to.addr = address_of(settings.server);
    to.unix_socket = settings.unix_socket;
    to.use_ssl = settings.tls;
    to.resolve_timeout = to.connect_timeout = to.ssl_handshake_timeout = settings.connect_timeout;
    to.health_check_interval = settings.effective_health_check();
    to.health_check_id = "turnstile";
    // Our own loop reconnects.
    to.reconnect_wait_interval = std::chrono::seconds{0};
    // Boost.Redis fills this many bytes with zeros before each read.
    to.read_buffer_append_size = 4096;
    to.use_setup = true;
    push_setup(to.setup, settings, channel);
    if (!settings.sentinels.empty())
        set_sentinels(to.sentinel, settings);
    return to;
}

boost::asio::ssl::context make_tls_context(const config& settings,
                                           std::shared_ptr<link_findings> findings)
{
    boost::asio::ssl::context context(boost::asio::ssl::context::tls_client);
    if (!settings.tls)
        return context;
    use_certificate(context, settings);
    if (!settings.tls_verify)
        return context;

    error_code error;
    if (settings.tls_ca_file.empty())
        std::ignore = context.set_default_verify_paths(error);
    else
        std::ignore = context.load_verify_file(settings.tls_ca_file, error);
    if (error)
        throw redis_error(errc::invalid_config,
                          fmt::format("ca_file={}: cannot be read as certificates ({})",
                                      settings.tls_ca_file, error.message()));
    context.set_verify_mode(boost::asio::ssl::verify_peer);
    context.set_verify_callback(
        [settings, findings = std::move(findings)](bool preverified,
                                                   boost::asio::ssl::verify_context& certificate)
        {
            const std::string name = name_in_certificate(settings, *findings);
            if (preverified && boost::asio::ssl::host_name_verification(name)(true, certificate))
                return true;
            findings->mistrust =
                preverified ? fmt::format("the server's certificate is not for {}; connect to the "
                                          "host that it names, or give that name as tls_name",
                                          name)
                            : mistrust_of(certificate);
            ++findings->refusing_sentinels;
            return false;
        });
    return context;
}

void set_tls_name(SSL* stream, const config& settings)
{
    const std::string& name = settings.tls_name.empty() ? settings.server.host : settings.tls_name;
    error_code no_address;
    boost::asio::ip::make_address(name, no_address);
    if (no_address)
        SSL_set_tlsext_host_name(stream, name.c_str());
}

boost::redis::logger make_redis_logger(const config& settings,
                                       std::shared_ptr<link_findings> findings)
{
    using level = boost::redis::logger::level;
    return {
        level::info, [logger = settings.logger, asks_sentinels = !settings.sentinels.empty(),
                      findings = std::move(findings)](level how, std::string_view text)
        {
            // If Boost.Redis changes this text, our errors lack the reason, and a test fails.
            static constexpr std::string_view failed = "Setup request execution failed: ";
            static constexpr std::string_view unhealthy =
                "Health checker: server answered ping with an error: ";
            for (const std::string_view beginning : {failed, unhealthy})
                if (text.starts_with(beginning) && is_server_error(text.substr(beginning.size())))
                    findings->refusal = redact(text.substr(beginning.size()));
            // If Boost.Redis changes this text, attempts that fail have the same wake channel, and a test fails.
            if (text.starts_with("Connected to Redis server at "))
                findings->connected = true;
            // If Boost.Redis changes this text, no certificate of a master is accepted, and a test fails.
            static constexpr std::string_view connecting = "Trying to connect to Redis server at ";
            if (asks_sentinels && text.starts_with(connecting))
                findings->master =
                    text.substr(connecting.size(), text.rfind(" (") - connecting.size());
            // If Boost.Redis changes this text, only the first sentinel's certificate is accepted, and a test fails.
            if (text.starts_with("Sentinel at "))
                note_sentinel(*findings, text);
            if (logger)
                logger(level_of(how), "Boost.Redis: " + redact(text));
        }};
}

}  // namespace turnstile::redis::detail
