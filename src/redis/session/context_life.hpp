// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_CONTEXT_LIFE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_CONTEXT_LIFE_HPP

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/intrusive/list.hpp>
#include <memory>
#include <mutex>
#include <utility>

namespace turnstile::redis::detail {

/// The mutex of all data that several threads share. A fork locks it: otherwise, if another thread has locked it, it
/// would stay locked in the child, which has no such thread.
std::recursive_mutex& common_mutex();

/// An object that must not outlive a context.
class context_resident : public boost::intrusive::list_base_hook<>
{
public:
    context_resident(const context_resident&) = delete;
    context_resident& operator=(const context_resident&) = delete;

    /// Called when the context shuts down, with the life locked. The caller destroys the result after unlocking.
    virtual std::shared_ptr<void> evict() noexcept = 0;

protected:
    context_resident() = default;
    ~context_resident() = default;
};

/**
 * Shows whether a context still exists. An executor must not be used after the end of its context, but guards,
 * sessions and handlers of other contexts may outlive that. So they check here before they use the executor.
 */
class context_life
{
public:
    /// The life of an executor's context; null if there is no executor.
    static std::shared_ptr<context_life> of(const boost::asio::any_io_executor& executor);

    /// Both require the lock. An evicted resident is no longer linked, so move_out() has no effect.
    void move_in(context_resident& who) { residents.push_back(who); }
    void move_out(context_resident& who)
    {
        if (who.is_linked())
            residents.erase(residents.iterator_to(who));
    }

    context_life();

    /// Locked while the context must not end, and while the process forks. Executors are destroyed under the lock, and
    /// one may own its context, or guards that keep other executors. So the mutex is recursive, and all lives have the
    /// same one: two threads cannot lock two of them in different orders.
    std::recursive_mutex& mutex;
    /// Changes only under the lock.
    std::atomic<bool> alive = true;
    boost::intrusive::list<context_resident, boost::intrusive::constant_time_size<false>> residents;
};

/**
 * An executor that becomes empty when its context shuts down.
 *
 * Thread-safe, except for construction and destruction.
 */
class revocable_executor final : public context_resident
{
public:
    explicit revocable_executor(const boost::asio::any_io_executor& executor)
        : life_(context_life::of(executor))
        , executor_(executor)
    {
        if (!life_)
            return;
        const std::lock_guard lock(life_->mutex);
        if (life_->alive)
            life_->move_in(*this);
        else
            executor_ = nullptr;
    }

    revocable_executor(const revocable_executor&) = delete;
    revocable_executor& operator=(const revocable_executor&) = delete;

    ~revocable_executor()
    {
        if (!life_)
            return;
        const std::lock_guard lock(life_->mutex);
        life_->move_out(*this);
        executor_ = nullptr;
    }

    /// Calls a function with the executor, unless its context has ended. Returns whether it was called.
    template <class Function>
    bool use(Function&& function)
    {
        std::unique_lock<std::recursive_mutex> lock;
        if (life_)
            lock = std::unique_lock(life_->mutex);
        if (!executor_)
            return false;
        function(executor_);
        return true;
    }

private:
    std::shared_ptr<void> evict() noexcept override
    {
        return std::make_shared<boost::asio::any_io_executor>(std::exchange(executor_, nullptr));
    }

    std::shared_ptr<context_life> life_;
    boost::asio::any_io_executor executor_;
};

}  // namespace turnstile::redis::detail

#endif
