// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_MONITOR_HPP
#define TURNSTILE_MONITOR_HPP

#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/throw_exception.hpp>
#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <turnstile/async_mutex.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/detail/monitor_state.hpp>
#include <turnstile/detail/releaser_executor.hpp>
#include <turnstile/detail/section.hpp>
#include <turnstile/detail/stored_callable.hpp>
#include <turnstile/detail/transaction_body.hpp>
#include <turnstile/detail/wait_operation.hpp>
#include <turnstile/error.hpp>
#include <turnstile/fwd.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/synchronization.hpp>
#include <turnstile/transaction.hpp>
#include <type_traits>
#include <utility>

namespace turnstile {

/**
 * @brief Shared state, the mutex that guards it, and named conditions.
 *
 * @code
 * struct room { int readers = 0; int writers = 0; };
 *
 * turnstile::monitor<room> monitor{executor};
 * auto ok_to_read = monitor.make_condition("ok_to_read");
 *
 * co_await monitor.async_with([&](auto& section) -> asio::awaitable<void> {
 *     co_await section.async_wait(ok_to_read, [](const room& r) { return r.writers == 0; });
 *     ++section->readers;
 *     section.notify_all(ok_to_read);
 * });
 * @endcode
 *
 * The state is accessible only in a critical section, that is, while the lock is held. Use a
 * monitor if coroutines wait until the state satisfies a predicate; otherwise a mutex beside the
 * state suffices.
 *
 * If the body of a notified waiter throws, the notification passes to the next waiter. Changes that it
 * made before stay.
 *
 * @par Fairness, Executors
 * As with @ref basic_async_mutex.
 *
 * @par Lifetime
 * The monitor may be destroyed while critical sections run or wait. Those that wait complete with
 * `operation_aborted`. The state lives until the last running one has ended.
 *
 * @tparam T the type of the state; any movable type locally.
 * @tparam Executor the type of the fallback executor. See @ref basic_async_mutex, also for calls
 *         without a completion token.
 * @tparam Synchronization @ref synchronized or @ref unsynchronized.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction; Unsafe with
 * @ref unsynchronized.
 */
template <class T, fallback_executor Executor, class Synchronization>
class basic_monitor
{
    using mutex_type = basic_async_mutex<Executor, Synchronization>;
    using guard_type = typename mutex_type::guard_type;

    using guarded_state = detail::guarded_state<T, mutex_type>;
    using contribution_record = detail::local_contribution<T, mutex_type>;

public:
    /// The type of the state.
    using value_type = T;

    /// The type of the fallback executor.
    using executor_type = Executor;

    /// The same monitor with another executor type.
    template <class OtherExecutor>
    struct rebind_executor
    {
        /// The rebound type.
        using other = basic_monitor<T, OtherExecutor, Synchronization>;
    };

    /// Whether the lock is a lease, which can expire. A local lock is not.
    static constexpr bool is_leased = false;

    /// Whether the lock can be lost in a critical section. A local lock cannot.
    static constexpr bool can_be_lost = false;

    /**
     * @brief A named condition of one monitor. Created by @ref make_condition; neither copied nor moved.
     *
     * @par Thread safety
     * Distinct objects: Safe. Shared objects: Safe.
     */
    class condition_type
    {
    public:
        condition_type(const condition_type&) = delete;
        condition_type& operator=(const condition_type&) = delete;
        ~condition_type()
        {
            // The end of a contribution may keep the condition for a moment, on another thread.
            [[maybe_unused]] const auto last = detail::state_access::take_executor(*condition_);
            condition_.reset();
        }

        /// The name that was passed to make_condition().
        [[nodiscard]] const std::string& name() const noexcept { return name_; }

    private:
        friend class basic_monitor;

        condition_type(mutex_type& mutex, std::weak_ptr<guarded_state> whose, std::string name)
            : condition_(std::make_shared<condition<mutex_type>>(mutex))
            , whose_(std::move(whose))
            , name_(std::move(name))
        {
        }

