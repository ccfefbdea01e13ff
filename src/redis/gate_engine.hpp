// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_GATE_ENGINE_HPP
#define TURNSTILE_SRC_REDIS_GATE_ENGINE_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/gate.hpp>
#include <utility>

#include "completion.hpp"
#include "connection.hpp"
#include "gate_client.hpp"

namespace turnstile::redis::detail {

class session_core;

/// What an event, a latch or a barrier is: a gate of a session.
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

    /// The client's name of the gate; 0 as long as it was not used. Belongs to the session's strand.
    gate_id id = 0;
    /// Whether the object is gone. Belongs to the session's strand.
    bool forgotten = false;
};

/// Something that somebody wants of a gate.
struct gate_operation_state
{
    gate_operation_state(std::shared_ptr<gate_handle> which, gate_call call, std::int64_t number,
                         patience how_long, count_handler handler)
        : gate(std::move(which))
        , what(call)
        , arrivals(number)
        , limit(how_long.limit())
        , done(std::move(handler))
    {
    }

    /// Whether it ends with the object.
    [[nodiscard]] bool waits() const noexcept
    {
        return what == gate_call::wait || what == gate_call::arrive_and_wait ||
               what == gate_call::meet;
    }

    std::shared_ptr<gate_handle> gate;
    gate_call what;
    std::int64_t arrivals;
    std::optional<std::chrono::nanoseconds> limit;
    completion<error_code, std::int64_t> done;
    /// What is under way; 0 before and afterwards.
    gate_request_id request = 0;
    /// Whether it was cancelled before it began.
    bool cancelled = false;
    bool is_too_late = false;
    std::unique_ptr<boost::asio::steady_timer> timer;
};

/**
 * Performs what the client of gates decides: the part of a session that is for events, latches and barriers.
 *
 * Everything is called, and calls back, on the strand of the session, whose connection it uses.
 */
class gate_engine
{
public:
    using operation = std::shared_ptr<gate_operation_state>;

    /// The session, which owns it.
    class owner
    {
    public:
        /// Something has been done; perhaps there is nothing left to do.
        virtual void gates_have_acted() = 0;

        /// A script was refused.
        virtual void gates_report(std::string_view text) = 0;

        /// Keeps the session alive while something is under way.
        [[nodiscard]] virtual std::shared_ptr<void> keep() = 0;

    protected:
        owner() = default;
        owner(const owner&) = default;
        owner& operator=(const owner&) = default;
        ~owner() = default;
    };

    gate_engine(const boost::asio::any_io_executor& strand, connection& wire, std::uint64_t nonce,
                std::string wake_prefix, owner& who);

    void start(const operation& what);
    void cancel(const operation& what);
    void forget(gate_handle& gate);

    void connected(std::uint64_t incarnation);
    void disconnected();
    void received(std::string_view message);

    /// Ends all operations: those that wait with one error, others, whose outcome nobody knows, with
    /// another one. Arrivals at barriers are taken back, if the connection lasts for so long.
    void finish_all(error_code waits, error_code others);

    /// Nothing is done from now on.
    void stop();

    /// Whether there is nothing that the server has to be told.
    [[nodiscard]] bool is_idle() const noexcept { return client_.is_idle(); }

private:
    void perform();
    void perform(const gate_command& what);
    void perform(const gate_ended& what);
    void on_reply(std::uint64_t number, const reply& answer);
    void finish(const operation& what, error_code error, std::int64_t number);
    void wake();

    gate_client client_;
    connection* connection_;
    owner* owner_;
    boost::asio::any_io_executor strand_;
    boost::asio::steady_timer timer_;
    // When the timer fires; it is set anew only if it has to fire earlier.
    local_time wakes_at_ = local_time::max();
    // In the order in which they began.
    std::map<gate_request_id, operation> operations_;
    bool is_performing_ = false;
    bool is_over_ = false;
};

/// Hands an operation to the session, and connects it to its cancellation slot.
void start(const gate_engine::operation& operation);

}  // namespace turnstile::redis::detail

#endif
