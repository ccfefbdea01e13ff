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
#include <turnstile/event.hpp>
#include <turnstile/redis/detail/gate.hpp>
#include <turnstile/redis/detail/signal.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

namespace turnstile::redis {

/**
 * @brief A flag that is awaited, shared by all processes that use the same name on the same server.
 *
 * @code
 * turnstile::redis::event ready{session, "ready"};
 *
 * co_await ready.async_wait();  // until some process calls ready.async_set()
 * @endcode
 *
 * It has the words of @ref turnstile::event. With @ref event_reset::manual everybody goes through while it is
 * set, and all who wait when it is set go through even if it is reset at once. With
 * @ref event_reset::automatic each set lets exactly one through, in the order in which they came, and sets do
 * not add up.
 *
 * @par The first one decides
 * whether it is set at the beginning. All have to name the same @ref event_reset; who names the other one
 * fails with `errc::foreign_layout`. An event that is as it was at the beginning is forgotten when nobody uses
 * it for the idle time of the session, and made anew by the next user. Else it is kept for ever.
 *
 * @par What is exact
 * Messages, connections and clients may be lost: nobody who waits misses a set, a set or reset is done once,
 * and a signal of an automatic event whose receiver dies before it knows goes to the next one. If the *server*
 * loses its memory, the event is as at the beginning; who waits goes on waiting for the next set.
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
     * @param session its executor runs handlers that have none of their own.
     * @param name    1 to 65,536 arbitrary bytes. Things of different kinds may have the same name.
     * @param reset   what happens when somebody has gone through.
     * @param is_set  whether the event is set at the beginning, should it not exist yet.
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
        return signals_ ? detail::executor_of(*signals_) : detail::executor_of(*gate_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept
    {
        return signals_ ? detail::name_of(*signals_) : detail::name_of(*gate_);
    }

    /**
     * @brief Waits until the event is set.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the event or its session is destroyed.
     * `errc::session_closed`, `errc::wrong_type`, `errc::foreign_layout`, `errc::server_error`; of an automatic
     * event, `errc::unknown_outcome` if the session is closed just when it goes through. An unreachable server
     * is none: the operation waits until it can be reached.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. The operation completes at once. If an automatic event has let it through
     * already, it succeeds.
     * @par Fairness
     * Of an automatic event: first in, first out, as the server sees it.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * Of a manual event, one command, and one message for each process if it has to wait; those who wait in
     * one process ask together, and once per lease whether they have missed a message. Of an automatic
     * event, two commands, and one message between them if it has to wait.
     * @par Complexity
     * Logarithmic in the number of processes that wait; of an automatic event, in that of waiters.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiate_event_wait(signals_, gate_), token);
    }

    /**
     * @brief @ref async_wait, but no longer than a duration on the steady clock, from the call on.
     *
     * Zero or less means to look only; a too long one means for ever.
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
        return start_limited(detail::to_patience(duration), std::forward<CompletionToken>(token));
    }

    /// @ref async_wait_for, until a point of time of any clock, as seen at the call. Completion signature
    /// `void(error_code, std::cv_status)`.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_until(const std::chrono::time_point<Clock, Duration>& deadline,
                          CompletionToken&& token = {})
    {
        return start_limited(detail::to_patience(deadline), std::forward<CompletionToken>(token));
    }

    /**
     * @brief Sets the event, and lets those through who wait: all, or the first if it is automatic.
     *
     * Done once, however often the command has to be sent. Nothing happens if it is set already.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `errc::session_closed`, `errc::unknown_outcome` if the session is closed meanwhile, `errc::wrong_type`,
     * `errc::foreign_layout`, `errc::server_error`.
     * @par Per-Operation Cancellation
     * None.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command.
     * @par Complexity
     * Linear in the number of processes that wait; constant if the event is automatic.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_set(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiate_event_change(signals_, gate_, true), token);
    }

    /// Resets the event; the rest as with @ref async_set. Completion signature `void(error_code)`.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_reset(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiate_event_change(signals_, gate_, false), token);
    }

    /// Reads whether the event is set. Completion signature `void(error_code, bool)`; the rest as with
    /// @ref async_set.
    template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_is_set(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, bool)>(
            detail::initiate_event_read(signals_, gate_), token);
    }

private:
    template <class CompletionToken>
    auto start_limited(detail::patience patience, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::cv_status)>(
            detail::initiate_limited_event_wait(signals_, gate_), token, patience);
    }

    // An automatic event is a pool of signals, a manual one a gate; the other is null.
    std::shared_ptr<detail::lock_handle> signals_;
    std::shared_ptr<detail::gate_handle> gate_;
};

}  // namespace turnstile::redis

#endif
