// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "service/memory_store.hpp"

#include "service/decode.hpp"
#include "service/new_id.hpp"

#include <algorithm>
#include <utility>

namespace turnstile::service {

memory_store::semaphore_record::semaphore_record(const executor& ex, std::int64_t value)
    : semaphore(ex, static_cast<std::ptrdiff_t>(std::min<std::int64_t>(value, max_units)),
                max_units)
    , value_with_undelivered(value)
    , reserve(std::max<std::int64_t>(value - max_units, 0))
{
}

std::int64_t memory_store::semaphore_record::value() const noexcept
{
    return semaphore.available() + reserve;
}

/// Adds units, but never exceeds the largest value.
void memory_store::semaphore_record::add(std::int64_t units)
{
    const std::int64_t added = std::min(units, largest_value - value());
    value_with_undelivered += added;
    reserve += added;
    refill();
}

void memory_store::semaphore_record::refill()
{
    // A release may grant units to waiters at once, and so make room for more. But the permit of a waiter holds them until
    // the waiter resumes, and calls this function again.
    error_code held;
    while (!held && reserve != 0 && semaphore.available() != max_units)
    {
        const auto units = static_cast<std::ptrdiff_t>(
            std::min<std::int64_t>(reserve, max_units - semaphore.available()));
        semaphore.release(units, held);
        if (!held)
            reserve -= units;
    }
}

memory_store::memory_store(boost::asio::io_context& context, std::size_t max_waiters)
    : executor_(context.get_executor())
    , max_waiters_(max_waiters)
    , timer_(context)
    // Tokens keep rising when the server is started again.
    , last_token_(
          static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                         std::chrono::system_clock::now().time_since_epoch())
                                         .count()))
{
}

awaitable<result> memory_store::create(std::string_view name, std::int64_t value)
{
    const bool is_new = add_semaphore(name, value);
    co_return result{is_new ? outcome::done : outcome::exists, value};
}

/// Returns false if the name exists.
bool memory_store::add_semaphore(std::string_view name, std::int64_t value)
{
    if (semaphores_.contains(name))
        return false;
    const auto [created, inserted] =
        semaphores_.emplace(name, std::make_shared<semaphore_record>(executor_, value));
    created->second->name = created->first;
    report_change(*created->second, {.what = happening::created, .units = value});
    return true;
}

awaitable<result> memory_store::remove(std::string_view name)
{
    const auto found = semaphores_.find(name);
    if (found == semaphores_.end())
        co_return result();
    const auto removed = found->second;
    store::publish({.what = happening::deleted, .name = name});
    removed->name = {};
    semaphores_.erase(found);
    removed->semaphore.close();
    while (!removed->permits.empty())
        end_permit(leases_.find(std::string(removed->permits.begin()->second)));
    // The recorder may describe the whole state, which no longer contains the semaphore.
    if (recorder_)
        recorder_({name, {}, {}, 0, {}, {}, 0});
    co_return result{outcome::done};
}

awaitable<result> memory_store::value(std::string_view name)
{
    const auto found = find(name);
    co_return found ? result{outcome::done, found->value()} : result();
}

awaitable<result> memory_store::up(std::string_view name, std::int64_t units)
{
    const auto found = find(name);
    if (!found)
        co_return result();
    // The units of permits return, so they need room, too.
    if (units > largest_value - found->value_with_undelivered - found->leased)
        co_return result{outcome::overflow, largest_value};
    found->add(units);
    report_change(*found, {.what = happening::value, .units = units});
    co_return result{outcome::done, found->value()};
}

awaitable<result> memory_store::release(std::string_view name, const std::string& permit)
{
    const auto semaphore = find(name);
    if (!semaphore)
        co_return result();
    const auto found = find_permit(semaphore, permit);
    if (found == leases_.end())
        co_return result{outcome::unheld, semaphore->value()};
    end_permit(found, "released");
    co_return result{outcome::done, semaphore->value()};
}

awaitable<result> memory_store::renew(std::string_view name, const std::string& permit,
                                      std::optional<std::chrono::milliseconds> lease)
{
    const auto semaphore = find(name);
    if (!semaphore)
        co_return result();
    const auto found = find_permit(semaphore, permit);
    if (found == leases_.end())
        co_return result{outcome::unheld, semaphore->value()};
    lease_record& renewed = found->second;
    renewed.lease = lease.value_or(renewed.lease);
    deadlines_.erase(renewed.deadline);
    renewed.deadline = deadlines_.emplace(clock::now() + renewed.lease, permit);
    report_change(*semaphore,
                  {.what = happening::renewed, .units = renewed.units, .token = renewed.token},
                  permit);
    await_expiry();
    co_return result{outcome::done, semaphore->value()};
}

awaitable<result> memory_store::free(std::string_view name, std::uint64_t token)
{
    const auto semaphore = find(name);
    if (!semaphore)
        co_return result();
    const auto found = semaphore->permits.find(token);
    if (found == semaphore->permits.end())
        co_return result{outcome::unheld, semaphore->value()};
    end_permit(leases_.find(std::string(found->second)), "freed");
    co_return result{outcome::done, semaphore->value()};
}

