// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/throw_exception.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/detail/event_initiation.hpp>

#include "redis/objects/lock_support.hpp"
#include "redis/session/held_lock.hpp"
#include "redis/session/session_core.hpp"

namespace turnstile::redis {

namespace detail {

// --- permits ------------------------------------------------------------------------------------

/// The units of a permit: of one grant, or of several if permits were merged.
class permit_share final : public loss_watcher, public std::enable_shared_from_this<permit_share>
{
public:
    struct part
    {
        std::shared_ptr<held_lock> held;
        std::int64_t units = 0;
    };

    explicit permit_share(std::shared_ptr<revocable_executor> executor)
        : loss_(std::move(executor))
    {
    }

    /// The caller reports the loss if the part is already lost.
    void add(const part& what)
    {
        what.held->watch(weak_from_this());
        const std::lock_guard lock(common_mutex());
        parts_.push_back(what);
    }

    /// Moves units to a new share, the last parts first.
    [[nodiscard]] std::shared_ptr<permit_share> split(std::int64_t units)
    {
        auto result = std::make_shared<permit_share>(loss_.executor);
        // The units stay here until all of them are added, because that may throw.
        for (auto last = parts_.rbegin(); units > 0; ++last)
        {
            const std::int64_t moved = std::min(units, last->units);
            result->add({last->held, moved});
            units -= moved;
        }
        result->report_loss();
        const std::lock_guard lock(common_mutex());
        for (const part& moved : result->parts_)
        {
            parts_.back().units -= moved.units;
            if (parts_.back().units == 0)
                parts_.pop_back();
        }
        // Without the lost units, the permit is valid again.
        if (is_reported_ && !has_lost_units())
        {
            is_reported_ = false;
            loss_.withdraw();
        }
        return result;
    }

    /// If this throws, the other share keeps the rest.
    void merge(permit_share& other)
    {
        auto next = other.parts_.begin();
        try
        {
            for (; next != other.parts_.end(); ++next)
            {
                const auto same = std::ranges::find(parts_, next->held, &part::held);
                if (same == parts_.end())
                    add(*next);
                else
                    same->units += next->units;
            }
            report_loss();
        }
        catch (...)
        {
            const std::lock_guard lock(common_mutex());
            other.parts_.erase(other.parts_.begin(), next);
            throw;
        }
        other.give_up();
        const std::lock_guard lock(common_mutex());
        other.parts_.clear();
    }

    /// The permit's holder hears of no loss any more.
    void give_up() noexcept
    {
        const std::lock_guard lock(common_mutex());
        is_reported_ = true;
        loss_.withdraw();
    }

    [[nodiscard]] const std::vector<part>& parts() const noexcept { return parts_; }

    void remove_last() noexcept
    {
        // Destroyed after the lock: the last reference to a grant destroys the handler in its slot.
        part removed;
        const std::lock_guard lock(common_mutex());
        removed = std::move(parts_.back());
        parts_.pop_back();
    }

    /// Triggers the slot once for all lost parts, if any. A part that was moved to another share is not reported here.
    void report_loss() override
    {
        {
            const std::lock_guard lock(common_mutex());
            if (is_reported_ || !has_lost_units())
                return;
            is_reported_ = true;
            loss_.rearm();
        }
        loss_.emit(weak_from_this());
    }

    [[nodiscard]] boost::asio::cancellation_slot lost_slot() noexcept { return loss_.slot(); }

private:
    [[nodiscard]] bool has_lost_units() const
    {
        return std::ranges::any_of(parts_, [](const part& each) { return each.held->has_ended(); });
    }

    loss_signal loss_;
    // The common mutex guards changes of the members below, and all uses on the session's strand. Only the owner of the
    // permit uses the units.
    std::vector<part> parts_;
    bool is_reported_ = false;
};

namespace {

/// Releases a part, or leaves its units outside: unavailable, but without a holder. Reports the result to a handler. If
/// this throws, it has no effect.
void release_part(const permit_share::part& part, bool stays_outside, const listener& done)
{
    const std::shared_ptr<held_lock>& held = part.held;
    // Before the subtraction: as long as these units count, no other thread releases the rest, which ends the hold.
    const bool has_ended = held->has_ended();
    const bool is_valid = held->valid();
    const bool is_rest = held->subtract_units(part.units, stays_outside) == 0;
    const bool is_held = is_rest ? !has_ended : is_valid;
    bool posted = false;
    try
    {
        posted = is_held && held->lock->core->post(
                                [held, done, is_rest](session_engine& engine)
                                {
                                    if (is_rest)
                                        engine.release(held, done);
                                    else
                                        engine.shrink(held, done);
                                });
    }
    catch (...)
    {
        held->subtract_units(-part.units, stays_outside);
        throw;
    }
    if (is_rest)
        held->end();
    if (!posted)
        complete(done, is_held ? make_error_code(errc::session_closed)
                               : make_error_code(turnstile::errc::lost));
    else if (done)
        done->set_started();
}

/// Releases all parts of a permit, which may be empty. See release_part().
void release_all(const std::shared_ptr<permit_share>& share, bool stays_outside) noexcept
{
    if (!share)
        return;
    share->give_up();
    for (const auto& part : share->parts())
        release_part(part, stays_outside, nullptr);
}

/// Completes a handler with the first error after all parts have been released.
class joint_release
{
public:
    joint_release(std::size_t parts, done_handler handler)
        : executor_(handler.executor())
        , left_(parts)
        , done_(std::move(handler))
    {
    }

