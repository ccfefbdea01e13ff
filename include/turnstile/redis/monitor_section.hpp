// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_MONITOR_SECTION_HPP
#define TURNSTILE_REDIS_MONITOR_SECTION_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/throw_exception.hpp>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <turnstile/detail/predicate_wait.hpp>
#include <turnstile/detail/start_operation.hpp>
#include <turnstile/detail/stored_callable.hpp>
#include <turnstile/detail/transaction_body.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/contribution.hpp>
#include <turnstile/redis/detail/described.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/section_grant.hpp>
#include <turnstile/redis/detail/section_wait.hpp>
#include <turnstile/redis/monitor.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::redis {

/**
 * @brief The parameter of a section's body: the state and the conditions.
 *
 * Exists while the lock is held. Do not keep a reference to the state beyond the body, and read the state
 * again after each wait.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Unsafe.
 */
template <class T>
class monitor<T>::section
{
public:
    section(const section&) = delete;
    section& operator=(const section&) = delete;
    ~section() = default;

    /// The state.
    [[nodiscard]] T& operator*() noexcept { return value_; }
    /// The state.
    [[nodiscard]] const T& operator*() const noexcept { return value_; }

    /// The state.
    [[nodiscard]] T* operator->() noexcept { return std::addressof(value_); }
    /// The state.
    [[nodiscard]] const T* operator->() const noexcept { return std::addressof(value_); }

    /**
     * @brief Waits for notifications of a condition until a predicate of the state holds.
     *
     * One step commits the changes, sends the notifications and releases the lock. Afterwards the section
     * holds the lock again, with the new state.
     *
     * @param condition of this monitor.
     * @param predicate a function `bool(const T&)`, called while the lock is held: first by this function, later
     *                  on the executor of the handler. If it throws, the wait ends as with
     *                  @ref redis::condition::async_wait.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::wrong_object` if the condition belongs to another monitor,
     * `turnstile::errc::empty_guard` if the section no longer holds the lock; then nothing changes.
     * `turnstile::errc::lost` if the lock was lost before: nothing was written, and the section can only
     * end. `errc::unknown_outcome` if the server or its memory was lost, or the session was closed, during the
     * commit, or if the server refuses a commit that it may have executed: the changes may have been written.
     * `errc::server_error` if the server refused to write. `errc::bad_state` if a value cannot be written:
     * nothing was committed, and the section holds the lock; or if the new state cannot be read: then the
     * section commits nothing more. The errors of @ref async_mutex::async_lock, such as `errc::wrong_type`:
     * then the lock is not held, and the section can only end.
     * `turnstile::errc::predicate_threw`.
     * `operation_aborted` if cancelled, and then the section holds the lock; or if the monitor is destroyed.
     * @par Per-Operation Cancellation
     * Any type ends the wait; see @ref redis::condition.
     * @par Immediate completion
     * If the predicate already holds.
     * @par Round trips
     * One command for each wait, and one message with the next grant, which usually contains the state.
     * Otherwise, for example if the state is larger than 4 KiB, one more command reads it.
     */
    template <class Predicate, boost::asio::completion_token_for<void(error_code)> CompletionToken =
                                   boost::asio::deferred_t>
        requires std::predicate<std::decay_t<Predicate>&, const T&>
    auto async_wait(condition_type& condition, Predicate&& predicate, CompletionToken&& token = {})
    {
        return wait<false>(condition, std::nullopt, std::forward<Predicate>(predicate),
                           std::forward<CompletionToken>(token));
    }

    /**
     * @brief Like @ref async_wait, but waits no longer than a duration on the steady clock.
     *
     * @par Completion Signature
     * @code void(error_code, bool) @endcode
     * The final value of the predicate; false means a time-out.
     * @par Errors, Per-Operation Cancellation, Immediate completion, Round trips
     * As with @ref async_wait, and one more command after a time-out.
     */
    template <class Rep, class Period, class Predicate,
              boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
        requires std::predicate<std::decay_t<Predicate>&, const T&>
    auto async_wait_for(condition_type& condition,
                        const std::chrono::duration<Rep, Period>& duration, Predicate&& predicate,
                        CompletionToken&& token = {})
    {
        return wait<true>(condition, detail::end_of(detail::to_time_limit(duration)),
                          std::forward<Predicate>(predicate), std::forward<CompletionToken>(token));
    }

