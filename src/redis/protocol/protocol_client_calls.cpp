// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol_client.hpp"

#include <array>
#include <utility>

// Calls to pools, and notifications of conditions.

namespace turnstile::redis::detail {

call_id protocol_client::call(local_time now, lock_id pool, call_kind what, std::int64_t number)
{
    advance(now);
    const call_id id = ++last_call_;
    lock_state& lock = locks_.at(pool);
    ++lock.uses;
    pending_call& each = calls_[id];
    each.lock = pool;
    each.what = what;
    each.number = number;
    if (what != call_kind::read)
        lock.calls.begin(each.call, options_.nonce, id);
    send_call(id);
    return id;
}

call_id protocol_client::notify(local_time now, lock_id lock, std::string condition, bool all)
{
    advance(now);
    const call_id id = ++last_call_;
    ++locks_.at(lock).uses;
    pending_call& each = calls_[id];
    each.lock = lock;
    each.what = all ? call_kind::notify_all : call_kind::notify_one;
    each.condition = std::move(condition);
    send_call(id);
    return id;
}

/// Whether the server may have executed an earlier command of a call: one of a former connection, or the first part of
/// a notification.
bool protocol_client::may_be_done(const pending_call& it)
{
    return it.what != call_kind::read && (it.call.repeated || it.newest != 0);
}

bool protocol_client::drop_unsent_call(call_id id)
{
    const auto found = calls_.find(id);
    if (found == calls_.end() || found->second.awaited_answer != 0 || may_be_done(found->second))
        return false;
    const lock_id lock = found->second.lock;
    retries_.set(repetition::call, id, found->second.retry_at, never);
    calls_.erase(found);
    end_use(lock);
    return true;
}

void protocol_client::send_call(call_id id)
{
    pending_call& each = calls_.at(id);
    if (!is_connected_ || each.awaited_answer != 0)
        return;
    if (each.what == call_kind::notify_one || each.what == call_kind::notify_all)
        return send_notify(id);
    if (!each.call.name.empty() && !each.call.may_send(now_, options_.drift))
    {
        const lock_id lock = each.lock;
        actions_.emplace_back(called{id, client_result::unknown, 0, {}, {}});
        calls_.erase(id);
        return end_use(lock);
    }
    constexpr std::array<std::string_view, 4> names{"add", "create", "read", "resize"};
    const lock_state& lock = locks_.at(each.lock);
    auto arguments = word_list::of(options_.wake_prefix, names[static_cast<std::size_t>(each.what)],
                                   each.number, each.call.name, each.call.before);
    append_options(arguments, lock);
    arguments.add(acceptance(lock));
    send(operation::count, each.lock, id, lock.own_keys, std::move(arguments));
}

void protocol_client::send_notify(call_id id)
{
    const pending_call& each = calls_.at(id);
    const lock_state& lock = locks_.at(each.lock);
    auto arguments = word_list::of(options_.wake_prefix, each.condition,
                                   extent(each.what == call_kind::notify_all));
    append_options(arguments, lock);
    if (each.newest != 0)
        arguments.add(each.newest);
    else
        arguments.add("");
    send(operation::notify, each.lock, id, lock.all_keys, std::move(arguments));
}

void protocol_client::on_count(call_id id, const script_answer& answer)
{
    const auto found = calls_.find(id);
    if (found == calls_.end())
        return;
    const lock_id lock = found->second.lock;
    const std::int64_t available = answer.extra_number();
    // One script looks at a limited number of waiters, and ends a limited number of expired grants.
    const bool continues = found->second.what == call_kind::read ||
                           (answer.ticket != 0 && found->second.what >= call_kind::notify_one);
    if (answer.more && continues)
    {
        found->second.awaited_answer = 0;
        if (found->second.newest == 0)
            found->second.newest = answer.ticket;
        return send_call(id);
    }
    lock_state& pool = locks_.at(lock);
    const bool differs = answer.status == status::mismatch;
    const bool is_unusable = differs || unusable(answer.status);
    pool.agreed = pool.agreed || !is_unusable;
    // The server does not remember a call that it refuses, and may still receive an earlier copy.
    const bool is_certain = answer.status == status::ok || !may_be_done(found->second);
    actions_.emplace_back(called{id, is_certain ? result_of(answer.status) : client_result::unknown,
                                 available,
                                 differs ? mismatch_text(pool.options, available) : std::string(),
                                 is_unusable ? keys_of(lock) : std::string()});
    pool.calls.end(found->second.call, answer.status == status::ok);
    calls_.erase(found);
    if (answer.more)
        continue_work(lock);
    end_use(lock);
}

void protocol_client::on_refused_call(call_id id, std::string_view text)
{
    const auto found = calls_.find(id);
    if (found == calls_.end())
        return;
    found->second.awaited_answer = 0;
    if (is_transient(text))
        return retries_.set(repetition::call, id, found->second.retry_at, now_ + retry_interval);
    const lock_id lock = found->second.lock;
    const bool was_begun = found->second.what != call_kind::read && has_failed_inside(text);
    const auto result =
        was_begun || may_be_done(found->second) ? client_result::unknown : client_result::refused;
    actions_.emplace_back(called{id, result, 0, std::string(text), keys_of(lock)});
    calls_.erase(found);
    end_use(lock);
}

}  // namespace turnstile::redis::detail
