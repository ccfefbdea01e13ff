// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_MONITOR_HPP
#define TURNSTILE_REDIS_MONITOR_HPP

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/detail/composed_operation.hpp>
#include <turnstile/detail/predicate_wait.hpp>
#include <turnstile/detail/section.hpp>
#include <turnstile/detail/transaction_body.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/condition.hpp>
#include <turnstile/redis/contribution.hpp>
#include <turnstile/redis/detail/described.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/detail/proposal.hpp>
#include <turnstile/redis/detail/propose.hpp>
#include <turnstile/redis/detail/section_grant.hpp>
#include <turnstile/redis/session.hpp>
#include <turnstile/transaction.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace turnstile::redis {

namespace detail {

/// The sleep of a wait for a predicate of the state, see turnstile::detail::predicate_wait.
template <class Section, bool Timed>
class section_sleep
{
public:
    static constexpr bool is_timed = Timed;

    section_sleep(Section& section, std::shared_ptr<condition_handle> condition,
                  const std::optional<std::chrono::steady_clock::time_point>& limit) noexcept
        : section_(&section)
        , condition_(std::move(condition))
        , limit_(limit)
    {
    }

    [[nodiscard]] error_code check() const noexcept { return section_->check(*condition_); }

    template <class Self>
    void start(Self& self) const
    {
        // The members move away together with the handler.
        Section& section = *section_;
        const auto condition = condition_;
        const auto limit = limit_ ? to_patience(*limit_) : patience();
        last_words words;
        try
        {
            words = section.say();
        }
        catch (const system_error& failure)
        {
            using done_type = turnstile::detail::bound_completion<Self, error_code, std::cv_status>;
            const auto executor = self.get_executor();
            boost::asio::post(
                executor, done_type(std::move(self), failure.code(), std::cv_status::no_timeout));
            return;
        }
        section.sleep(condition, limit, std::move(words), std::move(self));
    }

private:
    Section* section_;
    std::shared_ptr<condition_handle> condition_;
    std::optional<std::chrono::steady_clock::time_point> limit_;
};

}  // namespace detail

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
 * It has the words of @ref turnstile::monitor, so that the same source works with either; only the constructor
 * differs. All monitors of one name on the same server are one.
 *
 * @par The state
 * Lies in a hash, field by field, for `redis-cli HGETALL` to show; @ref state_key says where. It comes with
 * the lock. At the end of a section, its value is compared with what came, and only the fields that have
 * changed are written: in one step with the signals and the hand-over, and only if the lock is still owned. So
 * a holder that has lost its lease writes nothing, and nobody sees half of a section. Fields that T does not
 * have stay as they are. The state does not expire: it is there until somebody deletes the key.
 *
 * @par A section is all or nothing
 * If the body throws, or is cancelled and throws because of that, or the lock is lost, what it has changed since
 * it got the lock is dropped, and so are its notifications. That differs from @ref turnstile::monitor, where
 * changes are there at once. What was committed by a wait stays. If a notification had led to the section, it
 * goes to the next one who waits.
 *
 * @par What is to last only as long as its process
 * A section may add to a number of the state what counts on after the section, and has to be taken back some day:
 * readers in a room, parts in work. If the process dies before, the number would be wrong for ever.
 * @ref section::contribute binds such an amount to a lease of the process, as the lock is bound to one: when the
 * lease has ended, the server takes the amount back, and notifies. It does so while nobody owns the lock, so no
 * section sees it happen.
 *
 * @par Leases, fairness, signals
 * As with @ref async_mutex, and with @ref condition, the lock is a lease, the body is cancelled when it is lost, and
 * waiters are served in their order.
 *
 * @par Lifetime
 * The monitor may be destroyed while sections run or wait: those who wait complete with `operation_aborted`.
 * A section that runs then commits all the same.
 *
 * @tparam T the type of the state: described by Boost.Describe, default-constructible and copyable. Its members
 *         are numbers, `bool`, enumerations, strings, optionals, containers, and structs like it.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 */
template <class T>
class monitor
{
    class construction_key
    {
        friend class monitor;
        construction_key() noexcept = default;
    };

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
     * Those who sleep over this object complete with `operation_aborted`, owning the lock, when it is destroyed.
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

