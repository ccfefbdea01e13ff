// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_PROTOCOL_JOB_CLIENT_HPP
#define TURNSTILE_SRC_REDIS_PROTOCOL_JOB_CLIENT_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <turnstile/push_options.hpp>
#include <turnstile/redis/detail/job_operation.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "redis/protocol/client_result.hpp"
#include "redis/protocol/clock_bound.hpp"
#include "redis/protocol/timer_queue.hpp"
#include "redis/protocol/unanswered_list.hpp"

namespace turnstile::redis::detail {

/// Ids that the client assigns; never 0.
using job_queue_id = std::uint64_t;
using job_request_id = std::uint64_t;
using job_attempt_id = std::uint64_t;
using job_call_id = std::uint64_t;

/// The name of the script of an operation.
[[nodiscard]] std::string_view name_of(job_operation op) noexcept;

/// The properties of a queue.
struct job_queue_options
{
    std::string key;
    std::chrono::milliseconds lease{15000};
    /// How long before its end a lease counts as expired.
    std::chrono::milliseconds margin{50};
};

/// A script to run for a queue.
struct job_command
{
    std::uint64_t number = 0;
    job_operation op = job_operation::push;
    std::string key;
    std::vector<std::string> arguments;
};

/// A worker was granted a job.
struct job_granted
{
    job_request_id request = 0;
    job_attempt_id attempt = 0;
    std::uint64_t id = 0;
    std::uint64_t token = 0;
    std::int64_t count = 0;
    /// Whether the attempt has a time limit.
    bool is_limited = false;
    local_time expires{};
    std::string payload;
};

/// A request has ended without a job.
struct job_refused
{
    job_request_id request = 0;
    client_result result = client_result::ok;
    std::string text;
};

/// A call has ended. The answer consists of the texts that the script returned.
struct job_answered
{
    job_call_id call = 0;
    client_result result = client_result::ok;
    std::string text;
    std::vector<std::string> answer;
};

/// An attempt no longer counts.
struct job_lost
{
    job_attempt_id attempt = 0;
};

/// The lease of an attempt was renewed.
struct job_renewed
{
    job_attempt_id attempt = 0;
    local_time expires{};
};

/// An action that a client of job queues requests.
using job_action =
    std::variant<job_command, job_granted, job_refused, job_answered, job_lost, job_renewed>;

/**
 * The sans-io client of job queues. It makes all decisions and performs no input or output. Driven like
 * @ref protocol_client.
 *
 * A request asks for a job on behalf of one worker. The answer grants it a job; or the request is a waiting worker, and
 * a message grants it a job later.
 * After a reconnect, the server first reports which requests were granted a job (resync). The others ask again with
 * their tickets. The client keeps a cancelled request until no grant can arrive for it, and returns the job of such
 * a grant.
 *
 * An attempt is a job that was granted. Its lease is renewed, together with those of the other attempts of its queue.
 */
class job_client
{
public:
    job_client(std::uint64_t nonce, std::string wake_prefix, std::int64_t drift);

    /// Registers a queue. Queues with the same key have the same id, and the options of the last one.
    [[nodiscard]] job_queue_id open_queue(job_queue_options options);

    /// Reverts one open_queue(). After the last one, the client forgets the queue as soon as its last request, attempt
    /// and call has ended, and the server has done what the client knows to be due.
    void close_queue(job_queue_id id) { release(id); }

    /// Asks for a job. First finishes the attempt @p finished, unless it is 0.
    job_request_id next(local_time now, job_queue_id queue, job_attempt_id finished = 0);

    /// Cancels a request without an action. A job that it is granted later is returned. Returns true if the request also
    /// finishes an attempt and the outcome is unknown; the client still sends that finish.
    bool cancel(local_time now, job_request_id id);

    /// Ends an attempt, which has to be held.
    job_call_id end(local_time now, job_attempt_id id, attempt_end how, std::string error = {});

    /// Ends an attempt whose payload cannot be read, and asks for another job in the position of the worker.
    job_request_id reject(local_time now, job_attempt_id id, attempt_end how, std::string reason);

    /// Reports the progress of an attempt.
    void progress(local_time now, job_attempt_id id, std::string value);

    /// Runs a script of a queue: push, manage or list. @p arguments are those after the prefix. If the connection
    /// breaks, list is repeated, and the result of the others is unknown.
    job_call_id call(local_time now, job_queue_id queue, job_operation op,
                     std::vector<std::string> arguments);