    /// Like @ref async_wait_for, but until a time point of any clock, which is converted at the call.
    template <class Clock, class Duration, class Predicate,
              boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
        requires std::predicate<std::decay_t<Predicate>&, const T&>
    auto async_wait_until(condition_type& condition,
                          const std::chrono::time_point<Clock, Duration>& deadline,
                          Predicate&& predicate, CompletionToken&& token = {})
    {
        return wait<true>(condition, detail::end_of(detail::to_time_limit(deadline)),
                          std::forward<Predicate>(predicate), std::forward<CompletionToken>(token));
    }

    /**
     * @brief Notifies the first waiter of the condition when the section is committed.
     *
     * @throws system_error with `turnstile::errc::wrong_object` if the condition belongs to another monitor.
     */
    void notify_one(condition_type& condition) { note(condition, false); }

    /// Notifies all waiters of the condition; see @ref notify_one.
    void notify_all(condition_type& condition) { note(condition, true); }

    /**
     * @brief Adds an amount to a number of the state, until it is withdrawn or this process crashes.
     *
     * The contribution takes effect with the commit, like all other changes of the section: if the
     * section is dropped, so is the contribution. Keep the returned object as long as the contribution is
     * to count.
     *
     * If the process crashes, or cannot reach the server for a lease, the server subtracts the amount and
     * notifies all waiters of the condition. If a client waits for the lock or for a condition of the
     * monitor, the server does so when the lease expires, or when a waiter with a longer lease asks next;
     * otherwise, when the next client uses the monitor.
     *
     * @code
     * auto mine = section.contribute(&room::readers, 1, ok_to_write);
     * @endcode
     *
     * @param member    a number of the state itself, not of a nested struct.
     * @param amount    the amount to add; may be negative, also if the member has no sign.
     * @param condition of this monitor.
     * @throws system_error with `turnstile::errc::wrong_object` if the condition belongs to another
     *         monitor, `turnstile::errc::empty_guard` if the lock is no longer held,
     *         `turnstile::errc::invalid_count` if the amount or the negated amount does not fit into
     *         64 bits with a sign, `boost::system::errc::result_out_of_range` if the sum does not fit
     *         its member, or if the server could not undo the contribution, because the number or the
     *         sum is 2^63 or more; a redis_error with `errc::bad_state` if the member is not described.
     *         Then nothing has changed.
     * @par Round trips
     * None of its own: the command that ends the section, or a wait's, makes the contribution. While it
     * lasts, one command per third of the lease renews up to 16 contributions of the session.
     */
    template <detail::whole_number Number, class Class, detail::whole_number Amount>
        requires std::derived_from<T, Class>
    [[nodiscard]] contribution_type contribute(Number Class::* member, Amount amount,
                                               condition_type& condition)
    {
        require_own(condition);
        Number T::* const of_state = member;
        const auto number = static_cast<std::int64_t>(amount);
        if ((std::is_unsigned_v<Amount> && number < 0) ||
            number == std::numeric_limits<std::int64_t>::min())
            boost::throw_exception(system_error(turnstile::errc::invalid_count));
        auto made = detail::make_contribution(*condition.condition_, owned_->current(),
                                              detail::field_of_member<T>(of_state), number);
        const Number sum = turnstile::detail::sum_of(of_state, value_.*of_state, number);
        if constexpr (std::is_unsigned_v<Number>)
            detail::check_can_be_undone(*made, sum < value_.*of_state ? value_.*of_state : sum);
        pending_.contribute(made);
        value_.*of_state = sum;
        return contribution_type(std::move(made));
    }

    /**
     * @brief Withdraws a contribution in this section, unless it has been lost.
     *
     * Subtracts the amount from the state. The contribution ends when the section is committed; if the
     * section is dropped, the contribution stays.
     *
     * @return whether the state contained it. If not, the state is unchanged. If the contribution was lost, the
     * server subtracts the amount after the section, or has done so, and notifies the condition.
     * @throws system_error with `turnstile::errc::wrong_object` if the contribution belongs to another
     *         monitor.
     * @par Round trips
     * None of its own.
     */
    bool withdraw(contribution_type& mine)
    {
        const auto handle = mine.handle_;
        if (!handle)
            return false;
        if (!detail::is_of(*handle, *origin_->lock))
            boost::throw_exception(system_error(turnstile::errc::wrong_object));
        const detail::withdrawal result = pending_.withdraw(handle);
        if (result == detail::withdrawal::repeated)
            return false;
        if (result != detail::withdrawal::at_commit)
            mine = contribution_type();
        if (result == detail::withdrawal::lost)
            return false;
        detail::add_to_member(value_, detail::field_of(*handle), -detail::amount_of(*handle));
        return true;
    }

