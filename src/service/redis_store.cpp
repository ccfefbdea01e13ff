// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/redis_store.hpp"

#include "service/log.hpp"

#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <tuple>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/metrics.hpp>
#include <utility>

namespace turnstile::service {

namespace asio = boost::asio;
using redis::directory_status;
using redis::semaphore_answer;

namespace {

/// The name of the directory. The option `prefix` of the URL separates services that share a Redis server.
constexpr std::string_view directory_name = "service";

redis::config settings_of(const std::string& url)
{
    auto settings = redis::config::from_url(url);
    settings.logger = [](redis::log_level level, std::string_view text)
    {
        // The session logs each attempt to connect at the level information.
        log(level == redis::log_level::error     ? log_level::error
            : level == redis::log_level::warning ? log_level::warning
                                                 : log_level::debug,
            text);
    };
    return settings;
}

outcome to_outcome(directory_status status)
{
    switch (status)
    {
    case directory_status::done:
        return outcome::done;
    case directory_status::missing:
        return outcome::missing;
    case directory_status::exists:
        return outcome::exists;
    case directory_status::busy:
        return outcome::busy;
    case directory_status::excess:
        return outcome::overflow;
    case directory_status::unheld:
        return outcome::unheld;
    }
    return outcome::unavailable;
}

/// The result of a call that has failed.
result failed(error_code error)
{
    // No semaphore has such a name.
    if (error == redis::errc::invalid_name)
        return {outcome::missing};
    return {outcome::unavailable, 0, "Redis: " + error.message()};
}

/// The result of a call that changes or reads a semaphore.
result to_result(error_code error, const semaphore_answer& answer)
{
    if (error)
        return failed(error);
    if (answer.status == directory_status::excess)
        return {outcome::overflow, redis::async_semaphore::max_capacity};
    return {to_outcome(answer.status), answer.state.value};
}

redis::listed_permit_options terms_of(const down_request& wanted)
{
    return {wanted.lease, wanted.client};
}

std::chrono::milliseconds since(std::chrono::steady_clock::time_point begin)
{
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                 begin);
}

}  // namespace

redis_store::redis_store(asio::io_context& context, const std::string& url, std::size_t max_waiters)
    : executor_(context.get_executor())
    , max_waiters_(max_waiters)
    , session_(context, settings_of(url), redis::session_thread::own)
    , directory_(session_, directory_name)
{
    log(log_level::info, "Redis keeps the semaphores",
        {{"server", redis::config::from_url(url).server_name()}});
}

// --- operations that do not wait ----------------------------------------------------------------

awaitable<result> redis_store::create(std::string_view name, std::int64_t value)
{
    auto [error, answer] = co_await directory_.async_create(name, value, as_result);
    answer.units = value;
    co_return publish_result(error, answer, happening::created);
}

awaitable<result> redis_store::remove(std::string_view name)
{
    const auto [error, answer] = co_await directory_.async_remove(name, as_result);
    co_return publish_result(error, answer, happening::deleted);
}

awaitable<result> redis_store::value(std::string_view name)
{
    const auto [error, answer] = co_await directory_.async_read(name, as_result);
    co_return to_result(error, answer);
}

awaitable<result> redis_store::up(std::string_view name, std::int64_t units)
{
    const auto [error, answer] = co_await directory_.async_add(name, units, as_result);
    co_return publish_result(error, answer, happening::value);
}

awaitable<result> redis_store::release(std::string_view name, const std::string& permit)
{
    const auto [error, answer] = co_await directory_.async_release(name, permit, as_result);
    co_return publish_result(error, answer, happening::released, "released");
}

awaitable<result> redis_store::renew(std::string_view name, const std::string& permit,
                                     std::optional<std::chrono::milliseconds> lease)
{
    const auto [error, answer] = co_await directory_.async_renew(name, permit, lease, as_result);
    co_return publish_result(error, answer, happening::renewed);
}

awaitable<result> redis_store::free(std::string_view name, std::uint64_t token)
{
    const auto [error, answer] = co_await directory_.async_free(name, token, as_result);
    co_return publish_result(error, answer, happening::released, "freed");
}

