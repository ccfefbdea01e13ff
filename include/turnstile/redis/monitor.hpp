// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_MONITOR_HPP
#define TURNSTILE_REDIS_MONITOR_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/throw_exception.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/detail/section.hpp>
#include <turnstile/detail/stored_callable.hpp>
#include <turnstile/detail/transaction_body.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/contribution.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/inspection.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/detail/proposal.hpp>
#include <turnstile/redis/detail/propose.hpp>
#include <turnstile/redis/detail/section_grant.hpp>
#include <turnstile/redis/lock_status.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/transaction.hpp>
#include <type_traits>
#include <utility>

namespace turnstile::redis {

/**
 * @brief State that several processes share, the lock that guards it, and named conditions on it.
 *
 * @code
 * struct room { int readers = 0; int writers = 0; };
 * BOOST_DESCRIBE_STRUCT(room, (), (readers, writers))
 *
 * turnstile::redis::monitor<room> monitor{session, "room"};
 * auto ok_to_read = monitor.make_condition("ok_to_read");
 *
 * co_await monitor.async_with([&](auto& section) -> asio::awaitable<void> {
 *     co_await section.async_wait(ok_to_read, [](const room& r) { return r.writers == 0; });
 *     ++section->readers;
 *     section.notify_all(ok_to_read);
 * });
 * @endcode
 *
 * It offers the same interface as @ref turnstile::monitor, so the same source works with either; only the
 * constructor differs. All monitors with the same name on the same server are one monitor.
 *
 * @par The state
 * The state is a hash with a field for each member; `redis-cli HGETALL` shows it, and @ref state_key returns its
 * key. It arrives with the grant. The end of a section writes the changed fields, sends the notifications and
 * hands the lock over, in one step and only if the lock is still held. So a holder that has lost its lease
 * writes nothing, and no client sees half of a section. Fields that T does not have stay. The state does not
 * expire: it exists until its key is deleted.
 *
 * @par A section is all or nothing
 * If the lock is lost or the body throws, also because of a cancellation, the changes since the last grant are
 * dropped, and so are the notifications. (In @ref turnstile::monitor, changes take effect at once.) Changes
 * that a wait has committed stay. If the section of a notified waiter is dropped, the notification passes to
 * the next waiter.
 *
 * @par Contributions
 * A section may add an amount to the state that has to be subtracted later, such as a reader in a room. If
 * the process crashes in between, the number stays wrong. @ref section::contribute ties such an amount to a
 * lease of the process: when the lease expires, the server subtracts the amount and notifies. It does so
 * while no client holds the lock, so the state does not change during a section.
 *
 * @par Leases, fairness, notifications
 * As with @ref condition and @ref async_mutex, the lock is a lease, its loss cancels the body, and waiters
 * are served in order.
 *
 * @par Lifetime
 * The monitor may be destroyed while sections run or wait. Waits complete with `operation_aborted`, and a
 * running section still commits.
 *
 * @tparam T the type of the state: described by Boost.Describe, default-constructible and copyable. Its
 * members are numbers except `long double`, `bool`, enumerations, strings, `std::optional`,
 * `std::vector`, `std::array`, `std::deque`, `std::list`, `std::map` with `std::string` as its key, and
 * structs of these.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction. If several threads run
 * the executor of a section, it has to be a strand, since a loss of the lock cancels the body; see
 * turnstile::with_lock.
 */
template <class T>
class monitor
{
    struct origin;

public:
    /// The type of the state.
    using value_type = T;

    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /// A section runs under a lease, limited in time.
    static constexpr bool is_leased = true;

    /// The lock can be lost while a section runs.
    static constexpr bool can_be_lost = true;

    /**
     * @brief A named condition of one monitor. Made by @ref make_condition.
     *
     * When it is destroyed, the waits that were started on this object reacquire the lock, and complete
     * with `operation_aborted`.
     *
     * @par Thread safety
     * Distinct objects: Safe. Shared objects: Safe, except for destruction.
     */
    class condition_type
    {
    public:
        condition_type(const condition_type&) = delete;
        condition_type& operator=(const condition_type&) = delete;
        ~condition_type() { detail::forget(condition_); }

        /// The name that was given to make_condition().
        [[nodiscard]] const std::string& name() const noexcept
        {
            return detail::name_of(*condition_);
        }

    private:
        friend class monitor;

        explicit condition_type(std::shared_ptr<detail::condition_handle> condition) noexcept
            : condition_(std::move(condition))
        {
        }

        std::shared_ptr<detail::condition_handle> condition_;
    };

    /// The result of @ref section::contribute.
    using contribution_type = contribution;

    /// The parameter of a section's body: the state and the conditions. Defined in monitor_section.hpp.
    class section;

    /**
     * @brief Names a monitor; does not talk to the server.
     *
     * @param session renews the leases; its executor is the fallback executor.
     * @param name    1 to 65,536 arbitrary bytes. A monitor and an @ref async_mutex with the same name are
     *                different locks.
     * @param value   the state as long as none has been written. If all members of T are optionals, a written state
     *                without any value counts as not written.
     * @param options how the lock is leased.
     * @throws system_error with `errc::invalid_name` or `errc::invalid_config`.
     */
    monitor(session& session, std::string_view name, T value = T(),
            const mutex_options& options = {})
        : origin_(std::make_shared<const origin>(
              origin{detail::make_monitor(session, name, options), std::move(value)}))
    {
    }

