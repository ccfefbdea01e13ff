// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_SESSION_HPP
#define TURNSTILE_REDIS_SESSION_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/execution_context.hpp>
#include <chrono>
#include <concepts>
#include <memory>
#include <turnstile/error.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/detail/asio_options.hpp>
#include <turnstile/redis/detail/erased_handler.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/metrics.hpp>
#include <utility>

#ifdef BOOST_ASIO_SEPARATE_COMPILATION
#error "turnstile::redis needs Asio header-only: do not define BOOST_ASIO_SEPARATE_COMPILATION"
#endif

namespace turnstile::redis {

namespace detail {

class session_core;

/// Gives the objects of a session access to its parts.
struct session_access;

/// The fallback executor.
[[nodiscard]] boost::asio::any_io_executor executor_of(session_core& core) noexcept;

void start_ready(const std::shared_ptr<session_core>& core,
                 erased_handler<void(error_code)> handler);
void start_ping(const std::shared_ptr<session_core>& core,
                erased_handler<void(error_code)> handler);
void start_close(const std::shared_ptr<session_core>& core,
                 erased_handler<void(error_code)> handler);

}  // namespace detail

/// The thread that runs a session.
enum class session_thread
{
    /// The session runs on the given executor. If that is busy for longer than half of a lease, locks may be lost.
    shared,
    /// The session starts its own thread, so that the program's threads cannot delay renewals.
    own,
};

/**
 * @brief Connects a process to the server, and renews the leases of the process.
 *
 * @code
 * turnstile::redis::session session{executor, turnstile::redis::config::from_environment()};
 * co_await session.async_ready();
 * @endcode
 *
 * One session per process is enough for any number of threads and locks. Operations run on a strand of the
 * session and share one connection. Each command is sent at once, without waiting for earlier answers. An
 * operation completes on the executor associated with its handler.
 *
 * The session connects at once, and reconnects when the connection breaks. Meanwhile operations wait. Waiters
 * keep their positions, and holders keep their locks while their leases last.
 *
 * @par Wrong configuration
 * An attempt to connect may fail with an error that equals `error_kind::configuration`, such as
 * `errc::wrong_credentials`. If the session has been disconnected for config::lease or longer, or was never connected,
 * waiting and new operations then fail with that error. Leases of that length have expired by then, but longer ones
 * (`mutex_options::lease`) continue. The session keeps trying, and operations work again once an attempt succeeds.
 *
 * @par Lifetime
 * When the session is destroyed, operations complete with `operation_aborted`; one whose command was sent may complete
 * as if the connection had broken. Locks stay held until their leases expire. To release them, call @ref async_close
 * before. Guards and mutexes may outlive the session. With session_thread::own, the guards are invalid when the
 * destructor returns, and the logger is no longer called. Such a destructor waits if the system is resolving a name.
 * With session_thread::shared, or if the destructor runs on the session's own thread, the session ends on its
 * executor, soon after the destructor. Until then, the guards may be valid, and the logger may be called.
 *
 * @par Fork
 * A forked process cannot use the session of its parent: operations complete with `errc::session_closed`. Its copies
 * of guards, permits and jobs are of no use either, although their `valid()` may be true. Construct another session.
 *
 * @par Thread safety
 * Distinct objects: Safe. Shared objects: Safe, except for construction and destruction.
 */
class session
{
public:
    /// The type of the fallback executor.
    using executor_type = boost::asio::any_io_executor;

    /**
     * @brief Starts to connect.
     *
     * @param executor runs handlers that have no executor of their own, and the session itself unless it
     *                 has its own thread.
     * @param settings the address of the server, and the settings of the session.
     * @param thread   the thread that runs the session.
     * @throws redis_error with `errc::invalid_config`.
     */
    session(const executor_type& executor, config settings,
            session_thread thread = session_thread::shared)
        : session(executor, std::move(settings), thread, detail::checked_asio_options())
    {
    }

    /// Starts to connect, on the executor of an execution context.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    session(ExecutionContext& context, config settings,
            session_thread thread = session_thread::shared)
        : session(executor_type(context.get_executor()), std::move(settings), thread)
    {
    }

    session(const session&) = delete;
    session& operator=(const session&) = delete;

    /// Ends the session without telling the server. Waits for the session's own thread, if it has one. Otherwise, the
    /// session ends on its executor.
    ~session();

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept
    {
        return detail::executor_of(*core_);
    }

    /**
     * @brief Waits until the session is connected, or an attempt to connect has failed.
     *
     * Optional, because other operations wait by themselves; useful to detect configuration errors early.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * If the attempt to connect failed: `errc::wrong_credentials`, `errc::missing_permission`,
     * `errc::unsupported_server`, `errc::untrusted_certificate`, `errc::invalid_config`, `errc::server_error`
     * or `errc::unreachable`; the logger receives the details, and the session keeps trying.
     * `errc::session_closed`.
     * @par Immediate completion
     * Never.
     * @par Per-Operation Cancellation
     * None; it completes with the first attempt to connect.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_ready(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(core_), token, &detail::start_ready, detail::without_result());
    }

    /**
     * @brief Sends a ping. When the answer arrives, the server has received all commands that the session
     * sent before.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `errc::unreachable`, or the more specific error of the last attempt to connect, if the session is not
     * connected or the connection broke meanwhile. `errc::session_closed`.
     * @par Immediate completion
     * Never.
     * @par Per-Operation Cancellation
     * None.
     * @par Round trips
     * One.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_ping(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(core_), token, &detail::start_ping, detail::without_result());
    }

    /**
     * @brief Releases all held locks, and closes the connection.
     *
     * New and waiting operations fail with `errc::session_closed`. When the session has received the call on its own
     * thread or context, guards become invalid, and `lost()` is triggered for them.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `errc::unknown_outcome` if the server could not be reached within the connect timeout. There is no such error
     * in two cases: the session was never connected, or the server has to learn nothing: the session holds nothing and
     * waits for nothing, now and when the connection broke. With this error, releases, commits and finishes of jobs
     * that are in progress also fail with `errc::unknown_outcome`, and the locks are free when their leases expire.
     * `errc::session_closed` if the session was closed before.
     * @par Immediate completion
     * Never.
     * @par Per-Operation Cancellation
     * None.
     * @par Round trips
     * One.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_close(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            detail::initiation(core_), token, &detail::start_close, detail::without_result());
    }

    /// The activity of the session so far.
    [[nodiscard]] session_metrics metrics() const;

private:
    friend struct detail::session_access;

    session(const executor_type& executor, config settings, session_thread thread,
            detail::checked_asio_options options);

    class own_thread;

    std::unique_ptr<own_thread> thread_;
    std::shared_ptr<detail::session_core> core_;
};

}  // namespace turnstile::redis

#endif
