// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_EVENT_HPP
#define TURNSTILE_REDIS_EVENT_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/event_reset.hpp>
#include <turnstile/redis/detail/event_initiation.hpp>
#include <turnstile/redis/detail/gate.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

namespace turnstile::redis {

/**
 * @brief An awaitable flag, shared by all processes that use the same name on the same server.
 *
 * @code
 * turnstile::redis::event ready{session, "ready"};
 *
 * co_await ready.async_wait();  // until some process calls ready.async_set()
 * @endcode
 *
 * It has the asynchronous functions of @ref turnstile::event. With @ref event_reset::manual, waits complete while
 * the event is set, and a set lets all current waiters pass even if the event is reset at once. With
 * @ref event_reset::automatic, each set lets exactly one waiter pass, first in, first out, and sets do not
 * accumulate.
 *
 * @par Initial state
 * The first operation that changes the event, or has to wait, decides the initial state. All users have to name the
 * same @ref event_reset; otherwise operations fail with `errc::foreign_layout`. The server keeps an event for ever
 * while it is not in its initial state. Otherwise, it deletes the event when it was not used for three leases plus the
 * idle time of the session (an automatic one: one lease plus the idle time), and the next user creates it anew. After a
 * set, it keeps a manual event for an hour at least.
 *
 * @par What is exact
 * If messages, connections or clients are lost, no waiter misses a set, and a set or a reset happens once. A wait
 * begins with the server's answer. Then only a waiter whose session is disconnected for more than an hour may miss a
 * set that was followed by a reset. If a waiter that an automatic event lets pass crashes before it confirms that, the
 * next waiter passes. If the *server* loses its memory, the event is in its initial state, and waiters wait for the
 * next set.
 *
 * @par Lifetime
 * As with @ref async_mutex.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 */
class event
{
public:
    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /**
     * @brief Names an event; does not talk to the server.
     *
     * @param session its executor is the fallback executor.
     * @param name    1 to 65,536 arbitrary bytes. Objects of different kinds may have the same name.
     * @param reset   whether a completed wait resets the event.
     * @param is_set  whether the event is initially set. Used only if the event does not exist yet.
     * @throws system_error with `errc::invalid_name`.
     */
    event(session& session, std::string_view name, event_reset reset = event_reset::manual,
          bool is_set = false);

    event(const event&) = delete;
    event& operator=(const event&) = delete;

    /// Completes all waiters with `operation_aborted`.
    ~event();

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return pool_ ? detail::executor_of(*pool_) : detail::executor_of(*gate_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept
    {
        return pool_ ? detail::name_of(*pool_) : detail::name_of(*gate_);
    }

    /**
     * @brief Waits until the event is set.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the event or its session is destroyed.
     * `errc::session_closed`, errors of the server. For an automatic event also `errc::unknown_outcome`, as with
     * async_semaphore::async_take(). While the server is unreachable, the operation waits; the timed forms fail
     * with `errc::unreachable` if the session is not connected at the time-out. A wrong configuration is an
     * error, see @ref session. If an automatic event has already let the operation pass, the operation waits for the
     * answer of the server, also after the time-out, and this answer decides the result.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. The operation completes at once, unless an automatic event has already let it
     * pass: then it succeeds, as with async_semaphore::async_take().
     * @par Fairness
     * For an automatic event, first in, first out, as the server sees it.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * For a manual event, one command, and one message per process if the operation has to wait. The waiters
     * of one process share the command; the session repeats it once per lease in case a message was lost. For
     * an automatic event, two commands, and one message between them if the operation has to wait.
     * @par Complexity
     * Logarithmic in the number of waiting processes; for an automatic event, in the number of waiters.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait(CompletionToken&& token = {})
    {
        return start(detail::gate_call::wait, {}, detail::without_result(),
                     std::forward<CompletionToken>(token));
    }

    /**
     * @brief Like @ref async_wait, but waits no longer than a duration on the steady clock.
     *
     * Zero or less only checks the event; a duration that is out of range waits for ever.
     *
     * @par Completion Signature
     * @code void(error_code, std::cv_status) @endcode
     * @par Errors, Per-Operation Cancellation, Fairness, Immediate completion, Round trips, Complexity
     * As with @ref async_wait.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_for(const std::chrono::duration<Rep, Period>& duration,
                        CompletionToken&& token = {})
    {
        return start<std::cv_status>(detail::gate_call::wait, detail::to_time_limit(duration),
                                     detail::to_cv_status(), std::forward<CompletionToken>(token));
    }

    /// Like @ref async_wait_for, but until a time point of any clock, which is converted at the call.
    /// Completion signature `void(error_code, std::cv_status)`.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_until(const std::chrono::time_point<Clock, Duration>& deadline,
                          CompletionToken&& token = {})
    {
        return start<std::cv_status>(detail::gate_call::wait, detail::to_time_limit(deadline),
                                     detail::to_cv_status(), std::forward<CompletionToken>(token));
    }

    /**
     * @brief Sets the event and lets its waiters pass: all, or the first if the event is automatic.
     *
     * The event is set once, even if the command has to be sent again. An event that is set stays set.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `errc::session_closed`, errors of the server. `errc::unknown_outcome` if the session is closed
     * meanwhile, if the connection breaks and the server refuses the repetition, or without an answer in about an hour.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command.
     * @par Complexity
     * Linear in the number of waiting processes; for an automatic event, logarithmic in the number of waiters.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_set(CompletionToken&& token = {})
    {
        return start(detail::gate_call::set, {}, detail::without_result(),
                     std::forward<CompletionToken>(token));
    }

    /// Resets the event; otherwise as @ref async_set. Completion signature `void(error_code)`.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_reset(CompletionToken&& token = {})
    {
        return start(detail::gate_call::reset, {}, detail::without_result(),
                     std::forward<CompletionToken>(token));
    }

    /// Reads whether the event is set. Completion signature `void(error_code, bool)`; otherwise as
    /// @ref async_set.
    template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_is_set(CompletionToken&& token = {})
    {
        return start<bool>(detail::gate_call::read, {}, detail::number_to<bool>(),
                           std::forward<CompletionToken>(token));
    }

private:
    template <class... Results, class Map, class CompletionToken>
    auto start(detail::gate_call what, detail::time_limit limit, Map map, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, Results...)>(
            detail::event_initiation(pool_, gate_), token, what, limit, map);
    }

    // An automatic event is a pool, a manual event is a gate; the other pointer is null.
    std::shared_ptr<detail::lock_handle> pool_;
    std::shared_ptr<detail::gate_handle> gate_;
};

}  // namespace turnstile::redis

#endif
