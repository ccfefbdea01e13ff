// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_CONTEXT_LIFE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_CONTEXT_LIFE_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/intrusive/list.hpp>
#include <memory>
#include <mutex>
#include <utility>

namespace turnstile::redis::detail {

/// The mutex of all data that several threads share, also locked while a context must not end. A fork locks it:
/// otherwise, if another thread has locked it, it would stay locked in the child, which has no such thread.
/// Executors are destroyed under the lock, and one may own its context, or guards that keep other executors. So the
/// mutex is recursive, and there is one for all contexts: two threads cannot lock two of them in different orders.
std::recursive_mutex& common_mutex();

/// An object that must not outlive a context. Its destructor unlinks it with the common mutex locked.
class context_resident : public boost::intrusive::list_base_hook<
                             boost::intrusive::link_mode<boost::intrusive::auto_unlink>>
{
public:
    context_resident(const context_resident&) = delete;
    context_resident& operator=(const context_resident&) = delete;

    /// Called when the context shuts down, with the mutex locked. The caller destroys the result after unlocking.
    virtual std::shared_ptr<void> evict() noexcept = 0;

protected:
    context_resident() = default;
    ~context_resident() = default;
};

/**
 * A service of a context that knows the objects that must stop using it when it ends. An executor must not be used
 * after the end of its context, but guards, sessions and handlers of other contexts may outlive that.
 */
class context_life final : public boost::asio::execution_context::service
{
public:
    using key_type = context_life;

    // Asio uses this member as the key of the service.
    inline static boost::asio::execution_context::id id;

    /// Creates the service of strands first, so that executors are revoked before strands shut down. Otherwise, a strand
    /// would destroy a handler on the session's thread while the context shuts down on another one.
    explicit context_life(boost::asio::execution_context& context)
        : service(context)
    {
        boost::asio::use_service<boost::asio::detail::strand_executor_service>(context);
    }

    /// Evicts again: handlers that other services destroyed after shutdown() may have started operations.
    ~context_life() override;

    /// The life of an executor's context, which it belongs to; null if there is no executor.
    static context_life* of(const boost::asio::any_io_executor& executor);

    /// Adds a resident. Requires the lock.
    void move_in(context_resident& who) { residents_.push_back(who); }

    /// Whether there are no residents. Requires the lock.
    [[nodiscard]] bool is_empty() const noexcept { return residents_.empty(); }

private:
    void shutdown() override;
    bool evict_all();

    boost::intrusive::list<context_resident, boost::intrusive::constant_time_size<false>>
        residents_;
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
        : executor_(executor)
    {
        context_life* const life = context_life::of(executor);
        const std::lock_guard lock(common_mutex());
        if (life != nullptr)
            life->move_in(*this);
    }

    revocable_executor(const revocable_executor&) = delete;
    revocable_executor& operator=(const revocable_executor&) = delete;

    ~revocable_executor()
    {
        const std::lock_guard lock(common_mutex());
        unlink();
        executor_ = nullptr;
    }

    /// Calls a function with the executor, unless its context has ended. Returns whether it was called.
    template <class Function>
    bool use(Function&& function)
    {
        const std::lock_guard lock(common_mutex());
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

    boost::asio::any_io_executor executor_;
};

}  // namespace turnstile::redis::detail

#endif
