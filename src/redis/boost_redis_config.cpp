// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "boost_redis_config.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <fmt/format.h>
#include <openssl/ssl.h>
#include <string_view>
#include <tuple>
#include <turnstile/redis/error.hpp>
#include <utility>
#include <vector>

#include "redact.hpp"
#include "scripts.hpp"

namespace turnstile::redis::detail {

namespace {

boost::redis::address address_of(const host_and_port& from)
{
    return {from.host, std::to_string(from.port)};
}

void push_hello(boost::redis::request& to, const config& settings)
{
    to.clear();
    if (settings.username.empty() && settings.password.empty())
        to.hello_setname(settings.client_name);
    else
        to.hello_setname(settings.username.empty() ? "default" : settings.username,
                         settings.password, settings.client_name);
}

/// SUBSCRIBE has no reply of its own in RESP3. A refused one has, and that would be taken for the reply
/// to the next command, and so on, for as long as the connection lasts. Hence the commands behind it,
/// which have replies: there the refusal ends the set-up. They also spare every script its first
/// NOSCRIPT.
void push_setup(boost::redis::request& to, const config& settings, const std::string& channel)
{
    push_hello(to, settings);
    if (settings.database != 0)
        to.push("SELECT", settings.database);
    to.push("SUBSCRIBE", channel);
    for (const script& each : scripts())
        to.push("SCRIPT", "LOAD", each.text);
}

void set_sentinels(boost::redis::sentinel_config& to, const config& settings)
{
    for (const host_and_port& each : settings.sentinels)
        to.addresses.push_back(address_of(each));
    to.master_name = settings.master_name;
    to.use_ssl = settings.tls;
    if (!settings.sentinel_password.empty())
    {
        to.setup.clear();
        to.setup.hello(settings.sentinel_username.empty() ? "default" : settings.sentinel_username,
                       settings.sentinel_password);
    }
    to.resolve_timeout = to.connect_timeout = to.ssl_handshake_timeout = to.request_timeout =
        settings.connect_timeout;
}

/// Whether a text begins like an error of a server, with a word in capitals: else the reason why a set-up
/// failed is one of ours, such as a broken connection.
bool is_server_error(std::string_view text)
{
    const std::string_view word = text.substr(0, text.find(' '));
    return word.size() > 1 &&
           std::ranges::all_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
}

/// The host in a text such as `host:6379 (TLS enabled)`; an address of IPv6 has no brackets there.
std::string host_in(std::string_view text)
{
    return std::string(text.substr(0, text.rfind(':')));
}

/// For which names the certificate of the server that is contacted first may be: with sentinels, whichever of
/// them that is.
std::vector<std::string> names_of(const config& settings)
{
    if (!settings.tls_name.empty())
        return {settings.tls_name};
    if (settings.sentinels.empty())
        return {settings.server.host};
    std::vector<std::string> names;
    names.reserve(settings.sentinels.size());
    for (const host_and_port& each : settings.sentinels)
        names.push_back(each.host);
    return names;
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
    to.health_check_interval = settings.health_check;
    to.health_check_id = "turnstile";
    // The loop that reconnects is ours.
    to.reconnect_wait_interval = std::chrono::seconds{0};
    // Boost.Redis fills as much with zeros before each read.
    to.read_buffer_append_size = 4096;
    to.use_setup = true;
    push_setup(to.setup, settings, channel);
    if (!settings.sentinels.empty())
        set_sentinels(to.sentinel, settings);
    return to;
}

boost::asio::ssl::context make_tls_context(const config& settings,
                                           std::shared_ptr<const log_findings> findings)
{
    boost::asio::ssl::context context(boost::asio::ssl::context::tls_client);
    if (!settings.tls || !settings.tls_verify)
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
        [names = names_of(settings), findings = std::move(findings)](
            bool preverified, boost::asio::ssl::verify_context& certificate)
        {
            const auto is_for = [&](const std::string& name)
            { return boost::asio::ssl::host_name_verification(name)(preverified, certificate); };
            // A sentinel has been asked, and this is the master.
            if (!findings->master_host.empty())
                return is_for(findings->master_host);
            return std::ranges::any_of(names, is_for);
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
                                       std::shared_ptr<log_findings> findings)
{
    using level = boost::redis::logger::level;
    return {level::info, [logger = settings.logger, password = settings.password,
                          asks_sentinels = !settings.sentinels.empty() && settings.tls_name.empty(),
                          findings = std::move(findings)](level how, std::string_view text)
            {
                // If the wording changes, the reason is missing in our errors, and a test fails.
                static constexpr std::string_view failed = "Setup request execution failed: ";
                if (text.starts_with(failed) && is_server_error(text.substr(failed.size())))
                    findings->diagnostic = redact(text.substr(failed.size()), password);
                // If this one does, no certificate of a master is accepted, and a test fails.
                static constexpr std::string_view connecting =
                    "Trying to connect to Redis server at ";
                if (asks_sentinels && text.starts_with(connecting))
                    findings->master_host = host_in(text.substr(connecting.size()));
                if (logger)
                    logger(level_of(how), "Boost.Redis: " + redact(text, password));
            }};
}

}  // namespace turnstile::redis::detail
