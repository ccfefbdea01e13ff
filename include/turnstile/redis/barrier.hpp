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
#include <turnstile/redis/session.hpp>

namespace turnstile::redis {

/**
 * @brief A meeting point of processes: everybody waits until all have arrived, again and again.
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
 * It has the words of @ref turnstile::barrier, but no completion step: that would have to run in one of the
 * processes, and if that one dies or is cut off meanwhile, the others could neither go on nor know whether it
 * was done. Meet twice instead, and let one do it in between.
 *
 * @par Who has arrived
 * An arrival is a lease, as a lock is: the session extends it for as long as the operation waits. If a
 * process dies or is cut off while it waits, its arrival lapses after a lease, and whoever takes its place
 * has to arrive anew; until then it counts. A process that is merely slow loses nothing: its arrival counts
 * again as soon as it is heard of, for the round that it finds then.
 *
 * @par The first one decides
 * how many take part. A barrier that nobody uses for the idle time of the session is forgotten, and made
 * anew by the next user; one that somebody has left for good (@ref async_arrive_and_drop), a day after its
 * last use (@ref memory).
 *
 * @par What is exact
 * An arrival counts in one round, once, whatever happens to messages and connections. If the *server* loses
 * its memory, those who wait arrive anew, and who has left for good takes part again; who had met all others,
 * and had not heard of it, waits for another round.
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

    /// How long a barrier that somebody has left is remembered after its last use.
    static constexpr std::chrono::hours memory{24};

    /**
     * @brief Names a barrier; does not talk to the server.
     *
     * @param session      its executor runs handlers that have none of their own; its lease is that of
     *                     arrivals.
     * @param name         1 to 65,536 arbitrary bytes. Things of different kinds may have the same name.
     * @param participants how many have to arrive, at least 1, should it not exist yet.
     * @throws system_error with `errc::invalid_name` or `turnstile::errc::invalid_count`.
     */
    barrier(session& session, std::string_view name, std::ptrdiff_t participants);

    barrier(const barrier&) = delete;
    barrier& operator=(const barrier&) = delete;

    /// Completes all waiters with `operation_aborted`, and takes their arrivals back in the background.
    ~barrier();

    /// The fallback executor, which is the session's.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*gate_);
    }

    /// The name that was given to the constructor.
    [[nodiscard]] const std::string& name() const noexcept { return detail::name_of(*gate_); }

    /**
     * @brief Arrives, and waits until all others have arrived.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::no_participants` if all have dropped out.
     * `boost::asio::error::operation_aborted` if cancelled, or if the barrier or its session is destroyed.
     * `errc::session_closed`, `errc::wrong_type`, `errc::foreign_layout`, `errc::server_error`. An unreachable
     * server is none: the operation waits until it can be reached.
     * @par Per-Operation Cancellation
     * Total, partial and terminal: the arrival is taken back, and the operation completes when the server has
     * confirmed that, or has told that all had arrived before; then it succeeds. If the server cannot be
     * reached, the operation completes at once, and the arrival is taken back as soon as that is possible.
     * @par Immediate completion
     * Never.
     * @par Round trips
     * One command, and one message for each process if it has to wait; one command more after each third of
     * a lease.
     * @par Complexity
     * Logarithmic in the number of arrivals of the last hour; the last arrival of a round is linear in the
     * number of participants.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_arrive_and_wait(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiate_gate_call(gate_, detail::gate_call::meet), token);
    }

    /**
     * @brief Leaves for good: this round and those that follow need one arrival less.
     *
     * Done once, however often the command has to be sent.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `turnstile::errc::no_participants` if all have dropped out. `errc::session_closed`,
     * `errc::unknown_outcome` if the session is closed meanwhile, `errc::wrong_type`, `errc::foreign_layout`,
     * `errc::server_error`.
     * @par Per-Operation Cancellation
     * None.
     * @par Immediate completion
     * Never.
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
            detail::initiate_gate_call(gate_, detail::gate_call::drop), token);
    }

private:
    std::shared_ptr<detail::gate_handle> gate_;
};

}  // namespace turnstile::redis

#endif