        std::shared_ptr<condition<mutex_type>> condition_;
        std::weak_ptr<guarded_state> whose_;
        std::string name_;
    };

    /**
     * @brief An amount that was added to the state and will be withdrawn.
     *
     * Created by @ref section::contribute. It is withdrawn by @ref section::withdraw, or by its
     * destructor: at once if the lock is free, otherwise when its turn comes among the waiters of the
     * lock. Then the thread that releases the lock withdraws it. If there is no memory for this wait, the program ends.
     *
     * A default-constructed or moved-from contribution is empty. A contribution may outlive its
     * monitor.
     *
     * @par Thread safety
     * Distinct objects: Safe; Unsafe with @ref unsynchronized. Shared objects: Unsafe.
     */
    class [[nodiscard("a contribution that is not kept is withdrawn at once")]] contribution_type
    {
    public:
        /// Constructs an empty contribution.
        contribution_type() noexcept = default;

        /// Moves the contribution; @p other is empty afterwards.
        contribution_type(contribution_type&& other) noexcept = default;

        /// Moves the other contribution here, then withdraws the former one; @p other is empty
        /// afterwards.
        contribution_type& operator=(contribution_type&& other) noexcept
        {
            contribution_type moved(std::move(other));
            std::swap(record_, moved.record_);
            return *this;
        }

        /// Withdraws the contribution.
        ~contribution_type() { reset(); }

        /// Whether the state contains the contribution.
        [[nodiscard]] bool valid() const noexcept { return record_ && !record_->whose.expired(); }

        /// A cancellation slot that is triggered if the contribution is lost. Not connected for a
        /// local one.
        [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept { return {}; }

    private:
        friend class basic_monitor;

        explicit contribution_type(std::shared_ptr<contribution_record> made) noexcept
            : record_(std::move(made))
        {
        }

        void reset() noexcept
        {
            const auto made = std::exchange(record_, nullptr);
            const auto whose = made ? made->whose.lock() : nullptr;
            const auto mutex = whose ? whose->mutex.lock() : nullptr;
            if (!mutex)
                return;
            if (const auto guard = mutex->try_lock())
                made->end(whose->value);
            else
                // Without the fallback executor, whose context may be ending on another thread.
                detail::initiate_wait(detail::releaser_executor{})(
                    [made, whose](const error_code& error, const guard_type&)
                    {
                        if (!error)
                            made->end(whose->value);
                    },
                    mutex->async_lock().request(), detail::no_limit());
        }

        std::shared_ptr<contribution_record> record_;
    };

    /**
     * @brief The argument of a body: access to the state and the conditions.
     *
     * The section exists while the body runs. Do not use references to the state after the body has
     * ended. Read the state again after a wait, since others may have changed it.
     *
     * @par Thread safety
     * Distinct objects: Safe. Shared objects: Unsafe.
     */
    class section
    {
    public:
        section& operator=(const section&) = delete;
        ~section() = default;

        /// The state.
        [[nodiscard]] T& operator*() const noexcept { return state_->value; }

        /// The state.
        [[nodiscard]] T* operator->() const noexcept { return std::addressof(state_->value); }

