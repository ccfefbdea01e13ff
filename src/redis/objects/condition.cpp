// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <turnstile/redis/condition.hpp>

#include "redis/objects/lock_support.hpp"
#include "redis/session/held_lock.hpp"
#include "redis/session/session_core.hpp"

namespace turnstile::redis {

namespace detail {

std::shared_ptr<condition_handle> make_condition(const std::shared_ptr<lock_handle>& lock,
                                                 std::string_view name)
{
    check_name(name);
    return std::make_shared<condition_handle>(
        condition_handle{lock, std::string(name), encode(name)});
}

error_code check_wait(const condition_handle& condition, const grant& guard) noexcept
{
    if (!guard)
        return turnstile::errc::empty_guard;
    if (guard.share()->lock != condition.lock)
        return turnstile::errc::wrong_object;
    return {};
}

void start_wait(const std::shared_ptr<condition_handle>& condition, grant& guard, time_limit limit,
                section_changes changes, lock_handler handler)
{
    const auto operation = std::make_shared<lock_operation>(condition->lock, limit,
                                                            attempt_request(), std::move(handler));
    operation->condition = condition;
    operation->changes = std::move(changes);
    if (const error_code error = check_wait(*condition, guard))
    {
        operation->done.complete(error, grant());
        return;
    }
    consume(guard, guard.detach(),
            [&](const std::shared_ptr<held_lock>& held)
            {
                operation->releases = held;
                if (held->has_ended())
                    operation->done.complete(turnstile::errc::lost, grant());
                else
                    start(operation);
                held->end();
            });
}

void start_notify(const std::shared_ptr<condition_handle>& condition, bool all,
                  count_handler handler)
{
    ask(*condition->lock->core, std::move(handler),
        [condition, all](session_engine& engine, const auto& done)
        { engine.notify(*condition, all, done); });
}

void notify(const std::shared_ptr<condition_handle>& condition, bool all) noexcept
{
    condition->lock->core->post([condition, all](session_engine& engine)
                                { engine.notify(*condition, all, nullptr); });
}

void forget(const std::shared_ptr<condition_handle>& condition) noexcept
{
    condition->lock->core->post([condition](session_engine& engine)
                                { engine.forget_condition(*condition); });
}

boost::asio::any_io_executor executor_of(const condition_handle& condition) noexcept
{
    return executor_of(*condition.lock);
}

const std::string& name_of(const condition_handle& condition) noexcept
{
    return condition.name;
}

}  // namespace detail

condition::condition(async_mutex& mutex, std::string_view name)
    : condition_(detail::make_condition(mutex.lock_, name))
{
}

}  // namespace turnstile::redis
