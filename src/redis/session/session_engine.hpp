// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_SESSION_ENGINE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_SESSION_ENGINE_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/detail/grant.hpp>
#include <turnstile/redis/metrics.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "redis/protocol/protocol_client.hpp"
#include "redis/session/boot_timer.hpp"
#include "redis/session/client_engine.hpp"
#include "redis/session/completion.hpp"
#include "redis/session/gate_engine.hpp"
#include "redis/session/held_lock.hpp"
#include "redis/session/job_engine.hpp"
#include "redis/session/replica_watch.hpp"
#include "redis/transport/connection.hpp"

namespace turnstile::redis::detail {

class contribution_handle;

/// An operation that ends with a grant: of a lock, of units of a pool, after a wait on a condition, or of a
/// transaction.
struct lock_operation
{
    lock_operation(std::shared_ptr<lock_handle> which, time_limit how_long,
                   const attempt_request& what, lock_handler handler)
        : lock(std::move(which))
        , limit(how_long)
        , wants(what)
        , loss(std::make_shared<loss_signal>(handler.executor()))
        , done(std::move(handler))
    {
    }

    std::shared_ptr<lock_handle> lock;
    time_limit limit;
    /// The error with which the operation completes if it was withdrawn. At the time limit, it is empty for a lock,
    /// whose operation yields an empty grant, and `timed_out` for a take.
    error_code withdrawal_error;
    attempt_request wants;
    /// For a wait on a condition: the condition, and the lock that it releases.
    std::shared_ptr<condition_handle> condition;
    std::shared_ptr<held_lock> releases;
    /// The changes that the release of this lock commits.
    section_changes changes;
    /// For a transaction, the request to the server, and the result.
    std::shared_ptr<proposal> proposed;
    /// Whether the wait on a condition was cancelled, or its condition destroyed.
    bool aborted = false;
    /// The error of a granted operation: `operation_aborted` if its wait was aborted and ended without a notification.
    error_code outcome;
    /// For an upgrade, the upgradable hold; it may be lost meanwhile.
    std::shared_ptr<held_lock> base;
    [[nodiscard]] bool base_is_lost() const noexcept { return base && !base->valid(); }
    /// The signal of the loss of the lock that is granted.
    std::shared_ptr<loss_signal> loss;
    completion<error_code, grant> done;
    /// The attempt in progress; 0 before and afterwards.
    attempt_id attempt = 0;
    /// The grant that waits for replicas.
    std::shared_ptr<held_lock> granted;
    std::unique_ptr<boost::asio::steady_timer> replica_timer;
    std::unique_ptr<boost::asio::steady_timer> timer;
};

/// Receives the result of an operation; null if nobody needs it.
using listener = std::shared_ptr<completion<error_code>>;

/// Receives the result of a call to a pool.
using caller = std::shared_ptr<completion<error_code, std::int64_t>>;

/// An unguessable number: another client that knows it could forge messages.
[[nodiscard]] std::uint64_t make_nonce();

/**
 * Performs the actions of the protocol client: the layer between it, the connection and the handlers.
 *
 * Runs on one strand. The operations in progress and the session keep it alive.
 */
class session_engine final : public std::enable_shared_from_this<session_engine>,
                             private connection::observer,
                             private replica_watch::observer,
                             private engine_owner
{
public:
    session_engine(boost::asio::any_io_executor strand, config settings);

    /// Starts to connect.
    void start();
    /// Starts an acquisition, a wait on a condition, or a transaction.
    void start_operation(const std::shared_ptr<lock_operation>& operation);
    void cancel(const std::shared_ptr<lock_operation>& operation);
    /// Releases a lock. Commits the changes only if the lock was held until then. The permit @p heir of a directory
    /// receives the units, see commit_request.
    void release(const std::shared_ptr<held_lock>& held, const listener& done,
                 section_changes changes = {}, std::string heir = {});
    /// Sends the server the number of units that are still held.
    void shrink(const std::shared_ptr<held_lock>& held, const listener& done);
    /// Lets the server undo a contribution, now or once it is made.
    void drop(contribution_handle& handle);
    /// Notifies one waiter of a condition or all, in any session.
    void notify(const condition_handle& condition, bool all, const caller& done);
    void call(lock_handle& pool, call_kind what, std::int64_t number, const caller& done);
    void forget_lock(lock_handle& lock);
    /// Aborts the waits of this session on a condition.
    void forget_condition(condition_handle& condition);
    [[nodiscard]] gate_engine& gates() noexcept { return gates_; }
    [[nodiscard]] job_engine& jobs() noexcept { return jobs_; }
    /// Receives the result of a script that was run once: an error, or the texts of its reply.
    using script_handler = std::function<void(error_code, const std::vector<std::string>&)>;

    /// Waits until the session is connected, and then runs a script that belongs to no attempt. It is not repeated.
    /// @p claim is the index of the claim lease in @p arguments, which is sent with the times of the grace; 0 if there
    /// is none.
    void run_once(std::string_view name, std::vector<std::string> keys,
                  std::vector<std::string> arguments, std::size_t claim, script_handler done);
    /// Reports how the attempt to connect ends; at once if the session is connected.
    void ready(listener done);
    /// Reports whether the server answers. Fails at once if it is unreachable.
    void ping(const listener& done);
    /// Ends operations, releases held locks at the server, and then ends the connection.
    void close(listener done);

    /// Ends at once: aborts operations, and leaves held locks to their leases.
    void stop();

    /// Callable from any thread.
    [[nodiscard]] session_metrics metrics() const;

private:
    // Events of the connection.
    void connected(std::uint64_t incarnation, const server_info& server) override;
    void disconnected(error_code why) override;
    void message(std::string_view payload) override;

    // Results of the replica watch.
    [[nodiscard]] bool server_knows(attempt_id id, std::string_view run_id) const override;
    void acknowledged(attempt_id id) override;
    void unacknowledged(attempt_id id, std::string_view why) override;
    [[nodiscard]] std::shared_ptr<void> keep() override { return shared_from_this(); }
    void await_replicas(const std::shared_ptr<lock_operation>& operation);
    [[nodiscard]] static error_code why_undelivered(const lock_operation& operation);

    // Requests of the engines of gates and job queues.
    void have_acted() override
    {
        wake_at(gates_.next_tick());
        wake_at(jobs_.next_tick());
        perform();
    }
    void report(error_code code, const std::string& keys, const std::string& text) override;
    void answered(const reply& answer) override;
    [[nodiscard]] error_code why_refused(bool only_reads = false) const override;
    [[nodiscard]] error_code why_unreachable() const override;

    // Actions of the client.
    void perform();
    void perform(command& what);
    void perform(granted& what);
    void perform(const lease_renewed& what);
    void perform(const failed& what);
    void perform(const lost& what);
    void perform(const released& what);
    void perform(const taken& what);
    void perform(const transacted& what);
    void perform(const called& what);
    void perform(const contribution_renewed& what);
    void perform(const contribution_ended& what);
    void perform(const reported& what);
    void on_reply(std::uint64_t number, const reply& answer);
    void on_answer(std::uint64_t number, const reply& answer);
    void refused(std::uint64_t number, const std::string& error);
    [[nodiscard]] std::string explained(const std::string& error) const;
    void note_refusal(const std::string& key, const std::string& keys, const std::string& error);
    void end_refusal(const std::string& key);
    void end_refusals(std::uint64_t number, operation op);
    void log_failure(std::string text, log_level level = log_level::error);
    bool report_loss(held_lock& held, const std::string& why) const;
    [[nodiscard]] std::string reason_of(const lost& what, const lock_handle& lock) const;
    void wake_at(std::optional<local_time> when);
    void announce();

    [[nodiscard]] commit_request commit_of(lock_id lock, std::string condition,
                                           section_changes changes);
    void end_contributions();
    void wait_on(const std::shared_ptr<lock_operation>& operation);
    void end_wait(const std::shared_ptr<lock_operation>& operation);
    void set_limit(const std::shared_ptr<lock_operation>& operation, std::chrono::nanoseconds span);
    void withdraw(const std::shared_ptr<lock_operation>& operation, error_code error);
    void fail_after_connect_error();
    [[nodiscard]] std::shared_ptr<lock_operation> waiting(attempt_id id) const;
    void finish(const std::shared_ptr<lock_operation>& operation, error_code error, grant result);
    void finish_all(error_code error);
    void finish_shrinking(attempt_id attempt, std::uint64_t changes, error_code error);
    void abort_calls(error_code unsent, error_code sent);
    void complete_ready(error_code error);
    void end_close(error_code error);
    void note_metrics();
    void log(log_level level, std::string_view text) const;

    boost::asio::any_io_executor strand_;
    config settings_;
    protocol_client client_;
    std::shared_ptr<connection> connection_;
    gate_engine gates_;
    job_engine jobs_;
    /// Made for the first operation with durability.
    std::unique_ptr<replica_watch> replicas_;
    std::string run_id_;
    boot_timer timer_;
    // The time of the timer; it is only set again if it has to fire earlier.
    local_time wakes_at_ = local_time::max();
    boost::asio::steady_timer close_timer_;
    /// Repeats announce().
    boost::asio::steady_timer announcement_timer_;
    std::unordered_map<attempt_id, std::shared_ptr<lock_operation>> waiting_;
    std::unordered_map<attempt_id, std::weak_ptr<held_lock>> held_;
    std::unordered_map<attempt_id, listener> releasing_;
    // By the number of the change. The key all_changes means: completes with the release of the remaining units.
    static constexpr auto all_changes = ~std::uint64_t();
    std::unordered_map<attempt_id, std::multimap<std::uint64_t, listener>> shrinking_;
    std::unordered_map<call_id, std::pair<call_kind, caller>> calling_;
    std::unordered_map<contribution_id, std::weak_ptr<contribution_handle>> contributions_;
    std::vector<listener> awaiting_ready_;
    listener closing_;
    bool is_connected_ = false;
    // When the connection broke last, if it was ever connected.
    std::optional<local_time> disconnected_at_;
    // The error of the last attempt to connect, and whether operations fail with it instead of waiting.
    error_code obstacle_;
    bool is_hopeless_ = false;
    // Whether the previous connection led to another server, or to this server before a restart.
    bool is_other_server_ = false;
    // The errors of commands that are being repeated, by the first key of the lock that such a command is about. A
    // temporary refusal is not about a lock, and has the key "".
    std::map<std::string, std::string> refusals_;
    // The lines that were reported in the present minute, and the end of that minute.
    std::set<std::string> reports_;
    local_time reports_end_{};
    bool is_closed_ = false;
    bool has_ended_ = false;
    bool is_performing_ = false;
    // The locks that were lost while they were held.
    std::uint64_t losses_ = 0;
    std::vector<action> spare_actions_;
    // Guards the copy for metrics().
    mutable std::mutex metrics_mutex_;
    session_metrics metrics_;
};

}  // namespace turnstile::redis::detail

#endif