        /**
         * @brief Waits until a predicate of the state is true; evaluates it again after each
         * notification of a condition.
         *
         * The lock is released during the wait, and held again when the wait completes.
         *
         * @param condition  belongs to this monitor.
         * @param predicate  a function `bool(const T&)`, evaluated under the lock. If it throws, the
         *                   wait ends as with @ref condition::async_wait.
         * @par Completion Signature
         * @code void(error_code) @endcode
         * @par Errors
         * @ref errc::wrong_object if the condition belongs to another monitor; `operation_aborted` if cancelled or if
         * the condition is destroyed, while the lock is held, or if the monitor is destroyed; after that,
         * @ref errc::empty_guard; @ref errc::predicate_threw.
         * @par Per-Operation Cancellation
         * All types end the wait; see @ref condition.
         * @par Immediate completion
         * If the predicate already holds or throws, or with another error at the start.
         * @par Complexity
         * As with @ref condition::async_wait.
         */
        template <class Predicate, boost::asio::completion_token_for<void(error_code)>
                                       CompletionToken = boost::asio::deferred_t>
            requires std::predicate<std::decay_t<Predicate>&, const T&>
        auto async_wait(condition_type& condition, Predicate&& predicate,
                        CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
        {
            return detail::start_with<Predicate>(
                [&]
                {
                    return condition.condition_->async_wait(
                        *guard_, on_state(std::forward<Predicate>(predicate), condition),
                        std::forward<CompletionToken>(token), location);
                });
        }

        /**
         * @brief Like @ref async_wait, but waits for notifications for at most a duration of the
         * steady clock.
         *
         * @par Completion Signature
         * @code void(error_code, bool) @endcode
         * The value of the predicate at the end; false means a time-out.
         * @par Errors, Per-Operation Cancellation, Immediate completion, Complexity
         * As with @ref async_wait, besides arming a timer.
         */
        template <class Rep, class Period, class Predicate,
                  boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                      boost::asio::deferred_t>
            requires std::predicate<std::decay_t<Predicate>&, const T&>
        auto async_wait_for(condition_type& condition,
                            const std::chrono::duration<Rep, Period>& duration,
                            Predicate&& predicate, CompletionToken&& token = {},
                            const std::source_location& location = std::source_location::current())
        {
            return detail::start_with<Predicate>(
                [&]
                {
                    return condition.condition_->async_wait_for(
                        *guard_, duration, on_state(std::forward<Predicate>(predicate), condition),
                        std::forward<CompletionToken>(token), location);
                });
        }

        /// Like @ref async_wait_for, but until a point in time of any clock that
        /// `boost::asio::basic_waitable_timer` accepts.
        template <class Clock, class Duration, class Predicate,
                  boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                      boost::asio::deferred_t>
            requires std::predicate<std::decay_t<Predicate>&, const T&>
        auto async_wait_until(
            condition_type& condition, const std::chrono::time_point<Clock, Duration>& deadline,
            Predicate&& predicate, CompletionToken&& token = {},
            const std::source_location& location = std::source_location::current())
        {
            return detail::start_with<Predicate>(
                [&]
                {
                    return condition.condition_->async_wait_until(
                        *guard_, deadline, on_state(std::forward<Predicate>(predicate), condition),
                        std::forward<CompletionToken>(token), location);
                });
        }

        /// Notifies the first waiter of the condition, which continues after this critical section.
        /// Throws system_error with @ref errc::wrong_object if the condition belongs to another
        /// monitor.
        void notify_one(condition_type& condition)
        {
            require_own(condition);
            condition.condition_->notify_one();
        }

        /// Notifies all waiters of the condition, which continue after this critical section, one
        /// by one. Throws like @ref notify_one.
        void notify_all(condition_type& condition)
        {
            require_own(condition);
            condition.condition_->notify_all();
        }

        /**
         * @brief Adds an amount to a number of the state until the contribution is withdrawn.
         *
         * Use it for changes that have to be undone later, such as the number of readers in a room.
         * The destructor of the contribution withdraws it. Over Redis, the server undoes it if the
         * process crashes; see @ref redis::monitor.
         *
         * @param member    a number of the state.
         * @param amount    the amount to add; may be negative, also if the member has no sign.
         * @param condition belongs to this monitor; all its waiters are notified if the destructor
         *                  withdraws the contribution.
         * @throws system_error with @ref errc::wrong_object if the condition belongs to another monitor,
         *         with `boost::system::errc::result_out_of_range` if the sum does not fit its member.
         *         Then nothing has changed.
         */
        template <detail::countable Number, class Class, detail::countable Amount>
            requires std::derived_from<T, Class>
        [[nodiscard]] contribution_type contribute(Number Class::* member, Amount amount,
                                                   condition_type& condition)
        {
            require_own(condition);
            Number& number = state_->value.*member;
            const Number sum = detail::sum_of(member, number, amount);
            auto made = std::make_shared<contribution_record>();
            made->whose = state_;
            made->notified = condition.condition_;
            made->undo = [member, amount](T& value)
            {
                // Unsigned, because signed overflow is undefined, and sections may have changed the number.
                using unsigned_number = std::make_unsigned_t<Number>;
                value.*member = static_cast<Number>(static_cast<unsigned_number>(value.*member) -
                                                    static_cast<unsigned_number>(amount));
            };
            number = sum;
            return contribution_type(std::move(made));
        }

        /**
         * @brief Withdraws a contribution in this critical section: subtracts its amount from the
         * state.
         *
         * @return whether the state contained it.
         * @throws system_error with @ref errc::wrong_object if it belongs to another monitor.
         */
        bool withdraw(contribution_type& mine)
        {
            if (!mine.valid())
                return false;
            if (mine.record_->whose.lock() != state_)
                boost::throw_exception(system_error(make_error_code(errc::wrong_object)));
            std::exchange(mine.record_, nullptr)->undo(state_->value);
            return true;
        }

        /// The number of the grant of this critical section.
        [[nodiscard]] std::uint64_t fencing_token() const noexcept
        {
            return guard_->fencing_token();
        }

    private:
        friend class basic_monitor;
        template <class>
        friend class detail::transaction_body;

        explicit section(std::shared_ptr<guarded_state> state) noexcept
            : state_(std::move(state))
        {
        }

        // Only a body that has not been called yet is copied or moved with its section.
        section(const section&) = default;
        section(section&&) noexcept = default;

        void require_own(const condition_type& condition) const
        {
            if (condition.whose_.lock() != state_)
                boost::throw_exception(system_error(make_error_code(errc::wrong_object)));
        }

        template <class Predicate>
        auto on_state(Predicate&& predicate, const condition_type& condition)
        {
            return detail::state_predicate<std::decay_t<Predicate>, guarded_state,
                                           turnstile::condition<mutex_type>>(
                std::forward<Predicate>(predicate), state_, condition.condition_, notified_by_);
        }

        // Null until the body is called.
        guard_type* guard_ = nullptr;
        std::shared_ptr<guarded_state> state_;
        // The condition whose notification ended the last wait.
        std::weak_ptr<condition<mutex_type>> notified_by_;
    };