    /// What @ref section::contribute returns.
    using contribution_type = contribution;

    /**
     * @brief What the body of a section works with: the state, and the conditions.
     *
     * Exists while the lock is owned. Do not keep a reference to the state beyond the body, nor across a wait
     * what was read before it.
     *
     * @par Thread safety
     * Distinct objects: Safe. Shared objects: Unsafe.
     */
    class section
    {
    public:
        /// Made by @ref async_with only.
        section(construction_key, detail::section_grant& owned, std::shared_ptr<const origin> from)
            : owned_(&owned)
            , origin_(std::move(from))
            , value_(origin_->value)
        {
            load();
        }

        section(const section&) = delete;
        section& operator=(const section&) = delete;
        ~section() = default;

        /// The state.
        [[nodiscard]] T& operator*() noexcept { return value_; }
        /// The state.
        [[nodiscard]] const T& operator*() const noexcept { return value_; }

        /// The state.
        [[nodiscard]] T* operator->() noexcept { return &value_; }
        /// The state.
        [[nodiscard]] const T* operator->() const noexcept { return &value_; }

        /**
         * @brief Waits until a predicate of the state holds, for notifications of a condition.
         *
         * What the section has changed is committed, and its notifications are sent, in one step with giving
         * the lock back. When it returns, the lock is owned again, and the state is what it is then.
         *
         * @param condition of this monitor.
         * @param predicate a function `bool(const T&)`, called on the executor of the handler while the lock is
         *                  owned; must not throw.
         * @par Completion Signature
         * @code void(error_code) @endcode
         * @par Errors
         * `turnstile::errc::wrong_object` if the condition belongs to another monitor;
         * `turnstile::errc::empty_guard` if the lock is not owned any more; nothing changes then.
         * `turnstile::errc::lost` if the lock was lost before: nothing was written, and the section can only
         * end. `errc::unknown_outcome` if the server, or its memory, was lost on the way. `errc::server_error`
         * if it refused to write. `errc::bad_state` if a value cannot be written, or the new state cannot be
         * read; then the section commits nothing more. `operation_aborted` if cancelled, owning the lock, or if
         * the monitor is destroyed.
         * @par Per-Operation Cancellation
         * All types end the sleep; see @ref redis::condition.
         * @par Immediate completion
         * If the predicate holds already.
         * @par Round trips
         * One command for each sleep; a message and a command more to get the lock and the state again.
         */
        template <std::predicate<const T&> Predicate,
                  boost::asio::completion_token_for<void(error_code)> CompletionToken =
                      boost::asio::deferred_t>
        auto async_wait(condition_type& condition, Predicate predicate,
                        CompletionToken&& token = {})
        {
            return compose<void(error_code), false>(condition, std::nullopt, std::move(predicate),
                                                    std::forward<CompletionToken>(token));
        }

        /**
         * @brief Like @ref async_wait, but sleeps no longer than a duration, on the steady clock.
         *
         * @par Completion Signature
         * @code void(error_code, bool) @endcode
         * The value of the predicate at the end; false means that the time is up.
         * @par Errors, Per-Operation Cancellation, Immediate completion, Round trips
         * As with @ref async_wait, and one command more if the time is up.
         */
        template <class Rep, class Period, std::predicate<const T&> Predicate,
                  boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                      boost::asio::deferred_t>
        auto async_wait_for(condition_type& condition,
                            const std::chrono::duration<Rep, Period>& duration, Predicate predicate,
                            CompletionToken&& token = {})
        {
            return compose<void(error_code, bool), true>(
                condition, detail::end_of(detail::to_patience(duration)), std::move(predicate),
                std::forward<CompletionToken>(token));
        }

        /// Like @ref async_wait_for, until a point of time of any clock, as seen at the call.
        template <class Clock, class Duration, std::predicate<const T&> Predicate,
                  boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                      boost::asio::deferred_t>
        auto async_wait_until(condition_type& condition,
                              const std::chrono::time_point<Clock, Duration>& deadline,
                              Predicate predicate, CompletionToken&& token = {})
        {
            return compose<void(error_code, bool), true>(
                condition, detail::end_of(detail::to_patience(deadline)), std::move(predicate),
                std::forward<CompletionToken>(token));
        }

