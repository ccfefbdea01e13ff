// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_LEASED_MUTEX_HPP
#define TURNSTILE_TEST_SUPPORT_LEASED_MUTEX_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/cancellation_state.hpp>
#include <boost/asio/compose.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <memory>
#include <turnstile/async_mutex.hpp>
#include <turnstile/error.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/owner_token.hpp>
#include <utility>

namespace turnstile::test {

/**
 * @brief A mutex whose lock is a lease: it can be lost while it is held, and a release takes
 *        a while.
 *
 * It behaves like a mutex of a remote backend.
 */
class leased_mutex
{
    struct lease
    {
        boost::asio::cancellation_signal loss;
        bool lost = false;
    };

public:
    using executor_type = boost::asio::any_io_executor;
    class grant_type;
    using guard_type = lock_guard<leased_mutex>;

    static constexpr bool is_leased = true;
    static constexpr bool can_be_lost = true;

    explicit leased_mutex(const executor_type& executor)
        : local_(executor)
    {
    }

    [[nodiscard]] executor_type get_executor() const noexcept { return local_.get_executor(); }
    [[nodiscard]] bool is_locked() const noexcept { return local_.is_locked(); }

    /// The number of releases by an operation, and in the background.
    [[nodiscard]] int unlocks() const noexcept { return unlocks_; }
    [[nodiscard]] int background_unlocks() const noexcept { return background_unlocks_; }

    /// The holder loses its lock.
    void lose()
    {
        const auto held = held_.lock();
        held->lost = true;
        held->loss.emit(boost::asio::cancellation_type::terminal);
    }

    /// The next holder's lock is already lost when it is granted.
    void lose_next() { lose_next_ = true; }

    /// Releases by an operation report this error, unless the lock was lost.
    void fail_releases(const error_code& error) { release_error_ = error; }

    /// Whether a slot is connected to the loss of the lock.
    [[nodiscard]] bool is_watched() const
    {
        const auto held = held_.lock();
        return held && held->loss.slot().has_handler();
    }

    template <class CompletionToken = boost::asio::deferred_t>
    auto async_lock(CompletionToken&& token = {});

private:
    struct locking;
    struct unlocking;

    async_mutex local_;
    std::weak_ptr<lease> held_;
    bool lose_next_ = false;
    error_code release_error_;
    int unlocks_ = 0;
    int background_unlocks_ = 0;
};

/// The contents of a guard of a leased mutex.
class leased_mutex::grant_type
{
public:
    grant_type() noexcept = default;

    grant_type(leased_mutex& mutex, async_mutex::guard_type guard)
        : mutex_(&mutex)
        , guard_(std::move(guard))
        , lease_(std::make_shared<lease>())
    {
        mutex.held_ = lease_;
        lease_->lost = std::exchange(mutex.lose_next_, false);
    }

    [[nodiscard]] explicit operator bool() const noexcept { return guard_.owns_lock(); }
    [[nodiscard]] bool valid() const noexcept { return guard_.valid() && !lease_->lost; }
    [[nodiscard]] std::uint64_t number() const noexcept { return guard_.fencing_token(); }
    [[nodiscard]] owner_token disown() noexcept { return guard_.release(); }

    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept
    {
        return lease_ ? lease_->loss.slot() : boost::asio::cancellation_slot();
    }

    void unlock() noexcept
    {
        if (guard_)
            ++mutex_->background_unlocks_;
        guard_ = async_mutex::guard_type();
    }

    template <class CompletionToken>
    static auto async_unlock(grant_type& grant, CompletionToken&& token);

private:
    friend class leased_mutex;

    leased_mutex* mutex_ = nullptr;
    async_mutex::guard_type guard_;
    std::shared_ptr<lease> lease_;
};

struct leased_mutex::locking
{
    template <class Self>
    void operator()(Self& self)
    {
        self.reset_cancellation_state(boost::asio::enable_total_cancellation());
        async_mutex& local = mutex->local_;
        local.async_lock(std::move(self));
    }

    template <class Self>
    void operator()(Self& self, const error_code& error, async_mutex::guard_type guard)
    {
        if (error)
            self.complete(error, guard_type());
        else
            self.complete(error, detail::guard_access::make<guard_type>(
                                     grant_type(*mutex, std::move(guard))));
    }

    leased_mutex* mutex;
};

/// The lock is free after two rounds of the executor's queue.
struct leased_mutex::unlocking
{
    template <class Self>
    void operator()(Self& self)
    {
        if (++steps <= 2)
            return boost::asio::post(std::move(self));
        grant.guard_ = async_mutex::guard_type();
        ++grant.mutex_->unlocks_;
        self.complete(grant.lease_->lost ? make_error_code(errc::lost)
                                         : grant.mutex_->release_error_);
    }

    grant_type grant;
    int steps = 0;
};

template <class CompletionToken>
auto leased_mutex::async_lock(CompletionToken&& token)
{
    return boost::asio::async_compose<CompletionToken, void(error_code, guard_type)>(
        locking{this}, token, get_executor());
}

template <class CompletionToken>
auto leased_mutex::grant_type::async_unlock(grant_type& grant, CompletionToken&& token)
{
    const auto executor = grant.mutex_->get_executor();
    return boost::asio::async_compose<CompletionToken, void(error_code)>(
        unlocking{std::move(grant)}, token, executor);
}

}  // namespace turnstile::test

#endif