    /// Ends a call without an action. Returns whether the server certainly does not execute it, or it only asks. The end
    /// of an attempt is sent nevertheless.
    bool drop_call(job_call_id id);

    /// The session ends, and so does not ask when something is due. The server informs other sessions of that time.
    void leave(local_time now);

    [[nodiscard]] bool holds(job_attempt_id id) const { return attempts_.contains(id); }

    void connected(local_time now, std::uint64_t incarnation, bool is_other_server);
    void disconnected(local_time now);
    void answered(local_time now, std::uint64_t number, const std::vector<std::string>& answer);
    void refused(local_time now, std::uint64_t number, std::string_view text);
    [[nodiscard]] static bool is_for_jobs(std::string_view text) noexcept;
    void received(local_time now, std::string_view text);
    void tick(local_time now);

    /// Removes and returns the pending actions.
    [[nodiscard]] std::vector<job_action> take_actions();
    [[nodiscard]] std::optional<local_time> next_tick() const;

    /// Whether no request and no call needs the server.
    [[nodiscard]] bool is_idle() const noexcept { return requests_.empty() && calls_.empty(); }

private:
    /// Attempts or queues, ordered by one of their times. A session may have a hundred thousand of them.
    using ids_by_time = std::set<std::pair<local_time, std::uint64_t>>;

    struct queue_state
    {
        job_queue_options options;
        /// The number of its requests, attempts and calls, and of the calls of open_queue() without a close_queue().
        std::size_t users = 0;
        clock_bound clock;
        /// When the leases of its attempts expire, and when their time limits end.
        ids_by_time expiries;
        ids_by_time limits;
        /// The attempts by their tokens, which messages name. A server that has lost its memory may repeat a token.
        std::set<std::pair<std::uint64_t, job_attempt_id>> tokens;
        /// The time of the queue in `timers_`, which may be earlier than that of its next timer.
        local_time next_timer = never;
        /// When the leases are renewed, or a refused renewal is repeated.
        local_time renew_at = never;
        /// When the client asks the server to do what is due.
        local_time ask_at = never;
        /// The due time that the server has named last, until the client has asked for it; otherwise 0. The server
        /// relies on no earlier one.
        server_time due_at = 0;
        bool renewing = false;
        /// The progress that has to be sent, and that of the renewal in flight.
        std::map<job_attempt_id, std::string> progress;
        std::map<job_attempt_id, std::string> reported;

        /// Ends the renewal in flight without an answer. Its progress is sent again, unless there is a later report.
        void forget_renewal()
        {
            renewing = false;
            progress.merge(reported);
            reported.clear();
        }

        /// The client no longer asks: nothing is due, others ask, or the server refuses.
        void forget_ask()
        {
            ask_at = never;
            due_at = 0;
        }
    };

    /// Whether the server may have executed a command before, and may have lost its memory since.
    enum class repetition
    {
        first,
        again,
        unsure,
    };

    /// The end of an attempt that the server has not confirmed.
    struct ending
    {
        /// The text of the attempt.
        std::string attempt;
        attempt_end how = attempt_end::finished;
        bool has_notes = false;
        std::string error{};
        /// Whether the server may have lost its memory since the attempt began.
        bool in_doubt = false;
        repetition repeated = repetition::first;

        void reconnect(bool was_sent, bool is_other_server);
    };

    struct request
    {
        job_queue_id queue = 0;
        /// The attempt that it finishes first.
        std::optional<ending> ends;
        /// The name under which the request may wait, and its ticket.
        std::string worker;
        std::string ticket = "0";
        bool sent = false;
        bool waits = false;
        bool resyncs = false;
        bool cancelled = false;
        /// The attempt whose record is fetched; empty otherwise.
        std::string fetched;
    };

    struct attempt
    {
        job_queue_id queue = 0;
        std::string text;
        std::uint64_t token = 0;
        /// The ticket of its request, which waits again if the payload cannot be read.
        std::string ticket;
        local_time expires{};
        /// When its time limit ends by the server's clock.
        local_time limit = never;
        bool has_notes = false;
        /// Whether the server may have lost its memory since the attempt began.
        bool in_doubt = false;
    };

    struct call_state
    {
        job_queue_id queue = 0;
        job_operation op = job_operation::push;
        std::vector<std::string> arguments{};
        /// For the end of an attempt, instead of the arguments.
        std::optional<ending> ends{};
        bool awaited = true;
        bool sent = false;
    };

    struct unanswered_command
    {
        job_operation op = job_operation::push;
        job_queue_id queue = 0;
        /// The id of the request, the call, or the queue.
        std::uint64_t subject = 0;
        local_time sent_at{};
        std::vector<std::uint64_t> others{};
    };

