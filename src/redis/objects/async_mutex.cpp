// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <turnstile/redis/async_mutex.hpp>

#include "redis/objects/lock_support.hpp"
#include "redis/session/held_lock.hpp"
#include "redis/session/session_core.hpp"

namespace turnstile::redis {

namespace detail {

lock_handle::lock_handle(std::shared_ptr<session_core> session, std::string what, std::string where,
                         const lease_options& how, const durability_options& how_safe)
    : core(std::move(session))
    , name(std::move(what))
    , key(std::move(where))
    , options(how)
    , durability(how_safe)
    // The key comes first, so sessions that reach one server by different names order its locks equally.
    // The databases of a server have different locks.
    , order(key + ' ' + core->settings.server_name() + ' ' +
            std::to_string(core->settings.database))
{
}

// --- tokens -------------------------------------------------------------------------------------

owner_token lock_handle::add_token(const std::shared_ptr<held_lock>& held)
{
    const std::lock_guard lock(common_mutex());
    if (!tokens_)
        return owner_token();
    tokens_->insert_or_assign(held->fence, held);
    return owner_token(held->fence);
}

std::shared_ptr<held_lock> lock_handle::remove_token(owner_token owner, owner_token& expected)
{
    const std::lock_guard lock(common_mutex());
    if (!tokens_)
        return nullptr;
    if (const auto found = tokens_->find(owner.value()); found != tokens_->end())
        return tokens_->extract(found).mapped();
    for (const auto& [fence, held] : *tokens_)
        if (held->valid())
            expected = owner_token(fence);
    return nullptr;
}

void lock_handle::forget_tokens() noexcept
{
    // Destroyed after the lock: a lock that nobody else refers to destroys the handler in its slot.
    decltype(tokens_) rest;
    const std::lock_guard lock(common_mutex());
    rest.swap(tokens_);
}

// --- grants -------------------------------------------------------------------------------------

bool grant::valid() const noexcept
{
    return held_ && held_->valid();
}

std::uint64_t grant::number() const noexcept
{
    return held_ ? held_->fence : 0;
}

boost::asio::cancellation_slot grant::lost() const noexcept
{
    return held_ ? held_->lost_slot() : boost::asio::cancellation_slot();
}

lease_clock::time_point grant::expires_at() const noexcept
{
    return held_ ? held_->expires_at() : lease_clock::time_point();
}

boost::asio::any_io_executor grant::executor() const
{
    return held_ ? held_->lock->core->fallback() : system_executor();
}

bool grant::is_unnotified() const noexcept
{
    return held_ && held_->unnotified;
}

const std::map<std::string, std::string>& grant::state() const noexcept
{
    static const field_map none;
    return held_ ? held_->state : none;
}

void grant::record_delivery() const noexcept
{
    if (!held_)
        return;
    held_->ends_well = true;
    if (held_->received_at == local_time())
        return;
    const local_time delay = boot_time() - held_->received_at;
    const std::lock_guard lock(common_mutex());
    held_->lock->core->deliveries.add(delay);
}

void grant::unlock() noexcept
{
    // An upgraded grant also holds the lock from before the upgrade.
    for (auto held = std::exchange(held_, nullptr); held; held = held->base)
        if (held->give_up())
            held->lock->core->post(
                [held](session_engine& engine)
                {
                    section_changes changes;
                    changes.has_failed = !held->ends_well;
                    engine.release(held, nullptr, std::move(changes));
                });
}

owner_token mutex_grant::disown() noexcept
{
    const auto held = share();
    const owner_token token = held ? held->lock->add_token(held) : owner_token();
    if (token)
        static_cast<void>(detach());
    return token;
}

void release(grant& owned, const listener& done, section_changes changes)
{
    const auto post_release = [&](const std::shared_ptr<held_lock>& held)
    {
        // The base of an upgrade is released first, so that both are released when the handler runs.
        const bool posted = held->lock->core->post(
            *done,
            [held, done, changes = std::move(changes)](session_engine& engine) mutable
            {
                if (held->base)
                    engine.release(held->base, nullptr);
                engine.release(held, done, std::move(changes));
            });
        if (held->base)
            held->base->give_up();
        const bool was_held = held->give_up();
        if (!posted)
            done->complete(was_held ? make_error_code(errc::session_closed)
                                    : make_error_code(turnstile::errc::lost));
    };
    consume(owned, owned.detach(), post_release);
}

void grant::start_unlock(grant& owned, erased_handler<void(error_code)> handler)
{
    const auto done = std::make_shared<completion<error_code>>(std::move(handler));
    if (owned)
        release(owned, done);
    else
        done->complete(turnstile::errc::empty_guard);
}

void start_leave(const std::shared_ptr<lock_handle>& lock, owner_token owner, done_handler handler)
{
    const auto done = std::make_shared<completion<error_code>>(std::move(handler));
    owner_token expected;
    if (grant owned(lock->remove_token(owner, expected)); owned)
        release(owned, done);
    else
        done->complete(turnstile::errc::not_owner);
}

void start_lock(const std::shared_ptr<lock_handle>& lock, time_limit limit, lock_handler handler)
{
    start(std::make_shared<lock_operation>(lock, limit, attempt_request(), std::move(handler)));
}

void start(const std::shared_ptr<lock_operation>& operation)
{
    session_core& core = *operation->lock->core;
    operation->done.on_cancel(
        [weak = std::weak_ptr(operation)]
        {
            if (const auto cancelled = weak.lock())
                cancelled->lock->core->post([cancelled](session_engine& engine)
                                            { engine.cancel(cancelled); });
        });
    if (!core.post(operation->done,
                   [operation](session_engine& engine) { engine.start_operation(operation); }))
        operation->done.complete(errc::session_closed, grant());
}

}  // namespace detail

// --- the mutex ----------------------------------------------------------------------------------

namespace {

using std::chrono::milliseconds;

std::string text(milliseconds value)
{
    return std::to_string(value.count()) + " ms";
}

}  // namespace

detail::lease_options detail::lease_of(const config& settings, const mutex_options& options,
                                       std::uint32_t max_cohort, bool has_capacity)
{
    detail::lease_options result;
    result.lease = options.lease().value_or(settings.lease);
    result.claim =
        options.claim_lease().value_or(std::min(settings.effective_claim_lease(), result.lease));
    result.idle = settings.idle_time;
    result.renew = options.renew();
    result.cohort = options.cohort();
    result.adopts = options.adopt_capacity();
    if (result.lease < config::shortest_lease || result.lease > config::longest_duration)
        throw redis_error(errc::invalid_config,
                          "the lease is " + text(result.lease) +
                              ", but has to be at least 100 ms and at most 24 h");
    if (result.claim > result.lease || result.claim < config::shortest_lease)
        throw redis_error(errc::invalid_config,
                          "the claim lease is " + text(result.claim) +
                              ", but has to be at least 100 ms and at most the lease (" +
                              text(result.lease) + ")");
    if (result.cohort > max_cohort)
        throw redis_error(
            errc::invalid_config,
            "the cohort is " + std::to_string(result.cohort) + ", but has to be at most " +
                std::to_string(max_cohort) +
                (max_cohort == 0 ? ": only mutexes without durability have one" : ""));
    if (result.adopts && !has_capacity)
        throw redis_error(errc::invalid_config,
                          "adopt_capacity is set, but only semaphores have a capacity");
    return result;
}

void detail::check_name(std::string_view name)
{
    if (!is_valid_name(name))
        throw redis_error(errc::invalid_name, "a name of " + std::to_string(name.size()) +
                                                  " bytes; it has to have 1 to " +
                                                  std::to_string(max_name_size));
}

void detail::forget(const std::shared_ptr<lock_handle>& lock) noexcept
{
    lock->forget_tokens();
    lock->core->post([lock](session_engine& engine) { engine.forget_lock(*lock); });
}

boost::asio::any_io_executor detail::executor_of(const lock_handle& lock) noexcept
{
    return lock.core->fallback();
}

const std::string& detail::name_of(const lock_handle& lock) noexcept
{
    return lock.name;
}

std::string_view detail::order_of(const lock_handle& lock) noexcept
{
    return lock.order;
}

detail::durability_options detail::durability_of(const mutex_options& options)
{
    if (options.replicas() < 0 || options.replica_timeout() < milliseconds(1) ||
        options.replica_timeout() > config::longest_duration)
        throw redis_error(errc::invalid_config,
                          "the durability is " + std::to_string(options.replicas()) +
                              " replicas within " + text(options.replica_timeout()) +
                              ", but has to be at least 0 replicas and 1 ms, and at most 24 h");
    return {options.replicas(), options.replica_timeout()};
}

namespace {

std::shared_ptr<detail::lock_handle> make_lock(const session& owner, std::string_view name,
                                               const mutex_options& options)
{
    detail::check_name(name);
    const auto& core = detail::session_access::core(owner);
    std::string key = detail::object_key(core->settings.prefix, "mutex", name);
    const detail::durability_options durability = detail::durability_of(options);
    const detail::lease_options lease = detail::lease_of(
        core->settings, options, durability.replicas == 0 ? mutex_options::max_cohort : 0);
    return std::make_shared<detail::lock_handle>(core, std::string(name), std::move(key), lease,
                                                 durability);
}

}  // namespace

async_mutex::async_mutex(session& session, std::string_view name, const mutex_options& options)
    : lock_(make_lock(session, name, options))
{
}

async_mutex::grant_type async_mutex::adopt(owner_token owner)
{
    owner_token expected;
    auto held = lock_->remove_token(owner, expected);
    // The token of a lost lock keeps its meaning: async_leave() then reports the loss.
    if (held && !held->valid())
        static_cast<void>(lock_->add_token(std::exchange(held, nullptr)));
    if (!held)
        throw owner_mismatch(expected, owner);
    return grant_type(std::move(held));
}

}  // namespace turnstile::redis
