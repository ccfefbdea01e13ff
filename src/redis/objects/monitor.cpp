// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <algorithm>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/detail/section_grant.hpp>

#include "redis/objects/lock_support.hpp"
#include "redis/session/contribution_handle.hpp"
#include "redis/session/held_lock.hpp"
#include "redis/session/session_core.hpp"

// The part of monitors that does not depend on the type of the state.

namespace turnstile::redis::detail {

std::shared_ptr<lock_handle> make_monitor(const session& owner, std::string_view name,
                                          const mutex_options& options)
{
    check_name(name);
    const auto& core = session_access::core(owner);
    lease_options lease = lease_of(core->settings, options);
    lease.state = object_key(core->settings.prefix, "monitor.state", name);
    return std::make_shared<lock_handle>(core, std::string(name),
                                         object_key(core->settings.prefix, "monitor", name), lease,
                                         durability_of(options));
}

const std::string& state_key_of(const lock_handle& lock) noexcept
{
    return lock.options.state;
}

const std::string& key_of(const condition_handle& condition) noexcept
{
    return condition.key;
}

bool is_of(const condition_handle& condition, const lock_handle& lock) noexcept
{
    return condition.lock.get() == &lock;
}

void start_transact(const std::shared_ptr<lock_handle>& lock,
                    const std::shared_ptr<proposal>& proposed, lock_handler handler)
{
    const auto operation =
        std::make_shared<lock_operation>(lock, time_limit(), attempt_request(), std::move(handler));
    // Replicas acknowledge grants, so with durability the operation needs a grant.
    if (lock->durability.replicas == 0)
        operation->proposed = proposed;
    start(operation);
}

// --- what a section commits -----------------------------------------------------------------

section_changes::section_changes() = default;
section_changes::section_changes(section_changes&& other) noexcept = default;
section_changes& section_changes::operator=(section_changes&& other) noexcept = default;
section_changes::~section_changes() = default;

pending_changes::pending_changes() = default;
pending_changes::~pending_changes() = default;

void pending_changes::set_loaded(std::map<std::string, std::string> loaded) noexcept
{
    loaded_ = std::move(loaded);
}

void pending_changes::notify(const condition_handle& condition, bool all)
{
    // One notification of all waiters at the commit is enough.
    std::pair notification(condition.key, all);
    if (!all ||
        std::ranges::find(changes_.notifications, notification) == changes_.notifications.end())
        changes_.notifications.push_back(std::move(notification));
}

void pending_changes::contribute(std::shared_ptr<contribution_handle> made)
{
    changes_.contributed.push_back(std::move(made));
}

withdrawal pending_changes::withdraw(const std::shared_ptr<contribution_handle>& handle)
{
    if (std::erase(changes_.contributed, handle) != 0)
        return withdrawal::uncommitted;
    if (std::ranges::find(changes_.withdrawn, handle) != changes_.withdrawn.end())
        return withdrawal::repeated;
    // If the contribution is valid after the state has arrived, that state contains its amount. The server does
    // not undo it while the lock is held.
    if (!handle->valid())
        return withdrawal::lost;
    changes_.withdrawn.push_back(handle);
    return withdrawal::at_commit;
}

section_changes pending_changes::take(const std::map<std::string, std::string>& now,
                                      const std::map<std::string, std::string>& stored)
{
    decltype(section_changes::fields) changed;
    // The server can undo a contribution only in a field that exists, so missing fields are written.
    if (now != loaded_ || !changes_.contributed.empty())
    {
        for (const auto& [name, text] : now)
        {
            const auto before = loaded_.find(name);
            // Fields that do not exist yet are written, too: a new state, or new members.
            if (before == loaded_.end() || before->second != text || !stored.contains(name))
                changed.emplace_back(name, text);
        }
        for (const auto& [name, text] : loaded_)
            if (!now.contains(name))
                changed.emplace_back(name, std::nullopt);
    }
    changes_.fields = std::move(changed);
    return std::exchange(changes_, section_changes());
}

// --- the lock of a section ------------------------------------------------------------------

section_grant::section_grant() noexcept = default;

section_grant::section_grant(grant granted)
{
    changes_.has_failed = true;
    adopt(std::move(granted));
}

section_grant::section_grant(section_grant&&) noexcept = default;
section_grant& section_grant::operator=(section_grant&&) noexcept = default;
section_grant::~section_grant() = default;

bool section_grant::valid() noexcept
{
    is_believed_lost_ = is_believed_lost_ || !granted_.valid();
    return !is_believed_lost_;
}

boost::asio::cancellation_slot section_grant::lost() const noexcept
{
    return granted_.lost();
}

void section_grant::adopt(grant granted)
{
    granted_ = std::move(granted);
    granted_.share()->ends_well = false;
    is_believed_lost_ = false;
}

void section_grant::set_changes(section_changes changes) noexcept
{
    changes_ = std::move(changes);
}

void section_grant::start_commit(section_grant& owned, done_handler handler)
{
    const auto done = std::make_shared<completion<error_code>>(std::move(handler));
    section_changes changes = std::move(owned.changes_);
    if (owned.is_believed_lost_)
    {
        changes = section_changes();
        changes.has_failed = true;
    }
    if (owned.granted_)
        release(owned.granted_, done, std::move(changes));
    else
        done->complete(turnstile::errc::empty_guard);
}

}  // namespace turnstile::redis::detail