    /// The fencing token of the current grant. It rises with each wait.
    [[nodiscard]] std::uint64_t fencing_token() const noexcept
    {
        return owned_->current().number();
    }

private:
    friend monitor;
    // Doxygen 1.9.4 looks for these templates in the class.
    /// @cond
    template <class, bool>
    friend class detail::section_wait;
    template <class>
    friend class turnstile::detail::transaction_body;
    /// @endcond

    section(detail::section_grant& owned, std::shared_ptr<const origin> from)
        : owned_(&owned)
        , origin_(std::move(from))
        , value_(origin_->value)
    {
        load();
    }

    /// Parses the state that arrived with the grant.
    void load()
    {
        const detail::fields& stored = owned_->current().state();
        try
        {
            value_ = stored.empty() ? origin_->value : detail::from_fields<T>(stored);
            pending_.set_loaded(detail::to_fields(value_));
        }
        catch (const redis_error& error)
        {
            boost::throw_exception(
                redis_error(errc::bad_state, std::string(error.what()) + " (key " +
                                                 detail::state_key_of(*origin_->lock) + ")"));
        }
    }

    void require_own(const condition_type& condition) const
    {
        if (!detail::is_of(*condition.condition_, *origin_->lock))
            boost::throw_exception(system_error(turnstile::errc::wrong_object));
    }

    void note(const condition_type& condition, bool all)
    {
        require_own(condition);
        pending_.notify(*condition.condition_, all);
    }

    /// Returns the changes since the state arrived, and forgets them.
    [[nodiscard]] detail::section_changes take_changes()
    {
        if (unreadable_)
            std::rethrow_exception(unreadable_);
        return pending_.take(detail::to_fields(value_), owned_->current().state());
    }

    /// The reason why the section cannot wait, if any.
    [[nodiscard]] error_code check(const detail::condition_handle& condition) const noexcept
    {
        return unreadable_ ? errc::bad_state : detail::check_wait(condition, owned_->current());
    }

    template <class Handler>
    void wait_once(const std::shared_ptr<detail::condition_handle>& condition,
                   detail::time_limit limit, detail::section_changes changes, Handler handler)
    {
        const detail::initiation begin(condition);
        begin(
            std::move(handler), &detail::start_wait,
            [this](error_code& error, detail::grant granted)
            { return resume(error, std::move(granted)); }, std::ref(owned_->current()), limit,
            std::move(changes));
    }

    /// Resumes after a wait. Without a grant, the body can only end.
    std::cv_status resume(error_code& error, detail::grant granted)
    {
        granted.record_delivery();
        const auto status =
            granted.is_unnotified() ? std::cv_status::timeout : std::cv_status::no_timeout;
        if (!granted)
            return status;
        owned_->adopt(std::move(granted));
        try
        {
            load();
        }
        catch (...)
        {
            // A constructor of the state may throw anything.
            unreadable_ = std::current_exception();
            error = errc::bad_state;
        }
        return status;
    }

    template <bool Timed, class Predicate, class CompletionToken>
    auto wait(condition_type& condition,
              const std::optional<std::chrono::steady_clock::time_point>& limit,
              Predicate&& predicate, CompletionToken&& token)
    {
        auto holds = [this, predicate = std::decay_t<Predicate>(
                                std::forward<Predicate>(predicate))]() mutable -> bool
        { return std::invoke(predicate, std::as_const(value_)); };
        return turnstile::detail::start_with<Predicate>(
            [&]
            {
                return turnstile::detail::start_operation(
                    turnstile::detail::predicate_operation(
                        detail::section_wait<section, Timed>(*this, condition.condition_, limit),
                        std::move(holds), detail::executor_of(*origin_->lock)),
                    std::forward<CompletionToken>(token));
            });
    }

    detail::section_grant* owned_;
    std::shared_ptr<const origin> origin_;
    T value_;
    detail::pending_changes pending_;
    /// The reason why the state that arrived after a wait is unreadable.
    std::exception_ptr unreadable_;
};

}  // namespace turnstile::redis

#endif
