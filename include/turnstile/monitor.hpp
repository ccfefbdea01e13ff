// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_MONITOR_HPP
#define TURNSTILE_MONITOR_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <turnstile/async_mutex.hpp>
#include <turnstile/condition.hpp>
#include <turnstile/detail/section.hpp>
#include <turnstile/detail/transaction_body.hpp>
#include <turnstile/error.hpp>
#include <turnstile/observe.hpp>
#include <turnstile/synchronization.hpp>
#include <turnstile/transaction.hpp>
#include <type_traits>
#include <utility>

namespace turnstile {

/**
 * @brief State that several coroutines share, the mutex that guards it, and named conditions on it.
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
 * The state can only be reached inside of a section, so it cannot be touched without the lock. Use
 * a monitor when waiting depends on the state; if nobody ever waits for a property of it, a mutex
 * beside it will do.
 *
 * @par Fairness, Executors
 * As with @ref basic_async_mutex.
 *
 * @par Lifetime
 * The monitor may be destroyed while sections run or wait: those who wait complete with
 * `operation_aborted`; the state lives until the last section that owns it ends.
 *
 * @tparam T the type of the state; any type locally.
 * @tparam Executor the type of the fallback executor. What it is good for, and what a call without
 *         a completion token means: see @ref basic_async_mutex.
 * @tparam Synchronization @ref synchronized or @ref unsynchronized.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction; Unsafe
 * with
 * @ref unsynchronized.
 */
template <class T, class Executor = boost::asio::any_io_executor,
          class Synchronization = synchronized>
class basic_monitor
{
    using mutex_type = basic_async_mutex<Executor, Synchronization>;
    using guard_type = typename mutex_type::guard_type;

    class construction_key
    {
        friend class basic_monitor;
        construction_key() noexcept = default;
    };

    struct guarded_state;
    struct bond;

public:
    /// The type of the state.
    using value_type = T;

    /// The type of the fallback executor.
    using executor_type = Executor;

    /// A section ends when its body does.
    static constexpr bool is_leased = false;

    /// The lock cannot be lost while a section runs.
    static constexpr bool can_be_lost = false;

    /**
     * @brief A named condition of one monitor. Made by @ref make_condition.
     *
     * @par Thread safety
     * Distinct objects: Safe. Shared objects: Safe.
     */
    class condition_type
    {
    public:
        condition_type(const condition_type&) = delete;
        condition_type& operator=(const condition_type&) = delete;
        ~condition_type() = default;

        /// The name that was given to make_condition().
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
     * @brief What somebody has contributed to the state until it is taken back.
     *
     * Made by @ref section::contribute. @ref section::withdraw takes it back in a section. Destroying the object
     * does it as well: at once if the lock is free, else in the background, in a section of its own that waits for
     * the lock on the executor of the monitor, whose context has to exist then.
     *
     * A default-constructed or moved-from object stands for nothing. It may outlive its monitor.
     *
     * @par Thread safety
     * Distinct objects: Safe; Unsafe with @ref unsynchronized. Shared objects: Unsafe.
     */
    class contribution_type
    {
    public:
        /// Constructs an object that stands for nothing.
        contribution_type() noexcept = default;

        /// Moves it; @p other stands for nothing afterwards.
        contribution_type(contribution_type&& other) noexcept = default;

        /// Takes back what it stands for, then moves the other one; @p other stands for nothing
        /// afterwards.
        contribution_type& operator=(contribution_type&& other) noexcept
        {
            reset();
            bond_ = std::move(other.bond_);
            return *this;
        }

        /// Takes it back.
        ~contribution_type() { reset(); }

        /// Whether the state contains it.
        [[nodiscard]] bool valid() const noexcept { return bond_ && !bond_->whose.expired(); }