    request& add_request(job_queue_id queue);
    job_call_id add_call(call_state what);
    template <class Records>
    void erase(Records& from, typename Records::iterator which)
    {
        release(which->second.queue);
        from.erase(which);
    }
    void release(job_queue_id id);
    void forget_if_unused(job_queue_id id);
    [[nodiscard]] static std::vector<std::string> arguments_of(const ending& what);
    [[nodiscard]] ending ending_of(job_attempt_id id, attempt_end how, std::string error = {});
    [[nodiscard]] static bool has_to_ask(const queue_state& queue) { return queue.due_at != 0; }

    void send(job_operation op, job_queue_id queue, std::uint64_t subject,
              std::vector<std::string> arguments, std::vector<std::uint64_t> others = {});
    void send_next(job_request_id id);
    void send_call(job_call_id id);
    void start_fetch(job_request_id id, std::string started);
    void send_fetches();
    void send_cancel(job_request_id id);
    void send_renewal(job_queue_id id);
    void send_progress(job_queue_id id);
    void send_renewal(job_queue_id id, const std::vector<job_attempt_id>& renewed);
    void send_resync(job_queue_id id, const std::vector<job_request_id>& requests);
    void resync_workers(job_queue_id id);
    void resend(const unanswered_command& sent);

    std::optional<unanswered_command> take_unanswered(std::uint64_t number);
    void on_next(const unanswered_command& sent, const std::vector<std::string>& answer);
    [[nodiscard]] static client_result refusal(const std::optional<ending>& what,
                                               std::string_view error);
    void request_refused(job_request_id id, std::string_view text);
    void note_unsent(const unanswered_command& refused);
    void renewal_refused(job_queue_id id, std::string_view text);
    void end_waiting(job_queue_id id, client_result result, std::string_view text = {});
    void on_renewal(const unanswered_command& sent, const std::vector<std::string>& answer);
    void on_resync(const unanswered_command& sent, const std::vector<std::string>& answer);
    void on_grant(job_queue_id queue_id, server_time shown, std::string_view text);
    void end_request(job_request_id id, client_result result, std::string_view text = {});
    void grant(job_request_id id, std::string text, server_time now, server_time end,
               std::string_view record);
    void return_uncounted(job_queue_id queue, std::string text);
    void drop(job_attempt_id id);
    void lose(job_attempt_id id);
    void advance(local_time now);
    void work_on_timers(job_queue_id id);
    void set_timer(job_queue_id id, local_time at);
    [[nodiscard]] static local_time earliest(const ids_by_time& among);
    static void set_time(ids_by_time& among, std::uint64_t id, local_time& old, local_time at);
    void schedule_ask(job_queue_id id, server_time shown, server_time due);
    [[nodiscard]] static server_time relied_end(const queue_state& queue, server_time limit,
                                                server_time now, server_time end);
    [[nodiscard]] local_time expiry(const queue_state& queue, server_time end) const;
    [[nodiscard]] local_time usable_time(const queue_state& queue) const;
    [[nodiscard]] local_time renewal_delay(const queue_state& queue) const;
    [[nodiscard]] local_time renewal_time(const queue_state& queue, local_time expires) const;
    [[nodiscard]] std::string worker_name(job_request_id id, const queue_state& queue) const;

    std::uint64_t nonce_;
    std::string wake_prefix_;
    std::int64_t drift_;
    local_time now_{};
    bool is_connected_ = false;
    std::uint64_t incarnation_ = 0;
    std::uint64_t last_ = 0;
    std::map<job_queue_id, queue_state> queues_;
    std::map<std::string, job_queue_id, std::less<>> ids_;
    // The queues that have timers, by their `next_timer`.
    ids_by_time timers_;
    // Queues that the client perhaps forgets with the next actions.
    std::vector<job_queue_id> unused_;
    std::map<job_request_id, request> requests_;
    std::map<job_attempt_id, attempt> attempts_;
    std::map<job_call_id, call_state> calls_;
    unanswered_list<unanswered_command> unanswered_;
    // Requests whose records have to be fetched, and the number of fetches in flight.
    std::deque<job_request_id> to_fetch_;
    std::size_t fetching_ = 0;
    // Commands that the server has refused temporarily, by the time at which they are sent again.
    std::multimap<local_time, unanswered_command> delayed_;
    std::vector<job_action> actions_;
};

}  // namespace turnstile::redis::detail

#endif