    monitor(const monitor&) = delete;
    monitor& operator=(const monitor&) = delete;

    /// Aborts waits; see the class.
    ~monitor() { detail::forget(origin_->lock); }

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*origin_->lock);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept
    {
        return detail::name_of(*origin_->lock);
    }

    /// The key of the hash that holds the state.
    [[nodiscard]] const std::string& state_key() const noexcept
    {
        return detail::state_key_of(*origin_->lock);
    }

    /**
     * @brief Makes a condition of this monitor. Conditions with the same name, of monitors with the same
     * name, are one.
     *
     * It may outlive the monitor.
     *
     * @param name 1 to 65,536 arbitrary bytes.
     * @throws system_error with `errc::invalid_name`.
     */
    [[nodiscard]] condition_type make_condition(std::string_view name)
    {
        return condition_type(detail::make_condition(origin_->lock, name));
    }

    /**
     * @brief Acquires the lock, runs a body on the state, and commits the changes.
     *
     * Like @ref with_lock. Completes when the server has accepted the commit.
     *
     * @param body a function of `section&` that returns an `awaitable<R>` or an R, where R is void or
     *             default-constructible.
     * @par Completion Signature
     * @code void(std::exception_ptr, R) @endcode
     * or `void(std::exception_ptr)` if R is void.
     * @par Errors
     * The exception of the body; then nothing is committed. Otherwise a `system_error` with one of these codes. Those
     * of @ref async_mutex::async_lock. `errc::bad_state` if a field of the state cannot be parsed as its member's type,
     * or a value cannot be written. `turnstile::errc::lost` if the lock was lost, even if the body returned normally;
     * then nothing was written since its last wait. `errc::unknown_outcome` if the changes may have been written: the
     * server could not be reached until the lease expired, has lost its memory, or refuses a commit that it may have
     * executed. `errc::server_error` if the server refused to write the changes. `operation_aborted` if, before the
     * body started, the operation was cancelled, or the monitor or the session was destroyed.
     * @par Per-Operation Cancellation
     * All types. Before the grant, the wait is aborted; afterwards, the signal is forwarded to the body. The
     * commit cannot be cancelled.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command to acquire the lock and the state. After a wait, a message grants the lock, and usually
     * contains the state. Otherwise, for example if the state is larger than 4 KiB, one more command reads it.
     * One command at the end, however much was changed.
     * @par Complexity
     * Copies the state, and formats it as text twice.
     */
    template <class Body, class CompletionToken = boost::asio::deferred_t>
        requires turnstile::detail::section_body_for<Body, section> &&
                 turnstile::detail::section_token_for<CompletionToken, Body, section>
    auto async_with(Body&& body, CompletionToken&& token = {})
    {
        using bound_body = section_body<std::decay_t<Body>>;
        auto acquire = [lock = origin_->lock](auto handler)
        {
            using mapped_type = detail::mapped_handler<decltype(handler), detail::to_section>;
            detail::start_lock(lock, detail::time_limit(),
                               {mapped_type(std::move(handler), detail::to_section()),
                                detail::executor_of(*lock)});
        };
        return turnstile::detail::start_with<Body>(
            [&]
            {
                return turnstile::detail::start_section<detail::section_grant>(
                    get_executor(), std::forward<CompletionToken>(token), std::move(acquire),
                    bound_body(std::forward<Body>(body), origin_));
            });
    }

