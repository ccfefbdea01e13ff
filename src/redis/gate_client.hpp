// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_GATE_CLIENT_HPP
#define TURNSTILE_SRC_REDIS_GATE_CLIENT_HPP

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <turnstile/redis/detail/gate.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "clock_bound.hpp"
#include "names.hpp"

namespace turnstile::redis::detail {

/// Names a gate within a client.
using gate_id = std::uint64_t;

/// Names what somebody wants of a gate; rises by one with each.
using gate_request_id = std::uint64_t;

/// The scripts of gates.
enum class gate_operation
{
    wait,
    change,
    meet,
};

/// The name of the script of an operation.
[[nodiscard]] std::string_view name_of(gate_operation op) noexcept;

/// What a gate is.
struct gate_options
{
    lock_keys keys;
    /// How it begins, should it not exist: see lua/gate/prologue.lua.
    std::int64_t number = 0;
    /// How long somebody who has arrived at a barrier counts after it was heard of last; and how often
    /// others who wait ask whether they have missed a message.
    std::chrono::milliseconds lease{15000};
    /// How long an unused gate is remembered.
    std::chrono::milliseconds idle{60000};
    /// How long one is that is not as it was at first; 0: for ever.
    std::chrono::milliseconds keep{0};
};

/// A script that is to be run for a gate.
struct gate_command
{
    std::uint64_t number = 0;
    gate_operation op = gate_operation::wait;
    std::vector<std::string> keys;
    std::vector<std::string> arguments;
};

/// How a request has ended.
enum class gate_result
{
    /// The gate is open, or was since the request began.
    open,
    /// What was to be done is done, or was to be read; and the gate is not open.
    closed,
    cancelled,
    /// More arrivals than are missing; nothing has changed.
    excess,
    /// Nobody takes part in the barrier any more.
    empty,
    /// The keys have a layout of another version.
    foreign_layout,
    /// The keys hold something else.
    wrong_type,
    /// The server refused to run the script.
    refused,
};

/// A request has ended.
struct gate_ended
{
    gate_request_id request;
    gate_result result;
    std::string text;
};

/// What a client of gates wants to have done.
using gate_action = std::variant<gate_command, gate_ended>;

/**
 * The client's half of events, latches and barriers: decides everything and performs nothing, as
 * @ref protocol_client does for locks, and is driven in the same way.
 *
 * Nobody owns a gate, so there is nothing to be granted, and nothing that could be lost with a message or a
 * client: whoever missed that a gate was opened asks again. What has to be done exactly once are calls:
 * each has a name, by which the server knows that it is a repetition.
 *
 * A request goes through these phases:
 *
 *     calling --> waiting            sets, resets, arrives; who arrives may wait then
 *     asking  --> waiting            waits; those of one gate ask together
 *     calling, waiting --> withdrawing    an arrival at a barrier that is cancelled
 *
 * Waiting means: the server has the connection in its list, and the generation is known that has to be
 * over.
 */
class gate_client
{
public:
    /// @p nonce and @p wake_prefix are those of the session's protocol_client: they share its connection.
    gate_client(std::uint64_t nonce, std::string wake_prefix);

    // --- gates and requests ---

    /// Makes a gate known.
    gate_id open_gate(gate_options options);

    /// Forgets a gate as soon as its last request has ended.
    void close_gate(gate_id id);

    /// Begins something, which ends with `gate_ended`. `arrivals` is for @ref gate_call::count_down.
    gate_request_id begin(local_time now, gate_id gate, gate_call what, std::int64_t arrivals = 1);

    /// Gives up. Ends with `gate_ended` like everything else: at once; but if an arrival at a barrier has
    /// to be taken back, and the server can be reached, with its answer, which may be that it is too late.
    void cancel(local_time now, gate_request_id id);

    /// Gives up, and nobody wants to know any more.
    void abandon(local_time now, gate_request_id id);

    // --- what happens ---

    /// A connection stands, and its wake channel is subscribed to.
    void connected(local_time now, std::uint64_t incarnation);

    /// The connection is gone. Commands without an answer may or may not have been executed.
    void disconnected(local_time now);

    /// A script has answered.
    void answered(local_time now, std::uint64_t number, std::string_view text);