        /// A cancellation slot that would be triggered when it is lost: not connected, since that does not happen
        /// locally.
        [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept { return {}; }

    private:
        friend class basic_monitor;

        explicit contribution_type(std::shared_ptr<bond> made) noexcept
            : bond_(std::move(made))
        {
        }

        void reset() noexcept
        {
            const auto made = std::exchange(bond_, nullptr);
            const auto whose = made ? made->whose.lock() : nullptr;
            const auto mutex = whose ? whose->mutex.lock() : nullptr;
            if (!mutex)
                return;
            if (const auto guard = mutex->try_lock())
                made->end(whose->value);
            else
                mutex->async_lock(
                    [made, whose](const error_code& error, const guard_type&)
                    {
                        if (!error)
                            made->end(whose->value);
                    });
        }

        std::shared_ptr<bond> bond_;
    };

    /**
     * @brief What the body of a section works with: the state, and the conditions.
     *
     * Exists while the lock is owned. Do not keep a reference to the state beyond the body, nor
     * across a wait what was read before it.
     *
     * @par Thread safety
     * Distinct objects: Safe. Shared objects: Unsafe.
     */
    class section
    {
    public:
        /// Made by @ref async_with only.
        section(construction_key, guard_type& guard, std::shared_ptr<guarded_state> state) noexcept
            : guard_(&guard)
            , state_(std::move(state))
        {
        }

        section(const section&) = delete;
        section& operator=(const section&) = delete;
        ~section() = default;

        /// The state.
        [[nodiscard]] T& operator*() const noexcept { return state_->value; }

        /// The state.
        [[nodiscard]] T* operator->() const noexcept { return &state_->value; }

        /**
         * @brief Waits until a predicate of the state holds, for notifications of a condition.
         *
         * The lock is given back while it sleeps and owned again when it returns.
         *
         * @param condition  belongs to this monitor.
         * @param predicate  a function `bool(const T&)`, evaluated under the lock; must not throw.
         * @par Completion Signature
         * @code void(error_code) @endcode
         * @par Errors
         * @ref errc::wrong_object if the condition belongs to another monitor; `operation_aborted`
         * if cancelled, owning the lock, or if the monitor is destroyed.
         * @par Per-Operation Cancellation
         * All types end the sleep; see @ref condition.
         */
        template <std::predicate<const T&> Predicate,
                  boost::asio::completion_token_for<void(error_code)> CompletionToken =
                      boost::asio::deferred_t>
        auto async_wait(condition_type& condition, Predicate predicate,
                        CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
        {
            return condition.condition_->async_wait(*guard_, on_state(std::move(predicate)),
                                                    std::forward<CompletionToken>(token), location);
        }

        /**
         * @brief Like @ref async_wait, but sleeps no longer than a duration, on the steady clock.
         *
         * @par Completion Signature
         * @code void(error_code, bool) @endcode
         * The value of the predicate at the end; false means that the time is up.
         */
        template <class Rep, class Period, std::predicate<const T&> Predicate,
                  boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                      boost::asio::deferred_t>
        auto async_wait_for(condition_type& condition,
                            const std::chrono::duration<Rep, Period>& duration, Predicate predicate,
                            CompletionToken&& token = {},
                            const std::source_location& location = std::source_location::current())
        {
            return condition.condition_->async_wait_for(
                *guard_, duration, on_state(std::move(predicate)),
                std::forward<CompletionToken>(token), location);
        }

        /// Like @ref async_wait_for, but until a point of time of any clock that Asio can wait for.
        template <class Clock, class Duration, std::predicate<const T&> Predicate,
                  boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                      boost::asio::deferred_t>
        auto async_wait_until(
            condition_type& condition, const std::chrono::time_point<Clock, Duration>& deadline,
            Predicate predicate, CompletionToken&& token = {},
            const std::source_location& location = std::source_location::current())
        {
            return condition.condition_->async_wait_until(
                *guard_, deadline, on_state(std::move(predicate)),
                std::forward<CompletionToken>(token), location);
        }

        /// Notifies the first who waits for the condition; it goes on after this section.
        void notify_one(condition_type& condition) noexcept { condition.condition_->notify_one(); }

        /// Notifies all who wait for the condition; they go on after this section, one by one.
        void notify_all(condition_type& condition) noexcept { condition.condition_->notify_all(); }

        /**
         * @brief Adds to a number of the state what counts on after the section, until it is taken back.
         *
         * For what a process has to take back some day: readers in a room, parts in work. Over Redis, the server does
         * it if the process dies, see @ref redis::monitor; locally, the destructor of what is returned sees to it that
         * nothing is forgotten.
         *
         * @param member    a number of the state.
         * @param amount    is added; may be negative.
         * @param condition of this monitor; all who wait for it are notified if the destructor takes the amount back.
         * @throws system_error with @ref errc::wrong_object if the condition belongs to another monitor.
         */
        template <std::integral Number, class Class>
            requires std::derived_from<T, Class> && (!std::same_as<Number, bool>)
        [[nodiscard]] contribution_type
            contribute(Number Class::* member, std::type_identity_t<Number> amount,
                       condition_type& condition)
        {
            if (condition.whose_.lock() != state_)
                throw system_error(make_error_code(errc::wrong_object));
            auto made = std::make_shared<bond>();
            made->whose = state_;
            made->told = condition.condition_;
            made->undo = [member, amount](T& value)
            { value.*member = static_cast<Number>(value.*member - amount); };
            state_->value.*member = static_cast<Number>(state_->value.*member + amount);
            return contribution_type(std::move(made));
        }

        /**
         * @brief Takes a contribution back in this section: its amount is subtracted from the state.
         *
         * @return whether it stood for something.
         * @throws system_error with @ref errc::wrong_object if it belongs to another monitor.
         */
        bool withdraw(contribution_type& mine)
        {
            if (!mine.valid())
                return false;
            if (mine.bond_->whose.lock() != state_)
                throw system_error(make_error_code(errc::wrong_object));
            std::exchange(mine.bond_, nullptr)->undo(state_->value);
            return true;
        }

        /// The number of the grant under which the section runs.
        [[nodiscard]] std::uint64_t fencing_token() const noexcept
        {
            return guard_->fencing_token();
        }

    private:
        template <class Predicate>
        auto on_state(Predicate predicate) const
        {
            return [predicate = std::move(predicate), state = state_]() mutable -> bool
            { return predicate(std::as_const(state->value)); };
        }

        guard_type* guard_;
        std::shared_ptr<guarded_state> state_;
    };

