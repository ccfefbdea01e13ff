// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/answers.hpp"
#include "service/body.hpp"
#include "service/decode.hpp"
#include "service/log.hpp"
#include "service/new_id.hpp"
#include "service/service.hpp"

#include <boost/asio/co_spawn.hpp>
#include <exception>
#include <optional>
#include <utility>

// The routes about semaphores.

namespace turnstile::service {

namespace {

/// The largest number of waiters, and of permits, in the details of a semaphore.
constexpr std::size_t longest_detail = 100;

/// The lease of units that a call-back only announces. If the server is killed before it releases them, they return.
constexpr std::chrono::seconds announcing_lease{10};

constexpr const char* too_many_waits = "too many clients with this address are waiting";

}  // namespace

awaitable<response> service::create(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string_view name = name_in(body);
    const auto* sent = body.if_contains("value");
    const auto number = sent == nullptr ? std::nullopt : to_number(*sent);
    const bool is_valid = number && *number >= 1 && *number <= static_cast<double>(largest_value);
    result ended{outcome::overflow};
    if (is_valid)
        ended = co_await store_->create(name, static_cast<std::int64_t>(*number));
    if (ended.what != outcome::overflow)
        co_return to_response(ended, name);
    // An error of the name takes precedence over one of the value.
    const result found = co_await store_->value(name);
    if (found.what == outcome::done)
        co_return plain(303, "semaphore exists");
    if (!number)
        refuse(400, "value must be a number");
    if (*number < 1)
        refuse(400, "Value needs to be positive");
    if (!is_valid)
        refuse(400, "value must be at most " + std::to_string(largest_value));
    co_return to_response(ended, name);
}

awaitable<response> service::remove(const request&, const std::string& name)
{
    const result ended = co_await store_->remove(name);
    if (ended.what == outcome::done)
        co_return plain(200, "Deletion Successful");
    if (ended.what == outcome::missing)
        co_return plain(404, "Semaphore not found");
    co_return to_response(ended, name);
}

awaitable<response> service::value(const request&, const std::string& name)
{
    const result found = co_await store_->value(name);
    co_return to_response(found, name);
}

awaitable<response> service::up(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string_view name = name_in(body);
    const std::int64_t units = units_in(body);
    const auto permit = permit_in(body);
    if (permit && body.contains("n"))
        refuse(400, "n and permit exclude each other: a permit is released as a whole");
    result ended;
    if (permit)
        ended = co_await store_->release(name, *permit);
    else
        ended = co_await store_->up(name, units);
    co_return to_response(ended, name);
}

awaitable<response> service::down(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string_view name = name_in(body);
    const down_request wanted = down_request_in(message, body, {});

    grant granted = co_await store_->try_down(name, wanted);
    response answer;
    if (granted.what != outcome::busy || wanted.wait == wanted.wait.zero())
    {
        answer = to_response(std::move(granted), name);
        answer.checks_client = store_->is_shared() || wanted.wait != wanted.wait.zero();
        co_return answer;
    }
    answer.later = [this, name = std::string(name), wanted] { return down_later(name, wanted); };
    co_return answer;
}

/// The client of a request, and the units, the waiting time and the lease in its body. @p wait is the waiting time if
/// the body contains none.
down_request service::down_request_in(const request& message, const fields& body,
                                      std::chrono::milliseconds wait) const
{
    down_request wanted;
    wanted.client = message.client;
    wanted.units = static_cast<std::ptrdiff_t>(units_in(body));
    wanted.wait = seconds_in(body, "wait", 0, settings_.max_wait).value_or(wait);
    wanted.lease = seconds_in(body, "lease", 0.1, settings_.max_lease).value_or(wanted.lease);
    return wanted;
}

awaitable<response> service::notify(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string_view name = name_in(body);
    const down_request wanted = down_request_in(message, body, settings_.max_wait);
    const auto* const url = text_in(body, "url");
    const auto target = url == nullptr ? std::nullopt : parse_url(*url);
    if (!target)
        refuse(400, "url must be http://HOST[:PORT]/PATH or https://HOST[:PORT]/PATH");
    if (!notifier_.allows(*target))
        refuse(403, "the operator does not allow calls to that host and port");
    const result found = co_await store_->value(name);
    if (found.what != outcome::done)
        co_return to_response(found, name);
    if (closing_)
        refuse(503, "server is shutting down");
    if (call_backs_ == settings_.notify.most)
        refuse(503, "too many call-backs");
    if (!add_waiter(wanted.client))
        co_return plain(429, too_many_waits);
    const std::string id = new_id();
    ++call_backs_;
    boost::asio::co_spawn(context_.get_executor(),
                          call_back(id, *target, std::string(name), wanted),
                          [this](const std::exception_ptr&) { --call_backs_; });
    response answer = json("{\"id\":\"" + id + "\"}");
    answer.status = 202;
    co_return answer;
}

/// Waits for units, and calls the receiver.
awaitable<void> service::call_back(std::string id, notify_target target, std::string name,
                                   down_request wanted)
{
    // Without a lease, a unit would be lost with its receiver, so the receiver only learns of it.
    const bool announces = wanted.lease == wanted.lease.zero();
    if (announces)
        wanted.lease = announcing_lease;
    grant granted = co_await store_->try_down(name, wanted);
    if (granted.what == outcome::busy)
        granted = co_await store_->down(name, wanted);
    remove_waiter(wanted.client);
    std::string_view event = "refused";
    if (granted.what == outcome::done)
        event = announces ? "open" : "granted";
    else if (granted.what == outcome::busy)
        event = "timeout";
    else if (granted.what == outcome::missing)
        event = "deleted";
    // Once the lease has ended, another client may hold the units.
    auto end = notifier::clock::time_point::max();
    std::string body = "{\"id\":\"" + id + "\",\"event\":\"";
    body.append(event).append("\",\"name\":").append(quoted(name));
    if (granted.what == outcome::done && announces)
    {
        // If that fails, the units return when the lease expires.
        co_await store_->release(name, granted.permit);
        granted.undo = {};
    }
    else if (granted.what == outcome::done)
    {
        end = granted.begin + wanted.lease;
        body += ",\"permit\":\"" + granted.permit + "\",\"token\":" + std::to_string(granted.token);
    }
    const bool delivered = co_await notifier_.deliver(target, body + '}', end);
    // The path is left out, because it is often a secret.
    if (!delivered && !closing_)
        log(log_level::warning, "call-back failed",
            {{"id", id}, {"host", target.host}, {"port", target.port}});
    // After the end of the lease, the permit lives only if the receiver has renewed it.
    if (!delivered && granted.undo && notifier::clock::now() < end)
        granted.undo();
}

/// Counts a wait of a client. Returns whether it may wait.
bool service::add_waiter(const std::string& client)
{
    std::size_t& count = waiters_of_[client];
    if (count >= settings_.max_waiters_per_client)
        return false;
    ++count;
    return true;
}

void service::remove_waiter(const std::string& client)
{
    const auto count = waiters_of_.find(client);
    if (--count->second == 0)
        waiters_of_.erase(count);
}

awaitable<response> service::down_later(std::string name, down_request wanted)
{
    if (!add_waiter(wanted.client))
        co_return plain(429, too_many_waits);
    grant granted = co_await store_->down(name, wanted);
    remove_waiter(wanted.client);
    response answer = to_response(std::move(granted), name);
    answer.checks_client = true;
    co_return answer;
}

awaitable<response> service::renew(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string_view name = name_in(body);
    const auto permit = permit_in(body);
    if (!permit)
        refuse(400, "permit must be the text that down returned");
    const auto lease = seconds_in(body, "lease", 0.1, settings_.max_lease);
    const result ended = co_await store_->renew(name, *permit, lease);
    co_return to_response(ended, name);
}

awaitable<response> service::free(const request& message, const std::string&)
{
    const fields body = decode_body(message);
    const std::string_view name = name_in(body);
    const auto token = whole_number_in(body, "token", 1, largest_value);
    if (!token)
        refuse(400, "token must be the fencing token of a permit");
    const result ended = co_await store_->free(name, static_cast<std::uint64_t>(*token));
    co_return to_response(ended, name);
}

awaitable<response> service::detail(const request&, const std::string& name)
{
    const detailed found = co_await store_->detail(name, longest_detail);
    if (found.what != outcome::done)
        co_return to_response(static_cast<const result&>(found), name);
    co_return json(to_json(found));
}

awaitable<response> service::list(const request& message, const std::string&)
{
    const fields query = decode_query(message.target);
    const auto limit =
        static_cast<std::size_t>(whole_number_in(query, "limit", 1, 1000).value_or(100));
    const auto* from = text_in(query, "after");
    // GCC 12 would evaluate both sides of a conditional expression inside a co_await.
    const std::string_view begin = from == nullptr ? std::string_view() : std::string_view(*from);
    const listed_page page = co_await store_->list(begin, limit);
    if (page.what != outcome::done)
        co_return to_response(static_cast<const result&>(page), {});
    co_return json(to_json(page));
}

}  // namespace turnstile::service
