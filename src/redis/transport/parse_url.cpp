// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/transport/parse_url.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <string>
#include <turnstile/redis/error.hpp>
#include <utility>
#include <variant>

// Each part of a URL is cut off before it is decoded, so that an encoded delimiter delimits nothing:
//
//   scheme "://" [user [":" password] "@"] hosts ["/" path] ["?" options]
//   "unix://" [user [":" password] "@"] path ["?" options]
//
// An error quotes the wrong part, but nothing that could contain a password: neither the URL, nor the scheme, nor the
// part before the "@", nor a port that is no number or too long, nor the value of an unknown option, nor an option
// without a value, nor any part of an option after a password. (Without a host, "redis://user:12/rest" quotes "rest".)

namespace turnstile::redis::detail {

namespace {

using std::chrono::milliseconds;

constexpr std::uint16_t redis_port = 6379;
constexpr std::uint16_t sentinel_port = 26379;
constexpr const char* unknown_scheme =
    "the URL must begin with redis://, rediss://, unix://, redis+sentinel:// or rediss+sentinel://";

[[noreturn]] void refuse(std::string text)
{
    throw redis_error(errc::invalid_config, std::move(text));
}

/// Removes and returns the text before the first delimiter, or the whole text if there is no delimiter. The
/// delimiter is removed, too.
std::string_view take_until(std::string_view& text, char delimiter)
{
    const std::size_t end = text.find(delimiter);
    const std::string_view taken = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    return taken;
}

/// Undoes percent-encoding. @p what names the part in an error, which does not quote the text.
std::string decode(std::string_view what, std::string_view text)
{
    std::string decoded;
    while (!text.empty())
    {
        char c = text.front();
        text.remove_prefix(1);
        if (c == '%')
        {
            unsigned char byte = 0;
            const char* const begin = text.data();
            const char* const end = begin + std::min<std::size_t>(2, text.size());
            const auto [stop, error] = std::from_chars(begin, end, byte, 16);
            if (error != std::errc{} || stop != begin + 2)
                refuse(fmt::format("{}: a % must be followed by two hexadecimal digits", what));
            c = static_cast<char>(byte);
            text.remove_prefix(2);
        }
        if (c == '\0')
            refuse(fmt::format("{}: must not contain a zero byte", what));
        decoded += c;
    }
    return decoded;
}

/// Parses a number. Returns false unless it is the whole text.
template <class Number>
bool read_number(std::string_view text, Number& number)
{
    const char* const begin = text.data();
    const char* const end = begin + text.size();
    const auto [stop, error] = std::from_chars(begin, end, number);
    return error == std::errc{} && stop == end && !text.empty();
}

// The functions that read the value of an option. Their errors quote it.

void read(std::string_view /*option*/, const std::string& text, std::string& to)
{
    to = text;
}

void read(std::string_view option, const std::string& text, int& to)
{
    if (!read_number(text, to) || to < 0)
        refuse(fmt::format("{}={}: must be a number, at least 0", option, text));
}

void read(std::string_view option, const std::string& text, milliseconds& to)
{
    static constexpr std::pair<std::string_view, milliseconds> units[] = {
        {"ms", milliseconds{1}},
        {"s", std::chrono::seconds{1}},
        {"min", std::chrono::minutes{1}},
        {"h", std::chrono::hours{1}},
    };
    std::uint32_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error == std::errc{})
        for (const auto& [name, unit] : units)
            if (std::string_view(stop, end) == name)
            {
                to = number * unit;
                return;
            }
    refuse(fmt::format("{}={}: must be a whole number with its unit, like 500ms, 15s, 2min or 1h",
                       option, text));
}

void read(std::string_view option, const std::string& text, std::optional<milliseconds>& to)
{
    read(option, text, to.emplace());
}

void read(std::string_view option, const std::string& text, bool& to)
{
    if (text != "yes" && text != "no")
        refuse(fmt::format("{}={}: must be yes or no", option, text));
    to = text == "yes";
}

void read(std::string_view option, const std::string& text, double& to)
{
    if (!read_number(text, to))
        refuse(fmt::format("{}={}: must be a number like 0.33", option, text));
}

/// An option and its member of the configuration.
struct option
{
    std::string_view name;
    std::variant<std::string config::*, int config::*, bool config::*, double config::*,
                 milliseconds config::*, std::optional<milliseconds> config::*>
        member;
};

constexpr option known_options[] = {
    {"prefix", &config::prefix},
    {"client_name", &config::client_name},
    {"db", &config::database},
    {"user", &config::username},
    {"password", &config::password},
    {"sentinel_user", &config::sentinel_username},
    {"sentinel_password", &config::sentinel_password},
    {"ca_file", &config::tls_ca_file},
    {"cert_file", &config::tls_cert_file},
    {"key_file", &config::tls_key_file},
    {"tls_name", &config::tls_name},
    {"verify", &config::tls_verify},
    {"lease", &config::lease},
    {"claim_lease", &config::claim_lease},
    {"idle_time", &config::idle_time},
    {"loss_margin", &config::loss_margin},
    {"renew_fraction", &config::renew_fraction},
    {"clock_drift", &config::clock_drift},
    {"grace", &config::grace},
    {"health_check", &config::health_check},
    {"connect_timeout", &config::connect_timeout},
    {"max_backoff", &config::max_backoff},
};

/// Sets an option of the form name=value. Returns its name.
std::string parse_option(std::string_view text, config& to)
{
    const bool has_value = text.find('=') != std::string_view::npos;
    std::string name = decode("option", take_until(text, '='));
    if (!has_value || name.empty())
        refuse("an option must be name=value");
    const auto* const found = std::ranges::find(known_options, name, &option::name);
    if (found == std::end(known_options))
    {
        // Other characters than those of names may be a part of a password.
        const bool is_name = name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_") == name.npos;
        refuse("unknown option" + (is_name ? " '" + name + "'" : std::string()));
    }
    std::visit([&](auto member) { read(name, decode(name, text), to.*member); }, found->member);
    return name;
}

void parse_options(std::string_view text, config& to)
{
    std::string password;
    while (!text.empty())
        try
        {
            std::string name = parse_option(take_until(text, '&'), to);
            if (name.ends_with("password"))
                password = std::move(name);
        }
        catch (const redis_error&)
        {
            if (password.empty())
                throw;
            // The option may be a part of the password.
            refuse(password +
                   ": an & in it must be percent-encoded. If there is none, a later option is "
                   "unknown, not name=value, or has a wrong value");
        }
}

void parse_user(std::string_view text, config& to)
{
    to.username = decode("user", take_until(text, ':'));
    to.password = decode("password", text);
}

host_and_port parse_host(std::string_view text, std::uint16_t port)
{
    std::string_view host;
    if (text.starts_with('['))
    {
        // An IPv6 address contains colons, so it needs brackets.
        text.remove_prefix(1);
        if (text.find(']') == std::string_view::npos)
            refuse(fmt::format("host '[{}': the closing bracket is missing", text));
        host = take_until(text, ']');
        if (!text.empty() && text.front() != ':')
            refuse(fmt::format("host '[{}]{}': only a port may follow the bracket", host, text));
        text = text.substr(text.empty() ? 0 : 1);
    }
    else
    {
        host = take_until(text, ':');
    }
    if (!text.empty() && (!read_number(text, port) || port == 0))
    {
        // If the host was forgotten, the port is the password.
        const bool is_port =
            text.size() <= 5 && text.find_first_not_of("0123456789") == std::string_view::npos;
        refuse(fmt::format("port{}: must be a number between 1 and 65535",
                           is_port ? '=' + std::string(text) : std::string()));
    }
    if (host.empty())
        refuse("host: must not be empty");
    return {decode("host", host), port};
}

/// Cuts off the text before the last "@" of the hosts: a password may contain an "@" that is not encoded.
std::string_view take_user(std::string_view& hosts)
{
    const std::size_t at = hosts.rfind('@');
    if (at == std::string_view::npos)
        return {};
    const std::string_view user = hosts.substr(0, at);
    hosts.remove_prefix(at + 1);
    return user;
}

void parse_path(std::string_view path, config& to)
{
    if (!to.sentinels.empty())
        to.master_name = decode("master", take_until(path, '/'));
    if (path.ends_with('/'))
        path.remove_suffix(1);
    if (!path.empty())
        read("db", decode("db", path), to.database);
}

void parse_sentinels(std::string_view hosts, config& to)
{
    while (!hosts.empty())
        to.sentinels.push_back(parse_host(take_until(hosts, ','), sentinel_port));
    if (to.sentinels.empty())
        refuse("host: must not be empty");
}

void parse_unix(std::string_view place, std::string_view options, config& to)
{
    const std::size_t slash = std::min(place.find('/'), place.size());
    std::string_view before = place.substr(0, slash);
    parse_user(take_user(before), to);
    if (!before.empty() || slash == place.size())
        refuse("unix: three slashes must stand before the path, as in unix:///run/redis.sock");
    to.unix_socket = decode("path", place.substr(slash));
    parse_options(options, to);
}

}  // namespace

void parse_url(std::string_view url, config& to)
{
    const std::size_t colon = url.find("://");
    const std::string_view scheme = url.substr(0, colon);
    if (colon == std::string_view::npos)
        refuse(unknown_scheme);
    url.remove_prefix(colon + 3);
    std::string_view place = take_until(url, '?');

    if (scheme == "unix")
        return parse_unix(place, url, to);

    to.tls = scheme.starts_with("rediss");
    std::string_view hosts = take_until(place, '/');
    // Otherwise the beginning of a password would be taken for a port, and the end of one for a database.
    if (place.find('@') != std::string_view::npos ||
        (hosts.find('@') == std::string_view::npos && url.find('@') != std::string_view::npos))
        refuse(
            "user and password: / and ? must be percent-encoded, and so must an @ after the host");
    parse_user(take_user(hosts), to);
    if (scheme == "redis" || scheme == "rediss")
        to.server = parse_host(hosts, redis_port);
    else if (scheme == "redis+sentinel" || scheme == "rediss+sentinel")
        parse_sentinels(hosts, to);
    else
        refuse(unknown_scheme);
    parse_path(place, to);
    parse_options(url, to);
}

}  // namespace turnstile::redis::detail