        /**
         * @brief Notifies the first who waits for the condition, when the section is committed.
         *
         * @throws system_error with `turnstile::errc::wrong_object` if the condition belongs to another monitor.
         */
        void notify_one(condition_type& condition) { note(condition, false); }

        /// Notifies all who wait for the condition; see @ref notify_one.
        void notify_all(condition_type& condition) { note(condition, true); }

        /**
         * @brief Adds to a number of the state, for as long as this process lives or until it is taken back.
         *
         * The contribution counts from the commit on, together with all else that the section has changed: if the
         * section is dropped, so is the contribution. Keep what it returns for as long as it is to count.
         *
         * If the process dies, or cannot reach the server for a lease, the server takes the amount out again and
         * notifies all who wait for the condition: when the lease has ended, if somebody sleeps on a condition of the
         * monitor, or waits for its lock; else when the next one comes.
         *
         * @code
         * auto mine = section.contribute(&room::readers, 1, ok_to_write);
         * @endcode
         *
         * @param member    a number of the state itself, not of a struct in it.
         * @param amount    is added; may be negative.
         * @param condition of this monitor.
         * @throws system_error with `turnstile::errc::wrong_object` if the condition belongs to another monitor,
         *         `turnstile::errc::empty_guard` if the lock is not owned any more, `turnstile::errc::invalid_count`
         *         if the negative amount is no number of 64 bits; a redis_error with `errc::bad_state` if the member
         *         is not described. Nothing has changed then.
         * @par Round trips
         * None of its own: it is made by the command that ends the section, or by that of a wait. While it lasts,
         * one command for all contributions of the session after each third of the lease.
         */
        template <detail::whole_number Number, class Class>
            requires std::derived_from<T, Class>
        [[nodiscard]] contribution_type contribute(Number Class::* member,
                                                   std::type_identity_t<Number> amount,
                                                   condition_type& condition)
        {
            if (!detail::is_of(*condition.condition_, *origin_->lock))
                throw system_error(turnstile::errc::wrong_object);
            Number T::* const of_state = member;
            const auto number = static_cast<std::int64_t>(amount);
            if ((std::is_unsigned_v<Number> && number < 0) ||
                number == std::numeric_limits<std::int64_t>::min())
                throw system_error(turnstile::errc::invalid_count);
            auto made = detail::make_bond(*condition.condition_, owned_->current(),
                                          detail::field_of_member<T>(of_state), number);
            contributed_.push_back(made);
            detail::add_to_member(value_, detail::field_of(*made), detail::amount_of(*made));
            return contribution_type(std::move(made));
        }

        /**
         * @brief Takes a contribution back in this section, if it has not been lost.
         *
         * Its amount is subtracted from the state. It ends when the section is committed; if the section is dropped,
         * the contribution goes on counting.
         *
         * @return whether it is taken back. If not, since it was lost, the state is as it is: the server takes the
         *         amount out when the section is over, or has done it, and notifies the condition.
         * @throws system_error with `turnstile::errc::wrong_object` if it belongs to another monitor.
         * @par Round trips
         * None of its own.
         */
        bool withdraw(contribution_type& mine)
        {
            const auto bond = mine.bond_;
            if (!bond)
                return false;
            if (!detail::is_of(*bond, *origin_->lock))
                throw system_error(turnstile::errc::wrong_object);
            const auto made = std::ranges::find(contributed_, bond);
            if (made != contributed_.end())
            {
                // Nobody has heard of it yet.
                contributed_.erase(made);
                mine = contribution_type();
            }
            else if (std::ranges::find(withdrawn_, bond) != withdrawn_.end())
                return false;
            // Who believes in it now, after the state has come, need not fear that the server had undone it before,
            // nor that it will while the lock is owned.
            else if (detail::is_valid(*bond))
                withdrawn_.push_back(bond);
            else
            {
                mine = contribution_type();
                return false;
            }
            detail::add_to_member(value_, detail::field_of(*bond), -detail::amount_of(*bond));
            return true;
        }