awaitable<grant> memory_store::try_down(std::string_view name, const down_request& wanted)
{
    const auto found = find(name);
    if (!found)
        co_return grant();
    if (closing_)
        co_return grant{{outcome::closing}};
    if (auto units = found->semaphore.try_acquire(wanted.units))
    {
        units->forget();
        co_return make_grant(found, wanted);
    }
    co_return grant{{outcome::busy, found->value()}};
}

awaitable<grant> memory_store::down(std::string_view name, const down_request& wanted)
{
    const auto found = find(name);
    if (!found)
        co_return grant();
    if (counts_.waiters == max_waiters_)
        co_return grant{{outcome::crowded}};
    const auto self = found->waiters.insert(found->waiters.end(),
                                            waiter{wanted.client, wanted.units, clock::now()});
    ++counts_.waiters;
    publish(*found, {.what = happening::waiting, .units = wanted.units});
    auto [error, units] =
        co_await found->semaphore.async_try_acquire_for(wanted.units, wanted.wait, as_result);
    const auto waited =
        std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - self->since);
    found->waiters.erase(self);
    --counts_.waiters;
    if (units)
        units->forget();
    // The semaphore may have been removed after the grant, before this coroutine resumed.
    if (units && !found->name.empty())
        co_return make_grant(found, wanted, waited);
    publish(*found, {.what = happening::left, .units = wanted.units, .waited = waited});
    // A time-out is no error. If units were granted, the semaphore was removed afterwards.
    if (error || units)
        ++counts_.withdrawn;
    if (found->name.empty())
        co_return grant();
    co_return grant{{closing_ ? outcome::closing : outcome::busy, found->value()}};
}

awaitable<listed_page> memory_store::list(std::string_view after, std::size_t limit)
{
    expire();
    listed_page page;
    page.what = outcome::done;
    auto it = semaphores_.upper_bound(after);
    for (; it != semaphores_.end() && page.semaphores.size() != limit; ++it)
    {
        const semaphore_record& semaphore = *it->second;
        page.semaphores.push_back(
            {it->first, semaphore.value(), semaphore.waiters.size(), semaphore.permits.size()});
    }
    if (it != semaphores_.end())
        page.next = page.semaphores.back().name;
    co_return page;
}

awaitable<detailed> memory_store::detail(std::string_view name, std::size_t limit)
{
    detailed answer;
    const auto found = find(name);
    if (!found)
        co_return answer;
    const auto now = clock::now();
    const auto milliseconds = [](clock::duration time)
    { return std::chrono::duration_cast<std::chrono::milliseconds>(time); };
    answer.what = outcome::done;
    answer.state = {std::string(found->name), found->value(), found->waiters.size(),
                    found->permits.size()};
    for (const waiter& next : found->waiters)
    {
        if (answer.waiters.size() == limit)
            break;
        answer.waiters.push_back({next.client, next.units, milliseconds(now - next.since)});
    }
    for (const auto& [token, id] : found->permits)
    {
        if (answer.permits.size() == limit)
            break;
        const lease_record& permit = leases_.find(std::string(id))->second;
        answer.permits.push_back({permit.client, permit.units, token,
                                  milliseconds(now - permit.since),
                                  milliseconds(permit.deadline->first - now), permit.lease});
    }
    co_return answer;
}

awaitable<result> memory_store::check()
{
    co_return result{outcome::done};
}

awaitable<store_metrics> memory_store::metrics()
{
    store_metrics numbers = counts_;
    numbers.semaphores = semaphores_.size();
    numbers.permits = leases_.size();
    numbers.expired = expired_;
    co_return numbers;
}

void memory_store::close()
{
    closing_ = true;
    for (const auto& [name, semaphore] : semaphores_)
        semaphore->semaphore.close();
    timer_.cancel();
}

void memory_store::record_changes(std::function<void(const stored_state&)> recorder)
{
    recorder_ = std::move(recorder);
}

void memory_store::describe(const std::function<void(const stored_state&)>& reader) const
{
    for (const auto& [name, semaphore] : semaphores_)
        reader(described(*semaphore, {}));
    for (const auto& [id, permit] : leases_)
        reader(described(*permit.semaphore, id));
}

void memory_store::restore(const stored_state& stored)
{
    add_semaphore(stored.name, stored.value.value_or(0));
    if (stored.permit.empty())
        return;
    // The lease continued while no server ran. If the clock was set back, at most one more lease is left.
    const auto rest =
        std::min<clock::duration>(std::chrono::duration_cast<clock::duration>(
                                      stored.until - std::chrono::system_clock::now()),
                                  stored.lease);
    add_permit(std::string(stored.permit), semaphores_.find(stored.name)->second, stored.units,
               stored.lease, clock::now() + rest, stored.token, {});
}

void memory_store::skip_tokens(std::uint64_t token) noexcept
{
    last_token_ = std::max(last_token_, token);
}

