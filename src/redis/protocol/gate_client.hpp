// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_GATE_CLIENT_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_GATE_CLIENT_HPP

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <turnstile/redis/detail/gate.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "redis/protocol/client_result.hpp"
#include "redis/protocol/clock_bound.hpp"
#include "redis/protocol/named_call.hpp"
#include "redis/protocol/names.hpp"
#include "redis/protocol/timer_queue.hpp"
#include "redis/protocol/unanswered_list.hpp"
#include "redis/protocol/word_list.hpp"

namespace turnstile::redis::detail {

/// The name of a gate within a client.
using gate_id = std::uint64_t;

/// The name of a request to a gate; consecutive numbers.
using gate_request_id = std::uint64_t;

/// The properties of a gate.
struct gate_options
{
    std::vector<std::string> keys;
    /// The initial state if the gate does not exist yet: see docs/protocol.md.
    std::int64_t number = 0;
    /// How long an arrival at a barrier counts after its last renewal, and how often other waiters check
    /// whether they have missed a message.
    std::chrono::milliseconds lease{15000};
    /// How long an unused gate in its initial state is kept.
    std::chrono::milliseconds idle{60000};
    /// How long any other unused gate is kept; 0: forever.
    std::chrono::milliseconds keep{0};
};

/// A script to run for a gate.
struct gate_command
{
    std::uint64_t number = 0;
    /// The name of the script.
    std::string_view script;
    word_list keys;
    word_list arguments;
};

/// A request has ended.
struct gate_ended
{
    gate_request_id request;
    client_result result;
    std::string text;
    /// The affected key, if the server or its data caused the result.
    std::string key{};
};

/// An action that a client of gates requests.
using gate_action = std::variant<gate_command, gate_ended>;

/**
 * The sans-io client of events, latches and barriers. It makes all decisions and performs no input or output.
 * Driven like @ref protocol_client.
 *
 * A gate has no holder, so no grant can be lost with a message or a client: a waiter that missed an opening
 * asks again. Only calls have to take effect exactly once. So each call has a name, by which the server
 * recognizes a repetition.
 *
 * A request goes through these phases:
 *
 *     calling --> waiting            sets, resets, arrives; an arrival may wait afterwards
 *     asking  --> waiting            waits; the waiters of a gate ask together
 *     calling, waiting --> withdrawing    a cancelled arrival at a barrier
 *
 * Waiting means: the server has the connection in its list, and the request knows the generation whose end it
 * waits for.
 */
class gate_client
{
public:
    /// @p nonce and @p wake_prefix are those of the session's protocol_client: both use one connection. The
    /// speeds of the clocks may differ by one part in @p drift.
    gate_client(std::uint64_t nonce, std::string wake_prefix,
                std::int64_t drift = clock_bound::usual_drift);

    // --- gates and requests ---

    /// Registers a gate.
    gate_id open_gate(gate_options options);

    /// Removes a gate when its last request has ended.
    void close_gate(gate_id id);

    /// Begins a request, which ends with `gate_ended`. `arrivals` is for @ref gate_call::count_down.
    gate_request_id begin(local_time now, gate_id gate, gate_call what, std::int64_t arrivals = 1);

    /// Cancels a request, which ends with `gate_ended`: at once, or, if an arrival at a barrier has to be
    /// withdrawn and the server is reachable, with the server's answer. The answer may be that the withdrawal
    /// was too late.
    void cancel(local_time now, gate_request_id id);

    /// Cancels a request without `gate_ended`. A change that was not answered yet is still executed.
    void detach(local_time now, gate_request_id id);

    /// Like detach(), but a change that was never sent is not executed. Returns whether the request was never sent.
    bool drop(local_time now, gate_request_id id);

    // --- events ---

    /// The session is connected and subscribed to its wake channel.
    void connected(local_time now, std::uint64_t incarnation);

    /// The connection is lost. Commands without an answer may or may not have been executed.
    void disconnected(local_time now);

    /// The server answered a script.
    void answered(local_time now, std::uint64_t number, std::string_view text);

    /// The server refused a script, with an error text.
    void refused(local_time now, std::uint64_t number, std::string_view text);

    /// Whether a message on the wake channel is for gates.
    [[nodiscard]] static bool is_for_gates(std::string_view text) noexcept;

    /// A message for gates arrived.
    void received(local_time now, std::string_view text);

    /// Processes the timers.
    void tick(local_time now);

    // --- actions ---