        /// The number of the grant under which the section runs. It rises with each wait.
        [[nodiscard]] std::uint64_t fencing_token() const noexcept
        {
            return owned_->current().number();
        }

    private:
        friend class monitor;
        template <class, bool>
        friend class detail::section_sleep;
        template <class, class>
        friend class detail::waking_handler;

        /// Reads the state that has come with the lock.
        void load()
        {
            const detail::fields& stored = owned_->current().state();
            value_ = stored.empty() ? origin_->value : detail::from_fields<T>(stored);
            loaded_ = detail::to_fields(value_);
        }

        void note(const condition_type& condition, bool all)
        {
            if (!detail::is_of(*condition.condition_, *origin_->lock))
                throw system_error(turnstile::errc::wrong_object);
            std::pair signal(detail::key_of(*condition.condition_), all);
            // All are notified when the section is committed, so once is enough.
            if (!all || std::ranges::find(signals_, signal) == signals_.end())
                signals_.push_back(std::move(signal));
        }

        /// What has happened since the state came. There is nothing to say twice.
        [[nodiscard]] detail::last_words say()
        {
            if (unreadable_)
                std::rethrow_exception(unreadable_);
            detail::last_words words;
            const detail::fields now = detail::to_fields(value_);
            // What is contributed to has to be there: the server adds to it only if it is.
            if (now != loaded_ || !contributed_.empty())
            {
                const detail::fields& stored = owned_->current().state();
                for (const auto& [name, text] : now)
                {
                    const auto before = loaded_.find(name);
                    // What is not there yet is written as well: the values of a state that is made, or of
                    // members that are new.
                    if (before == loaded_.end() || before->second != text || !stored.contains(name))
                        words.fields.emplace_back(name, text);
                }
                for (const auto& [name, text] : loaded_)
                    if (!now.contains(name))
                        words.fields.emplace_back(name, std::nullopt);
            }
            words.signals = std::exchange(signals_, {});
            words.contributed = std::exchange(contributed_, {});
            words.withdrawn = std::exchange(withdrawn_, {});
            return words;
        }

        /// What is to be said instead if the section counts for nothing: whoever was notified passes that on.
        [[nodiscard]] detail::last_words regret() const
        {
            detail::last_words words;
            if (!signalled_.empty())
                words.signals.emplace_back(signalled_, false);
            return words;
        }

        /// What keeps it from sleeping.
        [[nodiscard]] error_code check(const detail::condition_handle& condition) const noexcept
        {
            return unreadable_ ? failure_ : detail::check_sleep(condition, owned_->current());
        }

        template <class Handler>
        void sleep(const std::shared_ptr<detail::condition_handle>& condition,
                   detail::patience limit, detail::last_words words, Handler handler)
        {
            sleeps_on_ = detail::key_of(*condition);
            detail::start_sleep(
                condition, owned_->current(), limit,
                {detail::waking_handler<section, Handler>(*this, std::move(handler)),
                 detail::executor_of(*condition)},
                std::move(words));
        }

        /// Goes on after a sleep. If it owns nothing, the body can only end.
        std::pair<error_code, std::cv_status> wake(const error_code& error, detail::grant granted)
        {
            granted.arrive();
            const auto status =
                granted.is_woken() ? std::cv_status::timeout : std::cv_status::no_timeout;
            if (!granted)
                return {error, status};
            signalled_ = granted.is_woken() ? std::string() : sleeps_on_;
            owned_->adopt(std::move(granted));
            try
            {
                load();
            }
            catch (const system_error& failure)
            {
                unreadable_ = std::current_exception();
                failure_ = failure.code();
                return {failure_, status};
            }
            return {error, status};
        }

        template <class Signature, bool Timed, class Predicate, class CompletionToken>
        auto compose(condition_type& condition,
                     const std::optional<std::chrono::steady_clock::time_point>& limit,
                     Predicate predicate, CompletionToken&& token)
        {
            using sleep_type = detail::section_sleep<section, Timed>;
            auto holds = [this, predicate = std::move(predicate)]() mutable -> bool
            { return predicate(std::as_const(value_)); };
            return turnstile::detail::start_composed<Signature>(
                turnstile::detail::predicate_wait<sleep_type, decltype(holds)>(
                    sleep_type(*this, condition.condition_, limit), std::move(holds)),
                detail::executor_of(*origin_->lock), std::forward<CompletionToken>(token));
        }