    /// The listener for one of the parts.
    static listener part_of(const std::shared_ptr<joint_release>& whole)
    {
        return std::make_shared<completion<error_code>>(done_handler(
            [whole](const error_code& error)
            {
                const std::lock_guard lock(whole->mutex_);
                if (!whole->error_)
                    whole->error_ = error;
                if (--whole->left_ == 0)
                    whole->done_.complete(whole->error_);
            },
            whole->executor_));
    }

private:
    const boost::asio::any_io_executor executor_;
    std::mutex mutex_;
    std::size_t left_;
    error_code error_;
    completion<error_code> done_;
};

}  // namespace

permit_grant::permit_grant(grant granted)
{
    if (!granted)
        return;
    // If this throws, the destructor of `granted` releases the units.
    const std::shared_ptr<held_lock> held = granted.share();
    share_ = std::make_shared<permit_share>(held->loss->executor);
    share_->add({held, held->count().held});
    if (held->has_ended())
        share_->report_loss();
    static_cast<void>(granted.detach());
}

std::ptrdiff_t permit_grant::count() const noexcept
{
    std::ptrdiff_t result = 0;
    if (share_)
        for (const auto& part : share_->parts())
            result += static_cast<std::ptrdiff_t>(part.units);
    return result;
}

bool permit_grant::valid() const noexcept
{
    return share_ && !share_->parts().empty() &&
           std::ranges::all_of(share_->parts(),
                               [](const auto& part) { return part.held->valid(); });
}

boost::asio::cancellation_slot permit_grant::lost() const noexcept
{
    return share_ ? share_->lost_slot() : boost::asio::cancellation_slot();
}

std::uint64_t permit_grant::fencing_token() const noexcept
{
    std::uint64_t result = 0;
    if (share_)
        for (const auto& part : share_->parts())
            result = std::max(result, part.held->fence);
    return result;
}

boost::asio::any_io_executor permit_grant::executor() const
{
    if (!share_ || share_->parts().empty())
        return system_executor();
    return share_->parts().front().held->lock->core->fallback();
}

bool permit_grant::is_of_same_object(const permit_grant& other) const noexcept
{
    return share_->parts().front().held->lock == other.share_->parts().front().held->lock;
}

permit_grant permit_grant::split(std::ptrdiff_t units)
{
    return permit_grant(share_->split(units));
}

void permit_grant::merge(permit_grant&& other)
{
    if (share_ == other.share_)
        return;
    if (!share_)
        share_ = other.share_;
    else if (other.share_)
        share_->merge(*other.share_);
    other.share_ = nullptr;
}

void permit_grant::forget() noexcept
{
    release_all(std::exchange(share_, nullptr), true);
}

void permit_grant::release() noexcept
{
    release_all(std::exchange(share_, nullptr), false);
}

void permit_grant::start_release(permit_grant& owned, erased_handler<void(error_code)> handler)
{
    const std::size_t parts = owned.share_ ? owned.share_->parts().size() : 0;
    listener single;
    std::shared_ptr<joint_release> whole;
    if (parts < 2)
        single = std::make_shared<completion<error_code>>(std::move(handler));
    else
        whole = std::make_shared<joint_release>(parts, std::move(handler));
    if (parts == 0)
        return complete(single, turnstile::errc::empty_guard);
    const auto release_parts = [&](const std::shared_ptr<permit_share>& share)
    {
        for (; !share->parts().empty(); share->remove_last())
            release_part(share->parts().back(), false,
                         single ? single : joint_release::part_of(whole));
        share->give_up();
    };
    consume(owned, std::exchange(owned.share_, nullptr), release_parts);
}

void permit_grant::start_keep(permit_grant owned, std::string_view key, std::string heir,
                              erased_handler<void(error_code)> handler)
{
    const auto done = std::make_shared<completion<error_code>>(std::move(handler));
    // If a check fails, the destructor of `owned` releases the units.
    if (!owned.share_ || owned.share_->parts().size() != 1)
        return complete(done, turnstile::errc::empty_guard);
    const permit_share::part part = owned.share_->parts().front();
    const std::shared_ptr<held_lock>& held = part.held;
    if (held->lock->key != key)
        return complete(done, turnstile::errc::wrong_object);
    if (part.units != held->count().held)
        return complete(done, turnstile::errc::invalid_count);
    if (heir.empty())
    {
        release_part(part, true, done);
        std::exchange(owned.share_, nullptr)->give_up();
        return;
    }
    heir = std::to_string(part.units) + ' ' + heir;
    const bool is_held = !held->has_ended();
    const bool posted =
        is_held &&
        held->lock->core->post(*done, [held, heir = std::move(heir), done](session_engine& engine)
                               { engine.release(held, done, {}, heir); });
    std::exchange(owned.share_, nullptr)->give_up();
    held->subtract_units(part.units, false);
    held->end();
    if (!posted)
        done->complete(is_held ? make_error_code(errc::session_closed)
                               : make_error_code(turnstile::errc::lost));
}

// --- pools --------------------------------------------------------------------------------------

std::shared_ptr<lock_handle> make_pool(const session& owner, std::string_view kind,
                                       std::string_view name, const mutex_options& options,
                                       const pool_shape& shape)
{
    check_name(name);
    const auto& core = session_access::core(owner);
    lease_options lease = lease_of(core->settings, options, 0, kind == "semaphore");
    lease.pool = shape;
    return std::make_shared<lock_handle>(core, std::string(name),
                                         object_key(core->settings.prefix, kind, name), lease,
                                         durability_of(options));
}

// --- operations ---------------------------------------------------------------------------------

void start_acquire(const std::shared_ptr<lock_handle>& pool, time_limit limit, std::int64_t units,
                   bool takes, lock_handler handler)
{
    attempt_request what;
    what.units = units;
    what.takes = takes;
    const auto operation = std::make_shared<lock_operation>(pool, limit, what, std::move(handler));
    if (takes)
        operation->withdrawal_error = boost::asio::error::timed_out;
    if (units < 1)
        operation->done.complete(turnstile::errc::invalid_count, grant());
    else
        start(operation);
}

namespace {

void start_call(const std::shared_ptr<lock_handle>& pool, call_kind what, std::int64_t number,
                count_handler handler)
{
    ask(*pool->core, std::move(handler),
        [pool, what, number](session_engine& engine, const auto& done)
        { engine.call(*pool, what, number, done); });
}

}  // namespace

void start_add(const std::shared_ptr<lock_handle>& pool, std::int64_t units, count_handler handler)
{
    if (units < 1)
        complete(std::move(handler), turnstile::errc::invalid_count, 0);
    else
        start_call(pool, call_kind::add, units, std::move(handler));
}

void start_resize(const std::shared_ptr<lock_handle>& pool, std::int64_t capacity,
                  count_handler handler)
{
    // The capacity of a semaphore of a directory is that of all of them.
    const auto& shape = pool->options.pool;
    if (shape && shape->outside < 0)
        complete(std::move(handler), boost::asio::error::operation_not_supported, 0);
    else if (capacity < 1 || capacity > async_semaphore::max_capacity)
        complete(std::move(handler), turnstile::errc::invalid_count, 0);
    else
        start_call(pool, call_kind::resize, capacity, std::move(handler));
}

void start_set(const std::shared_ptr<lock_handle>& pool, bool is_set, count_handler handler)
{
    start_call(pool, call_kind::add, is_set ? 1 : 0, std::move(handler));
}

void start_create(const std::shared_ptr<lock_handle>& pool, count_handler handler)
{
    start_call(pool, call_kind::create, 0, std::move(handler));
}

void start_read(const std::shared_ptr<lock_handle>& pool, count_handler handler)
{
    start_call(pool, call_kind::read, 0, std::move(handler));
}

}  // namespace detail

// --- the semaphore ------------------------------------------------------------------------------

namespace {

detail::pool_shape checked_shape(std::ptrdiff_t available, std::ptrdiff_t capacity)
{
    if (capacity < 1 || capacity > async_semaphore::max_capacity || available < 0 ||
        available > capacity)
        boost::throw_exception(system_error(
            turnstile::errc::invalid_count,
            "a semaphore with " + std::to_string(available) + " of " + std::to_string(capacity) +
                " units; there have to be 1 to " + std::to_string(async_semaphore::max_capacity)));
    return {capacity, capacity - available};
}

}  // namespace

async_semaphore::async_semaphore(session& session, std::string_view name, std::ptrdiff_t capacity,
                                 const semaphore_options& options)
    : async_semaphore(session, name, capacity, capacity, options)
{
}

async_semaphore::async_semaphore(session& session, std::string_view name, std::ptrdiff_t available,
                                 std::ptrdiff_t capacity, const semaphore_options& options)
    : pool_(detail::make_pool(session, "semaphore", name, options,
                              checked_shape(available, capacity)))
{
}

}  // namespace turnstile::redis
