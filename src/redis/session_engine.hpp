// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_ENGINE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_ENGINE_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/metrics.hpp>
#include <unordered_map>
#include <vector>

#include "completion.hpp"
#include "connection.hpp"
#include "gate_engine.hpp"
#include "held_lock.hpp"
#include "protocol_client.hpp"
#include "replica_watch.hpp"

namespace turnstile::redis::detail {

class bond_handle;

/// A wait for a lock, or for units of a pool.
struct lock_operation
{
    lock_operation(std::shared_ptr<lock_handle> which, patience how_long, const demand& what,
                   lock_handler handler)
        : lock(std::move(which))
        , limit(how_long.limit())
        , wants(what)
        , executor(std::make_shared<mortal_executor>(handler.executor()))
        , done(std::move(handler))
    {
    }

    std::shared_ptr<lock_handle> lock;
    std::optional<std::chrono::nanoseconds> limit;
    /// What is told if the limit is reached. That is no error; but of units that are taken for good there is
    /// no grant which would tell.
    error_code too_late;
    demand wants;
    /// If it is a sleep: on what, and what is given back for it.
    std::shared_ptr<condition_handle> condition;
    std::shared_ptr<held_lock> leaves;
    /// What is said then.
    last_words words;
    /// Of a transaction, what the server is asked to do at once; and what has become of it.
    std::shared_ptr<proposal> proposed;
    /// Whether the sleep was cancelled; and how it ends, once the lock is owned again.
    bool aborted = false;
    error_code outcome;
    /// What is held already, if this is an upgrade.
    std::shared_ptr<held_lock> base;
    /// Where the holder is told of a loss.
    std::shared_ptr<mortal_executor> executor;
    completion<error_code, grant> done;
    /// The attempt under way; 0 before and afterwards.
    attempt_id attempt = 0;
    /// What was granted and waits for replicas.
    std::shared_ptr<held_lock> granted;
    std::unique_ptr<boost::asio::steady_timer> replica_timer;
    /// Whether it was cancelled before it began.
    bool cancelled = false;
    std::unique_ptr<boost::asio::steady_timer> timer;
};

/// Somebody who wants to know how something ended; null if nobody does.
using listener = std::shared_ptr<completion<error_code>>;

/// Somebody who has asked something of a pool.
using caller = std::shared_ptr<completion<error_code, std::int64_t>>;

/**
 * Performs what the protocol client decides: the thin part between it, the connection and the handlers.
 *
 * Everything runs on one strand. It is kept alive by what is under way on it, and by the session.
 */
class session_engine final : public std::enable_shared_from_this<session_engine>,
                             private connection::observer,
                             private replica_watch::observer,
                             private gate_engine::owner
{
public:
    session_engine(boost::asio::any_io_executor strand, config settings);

    void start();
    void lock(const std::shared_ptr<lock_operation>& operation);
    void cancel(const std::shared_ptr<lock_operation>& operation);
    /// Gives back what is held. What is said then counts only if it was held until then.
    void release(const std::shared_ptr<held_lock>& held, const listener& done,
                 const last_words& words = {});
    /// Tells the server how many units of a pool are still held.
    void shrink(const std::shared_ptr<held_lock>& held, const listener& done);
    /// Has the server undo a contribution, if it was made; or as soon as it is.
    void drop(bond_handle& bond);
    /// Wakes those who sleep on a condition: one, or all, on any client.
    void signal(const condition_handle& condition, bool all, const caller& done);
    void call(lock_handle& pool, inquiry what, std::int64_t number, const caller& done);
    void forget_lock(lock_handle& lock);
    /// Aborts its sleeps on this client.
    void forget_condition(const condition_handle& condition);
    void start_gate_call(const gate_engine::operation& operation);
    void cancel_gate_call(const gate_engine::operation& operation);
    void forget_gate(gate_handle& gate);
    void ready(listener done);
    void ping(const listener& done);
    void close(listener done);

    /// Ends at once: operations are aborted, what is held is abandoned.
    void abandon();

    /// From any thread.
    [[nodiscard]] session_metrics metrics() const;

private:
    // What the connection says.
    void connected(std::uint64_t incarnation, const server_info& server) override;
    void disconnected(error_code why) override;
    void message(std::string_view payload) override;
    void failed_for_good(error_code why, std::string text) override;

    // What the replicas say.
    [[nodiscard]] bool stands(attempt_id id, std::string_view run_id) const override;
    void acknowledged(attempt_id id) override;
    void untold(attempt_id id, std::string_view why) override;
    [[nodiscard]] std::shared_ptr<void> keep() override { return shared_from_this(); }
    void await_replicas(const std::shared_ptr<lock_operation>& operation);

    // What the gates say.
    void gates_have_acted() override { perform(); }
    void gates_report(std::string_view text) override { log(log_level::error, text); }

    // What the client wants.
    void perform();
    void perform(command& what);
    void perform(const granted& what);
    void perform(const extended& what);
    void perform(const failed& what);
    void perform(const lost& what);
    void perform(const released& what);
    void perform(const taken& what);
    void perform(const transacted& what);
    void perform(const called& what);
    void perform(const kept& what);
    void perform(const unbound& what);
    void on_reply(std::uint64_t number, const reply& answer);
    void wake_at(std::optional<local_time> when);

    [[nodiscard]] farewell farewell_of(lock_id lock, std::string condition, last_words words);
    void abandon_bonds();
    void sleep(const std::shared_ptr<lock_operation>& operation);
    void wake(const std::shared_ptr<lock_operation>& operation);
    void set_limit(const std::shared_ptr<lock_operation>& operation, std::chrono::nanoseconds span);
    void give_up(const std::shared_ptr<lock_operation>& operation, error_code error);
    void finish(const std::shared_ptr<lock_operation>& operation, error_code error, grant result);
    void finish_all(error_code error);
    void finish_shrinking(attempt_id attempt, std::uint64_t changes, error_code error);
    void abort_calls(error_code error);
    void tell_ready(error_code error);
    void end_close(error_code error);
    void note_metrics();
    void log(log_level level, std::string_view text) const;

    boost::asio::any_io_executor strand_;
    config settings_;
    protocol_client client_;
    connection connection_;
    gate_engine gates_;
    /// Whoever asks for replicas first makes it.
    std::unique_ptr<replica_watch> replicas_;
    std::string run_id_;
    boost::asio::steady_timer timer_;
    // When the timer fires; it is set anew only if it has to fire earlier.
    local_time wakes_at_ = local_time::max();
    boost::asio::steady_timer close_timer_;
    std::unordered_map<attempt_id, std::shared_ptr<lock_operation>> waiting_;
    std::unordered_map<attempt_id, std::weak_ptr<held_lock>> held_;
    std::unordered_map<attempt_id, listener> releasing_;
    // By the number of the change that is waited for.
    std::unordered_map<attempt_id, std::multimap<std::uint64_t, listener>> shrinking_;
    std::unordered_map<call_id, std::pair<inquiry, caller>> calling_;
    std::unordered_map<bond_id, std::weak_ptr<bond_handle>> bonds_;
    std::vector<listener> awaiting_ready_;
    listener closing_;
    bool is_connected_ = false;
    bool is_closed_ = false;
    bool is_over_ = false;
    bool is_performing_ = false;
    std::vector<action> spare_actions_;
    // Guards what metrics() copies.
    mutable std::mutex metrics_mutex_;
    session_metrics metrics_;
};

}  // namespace turnstile::redis::detail

#endif
