// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/transport/diagnosis.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <fmt/format.h>

namespace turnstile::redis::detail {

namespace {

bool contains(std::string_view text, std::string_view part)
{
    return text.find(part) != std::string_view::npos;
}

/// The text between the first two single quotes.
std::string_view quoted(std::string_view text)
{
    const std::size_t begin = text.find('\'');
    if (begin == std::string_view::npos)
        return {};
    text.remove_prefix(begin + 1);
    return text.substr(0, text.find('\''));
}

std::string user_of(const config& settings)
{
    return settings.username.empty() ? "default" : settings.username;
}

/// Errors that end when the server has started, finished a long script, lost a client, met its replicas, or received a
/// script again that it had forgotten. READONLY is not temporary: a client that connects to a replica at first has
/// the wrong server's address, and should not wait for a promotion.
bool is_temporary_error(std::string_view error)
{
    static constexpr std::string_view beginnings[] = {
        "LOADING",  "BUSY",        "MASTERDOWN",
        "TRYAGAIN", "CLUSTERDOWN", "NOSCRIPT",
        "MISCONF",  "NOREPLICAS",  "ERR max number of clients",
    };
    return std::ranges::any_of(beginnings, [&](auto each) { return error.starts_with(each); });
}

// The beginnings of refusals of commands inside a script.
constexpr std::string_view by_redis_7_0 = "ERR The user executing the script can't";
constexpr std::string_view by_later_servers = "ERR ACL failure in script";

diagnosis missing_command(std::string_view error, std::string_view command, const config& settings)
{
    // In a script, the refused command differs from the sent one, and Redis 7.0 does not name it.
    std::string name;
    if (const std::string_view named = quoted(error); !error.starts_with(by_redis_7_0))
        name = named.empty() ? command : named;
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name.empty())
        return {errc::missing_permission,
                fmt::format("user '{}' lacks a permission ({})", user_of(settings), error)};
    return {errc::missing_permission, fmt::format("user '{}' may not run the command {}; add +{}",
                                                  user_of(settings), name, name)};
}

/// Errors of a server, or of a proxy before it, that does not offer all that a session needs.
bool is_unsupported(std::string_view error)
{
    static constexpr std::string_view parts[] = {
        "unknown command",  // HELLO needs Redis 6.
        "Invalid command",  // A script has asked whether the user may run the command.
        "NOPROTO",
        "in cluster mode",
    };
    return std::ranges::any_of(parts, [&](auto each) { return contains(error, each); });
}

}  // namespace

std::string redact(std::string_view text)
{
    return std::string(text.substr(0, text.find(", with args beginning with")));
}

bool is_missing_right(std::string_view error)
{
    return error.starts_with("NOPERM") || error.starts_with(by_redis_7_0) ||
           error.starts_with(by_later_servers);
}

std::string missing_channel(std::string_view what, const config& settings)
{
    return fmt::format("user '{}' may not {} channel {}:{}:wake:*; add &{}:*", user_of(settings),
                       what, settings.prefix, settings.database, settings.prefix);
}

std::string missing_rules(std::string_view rules, const config& settings)
{
    return fmt::format("user '{}' may not run all commands of the scripts; add {}",
                       user_of(settings), rules);
}

diagnosis diagnose(std::string_view error, std::string_view command, const config& settings)
{
    if (is_temporary_error(error))
        return {errc::unreachable, std::string(error)};
    if (error.starts_with("NOAUTH"))
        return {errc::wrong_credentials,
                fmt::format(
                    "user '{}': NOAUTH, the server requires a password; give it in the URL, or in "
                    "config::password or config::credentials",
                    user_of(settings))};
    if (error.starts_with("WRONGPASS") || contains(error, "AUTH <password>"))
        return {errc::wrong_credentials,
                fmt::format("user '{}': {}", user_of(settings), redact(error))};
    if (is_missing_right(error))
    {
        // The name of a key may contain these words, too. An error that names it does so in quotes.
        const std::string_view refused = error.substr(error.rfind('\'') + 1);
        if (contains(refused, "channel"))
            return {
                errc::missing_permission,
                missing_channel(command == "PUBLISH" ? "publish to" : "subscribe to", settings)};
        if (contains(refused, " key"))
            return {errc::missing_permission,
                    fmt::format("user '{}' may not use the keys; add ~{}:*", user_of(settings),
                                settings.prefix)};
        return missing_command(error, command, settings);
    }
    if (error.starts_with("DENIED"))
        return {errc::wrong_credentials,
                "DENIED, the server is in protected mode, so it accepts only clients of its own "
                "machine; set a password for its user 'default', or set protected-mode to no"};
    if (is_unsupported(error))
        return {errc::unsupported_server,
                fmt::format("the server must be Redis 7.0 or newer that speaks RESP3, is no Redis "
                            "Cluster, and has no renamed or disabled commands ({})",
                            redact(error))};
    if (contains(error, "DB index"))
        return {errc::invalid_config, fmt::format("db={}: {}", settings.database, error)};
    return {errc::server_error, redact(error)};
}

diagnosis diagnose_sentinel(std::string_view error, const config& settings)
{
    const errc code = diagnose(error, "SENTINEL", settings).code;
    const bool is_for_good = code == errc::wrong_credentials || code == errc::missing_permission;
    return {
        is_for_good ? code : errc::unreachable,
        fmt::format("a sentinel refuses user '{}' ({}); check sentinel_user and sentinel_password",
                    settings.sentinel_username.empty() ? "default" : settings.sentinel_username,
                    redact(error))};
}

bool is_supported(std::string_view version)
{
    int major = 0;
    std::from_chars(version.data(), version.data() + version.size(), major);
    return major >= 7;
}

std::string info_field(std::string_view info, std::string_view name)
{
    while (!info.empty())
    {
        const std::size_t end = std::min(info.find("\r\n"), info.size());
        const std::string_view line = info.substr(0, end);
        if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':')
            return std::string(line.substr(name.size() + 1));
        info.remove_prefix(std::min(end + 2, info.size()));
    }
    return {};
}

}  // namespace turnstile::redis::detail