    /**
     * @brief Constructs a monitor.
     *
     * @param executor runs handlers without an executor of their own.
     * @param value    the initial state.
     * @param name     appears in snapshots and reports.
     * @param watch    counts, calls hooks and reports, if it is not null; see @ref lock_watch.
     */
    explicit basic_monitor(const executor_type& executor, T value = T(), std::string name = {},
                           std::shared_ptr<lock_watch> watch = nullptr)
        : state_(std::make_shared<guarded_state>(std::move(value)))
        , mutex_(std::make_shared<mutex_type>(executor, std::move(name), std::move(watch)))
    {
        state_->mutex = mutex_;
    }

    /// Constructs a monitor whose fallback executor is that of an execution context.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    explicit basic_monitor(ExecutionContext& context, T value = T(), std::string name = {},
                           std::shared_ptr<lock_watch> watch = nullptr)
        : basic_monitor(executor_type(context.get_executor()), std::move(value), std::move(name),
                        std::move(watch))
    {
    }

    basic_monitor(const basic_monitor&) = delete;
    basic_monitor& operator=(const basic_monitor&) = delete;

    /// Aborts all waiters; see the class.
    ~basic_monitor()
    {
        // As in ~condition_type(), for the mutex.
        [[maybe_unused]] const auto last = detail::state_access::state(*mutex_).take_executor();
        mutex_.reset();
    }

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return mutex_->get_executor(); }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return mutex_->name(); }

    /// The running critical section and the waiters of the lock at the moment; see
    /// @ref basic_async_mutex::snapshot. Waiters of conditions are not included.
    [[nodiscard]] lock_snapshot snapshot() const { return mutex_->snapshot(); }

