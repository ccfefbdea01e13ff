// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_CONTEXT_LIFE_HPP
#define TURNSTILE_SRC_REDIS_CONTEXT_LIFE_HPP

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/intrusive/list.hpp>
#include <memory>
#include <mutex>

namespace turnstile::redis::detail {

/// Something that must not outlive a context.
class context_resident : public boost::intrusive::list_base_hook<>
{
public:
    context_resident(const context_resident&) = delete;
    context_resident& operator=(const context_resident&) = delete;

    /// The context shuts down. The life is locked, so what is to be destroyed is handed out.
    virtual std::shared_ptr<void> evict() noexcept = 0;

protected:
    context_resident() = default;
    ~context_resident() = default;
};

/**
 * Says whether a context still lives. An executor must not outlive its context, but guards, handlers of
 * other contexts and sessions may: they look here before they use it.
 */
class context_life
{
public:
    /// The life of an executor's context; null if it has none that could end.
    static std::shared_ptr<context_life> of(const boost::asio::any_io_executor& executor);

    /// While it is locked, both. Who was evicted has moved out already, which does no harm.
    void move_in(context_resident& who) { residents.push_back(who); }
    void move_out(context_resident& who)
    {
        if (who.is_linked())
            residents.erase(residents.iterator_to(who));
    }

    /// Held while the context must not end.
    std::mutex mutex;
    /// Changes while it is locked.
    std::atomic<bool> alive = true;
    boost::intrusive::list<context_resident, boost::intrusive::constant_time_size<false>> residents;
};

/**
 * An executor that is forgotten when its context shuts down.
 *
 * Thread-safe, but for construction and destruction.
 */
class mortal_executor final : public context_resident
{
public:
    explicit mortal_executor(const boost::asio::any_io_executor& executor)
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

    mortal_executor(const mortal_executor&) = delete;
    mortal_executor& operator=(const mortal_executor&) = delete;

    ~mortal_executor()
    {
        if (!life_)
            return;
        const std::lock_guard lock(life_->mutex);
        life_->move_out(*this);
        executor_ = nullptr;
    }

    /// Calls a function with the executor, unless its context is gone. Whether it was called.
    template <class Function>
    bool use(Function&& function)
    {
        std::unique_lock<std::mutex> lock;
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
        executor_ = nullptr;
        return nullptr;
    }

    std::shared_ptr<context_life> life_;
    boost::asio::any_io_executor executor_;
};

}  // namespace turnstile::redis::detail

#endif