    /// Removes and returns the pending actions.
    [[nodiscard]] std::vector<gate_action> take_actions() { return std::exchange(actions_, {}); }

    /// The latest time for the next @ref tick; nothing if there are no timers.
    [[nodiscard]] std::optional<local_time> next_tick() const { return timers_.next(); }

    /// Whether no request needs the server.
    [[nodiscard]] bool is_idle() const noexcept { return requests_.empty(); }

private:
    enum class timer
    {
        request,
        gate,
    };

    enum class phase
    {
        calling,
        asking,
        waiting,
        withdrawing,
    };

    struct request
    {
        gate_request_id id = 0;
        gate_id gate = 0;
        gate_call what = gate_call::wait;
        std::int64_t arrivals = 0;
        phase current = phase::calling;
        // Whether the request still has to report its end.
        bool awaited = true;
        named_call call;
        // Whether the server may know the request.
        bool sent = false;
        // The request's last own command, until it is answered.
        std::uint64_t awaited_answer = 0;
        // With a command in flight: the latest generation reported meanwhile.
        std::int64_t seen = 0;
        // For an arrival at a barrier: the generation that has to end.
        std::int64_t generation = 0;
        // For an arrival, the time until which it certainly counts.
        local_time counts_until{};
        // The time of the next command; never while one is in flight.
        local_time due = never;
    };

    struct gate_state
    {
        gate_options options;
        bool closed = false;
        call_names calls;
        // The requests in the phase `asking`; those that wait, except for arrivals at a barrier; and all others, which
        // have commands of their own.
        std::set<gate_request_id> asking;
        std::set<gate_request_id> waiting;
        std::set<gate_request_id> callers;
        // With a command for all waiters in flight: the newest request that was begun before; otherwise 0.
        gate_request_id asked = 0;
        // With such a command in flight: the latest generation reported meanwhile.
        std::int64_t seen = 0;
        // The generation that has to end for `waiting`.
        std::int64_t generation = 0;
        // For a barrier: the newest generation that was ever reported.
        std::int64_t newest = 0;
        local_time due = never;

        [[nodiscard]] bool has_waiters() const { return !asking.empty() || !waiting.empty(); }
        [[nodiscard]] bool is_used() const { return has_waiters() || !callers.empty(); }
    };

    struct unanswered_command
    {
        // The gate for a command for all waiters, otherwise the request.
        std::uint64_t whose = 0;
        bool is_for_all = false;
        local_time sent_at{};
    };

    struct gate_answer
    {
        client_result result = client_result::refused;
        std::int64_t generation = 0;
    };

    [[nodiscard]] static std::optional<gate_answer> parse(std::string_view text) noexcept;

    void send_call(request& it);
    void send_ask(gate_id id);
    std::uint64_t send(std::string_view script, unanswered_command what, const gate_state& gate,
                       word_list arguments);
    [[nodiscard]] std::string channel() const;

    void on_ask(gate_id id, const gate_answer& answer);
    void on_call(request& it, const gate_answer& answer, local_time sent);
    void on_meet(request& it, const gate_answer& answer, local_time sent);
    void on_refused_ask(gate_id id, std::string_view text);
    [[nodiscard]] static std::vector<gate_request_id> take_asked(gate_state& gate);
    void note_generation(gate_state& gate, std::int64_t generation);
    void wait_on(request& it, std::int64_t seen);
    void on_message(gate_state& gate, std::int64_t generation);
    void erase(std::map<gate_id, gate_state>::iterator gate);

    void withdraw(request& it);
    void end_cancelled(request& it);
    [[nodiscard]] static client_result refusal(const request& it, std::string_view text);
    void end_all(const std::set<gate_request_id>& waiters, client_result result);
    void end(gate_request_id id, client_result result, std::string_view text = {});
    void advance(local_time now);

    std::uint64_t nonce_;
    std::string wake_prefix_;
    std::int64_t drift_;
    local_time now_{};
    bool is_connected_ = false;
    std::uint64_t incarnation_ = 0;
    gate_id last_gate_ = 0;
    gate_request_id last_request_ = 0;
    std::map<gate_id, gate_state> gates_;
    // The gates by their first keys, which messages name.
    std::set<std::pair<std::string, gate_id>> gates_by_key_;
    std::map<gate_request_id, request> requests_;
    unanswered_list<unanswered_command> unanswered_;
    timer_queue<timer> timers_;
    std::vector<gate_action> actions_;
};

}  // namespace turnstile::redis::detail

#endif