/// Finds the semaphore of a request, after permits have expired: the timer is late if the machine has slept.
std::shared_ptr<memory_store::semaphore_record> memory_store::find(std::string_view name)
{
    expire();
    const auto found = semaphores_.find(name);
    return found == semaphores_.end() ? nullptr : found->second;
}

memory_store::leases::iterator memory_store::find_permit(
    const std::shared_ptr<semaphore_record>& semaphore, const std::string& permit)
{
    const auto found = leases_.find(permit);
    return found != leases_.end() && found->second.semaphore == semaphore ? found : leases_.end();
}

/// Makes the answer to a client to which the semaphore has granted units.
grant memory_store::make_grant(const std::shared_ptr<semaphore_record>& semaphore,
                               const down_request& wanted, std::chrono::milliseconds waited)
{
    ++counts_.grants;
    semaphore->value_with_undelivered -= wanted.units;
    semaphore->refill();
    grant answer;
    answer.what = outcome::done;
    answer.value = semaphore->value();
    if (wanted.lease != wanted.lease.zero())
    {
        answer.permit = new_id();
        answer.token = ++last_token_;
        answer.begin = clock::now();
        add_permit(answer.permit, semaphore, wanted.units, wanted.lease,
                   answer.begin + wanted.lease, answer.token, wanted.client);
    }
    report_change(*semaphore,
                  {.what = happening::granted,
                   .units = wanted.units,
                   .token = answer.token,
                   .waited = waited},
                  answer.permit);
    answer.undo = [this, semaphore, units = wanted.units, permit = answer.permit]
    {
        if (!permit.empty())
        {
            const auto found = leases_.find(permit);
            if (found == leases_.end())
                return;
            ++counts_.undone;
            end_permit(found, "undone");
            return;
        }
        ++counts_.undone;
        semaphore->add(units);
        report_change(*semaphore,
                      {.what = happening::released, .units = units, .reason = "undone"});
    };
    return answer;
}

void memory_store::add_permit(const std::string& id,
                              const std::shared_ptr<semaphore_record>& semaphore,
                              std::int64_t units, std::chrono::milliseconds lease,
                              clock::time_point deadline, std::uint64_t token, std::string client)
{
    const auto added =
        leases_
            .emplace(id, lease_record{semaphore, units, lease, deadlines_.emplace(deadline, id),
                                      token, deadline - lease, std::move(client)})
            .first;
    semaphore->permits.emplace(token, added->first);
    semaphore->leased += units;
    await_expiry();
}

void memory_store::end_permit(leases::iterator permit)
{
    permit->second.semaphore->permits.erase(permit->second.token);
    permit->second.semaphore->leased -= permit->second.units;
    deadlines_.erase(permit->second.deadline);
    leases_.erase(permit);
}

/// Ends a permit, and releases its units.
void memory_store::end_permit(leases::iterator permit, std::string_view reason)
{
    const std::string id = permit->first;
    const auto semaphore = permit->second.semaphore;
    const std::int64_t units = permit->second.units;
    const std::uint64_t token = permit->second.token;
    end_permit(permit);
    semaphore->add(units);
    report_change(*semaphore,
                  {.what = happening::released, .units = units, .token = token, .reason = reason},
                  id);
}

void memory_store::expire()
{
    while (!deadlines_.empty() && deadlines_.begin()->first <= clock::now())
    {
        ++expired_;
        end_permit(leases_.find(deadlines_.begin()->second), "expired");
    }
    await_expiry();
}

void memory_store::await_expiry()
{
    if (closing_ || deadlines_.empty())
        return;
    if (timer_.expiry() == deadlines_.begin()->first)
        return;
    timer_.expires_at(deadlines_.begin()->first);
    timer_.async_wait(
        [this](const error_code& error)
        {
            if (!error)
                expire();
        });
}

/// Records and publishes a change of @p semaphore, and of its permit if one is named.
void memory_store::report_change(const semaphore_record& semaphore, const event& made,
                                 std::string_view permit) const
{
    if (recorder_ && !semaphore.name.empty())
        recorder_(described(semaphore, permit));
    publish(semaphore, made);
}

/// Completes an event with the present state of @p semaphore, and publishes it.
void memory_store::publish(const semaphore_record& semaphore, event made) const
{
    if (semaphore.name.empty())
        return;
    made.name = semaphore.name;
    made.value = semaphore.value();
    made.waiters = semaphore.waiters.size();
    made.permits = semaphore.permits.size();
    store::publish(made);
}

stored_state memory_store::described(const semaphore_record& semaphore,
                                     std::string_view permit) const
{
    stored_state state;
    state.name = semaphore.name;
    state.value = std::min(semaphore.value_with_undelivered, largest_value);
    state.permit = permit;
    const auto found = leases_.find(std::string(permit));
    if (found == leases_.end())
        return state;
    const lease_record& record = found->second;
    state.units = record.units;
    state.lease = record.lease;
    state.until = std::chrono::system_clock::now() +
                  std::chrono::duration_cast<std::chrono::system_clock::duration>(
                      record.deadline->first - clock::now());
    state.token = record.token;
    return state;
}

}  // namespace turnstile::service
