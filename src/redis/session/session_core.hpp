// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_SESSION_CORE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_SESSION_CORE_HPP

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <mutex>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/erased_handler.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/metrics.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>

#include "redis/session/completion.hpp"
#include "redis/session/context_life.hpp"
#include "redis/session/session_engine.hpp"
#include "redis/transport/fork_guard.hpp"

namespace turnstile::redis::detail {

/**
 * The access from any thread to the engine of a session. Guards and the public objects keep it, so
 * it may outlive the session and its context.
 */
class session_core final : public context_resident
{
public:
    session_core(const boost::asio::any_io_executor& fallback,
                 const boost::asio::any_io_executor& executor, config given);

    session_core(const session_core&) = delete;
    session_core& operator=(const session_core&) = delete;
    ~session_core();

    /// Runs a function of the engine on its strand. Returns false if the engine has ended, or this
    /// process was forked.
    template <class Function>
    bool post(Function function)
    {
        if (fork_.is_forked())
            return false;
        const std::lock_guard lock(common_mutex());
        if (!engine_)
            return false;
        posts_.execute([engine = engine_, function = std::move(function)]() mutable
                       { function(*engine); });
        return true;
    }

    /// The same for a function that starts an operation.
    template <class... Args, class Function>
    bool post(completion<Args...>& operation, Function function)
    {
        const bool posted = post(std::move(function));
        if (posted)
            operation.set_started();
        return posted;
    }

    /// Ends the engine, on its strand. Later posts have no effect.
    void stop();

    /// Whether this process was forked from the one that made the session.
    [[nodiscard]] bool is_forked() const { return fork_.is_forked(); }

    [[nodiscard]] session_metrics metrics() const;

    /// The executor of handlers without one; the system executor if its context is gone.
    [[nodiscard]] boost::asio::any_io_executor fallback();

    const config settings;

    /// The delays from the message of a grant to its handler. Guarded by the common mutex.
    latency_histogram deliveries;

private:
    std::shared_ptr<void> evict() noexcept override;

    fork_guard fork_;
    revocable_executor fallback_;
    /// The strand of the engine. It never calls a function within execute().
    boost::asio::any_io_executor posts_;
    std::shared_ptr<session_engine> engine_;
};

/// Calls a function with the engine and the completion of an operation; without an engine, the operation fails.
template <class... Results, class Function>
void ask(session_core& core, erased_handler<void(error_code, Results...)> handler,
         Function function)
{
    const auto done = std::make_shared<completion<error_code, Results...>>(std::move(handler));
    if (!core.post(*done, [done, function = std::move(function)](session_engine& engine) mutable
                   { function(engine, done); }))
        done->complete(errc::session_closed, Results()...);
}

/// Gives the objects of a session access to its parts.
struct session_access
{
    static const std::shared_ptr<session_core>& core(const session& owner) noexcept
    {
        return owner.core_;
    }
};

}  // namespace turnstile::redis::detail

#endif
