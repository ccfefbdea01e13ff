// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/describe/class.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <cstddef>
#include <fmt/format.h>
#include <future>
#include <iostream>
#include <string>
#include <string_view>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/lock_status.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/redis/shared_mutex.hpp>

#include "cli/commands.hpp"

// The commands that look at an object or change it as an operator.

namespace turnstile::cli {

namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using redis::lock_status;

/// Inspecting or breaking a monitor does not read its state.
struct any_state
{
    int unused = 0;
};

BOOST_DESCRIBE_STRUCT(any_state, (), (unused))

/// Performs an operation on an object of this type, and returns its result.
template <class Result, class Object, class Operation, class... Arguments>
asio::awaitable<Result> ask_one(redis::session& session, Operation operation,
                                Arguments... arguments)
{
    Object object(session, arguments...);
    co_return co_await operation(object);
}

/// Performs an operation on an object, and returns its result.
template <class Result, class Operation>
asio::awaitable<Result> ask(redis::session& session, const object_name& object, Operation operation)
{
    switch (object.kind)
    {
    case object_kind::shared_mutex:
        return ask_one<Result, redis::shared_mutex>(session, operation, object.name);
    case object_kind::semaphore:
        // Neither operation uses the capacity.
        return ask_one<Result, redis::async_semaphore>(session, operation, object.name, 1);
    case object_kind::monitor:
        return ask_one<Result, redis::monitor<any_state>>(session, operation, object.name);
    default:
        return ask_one<Result, redis::async_mutex>(session, operation, object.name);
    }
}

/// The same in a session of its own.
template <class Result, class Operation>
Result ask(const redis::config& settings, const object_name& object, Operation operation)
{
    asio::io_context context(1);
    redis::session session(context, settings);
    auto result = asio::co_spawn(
        context,
        [&]() -> asio::awaitable<Result>
        {
            Result answer = co_await ask<Result>(session, object, operation);
            co_await session.async_close();
            co_return answer;
        },
        asio::use_future);
    while (result.wait_for(std::chrono::seconds::zero()) != std::future_status::ready)
        context.run_one();
    return result.get();
}

std::string_view name_of(lock_mode mode)
{
    switch (mode)
    {
    case lock_mode::shared:
        return "shared";
    case lock_mode::upgrade:
        return "upgrade";
    default:
        return "exclusive";
    }
}

std::string_view name_of(const redis::session_identity& session)
{
    return session.name.empty() ? "unknown" : std::string_view(session.name);
}

std::string seconds(std::chrono::microseconds span)
{
    return fmt::format("{:.1f} s", std::chrono::duration<double>(span).count());
}

std::int64_t milliseconds(std::chrono::microseconds span)
{
    return std::chrono::duration_cast<std::chrono::milliseconds>(span).count();
}

/// The mode of a holder or waiter, or its units.
template <class Participant>
std::string share_of(const Participant& each, object_kind kind)
{
    return kind == object_kind::semaphore ? fmt::format("units {}", each.units)
                                          : std::string(name_of(each.mode));
}

/// The line for the entries of a list that the status leaves out; empty if there are none.
std::string rest_of(std::size_t count, std::size_t listed, std::string_view what)
{
    if (count <= listed)
        return {};
    const std::size_t rest = count - listed;
    return fmt::format("and {} more {}{}\n", rest, what, rest == 1 ? "" : "s");
}

std::string text_of(const lock_status& status, object_kind kind)
{
    std::string result = fmt::format(
        "available: {} of {}, holders: {}, waiters: {}, fencing token: {}\n", status.available,
        status.capacity, status.holder_count, status.waiter_count, status.fencing_token);
    for (const redis::lock_holder& each : status.holders)
        result += fmt::format("holder  token {}  {}  held for {}  lease left {}  {}{}\n",
                              each.fencing_token, share_of(each, kind), seconds(each.held_for),
                              seconds(each.lease_left), name_of(each.session),
                              each.is_connected ? "" : "  disconnected");
    result += rest_of(status.holder_count, status.holders.size(), "holder");
    for (const redis::lock_waiter& each : status.waiters)
        result += fmt::format("waiter  {}  waiting for {}  {}{}\n", share_of(each, kind),
                              seconds(each.waiting_for), name_of(each.session),
                              each.is_connected ? "" : "  disconnected");
    result += rest_of(status.waiter_count, status.waiters.size(), "waiter");
    return result;
}

template <class Participant>
json::object json_of(const Participant& each)
{
    return {{"session", each.session.name},
            {"program", each.session.program},
            {"host", each.session.host},
            {"process", each.session.process},
            {"connected", each.is_connected},
            {"mode", name_of(each.mode)},
            {"units", each.units}};
}

json::object json_of(const lock_status& status)
{
    json::array holders;
    for (const redis::lock_holder& each : status.holders)
    {
        json::object holder = json_of<redis::lock_holder>(each);
        holder["token"] = each.fencing_token;
        holder["held_ms"] = milliseconds(each.held_for);
        holder["lease_left_ms"] = milliseconds(each.lease_left);
        holders.push_back(std::move(holder));
    }
    json::array waiters;
    for (const redis::lock_waiter& each : status.waiters)
    {
        json::object waiter = json_of<redis::lock_waiter>(each);
        waiter["waiting_ms"] = milliseconds(each.waiting_for);
        waiters.push_back(std::move(waiter));
    }
    return {{"available", status.available},       {"capacity", status.capacity},
            {"token", status.fencing_token},       {"holder_count", status.holder_count},
            {"waiter_count", status.waiter_count}, {"holders", std::move(holders)},
            {"waiters", std::move(waiters)}};
}

}  // namespace

int show(const redis::config& settings, const object_name& object, bool as_json)
{
    const auto status = ask<lock_status>(settings, object,
                                         [](auto& inspected) { return inspected.async_inspect(); });
    std::cout << (as_json ? json::serialize(json_of(status)) + '\n' : text_of(status, object.kind));
    return 0;
}

int free(const redis::config& settings, const free_options& options)
{
    const auto& [object, token] = options;
    const auto broken =
        token ? ask<std::size_t>(settings, object, [number = *token](auto& stuck)
                                 { return stuck.async_break(number); })
              : ask<std::size_t>(settings, object, [](auto& stuck) { return stuck.async_break(); });
    std::cout << fmt::format("{} {} lost '{}'\n", broken, broken == 1 ? "holder" : "holders",
                             object.name);
    return broken == 0 ? int(not_held) : 0;
}

}  // namespace turnstile::cli
