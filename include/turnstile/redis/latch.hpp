// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_LATCH_HPP
#define TURNSTILE_REDIS_LATCH_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/redis/detail/gate.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

namespace turnstile::redis {

/**
 * @brief A counter that opens when enough have arrived, shared by all processes that use the same name on the
 * same server.
 *
 * @code
 * turnstile::redis::latch loaded{session, "import/42", 3};
 *
 * co_await loaded.async_count_down();  // in three places
 * co_await loaded.async_wait();         // wherever somebody needs all three
 * @endcode
 *
 * It has the asynchronous functions of @ref turnstile::latch. A latch opens once and stays open, so each use needs
 * its own name.
 *
 * @par Count
 * The first arrival, or the first operation that has to wait, decides it. The server deletes a latch without arrivals
 * that is not used for three leases and the idle time of the session. It deletes any other latch a day after its last
 * use (@ref memory). A later user creates a new one.
 *
 * @par What is exact
 * An arrival counts once, whatever happens to messages, connections and clients, unless its process crashes before it
 * sends the arrival, or it fails with `errc::unknown_outcome`: without an answer in about an hour. No waiter misses the
 * opening, unless its session is disconnected until the server has deleted the latch. If the *server* loses its memory,
 * all arrivals are forgotten, and waiters wait until enough arrive anew.
 *
 * @par Lifetime
 * As with @ref async_mutex.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 */
class latch
{
public:
    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /// The largest possible count.
    static constexpr std::ptrdiff_t max_count = (std::ptrdiff_t(1) << 52U) - 1;

    /// How long a latch with arrivals is kept after its last use.
    static constexpr std::chrono::hours memory{24};

    /**
     * @brief Names a latch; does not talk to the server.
     *
     * @param session its executor is the fallback executor.
     * @param name    1 to 65,536 arbitrary bytes. Objects of different kinds may have the same name.
     * @param count   how many have to arrive, from 0 to @ref max_count. Used only if the latch does not exist
     *                yet.
     * @throws system_error with `errc::invalid_name` or `turnstile::errc::invalid_count`.
     */
    latch(session& session, std::string_view name, std::ptrdiff_t count);

    latch(const latch&) = delete;
    latch& operator=(const latch&) = delete;

    /// Completes all waiters with `operation_aborted`.
    ~latch() { detail::forget(gate_); }

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*gate_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return detail::name_of(*gate_); }

    /**
     * @brief Waits until the latch is open.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `boost::asio::error::operation_aborted` if cancelled, or if the latch or its session is destroyed.
     * `errc::session_closed`, errors of the server. While the server is unreachable, the operation waits; the
     * timed forms fail with `errc::unreachable` if the session is not connected at the time-out. A wrong
     * configuration is an error, see @ref session.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. The operation completes at once.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command, and one message per process if the operation has to wait. The waiters of one process share
     * the command; the session repeats it once per lease in case the message was lost.
     * @par Complexity
     * Logarithmic in the number of waiting processes.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(gate_), token, &detail::start_gate_call, detail::without_result(),
            detail::gate_call::wait, 1, detail::time_limit());
    }

    /**
     * @brief Like @ref async_wait, but waits no longer than a duration on the steady clock.
     *
     * Zero or less only checks the latch; a duration that is out of range waits forever.
     *
     * @par Completion Signature
     * @code void(error_code, std::cv_status) @endcode
     * @par Errors, Per-Operation Cancellation, Immediate completion, Round trips, Complexity
     * As with @ref async_wait.
     */
    template <class Rep, class Period,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_for(const std::chrono::duration<Rep, Period>& duration,
                        CompletionToken&& token = {})
    {
        return start_limited(detail::to_time_limit(duration), std::forward<CompletionToken>(token));
    }

    /// Like @ref async_wait_for, but until a time point of any clock, which is converted at the call.
    /// Completion signature `void(error_code, std::cv_status)`.
    template <class Clock, class Duration,
              boost::asio::completion_token_for<void(error_code, std::cv_status)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_wait_until(const std::chrono::time_point<Clock, Duration>& deadline,
                          CompletionToken&& token = {})
    {
        return start_limited(detail::to_time_limit(deadline), std::forward<CompletionToken>(token));
    }

    /// Reads whether the latch is open, and changes nothing. Completion signature `void(error_code, bool)`. If the
    /// session cannot connect, `errc::unreachable` or a more specific error; otherwise as @ref async_count_down.
    template <boost::asio::completion_token_for<void(error_code, bool)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_try_wait(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, bool)>(
            detail::initiation(gate_), token, &detail::start_gate_call, detail::number_to<bool>(),
            detail::gate_call::read, 1, detail::to_time_limit(std::chrono::seconds::zero()));
    }

    /**
     * @brief Counts arrivals, and opens the latch with the last one.
     *
     * The arrivals count once, even if the command has to be sent again.
     *
     * @param arrivals how many.
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::invalid_count` if @p arrivals is less than 1. `turnstile::errc::over_release` if fewer
     * arrivals are missing; then nothing changes. `errc::unknown_outcome` if the session is closed meanwhile,
     * or if the connection breaks and the server refuses the repetition. `errc::session_closed`, errors of the
     * server.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command.
     * @par Complexity
     * Logarithmic in the number of arrivals of the last hour; the last arrival is linear in the number of
     * waiting processes.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_count_down(std::ptrdiff_t arrivals, CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(gate_), token, &detail::start_gate_call, detail::without_result(),
            detail::gate_call::count_down, arrivals, detail::time_limit());
    }

    /// Counts one arrival; see the other overload. Completion signature `void(error_code)`.
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_count_down(CompletionToken&& token = {})
    {
        return async_count_down(1, std::forward<CompletionToken>(token));
    }

    /**
     * @brief Counts one arrival, and waits until the latch is open.
     *
     * The arrival counts when the operation starts: with the default token, when it is awaited. If the wait
     * is cancelled or fails later, the arrival still counts.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::over_release` if all have already arrived. `errc::unknown_outcome` if the server refuses a
     * command although it may have counted the arrival before. Otherwise as with @ref async_wait.
     * @par Per-Operation Cancellation, Immediate completion, Round trips
     * As with @ref async_wait.
     * @par Complexity
     * As with @ref async_count_down.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_arrive_and_wait(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(gate_), token, &detail::start_gate_call, detail::without_result(),
            detail::gate_call::arrive_and_wait, 1, detail::time_limit());
    }

private:
    template <class CompletionToken>
    auto start_limited(detail::time_limit limit, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, std::cv_status)>(
            detail::initiation(gate_), token, &detail::start_gate_call, detail::to_cv_status(),
            detail::gate_call::wait, 1, limit);
    }

    std::shared_ptr<detail::gate_handle> gate_;
};

}  // namespace turnstile::redis

#endif