awaitable<grant> redis_store::try_down(std::string_view name, const down_request& wanted)
{
    const auto terms = terms_of(wanted);
    const auto begin = redis::lease_clock::now();
    const auto [error, answer] =
        co_await directory_.async_take(name, wanted.units, terms, as_result);
    if (!error && answer.status == directory_status::done)
        co_return make_grant(answer, begin);
    co_return grant{to_result(error, answer)};
}

awaitable<listed_page> redis_store::list(std::string_view after, std::size_t limit)
{
    auto [error, found] = co_await directory_.async_list(after, limit, as_result);
    co_return listed_page{error ? failed(error) : result{outcome::done},
                          std::move(found.semaphores), std::move(found.next)};
}

awaitable<detailed> redis_store::detail(std::string_view name, std::size_t limit)
{
    auto [error, found] = co_await directory_.async_detail(name, limit, as_result);
    co_return detailed{error ? failed(error) : result{to_outcome(found.status)},
                       std::move(found.state), std::move(found.waiters), std::move(found.permits)};
}

awaitable<result> redis_store::check()
{
    const auto [error] = co_await session_.async_ping(as_result);
    co_return error ? failed(error) : result{outcome::done};
}

// --- waiting ------------------------------------------------------------------------------------

awaitable<grant> redis_store::down(std::string_view name, const down_request& wanted)
{
    if (closing_ || counts_.waiters == max_waiters_)
        co_return grant{{closing_ ? outcome::closing : outcome::crowded}};
    const auto begin = std::chrono::steady_clock::now();
    const auto semaphore = waited_for_.insert(waited_for_.end(), directory_.find(name));
    ++counts_.waiters;
    if (is_watched())
        asio::co_spawn(executor_, report_waiter(std::string(name), wanted.units), asio::detached);
    auto [error, units] =
        co_await (*semaphore)->async_try_acquire_for(wanted.units, wanted.wait, as_result);
    --counts_.waiters;
    // close() has emptied the list.
    if (!closing_)
        waited_for_.erase(semaphore);
    // Either the client is granted the units, or they are released. The calls for that are not cancelled.
    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    if (!units)
        co_return co_await end_wait(name, wanted, error, since(begin));
    co_return co_await keep(name, wanted, std::move(*units), since(begin));
}

/// Makes a grant for the client from the units that the session was granted.
awaitable<grant> redis_store::keep(std::string_view name, const down_request& wanted,
                                   redis::async_semaphore::permit_type units,
                                   std::chrono::milliseconds waited)
{
    const auto terms = terms_of(wanted);
    const auto begin = redis::lease_clock::now();
    auto [error, answer] = co_await directory_.async_keep(name, units, terms, as_result);
    if (!error && answer.status == directory_status::done)
        co_return make_grant(answer, begin, waited);
    // The semaphore was removed, the grant has expired, or the units are kept and only the state could not be read.
    const bool is_kept = error && answer.units != 0;
    auto [unread, found] = co_await directory_.async_read(name, as_result);
    if (is_kept && !unread && found.status == directory_status::done)
    {
        answer.state = std::move(found.state);
        co_return make_grant(answer, begin, waited);
    }
    ++counts_.withdrawn;
    grant refused{to_result(error, answer)};
    // There may be another semaphore of that name.
    const bool is_removed = error == redis::errc::no_such_object;
    if (is_removed || (!unread && found.status == directory_status::missing))
    {
        refused.what = outcome::missing;
    }
    else if (is_kept)
    {
        const bool is_returned = co_await undo(answer);
        if (!is_returned)
            refused.reason += "; the units may have been taken";
    }
    co_return refused;
}

/// Ends a wait without units.
awaitable<grant> redis_store::end_wait(std::string_view name, const down_request& wanted,
                                       error_code error, std::chrono::milliseconds waited)
{
    if (error)
        ++counts_.withdrawn;
    if (error == redis::errc::no_such_object)
        co_return grant{{outcome::missing}};
    if (closing_)
        co_return grant{{outcome::closing}};
    const bool is_failure = error && error != asio::error::operation_aborted;
    grant refused{is_failure ? failed(error) : result{outcome::busy}};
    auto [unread, found] = co_await directory_.async_read(name, as_result);
    found.units = wanted.units;
    if (!unread && found.status == directory_status::done)
        publish(happening::left, found, waited);
    co_return refused;
}