        detail::section_grant* owned_;
        std::shared_ptr<const origin> origin_;
        T value_;
        /// What the state was when it came, as this program writes it.
        detail::fields loaded_;
        std::vector<std::pair<std::string, bool>> signals_;
        /// The contributions that are made and taken back with the next commit.
        std::vector<std::shared_ptr<detail::bond_handle>> contributed_;
        std::vector<std::shared_ptr<detail::bond_handle>> withdrawn_;
        /// The condition that it sleeps on; and that whose notification has led to its grant.
        std::string sleeps_on_;
        std::string signalled_;
        /// Why the state that came after a sleep is none.
        std::exception_ptr unreadable_;
        error_code failure_;
    };

    /**
     * @brief Names a monitor; does not talk to the server.
     *
     * @param session keeps the leases; its executor runs handlers that have none of their own.
     * @param name    1 to 65,536 arbitrary bytes. It names another lock than the same name of an
     *                @ref async_mutex.
     * @param value   the state as long as none has been written.
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

    /// Aborts those who wait; see the class.
    ~monitor() { detail::forget(origin_->lock); }

    /// The executor of handlers that have none: that of the session.
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
     * @brief Makes a condition of this monitor. All of one name, of monitors of one name, are one.
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
     * @brief Runs a body on the state, with the lock owned, and commits what it has changed.
     *
     * As @ref with_lock does. It completes when the server has accepted the commit.
     *
     * @param body a function of `section&` that returns an `awaitable<R>`, or an R at once. Its R is
     *             default-constructible.
     * @par Completion Signature
     * @code void(std::exception_ptr, R) @endcode
     * or `void(std::exception_ptr)` if R is void.
     * @par Errors
     * What the body throws; then nothing is committed. Else a `system_error` with those of
     * @ref async_mutex::async_lock, or with `errc::bad_state` if a field of the state does not have the form
     * that its type wants, or a value cannot be written. `turnstile::errc::lost` if the lock was lost, even if
     * the body returned normally: nothing was written. `errc::unknown_outcome` if the server could not be
     * reached until the lease had ended, or has lost its memory: the changes may have been written, or not.
     * `errc::server_error` if the server refused to write them. `operation_aborted` if cancelled before the body
     * began, or if the monitor or the session was destroyed before.
     * @par Per-Operation Cancellation
     * All types. Before the lock is owned, the wait is aborted; afterwards, the signal is forwarded to the body.
     * The commit is not cancelled.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command to get the lock and the state; if the lock was waited for, a message and one command more,
     * for the state. One command at the end, whatever was changed.
     * @par Complexity
     * The state is copied, and written as text twice.
     */
    template <class Body, class CompletionToken = boost::asio::deferred_t>
        requires std::invocable<Body&, section&>
    auto async_with(Body body, CompletionToken&& token = {})
    {
        using bound_body = section_body<Body>;
        auto acquire = [lock = origin_->lock](auto handler)
        {
            using mapped_type = detail::mapped_handler<decltype(handler), detail::to_section>;
            detail::start_lock(lock, detail::patience(),
                               {mapped_type(std::move(handler), detail::to_section()),
                                detail::executor_of(*lock)});
        };
        return boost::asio::async_initiate<CompletionToken, turnstile::detail::section_signature_t<
                                                                bound_body, detail::section_grant>>(
            turnstile::detail::initiate_section<executor_type, detail::section_grant>(
                get_executor()),
            token, std::move(acquire), bound_body(std::move(body), origin_));
    }

