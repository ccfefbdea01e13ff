// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/service.hpp"

#include "service/answers.hpp"
#include "service/decode.hpp"
#include "service/memory_store.hpp"
#include "service/redis_store.hpp"

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <exception>
#include <openssl/crypto.h>
#include <stdexcept>
#include <utility>

namespace turnstile::service {

namespace {

/// Compares in a time that does not depend on the position of the first difference.
bool same_secret(std::string_view a, std::string_view b) noexcept
{
    return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

/// Whether a request comes from a page of this server, or from no page. Other pages that the user's browser shows could
/// send requests, too.
bool is_own_page(const request& message)
{
    if (!message.origin)
        return true;
    const std::size_t host = message.origin->find("://");
    return host != std::string_view::npos && message.origin->substr(host + 3) == message.host;
}

/// Whether a path fits a route. A last segment `:name` stands for any text without a slash, which becomes
/// @p parameter.
bool matches(std::string_view pattern, std::string_view path, std::string_view& parameter)
{
    const std::size_t colon = pattern.find(':');
    if (colon == std::string_view::npos)
        return path == pattern;
    if (path.size() <= colon || path.substr(0, colon) != pattern.substr(0, colon))
        return false;
    parameter = path.substr(colon);
    return parameter.find('/') == std::string_view::npos;
}

std::unique_ptr<store> make_store(boost::asio::io_context& context,
                                  const service_settings& settings)
{
    if (settings.redis.empty())
        return std::make_unique<memory_store>(context, settings.max_waiters);
    if (!settings.snapshot.empty())
        throw std::runtime_error(
            "--redis and --snapshot exclude each other: with --redis or the variable "
            "TURNSTILE_REDIS_URL, the Redis server keeps the semaphores; remove one of them");
    try
    {
        return std::make_unique<redis_store>(context, settings.redis, settings.max_waiters);
    }
    catch (const std::exception& error)
    {
        throw std::runtime_error(std::string("--redis: ") + error.what());
    }
}

}  // namespace

struct service::route
{
    std::string_view method;
    std::string_view pattern;
    role needed;
    awaitable<response> (service::*handler)(const request&, const std::string& name);
};

const std::array<service::route, 19> service::routes{{
    {"POST", "/semaphore/down", role::use, &service::down},
    {"POST", "/semaphore/up", role::use, &service::up},
    {"GET", "/semaphore/value/:name", role::read, &service::value},
    {"POST", "/semaphore/notify", role::use, &service::notify},
    {"POST", "/semaphore/renew", role::use, &service::renew},
    {"POST", "/semaphore/free", role::admin, &service::free},
    {"GET", "/semaphore/detail/:name", role::read, &service::detail},
    {"POST", "/semaphore", role::admin, &service::create},
    {"GET", "/semaphore", role::read, &service::list},
    {"DELETE", "/semaphore/:name", role::admin, &service::remove},
    {"GET", "/events", role::read, &service::follow},
    {"GET", "/metrics", role::read, &service::metrics},
    {"GET", "/", role::nobody, &service::file},
    {"GET", "/page.css", role::nobody, &service::file},
    {"GET", "/page.js", role::nobody, &service::file},
    {"GET", "/icon.svg", role::nobody, &service::file},
    {"GET", "/openapi.json", role::nobody, &service::file},
    {"GET", "/healthz", role::nobody, &service::healthy},
    {"GET", "/readyz", role::nobody, &service::ready},
}};

service::service(boost::asio::io_context& context, service_settings settings)
    : context_(context)
    , settings_(std::move(settings))
    , store_(make_store(context, settings_))
    , events_(context, *store_)
    , notifier_(context, settings_.notify)
{
    if (!settings_.snapshot.empty())
        snapshot_.emplace(settings_.snapshot, dynamic_cast<memory_store&>(*store_));
}

service::~service() = default;

awaitable<response> service::answer(const request& message)
{
    try
    {
        std::string name;
        const route& found = find_route(message, name);
        co_return co_await (this->*found.handler)(message, name);
    }
    catch (refusal& refused)
    {
        co_return std::move(refused.answer);
    }
}

void service::close()
{
    closing_ = true;
    // First, so that no receiver is called because of a wait that the store ends.
    notifier_.close();
    store_->close();
    events_.close();
}

void service::sync()
{
    if (snapshot_)
        snapshot_->sync();
}

/// The route of a request that its sender may use. @p name receives the name in the path.
const service::route& service::find_route(const request& message, std::string& name) const
{
    const std::string_view path = message.target.substr(0, message.target.find('?'));
    // A HEAD is a GET whose body the connection leaves out.
    const std::string_view method = message.method == "HEAD" ? "GET" : message.method;
    std::string allowed;
    for (const route& candidate : routes)
    {
        std::string_view parameter;
        if (!matches(candidate.pattern, path, parameter))
            continue;
        if (candidate.method != method)
        {
            allowed += (allowed.empty() ? "" : ", ") + std::string(candidate.method);
            allowed += candidate.method == "GET" ? ", HEAD" : "";
            continue;
        }
        if (method != "GET" && !is_own_page(message))
            refuse(403, "a page of another origin must not change anything");
        check_role(message, candidate.needed);
        auto decoded = decode_percent(parameter);
        if (!decoded)
            refuse(400, "path is not percent-encoded UTF-8");
        name = std::move(*decoded);
        return candidate;
    }
    if (allowed.empty())
        refuse(404, "no such route");
    refusal refused{plain(405, "method not allowed")};
    refused.answer.headers = "Allow: " + allowed + "\r\n";
    throw refused;
}

void service::check_role(const request& message, role needed) const
{
    const role client = role_of(message);
    if (client >= needed)
        return;
    refusal refused{client == role::nobody ? plain(401, "a valid bearer token is needed")
                                           : plain(403, "the token does not permit this")};
    refused.answer.headers = "WWW-Authenticate: Bearer\r\n";
    throw refused;
}

role service::role_of(const request& message) const
{
    if (std::ranges::all_of(settings_.tokens, &std::string::empty))
        return role::admin;
    const std::string_view given = message.authorization;
    const std::size_t space = std::min(given.find(' '), given.size());
    const std::size_t begin = std::min(given.find_first_not_of(' ', space), given.size());
    if (!boost::beast::iequals(given.substr(0, space), "Bearer"))
        return role::nobody;
    const std::string_view secret = given.substr(begin);
    role found = role::nobody;
    for (const role candidate : {role::read, role::use, role::admin})
    {
        const std::string& token = settings_.tokens[static_cast<std::size_t>(candidate) - 1];
        if (!token.empty() && same_secret(secret, token))
            found = candidate;
    }
    return found;
}

}  // namespace turnstile::service