    /**
     * @brief Constructs a monitor.
     *
     * @param executor runs the handlers that have no executor of their own.
     * @param value    the state at the beginning.
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

    /// Aborts those who wait; see the class.
    ~basic_monitor() = default;

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept { return mutex_->get_executor(); }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return mutex_->name(); }

    /// Which section runs and who waits for the lock, at the moment; see
    /// @ref basic_async_mutex::snapshot. Those who sleep on a condition do not wait for the lock.
    [[nodiscard]] lock_snapshot snapshot() const { return mutex_->snapshot(); }

    /// Makes a condition of this monitor. It may outlive the monitor.
    [[nodiscard]] condition_type make_condition(std::string name = {})
    {
        return condition_type(*mutex_, state_, std::move(name));
    }

    /**
     * @brief Runs a body on the state, with the lock owned.
     *
     * As @ref with_lock does; the lock is given back when the body is over, however it ends.
     *
     * @param body a function of `section&` that returns an `awaitable<R>`, or an R at once.
     * @par Completion Signature
     * @code void(std::exception_ptr, R) @endcode
     * or `void(std::exception_ptr)` if R is void.
     * @par Errors
     * What the body throws; a `system_error` with `operation_aborted` if cancelled before the body
     * began, or if the monitor was destroyed before.
     * @par Per-Operation Cancellation
     * All types. Before the lock is owned, the wait is aborted; afterwards, the signal is forwarded
     * to the body.
     */
    template <class Body, class CompletionToken = boost::asio::deferred_t>
        requires std::invocable<Body&, section&>
    auto async_with(Body body, CompletionToken&& token = {},
                    const std::source_location& location = std::source_location::current())
    {
        using bound_body = section_body<Body>;
        auto acquire = [this, location](auto handler)
        { mutex_->async_lock(std::move(handler), location); };
        return boost::asio::async_initiate<CompletionToken,
                                           detail::section_signature_t<bound_body, guard_type>>(
            detail::initiate_section<Executor, guard_type>(get_executor()), token,
            std::move(acquire), bound_body(std::move(body), state_));
    }

