// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/inspection.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <turnstile/redis/detail/inspection.hpp>
#include <utility>
#include <vector>

#include "redis/protocol/names.hpp"
#include "redis/protocol/protocol.hpp"
#include "redis/session/completion.hpp"
#include "redis/session/error_of.hpp"
#include "redis/session/held_lock.hpp"
#include "redis/session/session_core.hpp"
#include "redis/transport/identity.hpp"

// async_inspect() and async_break(), for operators. They are not part of the protocol between clients: each
// call is one script, which is not repeated.

namespace turnstile::redis::detail {

namespace {

using std::chrono::microseconds;

// The units of a shared mutex that each kind of holder has, see shared_mutex.hpp.
constexpr std::int64_t special = std::int64_t(1) << 30U;
constexpr std::int64_t reader = 1;
constexpr std::int64_t upgrader = special + 1;

/// Parses numbers with spaces between them. Returns false unless the text contains exactly as many numbers as
/// @p values.
template <std::size_t Size>
bool parse_numbers(std::string_view text, std::array<std::int64_t, Size>& values)
{
    for (std::int64_t& value : values)
        if (!parse_number(next_word(text), value))
            return false;
    return text.empty();
}

/// Sets the mode and the units of a holder or waiter.
template <class Entry>
void set_units(Entry& entry, std::int64_t units, inspected_kind kind)
{
    if (kind == inspected_kind::semaphore)
    {
        entry.mode = lock_mode::shared;
        entry.units = units;
    }
    else if (kind == inspected_kind::shared_mutex)
    {
        entry.mode = units == reader     ? lock_mode::shared
                     : units == upgrader ? lock_mode::upgrade
                                         : lock_mode::exclusive;
    }
}

/// An upgraded holder has two entries; removes the one from before the upgrade.
void join_upgraded(lock_status& status)
{
    const auto is = [](lock_mode mode)
    { return [mode](const lock_holder& each) { return each.mode == mode; }; };
    if (std::ranges::any_of(status.holders, is(lock_mode::exclusive)))
        status.holder_count -= std::erase_if(status.holders, is(lock_mode::upgrade));
}

}  // namespace

std::optional<lock_status> parse_status(std::span<const std::string> leaves, inspected_kind kind)
{
    std::array<std::int64_t, 7> summary{};
    if (leaves.size() % 2 != 1 || !parse_numbers(leaves[0], summary))
        return std::nullopt;
    const auto [now, fence, holders, waiters, listed, capacity, available] = summary;
    lock_status result;
    result.holder_count = static_cast<std::size_t>(holders);
    result.waiter_count = static_cast<std::size_t>(waiters);
    result.fencing_token = static_cast<std::uint64_t>(fence);
    if (kind == inspected_kind::semaphore)
        result.capacity = capacity;
    result.available =
        kind == inspected_kind::shared_mutex ? std::int64_t(holders == 0) : available;
    for (leaves = leaves.subspan(1); !leaves.empty(); leaves = leaves.subspan(2))
    {
        std::array<std::int64_t, 4> entry{};
        if (!parse_numbers(leaves[0], entry))
            return std::nullopt;
        const auto [units, since, deadline, connected] = entry;
        if (std::ssize(result.holders) < listed)
        {
            lock_holder& each = result.holders.emplace_back();
            each.session = parse_identity(leaves[1]);
            each.is_connected = connected != 0;
            // A token is the time of its grant.
            each.fencing_token = static_cast<std::uint64_t>(since);
            each.held_for = time_between(since, now);
            each.lease_left = time_between(now, deadline);
            set_units(each, units, kind);
        }
        else
        {
            lock_waiter& each = result.waiters.emplace_back();
            each.session = parse_identity(leaves[1]);
            each.is_connected = connected != 0;
            // An upgrade is in front of all other waiters; its ticket is the lowest.
            each.waiting_for = since == 1 ? microseconds(0) : time_between(since, now);
            set_units(each, units, kind);
        }
    }
    std::ranges::sort(result.holders, {}, &lock_holder::fencing_token);
    if (kind == inspected_kind::shared_mutex)
        join_upgraded(result);
    return result;
}

microseconds time_between(std::int64_t from, std::int64_t to) noexcept
{
    const std::uint64_t difference =
        static_cast<std::uint64_t>(to) - static_cast<std::uint64_t>(from);
    constexpr auto most = static_cast<std::uint64_t>(microseconds::max().count());
    return microseconds(to > from ? static_cast<std::int64_t>(std::min(difference, most)) : 0);
}

std::vector<std::string> session_keys(std::string_view prefix)
{
    const std::string key = std::string(prefix) + ":{sessions}";
    return {key, key + ".ends"};
}

namespace {

inspected_kind kind_of(const lock_handle& lock)
{
    if (!lock.options.pool)
        return inspected_kind::mutex;
    return lock.options.pool->capacity < special ? inspected_kind::semaphore
                                                 : inspected_kind::shared_mutex;
}

void append_shape(std::vector<std::string>& arguments, const lease_options& options)
{
    if (!options.pool)
        return;
    arguments.push_back(std::to_string(options.pool->capacity));
    arguments.push_back(std::to_string(options.pool->outside));
}

std::string channel_prefix(const lock_handle& lock)
{
    return wake_prefix(lock.core->settings.prefix, lock.core->settings.database);
}

/// The error for keys that cannot be used.
error_code error_in(std::span<const std::string> leaves)
{
    return error_of_refusal(leaves.size() == 1 ? std::string_view(leaves[0]) : std::string_view());
}

void inspect(session_engine& engine, const std::shared_ptr<lock_handle>& lock,
             const std::shared_ptr<completion<error_code, lock_status>>& done)
{
    const inspected_kind kind = kind_of(*lock);
    std::vector<std::string> arguments{channel_prefix(*lock),
                                       session_keys(lock->core->settings.prefix).front(),
                                       std::to_string(lock_status::max_listed)};
    append_shape(arguments, lock->options);
    engine.run_once(kind == inspected_kind::mutex ? "inspect" : "pool_inspect", {lock->key},
                    std::move(arguments), 0,
                    [kind, done](error_code error, const std::vector<std::string>& leaves)
                    {
                        auto status = error ? std::nullopt : parse_status(leaves, kind);
                        if (!error && !status)
                            error = error_in(leaves);
                        done->complete(error, std::move(status).value_or(lock_status()));
                    });
}

/// The state of an async_break() in progress.
struct breaking
{
    std::shared_ptr<lock_handle> lock;
    std::shared_ptr<completion<error_code, std::int64_t>> done;
    std::int64_t broken = 0;
};

void break_lock(session_engine& engine, const breaking& what, const std::string& fence)
{
    const lock_handle& lock = *what.lock;
    const config& settings = lock.core->settings;
    const bool is_pool = lock.options.pool.has_value();
    std::vector<std::string> keys{lock.key};
    if (!lock.options.state.empty())
        keys.push_back(lock.options.state);
    std::vector<std::string> arguments{
        channel_prefix(lock),
        fence,
        broken_channel(settings.prefix, settings.database),
        std::to_string(lock.options.lease.count()),
        std::to_string(std::min(lock.options.claim, lock.options.lease).count()),
        std::to_string(lock.options.idle.count())};
    append_shape(arguments, lock.options);
    constexpr std::size_t claim = 4;
    engine.run_once(is_pool ? "pool_break" : "break", std::move(keys), std::move(arguments), claim,
                    [&engine, what](error_code error, const std::vector<std::string>& leaves)
                    {
                        const auto answers = error ? std::nullopt : parse_answers(leaves);
                        if (!error &&
                            (!answers || answers->front().status != script_answer::status_code::ok))
                            error = error_in(leaves);
                        if (error)
                            return complete(what.done, error, what.broken);
                        breaking next = what;
                        next.broken += answers->front().extra_number();
                        // The script skipped a limited number of disconnected waiters. The repetition
                        // removes no holder, because none has the fencing token 1.
                        if (answers->front().more)
                            break_lock(engine, next, "1");
                        else
                            next.done->complete({}, next.broken);
                    });
}

}  // namespace

void start_inspect(const std::shared_ptr<lock_handle>& lock, status_handler handler)
{
    ask(*lock->core, std::move(handler),
        [lock](session_engine& engine, const auto& done) { inspect(engine, lock, done); });
}

void start_break(const std::shared_ptr<lock_handle>& lock, std::optional<std::uint64_t> fence,
                 count_handler handler)
{
    ask(*lock->core, std::move(handler), [lock, fence](session_engine& engine, const auto& done)
        { break_lock(engine, {lock, done}, fence ? std::to_string(*fence) : std::string()); });
}

}  // namespace turnstile::redis::detail
