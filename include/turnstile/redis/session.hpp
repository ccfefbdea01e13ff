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
#include <turnstile/redis/detail/erased_handler.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/metrics.hpp>
#include <utility>

namespace turnstile::redis {

namespace detail {

class session_core;

/// How the objects of a session find what it is made of.
struct session_access;

}  // namespace detail

/// Who runs a session.
enum class session_thread
{
    /// The executor that the session is given. If it is kept busy for longer than a lease, locks are lost.
    shared,
    /// A thread that the session starts for itself: leases are renewed whatever the service's threads do.
    own,
};

/**
 * @brief A connection to a server, and what keeps the leases of this process alive.
 *
 * @code
 * turnstile::redis::session session{executor, turnstile::redis::config::from_environment()};
 * co_await session.async_ready();
 * @endcode
 *
 * One session is enough for a process, whatever number of threads and locks it has: operations of all
 * threads are handed to a strand of the session and go over one connection, as they come, without waiting
 * for each other's answers. Each operation completes on the executor of whoever started it.
 *
 * It connects at once, and again whenever the connection breaks. Meanwhile operations wait. Who waits for a
 * lock keeps its place, and what is held stays held as long as its lease lasts.
 *
 * @par Lifetime
 * When the session is destroyed, operations complete with `operation_aborted` and what is held is
 * abandoned: it comes free when its lease ends. Call @ref async_close before to give it back. Guards
 * and mutexes may outlive the session; guards are not valid then.
 *
 * @par Fork
 * In a forked process the session of the parent is of no use: operations complete with
 * `errc::session_closed`. Make another one.
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
     * @param settings where the server is, and how to deal with it.
     * @param thread   who runs the session.
     * @throws redis_error with `errc::invalid_config`.
     */
    session(const executor_type& executor, config settings,
            session_thread thread = session_thread::shared);

    /// Starts to connect, with the executor of an execution context.
    template <class ExecutionContext>
        requires std::convertible_to<ExecutionContext&, boost::asio::execution_context&>
    session(ExecutionContext& context, config settings,
            session_thread thread = session_thread::shared)
        : session(executor_type(context.get_executor()), std::move(settings), thread)
    {
    }

    session(const session&) = delete;
    session& operator=(const session&) = delete;

    /// Ends the session without a word to the server. Waits for the session's own thread, if it has one.
    ~session();

    /// The fallback executor.
    [[nodiscard]] executor_type get_executor() const noexcept;

    /**
     * @brief Waits until the session is connected, or something keeps it from it.
     *
     * Not needed before other operations, which wait by themselves. But here one learns what is wrong with
     * the configuration.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `errc::wrong_credentials`, `errc::missing_permission`, `errc::unsupported_server`,
     * `errc::unreachable` if the first attempt to connect failed; the logger gets the details. The
     * session goes on trying. `errc::session_closed`.
     * @par Immediate completion
     * Never.
     * @par Per-Operation Cancellation
     * None; it ends with the first attempt to connect.
     */
    template <boost::asio::completion_token_for<void(error_code)> CompletionToken =
                  boost::asio::deferred_t>
    auto async_ready(CompletionToken&& token = {})
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            initiate(*this, &session::start_ready), token);
    }

    /**
     * @brief Asks the server for a sign of life. Everything that was started before has reached the
     * server when the answer comes.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `errc::unreachable` if the session is not connected, or the connection broke meanwhile.
     * `errc::session_closed`.
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
            initiate(*this, &session::start_ping), token);
    }

    /**
     * @brief Gives everything back that is held, and ends the connection.
     *
     * From the call on, new operations fail with `errc::session_closed`, waiting ones complete with
     * it, guards are not valid, and `lost()` is triggered for them.
     *
     * @par Completion Signature
     * @code void(error_code) @endcode
     * @par Errors
     * `errc::unknown_outcome` if the server could not be told within the connect timeout; what was
     * held comes free when its lease ends. `errc::session_closed` if it was closed before.
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
            initiate(*this, &session::start_close), token);
    }

    /// What the session has done so far.
    [[nodiscard]] session_metrics metrics() const;

private:
    friend struct detail::session_access;

    using handler_type = detail::erased_handler<void(error_code)>;

    class initiate
    {
    public:
        using executor_type = session::executor_type;

        initiate(session& self, void (session::*start)(handler_type)) noexcept
            : self_(&self)
            , start_(start)
        {
        }

        [[nodiscard]] executor_type get_executor() const noexcept { return self_->get_executor(); }

        template <class Handler>
        void operator()(Handler&& handler) const
        {
            (self_->*start_)(handler_type(std::forward<Handler>(handler), get_executor()));
        }

    private:
        session* self_;
        void (session::*start_)(handler_type);
    };

    void start_ready(handler_type handler);
    void start_ping(handler_type handler);
    void start_close(handler_type handler);

    class own_thread;

    std::unique_ptr<own_thread> thread_;
    std::shared_ptr<detail::session_core> core_;
};

}  // namespace turnstile::redis

#endif