    /**
     * @brief Carries out a @ref transaction, that is, changes the state without a body.
     *
     * If the transaction waits on a condition, it waits there until its requirements hold, as
     * section::async_wait() does.
     *
     * @param what requires, changes and notifies. Its conditions live until the operation has ended.
     * @par Completion Signature
     * @code void(std::exception_ptr, bool) @endcode
     * Whether it was carried out. If not, a requirement does not hold, and it does not wait for
     * that.
     * @par Errors
     * A `system_error` with `boost::system::errc::result_out_of_range` if a sum is no value of its
     * member: nothing was changed; the text names the member, the values and the limits.
     * @ref errc::wrong_object if the condition that it waits on belongs to another monitor.
     * `operation_aborted` if cancelled before it was carried out, or if the monitor was destroyed
     * before.
     * @par Per-Operation Cancellation
     * All types, while it waits for the lock or on the condition: nothing was changed then.
     * @par Fairness, Executors
     * As with @ref async_with.
     */
    template <class... Steps, class CompletionToken = boost::asio::deferred_t>
    auto async_transact(transaction<T, Steps...> what, CompletionToken&& token = {},
                        const std::source_location& location = std::source_location::current())
    {
        return async_with(detail::transaction_body(std::move(what)),
                          std::forward<CompletionToken>(token), location);
    }

private:
    /// What sections work on. It may outlive the monitor, while one of them runs.
    struct guarded_state
    {
        explicit guarded_state(T initial)
            : value(std::move(initial))
        {
        }

        T value;
        // For what is taken back without a section; the monitor alone keeps it alive.
        std::weak_ptr<mutex_type> mutex;
    };

    /// What a contribution can be taken back with.
    struct bond
    {
        void end(T& value) const
        {
            undo(value);
            if (const auto condition = told.lock())
                condition->notify_all();
        }

        std::weak_ptr<guarded_state> whose;
        std::weak_ptr<condition<mutex_type>> told;
        std::function<void(T&)> undo;
    };

    /// Makes the section when the guard is there, and keeps it for as long as the body runs.
    template <class Body>
    class section_body
    {
    public:
        section_body(Body body, std::shared_ptr<guarded_state> state)
            : body_(std::move(body))
            , state_(std::move(state))
        {
        }

        // Copied and moved only before it is called, so without the section.
        section_body(const section_body& other)
            requires std::copy_constructible<Body>
            : body_(other.body_)
            , state_(other.state_)
        {
        }

        section_body(section_body&& other) noexcept
            : body_(std::move(other.body_))
            , state_(std::move(other.state_))
        {
        }

        section_body& operator=(section_body&&) = delete;
        ~section_body() = default;

        std::invoke_result_t<Body&, section&> operator()(guard_type& guard)
        {
            section_.emplace(construction_key(), guard, state_);
            return body_(*section_);
        }

    private:
        Body body_;
        std::shared_ptr<guarded_state> state_;
        std::optional<section> section_;
    };

    std::shared_ptr<guarded_state> state_;
    std::shared_ptr<mutex_type> mutex_;
};

/// A thread-safe monitor for any executor: the one to start with.
template <class T>
using monitor = basic_monitor<T>;

/// A monitor that is used from one thread, or one strand, only.
template <class T>
using unsynchronized_monitor = basic_monitor<T, boost::asio::any_io_executor, unsynchronized>;

}  // namespace turnstile

#endif