    /// A script was refused, with an error text.
    void refused(local_time now, std::uint64_t number, std::string_view text);

    /// Whether a message on the wake channel is for gates.
    [[nodiscard]] static bool is_for_gates(std::string_view text) noexcept;

    /// Such a message has come.
    void received(local_time now, std::string_view text);

    /// Time has passed.
    void tick(local_time now);

    // --- what is to be done ---

    /// Takes out what is to be done.
    [[nodiscard]] std::vector<gate_action> take_actions() { return std::exchange(actions_, {}); }

    /// When @ref tick is to be called at the latest; nothing if that makes no difference.
    [[nodiscard]] std::optional<local_time> next_tick() const;

    /// Whether there is nothing that the server has to be told.
    [[nodiscard]] bool is_idle() const noexcept { return requests_.empty(); }

private:
    static constexpr local_time never = local_time::max();

    enum class phase
    {
        calling,
        asking,
        waiting,
        withdrawing,
    };

    struct request
    {
        gate_id gate = 0;
        gate_call what = gate_call::wait;
        std::int64_t arrivals = 0;
        phase at = phase::calling;
        // Whether somebody wants to know how it ends.
        bool awaited = true;
        // The name of the call, and of one that the server may forget for it.
        std::string name;
        std::string before;
        // Whether the server may know the name, and whether it may get it again over an older connection.
        bool sent = false;
        bool repeated = false;
        // The command under way: its own, or one that asks for all who wait at the gate.
        std::uint64_t flight = 0;
        // Of a waiter, what has to be over; of one whose answer is under way, what was over meanwhile.
        std::int64_t generation = 0;
        std::int64_t heard = 0;
        // Of an arrival, until when it certainly counts.
        local_time counts_until{};
        local_time due = never;
    };

    struct gate_state
    {
        gate_options options;
        bool closed = false;
        std::size_t requests = 0;
        // The names of calls that the server need not remember any more.
        std::vector<std::string> answered_calls;
        // Whether somebody is asking for all who wait.
        bool asking = false;
        std::set<gate_request_id> passages;
        local_time due = never;
    };

    struct flight
    {
        gate_operation op = gate_operation::wait;
        // The gate if it asks for all who wait there, the request if not.
        std::uint64_t whose = 0;
        bool withdraws = false;
        local_time sent{};
    };

    struct told
    {
        gate_result result = gate_result::refused;
        std::int64_t generation = 0;
    };

    using request_map = std::map<gate_request_id, request>;
    using request_entry = request_map::value_type;

    [[nodiscard]] static std::optional<told> parse(std::string_view text) noexcept;

    void send_call(request_entry& entry);
    void send_ask(gate_id id);
    std::uint64_t send(gate_operation op, std::uint64_t whose, const gate_state& gate,
                       std::vector<std::string> arguments, bool withdraws = false);
    [[nodiscard]] std::string channel() const;

    void on_ask(gate_id id, std::uint64_t number, const told& said);
    void on_call(request_entry& entry, const told& said, local_time sent);
    void on_meet(request_entry& entry, const told& said, local_time sent);
    void on_withdraw(request_entry& entry, const told& said);
    void on_refused_ask(gate_id id, std::uint64_t number, std::string_view text);
    void wait_on(request_entry& entry, std::int64_t generation);

    void withdraw(request_entry& entry);
    void tell_cancelled(request_entry& entry);
    void forget_name(request& each, gate_state& gate);
    void end(gate_request_id id, gate_result result, std::string_view text = {});
    void set_due(bool is_gate, std::uint64_t id, local_time& slot, local_time at);
    void advance(local_time now);

    std::uint64_t nonce_;
    std::string wake_prefix_;
    local_time now_{};
    bool up_ = false;
    std::uint64_t incarnation_ = 0;
    gate_id last_gate_ = 0;
    gate_request_id last_request_ = 0;
    std::uint64_t last_command_ = 0;
    std::map<gate_id, gate_state> gates_;
    request_map requests_;
    std::map<std::uint64_t, flight> flights_;
    std::set<std::tuple<local_time, bool, std::uint64_t>> timers_;
    std::vector<gate_action> actions_;
};

}  // namespace turnstile::redis::detail

#endif