    /**
     * @brief Executes a @ref transaction, which changes the state with one command, without a body.
     *
     * If the transaction has to wait, for the lock or on a condition, the server stores it, executes it in
     * its turn, and sends a message. If the server cannot evaluate the transaction, it runs as a section. If the
     * transaction waits on a condition, that section first waits as section::async_wait() does. Then it
     * changes the state. The server can compare and add integers of up to 15 digits, can test `bool`,
     * strings, enumerations and optionals of all of these for equality, and can assign members that are not
     * structs. A state that was never written also requires a section.
     *
     * @param what the requirements, changes and notifications. Its conditions have to outlive the operation.
     * @throws redis_error with `errc::bad_state` if a member is not described, or a value cannot be written.
     * @par Completion Signature
     * @code void(std::exception_ptr, bool) @endcode
     * Whether the transaction was executed. If not, a requirement does not hold, and the transaction does not
     * wait.
     * @par Errors
     * Those of @ref async_with. A `system_error` with `boost::system::errc::result_out_of_range` if a sum
     * does not fit its member: nothing was written, and the text contains the member, the values and the
     * limits. `errc::bad_state` if a required field cannot be parsed as its member's type. (The server does
     * not parse a field that is compared with an empty optional: any text differs from it.)
     * `turnstile::errc::wrong_object` if a condition belongs to another monitor. `errc::unknown_outcome` if
     * the transaction may have been executed, but the session cannot learn the outcome: the server or its
     * memory was lost, the server has forgotten the transaction, the operation was cancelled while the server
     * was unreachable, or the session was closed meanwhile.
     * @par Per-Operation Cancellation
     * All types. The session asks the server whether the cancellation was in time, which takes a round trip.
     * If so, nothing was changed, and the error is `operation_aborted`. If the connection breaks meanwhile,
     * the outcome is unknown.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command, and one message if the transaction waits. If the server cannot evaluate it, those of
     * @ref async_with. If the connection breaks, two more commands. The transaction is executed at most once.
     * @par Complexity
     * On the server, linear in the steps and the fields, and logarithmic in the waiters for each notified
     * one. A script that releases the lock also executes up to 64 waiting transactions.
     * @par Durability
     * With mutex_options::durability(), it runs as a section.
     */
    template <class... Steps, boost::asio::completion_token_for<void(std::exception_ptr, bool)>
                                  CompletionToken = boost::asio::deferred_t>
    auto async_transact(transaction<T, Steps...> what, CompletionToken&& token = {})
    {
        using bound_body =
            section_body<turnstile::detail::transaction_body<transaction<T, Steps...>>>;
        auto proposed =
            detail::propose(what, [this](detail::proposal& to, const auto& step)
                            { return this->put_down(to, *step.condition->condition_, step); });
        return boost::asio::async_initiate<CompletionToken, void(std::exception_ptr, bool)>(
            detail::initiate_transaction(origin_->lock), token, std::move(proposed),
            bound_body(turnstile::detail::transaction_body(std::move(what)), origin_));
    }

    /// Reads the holders and the waiters, for operators and logs. Completion signature
    /// `void(error_code, lock_status)`; otherwise as @ref async_mutex::async_inspect.
    template <boost::asio::completion_token_for<void(error_code, lock_status)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_inspect(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, lock_status)>(
            detail::initiation(origin_->lock), token, &detail::start_inspect, std::identity());
    }

    /// Removes the holder, for operators that cannot wait until the lease expires. Completion signature
    /// `void(error_code, std::size_t)`, with the number of holders that lost the lock; otherwise as
    /// @ref async_mutex::async_break.
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_break(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
            detail::initiation(origin_->lock), token, &detail::start_break,
            detail::number_to<std::size_t>(), std::nullopt);
    }

    /// The same, but removes only the holder with this lock_holder::fencing_token. A later holder keeps
    /// the lock.
    template <boost::asio::completion_token_for<void(error_code, std::size_t)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_break(std::uint64_t fencing_token, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::size_t)>(
            detail::initiation(origin_->lock), token, &detail::start_break,
            detail::number_to<std::size_t>(), fencing_token);
    }

private:
    /// Adds a notification, or the condition to wait on, to a proposal. Returns false if the condition
    /// belongs to another monitor; the section then reports the error.
    template <class Step>
    [[nodiscard]] bool put_down(detail::proposal& to, const detail::condition_handle& condition,
                                const Step& step) const
    {
        if constexpr (requires { step.all; })
            to.notifications.emplace_back(detail::key_of(condition), step.all);
        else
            to.condition = detail::key_of(condition);
        return detail::is_of(condition, *origin_->lock);
    }

    /// The part of the monitor that sections need. The monitor may be destroyed while they run.
    struct origin
    {
        std::shared_ptr<detail::lock_handle> lock;
        T value;
    };

    /// Constructs the section when the lock is granted, keeps it while the body runs, and commits.
    template <class Body>
    class section_body
    {
        using result_type = std::invoke_result_t<Body&, section&>;
        using traits = turnstile::detail::awaitable_traits<result_type>;

    public:
        section_body(Body body, std::shared_ptr<const origin> from)
            : body_(std::move(body))
            , origin_(std::move(from))
        {
        }

        result_type operator()(detail::section_grant& owned)
        {
            if constexpr (traits::is_awaitable)
                return run_awaited(owned);
            else
                return run_plain(owned);
        }

    private:
        result_type run_awaited(detail::section_grant& owned)
        {
            section current(owned, origin_);
            if constexpr (std::is_void_v<typename traits::value_type>)
            {
                co_await body_(current);
                finish(owned, current);
            }
            else
            {
                typename traits::value_type result = co_await body_(current);
                finish(owned, current);
                co_return result;
            }
        }

        result_type run_plain(detail::section_grant& owned)
        {
            section current(owned, origin_);
            if constexpr (std::is_void_v<result_type>)
            {
                std::invoke(body_, current);
                finish(owned, current);
            }
            else
            {
                result_type result = std::invoke(body_, current);
                finish(owned, current);
                return result;
            }
        }

        /// Commits after a body that returned normally.
        static void finish(detail::section_grant& owned, section& current)
        {
            // A body may continue after a wait that has lost the lock.
            if (!owned)
                boost::throw_exception(system_error(turnstile::errc::lost));
            owned.set_changes(current.take_changes());
        }

        Body body_;
        std::shared_ptr<const origin> origin_;
    };

    std::shared_ptr<const origin> origin_;
};

}  // namespace turnstile::redis

#include <turnstile/redis/monitor_section.hpp>

#endif
