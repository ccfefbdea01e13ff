// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_BARRIER_HPP
#define TURNSTILE_REDIS_BARRIER_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/redis/detail/gate.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/session.hpp>

namespace turnstile::redis {

/**
 * @brief A meeting point of processes: each waits until all have arrived, round after round.
 *
 * @code
 * turnstile::redis::barrier round{session, "simulation", 4};
 *
 * for (;;) {
 *     co_await compute(mine);
 *     co_await round.async_arrive_and_wait();
 * }
 * @endcode
 *
 * It offers the same interface as @ref turnstile::barrier, but has no completion step. Such a step would run
 * in one of the processes. If that process crashed or was disconnected meanwhile, the others could neither
 * continue nor know whether the step was done. Instead, let the processes meet twice, and let one of them do
 * the step in between.
 *
 * @par Arrivals
 * An arrival has a lease, as a lock has: the session renews it while the operation waits. If the process
 * crashes or is disconnected while it waits, its arrival counts until the lease expires. Then a replacement
 * has to arrive. A process that was only slow loses nothing: when its session sends the next command, its
 * arrival counts again, in the current round.
 *
 * @par Number of participants
 * The first user of a name decides it. A barrier that is not used for three leases and the idle time of the
 * session is deleted; the next user creates it anew. A barrier with a dropped participant (@ref async_arrive_and_drop)
 * is deleted one day after its last use (@ref memory).
 *
 * @par What is exact
 * An arrival counts once, in one round, whatever happens to messages and connections, unless it fails with
 * `errc::unknown_outcome`. If the *server* loses its memory, waiting participants arrive again, and dropped ones count
 * again. A participant that had not learned that its round was complete waits for another round.
 *
 * @par Lifetime
 * As with @ref async_mutex.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 */
class barrier
{
public:
    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /// How long a barrier with a dropped participant is kept after its last use.
    static constexpr std::chrono::hours memory{24};

    /**
     * @brief Names a barrier; does not talk to the server.
     *
     * @param session      its executor is the fallback executor. Its lease applies to arrivals.
     * @param name         1 to 65,536 arbitrary bytes. Objects of different kinds may have the same name.
     * @param participants how many have to arrive; from 1 to 2^52 - 1. Used only if the barrier does not exist yet.
     * @throws system_error with `errc::invalid_name` or `turnstile::errc::invalid_count`.
     */
    barrier(session& session, std::string_view name, std::ptrdiff_t participants);

    barrier(const barrier&) = delete;
    barrier& operator=(const barrier&) = delete;

    /// Completes all waiters with `operation_aborted`, and withdraws their arrivals in the background.
    ~barrier() { detail::forget(gate_); }

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*gate_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return detail::name_of(*gate_); }

    /**
     * @brief Arrives, and waits until all other participants have arrived.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::no_participants` if all participants have dropped out.
     * `boost::asio::error::operation_aborted` if cancelled, or if the barrier or its session is destroyed.
     * `errc::session_closed`, errors of the server. `errc::unknown_outcome` if the server refuses to repeat or
     * renew the arrival, which then counts until its lease expires, or if no answer comes for about an hour. While the
     * server is unreachable, the operation waits. A wrong configuration is an error, see @ref session.
     * @par Per-Operation Cancellation
     * Total, partial and terminal. The session withdraws the arrival, and the operation completes when the
     * server has confirmed that. If the round was complete before, the operation succeeds. If the server is
     * unreachable, the operation completes at once, and the session withdraws the arrival later.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command, and one message per process if the operation has to wait. One more command after each
     * third of a lease.
     * @par Complexity
     * Logarithmic in the number of arrivals of the last hour; the last arrival of a round is linear in the
     * number of participants.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_arrive_and_wait(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(gate_), token, &detail::start_gate_call, detail::without_result(),
            detail::gate_call::meet, 1, detail::time_limit());
    }

    /**
     * @brief Drops out: this round and all later rounds need one arrival less.
     *
     * The drop counts once, even if the command has to be sent again.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::no_participants` if all participants have dropped out. `errc::session_closed`,
     * errors of the server. `errc::unknown_outcome` if the session is closed meanwhile, if the connection
     * breaks and the server refuses the repetition, or if no answer comes for about an hour.
     * @par Per-Operation Cancellation, Immediate completion
     * None.
     * @par Round trips
     * One command.
     * @par Complexity
     * As with @ref async_arrive_and_wait.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_arrive_and_drop(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(gate_), token, &detail::start_gate_call, detail::without_result(),
            detail::gate_call::drop, 1, detail::time_limit());
    }

private:
    std::shared_ptr<detail::gate_handle> gate_;
};

}  // namespace turnstile::redis

#endif
