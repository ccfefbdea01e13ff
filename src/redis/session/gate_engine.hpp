// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_GATE_ENGINE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_GATE_ENGINE_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/gate.hpp>
#include <utility>

#include "redis/protocol/gate_client.hpp"
#include "redis/session/client_engine.hpp"
#include "redis/session/completion.hpp"
#include "redis/transport/connection.hpp"

namespace turnstile::redis::detail {

class session_core;

/// An event, a latch or a barrier: a gate of a session.
class gate_handle
{
public:
    gate_handle(std::shared_ptr<session_core> session, std::string what, gate_options how)
        : core(std::move(session))
        , name(std::move(what))
        , options(std::move(how))
    {
    }

    const std::shared_ptr<session_core> core;
    const std::string name;
    const gate_options options;

    /// The client's name of the gate; 0 before its first use. Belongs to the session's strand.
    gate_id id = 0;
    /// Whether the object is destroyed. Belongs to the session's strand.
    bool forgotten = false;
    /// The operations that wait. Belongs to the session's strand.
    std::set<gate_request_id> waits;
};

/// An operation on a gate.
struct gate_operation_state
{
    gate_operation_state(std::shared_ptr<gate_handle> which, gate_call call, std::int64_t number,
                         time_limit how_long, count_handler handler)
        : gate(std::move(which))
        , what(call)
        , arrivals(number)
        , limit(how_long)
        , done(std::move(handler))
    {
    }

    /// Whether the operation ends when the object is destroyed.
    [[nodiscard]] bool waits() const noexcept
    {
        return what == gate_call::wait || what == gate_call::arrive_and_wait ||
               what == gate_call::meet;
    }

    /// Whether the operation only reads, and does not wait for a connection either.
    [[nodiscard]] bool only_reads() const noexcept { return limit && limit->count() <= 0; }

    std::shared_ptr<gate_handle> gate;
    gate_call what;
    std::int64_t arrivals;
    time_limit limit;
    completion<error_code, std::int64_t> done;
    /// The request in progress; 0 before and afterwards.
    gate_request_id request = 0;
    /// Whether the time limit has expired, and the error to complete with.
    bool is_too_late = false;
    error_code too_late;
    std::unique_ptr<boost::asio::steady_timer> timer;
};

/**
 * Performs the actions of the client of gates: the part of a session for events, latches and barriers.
 */
class gate_engine : public client_engine<gate_engine, gate_client>
{
public:
    using operation = std::shared_ptr<gate_operation_state>;

    gate_engine(const boost::asio::any_io_executor& strand, connection& wire, std::uint64_t nonce,
                std::string wake_prefix, std::int64_t drift, engine_owner& who);

    void start(const operation& what);
    void cancel(const operation& what);
    void forget(gate_handle& gate);

    /// Ends all operations, or those that only read: with @p unknown if the operation is a change that the server may
    /// know, otherwise with @p error. Withdraws arrivals at barriers if the connection lasts long enough.
    void finish_all(error_code error, error_code unknown, bool only_reads = false);

private:
    friend client_engine;

    using client_engine::perform;
    void perform(const gate_command& what);
    void perform(const gate_ended& what);
    void finish(const operation& what, error_code error, std::int64_t number);

    boost::asio::any_io_executor strand_;
    // Ordered by their start.
    std::map<gate_request_id, operation> operations_;
};

}  // namespace turnstile::redis::detail

#endif