    /// Creates a condition of this monitor, and allocates its state. It may outlive the monitor.
    [[nodiscard]] condition_type make_condition(std::string name = {})
    {
        return condition_type(*mutex_, state_, std::move(name));
    }

    /**
     * @brief Runs a body on the state while the lock is held.
     *
     * When the body ends, also by an exception, the lock is released, as in @ref with_lock.
     *
     * @param body a function of `section&` that returns an `awaitable<R>`, or an R at once; executed as by with_lock().
     * @par Completion Signature
     * @code void(std::exception_ptr, R) @endcode
     * or `void(std::exception_ptr)` if R is void.
     * @par Errors
     * The exception of the body, or a `system_error` with `operation_aborted` if cancelled or the
     * monitor was destroyed before the body began.
     * @par Per-Operation Cancellation
     * All types. Before the grant, the wait is aborted; afterwards, the cancellation is forwarded
     * to the body.
     * @par Complexity
     * That of @ref basic_async_mutex::async_lock, of the body, and of a release, which is constant. Allocates
     * three coroutines if the body is one, as @ref with_lock does.
     */
    template <class Body, class CompletionToken = boost::asio::deferred_t>
        requires detail::section_body_for<Body, section> &&
                 detail::section_token_for<CompletionToken, Body, section>
    auto async_with(Body&& body, CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        using bound_body = section_body<std::decay_t<Body>>;
        auto acquire = [this, location](auto handler)
        { mutex_->async_lock(std::move(handler), location); };
        return detail::start_with<Body>(
            [&]
            {
                return detail::start_section<guard_type>(
                    get_executor(), std::forward<CompletionToken>(token), std::move(acquire),
                    bound_body(std::forward<Body>(body), state_));
            });
    }

    /**
     * @brief Executes a @ref transaction, which changes the state without a body.
     *
     * With `wait_on`, it waits on that condition until its requirements hold, like
     * section::async_wait().
     *
     * @param what the transaction. Its conditions must exist until the operation has completed.
     * @par Completion Signature
     * @code void(std::exception_ptr, bool) @endcode
     * Whether the transaction was executed. Without `wait_on`, it is not executed if a requirement
     * does not hold.
     * @par Errors
     * A `system_error` with `boost::system::errc::result_out_of_range` if a sum is not a value of
     * its member's type: nothing was changed; the text names the member, the values and the limits.
     * @ref errc::wrong_object if a condition belongs to another monitor. `operation_aborted` if
     * cancelled or the monitor was destroyed before the execution.
     * @par Per-Operation Cancellation
     * All types, while it waits for the lock or the condition; nothing was changed then.
     * @par Fairness, Executors, Complexity
     * As with @ref async_with, whose body is the transaction: linear in its steps.
     */
    template <class... Steps, boost::asio::completion_token_for<void(std::exception_ptr, bool)>
                                  CompletionToken = boost::asio::deferred_t>
    auto async_transact(transaction<T, Steps...> what, CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return async_with(detail::transaction_body(std::move(what)),
                          std::forward<CompletionToken>(token), location);
    }

private:
    /// Keeps the section during the body. The section is a plain member: with a std::optional, g++ 12 at
    /// -O3 wrongly warns that the value of an empty one is read.
    template <class Body>
    class section_body
    {
    public:
        section_body(Body body, std::shared_ptr<guarded_state> state)
            : body_(std::move(body))
            , section_(std::move(state))
        {
        }

        std::invoke_result_t<Body&, section&> operator()(guard_type& guard)
        {
            section_.guard_ = &guard;
            return std::invoke(body_, section_);
        }

        /// To be called when the body has thrown: it may not have used the notification that ended its last wait.
        /// Without a notification, it would move the next waiter to the end of the condition's queue.
        void pass_notification_on() noexcept
        {
            if (const auto condition = section_.notified_by_.lock())
                condition->notify_one();
        }

    private:
        Body body_;
        section section_;
    };

    std::shared_ptr<guarded_state> state_;
    std::shared_ptr<mutex_type> mutex_;
};

}  // namespace turnstile

#endif