/// Reports a waiter, as soon as its request has been sent to Redis.
awaitable<void> redis_store::report_waiter(std::string name, std::int64_t units)
{
    co_await asio::post(executor_, asio::deferred);
    auto [error, answer] = co_await directory_.async_read(name, as_result);
    answer.units = units;
    if (!error && answer.status == directory_status::done)
        publish(happening::waiting, answer);
}

// --- results ------------------------------------------------------------------------------------

/// Converts the answer to a request for a change, and publishes the change if it was made.
result redis_store::publish_result(error_code error, const semaphore_answer& answer, happening what,
                                   std::string_view reason) const
{
    result ended = to_result(error, answer);
    if (ended.what == outcome::done)
        publish(what, answer, {}, reason);
    return ended;
}

/// Makes a grant from the answer to a command that was sent at @p begin or later.
grant redis_store::make_grant(semaphore_answer answer, redis::lease_clock::time_point begin,
                              std::chrono::milliseconds waited)
{
    ++counts_.grants;
    grant received;
    received.begin = begin;
    received.undo = [this, answer] { asio::co_spawn(executor_, undo(answer), asio::detached); };
    // Clients receive the tokens of permits only.
    if (answer.permit.empty())
        answer.fencing_token = 0;
    publish(happening::granted, answer, waited);
    received.what = outcome::done;
    received.value = answer.state.value;
    received.permit = answer.permit;
    received.token = answer.fencing_token;
    return received;
}

/// Releases granted units if their client has not received the grant. Returns whether Redis has answered.
awaitable<bool> redis_store::undo(semaphore_answer granted)
{
    error_code error;
    semaphore_answer answer;
    const std::string& name = granted.state.name;
    if (granted.permit.empty())
        std::tie(error, answer) =
            co_await directory_.async_return(name, granted.units, granted.fencing_token, as_result);
    else
        std::tie(error, answer) =
            co_await directory_.async_release(name, granted.permit, as_result);
    const result ended = publish_result(error, answer, happening::released, "undone");
    if (ended.what == outcome::done)
        ++counts_.undone;
    const bool is_answered = ended.what != outcome::unavailable;
    if (!is_answered)
        log(log_level::warning, "cannot return the units of a client that has not received them",
            {{"name", name}, {"n", granted.units}, {"error", ended.reason}});
    co_return is_answered;
}

void redis_store::publish(happening what, const semaphore_answer& answer,
                          std::chrono::milliseconds waited, std::string_view reason) const
{
    const redis::listed_semaphore& state = answer.state;
    store::publish({what, state.name, state.value, state.waiters, state.permits, answer.units,
                    answer.fencing_token, waited, reason});
}

// --- operators ----------------------------------------------------------------------------------

awaitable<store_metrics> redis_store::metrics()
{
    store_metrics numbers = counts_;
    const auto [error, page] = co_await directory_.async_list({}, 0, as_result);
    if (!error)
        numbers.semaphores = page.total;
    const redis::session_metrics session = session_.metrics();
    const auto microseconds = static_cast<std::uint64_t>(session.round_trip.sum.count());
    numbers.others = {
        {"redis_connected", "gauge", "Whether the server is connected to Redis.",
         session.connected ? 1U : 0U},
        {"redis_connections_total", "counter", "Connections to Redis so far.", session.connections},
        {"redis_waits_total", "counter", "Waits that were sent to Redis.", session.acquires},
        {"redis_nudges_total", "counter", "Checks for leases that have ended.", session.nudges},
        {"redis_lost_total", "counter", "Grants that expired before their clients received them.",
         session.lost},
        {"redis_round_trips_total", "counter", "Answers of Redis about waits.",
         session.round_trip.count},
        {"redis_round_trips_microseconds_total", "counter",
         "The sum of the times until these answers.", microseconds},
    };
    co_return numbers;
}

void redis_store::close()
{
    closing_ = true;
    // The waiters complete when their semaphores are destroyed.
    waited_for_.clear();
}

}  // namespace turnstile::service