    /**
     * @brief Carries out a @ref transaction, that is, changes the state without a body, with one command.
     *
     * If it has to wait, until the lock is free or for what it requires, the server carries it out in its turn, and
     * sends a message. If the server cannot decide it, it is a section: as if a body waited until the requirements
     * hold, as section::async_wait() does, if the transaction waits on a condition, and then changed the state.
     * The server can compare and add integers of up to 15 digits; tell whether `bool`, strings, enumerations and
     * optionals of all these equal a value; and set members that are no structs. A state that was never
     * written takes a section, too.
     *
     * @param what requires, changes and notifies. Its conditions live until the operation has ended.
     * @throws redis_error with `errc::bad_state` if a member is not described, or a value cannot be written.
     * @par Completion Signature
     * @code void(std::exception_ptr, bool) @endcode
     * Whether it was carried out. If not, a requirement does not hold, and it does not wait for that.
     * @par Errors
     * Those of @ref async_with. A `system_error` with `boost::system::errc::result_out_of_range` if a sum is no
     * value of its member: nothing was written; the text names the member, the values and the limits. `errc::bad_state`
     * if a field that it needs does not have the form that its type wants. `errc::unknown_outcome` if a command
     * was sent that may have carried it out, and its answer was lost together with the memory of the server, with
     * the server, or for so long that the server has forgotten it; or if it was cancelled while the server could not be
     * reached; or the session was closed while it was under way or waited.
     * @par Per-Operation Cancellation
     * All types. The server is asked whether that was in time, which takes a round trip: if so, nothing was changed,
     * and the error is `operation_aborted`. If the connection breaks meanwhile, nobody can tell.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command, however long it waits, and one message if it does. If the server cannot decide it, what
     * @ref async_with takes. If the connection breaks, two more. It is carried out once at most.
     * @par Complexity
     * On the server, that of the command for itself; and each script that sets the lock free carries out up to 64 of
     * those that wait.
     * @par Durability
     * With mutex_options::durability() it is a section.
     */
    template <class... Steps, class CompletionToken = boost::asio::deferred_t>
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

private:
    /// Of a transaction, a notification, or what it waits on. Whether that is possible: the section says what is
    /// wrong with it.
    template <class Step>
    [[nodiscard]] bool put_down(detail::proposal& to, const detail::condition_handle& condition,
                                const Step& step) const
    {
        if constexpr (requires { step.all; })
            to.signals.emplace_back(detail::key_of(condition), step.all);
        else
            to.condition = detail::key_of(condition);
        return detail::is_of(condition, *origin_->lock);
    }

    /// What sections need of the monitor. It may be gone while they run.
    struct origin
    {
        std::shared_ptr<detail::lock_handle> lock;
        T value;
    };

    /// Makes the section when the lock is owned, keeps it for as long as the body runs, and has the last word.
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

        // Copied and moved only before it is called, so without the section.
        section_body(const section_body& other)
            requires std::copy_constructible<Body>
            : body_(other.body_)
            , origin_(other.origin_)
        {
        }

        section_body(section_body&& other) noexcept
            : body_(std::move(other.body_))
            , origin_(std::move(other.origin_))
        {
        }

        section_body& operator=(section_body&&) = delete;
        ~section_body() = default;

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
            section_.emplace(construction_key(), owned, origin_);
            try
            {
                if constexpr (std::is_void_v<typename traits::value_type>)
                {
                    co_await body_(*section_);
                    finish(owned);
                    co_return;
                }
                else
                {
                    typename traits::value_type result = co_await body_(*section_);
                    finish(owned);
                    co_return result;
                }
            }
            catch (...)
            {
                owned.say(section_->regret());
                throw;
            }
        }

        result_type run_plain(detail::section_grant& owned)
        {
            section_.emplace(construction_key(), owned, origin_);
            if constexpr (std::is_void_v<result_type>)
            {
                body_(*section_);
                finish(owned);
            }
            else
            {
                result_type result = body_(*section_);
                finish(owned);
                return result;
            }
        }

        /// The body has ended well.
        void finish(detail::section_grant& owned)
        {
            // A body may have gone on after a wait that has lost the lock.
            if (!owned)
                throw system_error(turnstile::errc::lost);
            owned.say(section_->say());
        }

        Body body_;
        std::shared_ptr<const origin> origin_;
        std::optional<section> section_;
    };

    std::shared_ptr<const origin> origin_;
};

}  // namespace turnstile::redis

#endif
