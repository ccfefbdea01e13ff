// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_SRC_REDIS_SESSION_JOB_ENGINE_HPP
#define TURNSTILE_SRC_REDIS_SESSION_JOB_ENGINE_HPP

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <turnstile/error.hpp>
#include <turnstile/redis/detail/job.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "redis/protocol/job_client.hpp"
#include "redis/session/client_engine.hpp"
#include "redis/session/completion.hpp"
#include "redis/session/held_lease.hpp"
#include "redis/transport/connection.hpp"

namespace turnstile::redis::detail {

class session_core;

/// A job queue of a session.
class job_queue_handle
{
public:
    job_queue_handle(std::shared_ptr<session_core> session, std::string what, job_queue_options how,
                     job_reader reader)
        : core(std::move(session))
        , name(std::move(what))
        , options(std::move(how))
        , read(std::move(reader))
    {
    }

    const std::shared_ptr<session_core> core;
    const std::string name;
    const job_queue_options options;
    const job_reader read;

    /// The client's id of the queue; 0 before its first use. Belongs to the session's strand.
    job_queue_id id = 0;
    /// Whether the object is destroyed. Belongs to the session's strand.
    bool forgotten = false;
    /// The requests of the waiting workers. Belongs to the session's strand.
    std::set<job_request_id> waiting;
};

/// An attempt that is or was held. Accessible from any thread.
class held_job final : public held_lease
{
public:
    held_job(std::shared_ptr<job_queue_handle> which, const job_granted& what,
             std::shared_ptr<const void> content, std::shared_ptr<revocable_executor> where)
        : held_lease(what.expires, std::make_shared<loss_signal>(std::move(where)))
        , queue(std::move(which))
        , attempt(what.attempt)
        , id(what.id)
        , token(what.token)
        , count(what.count)
        , payload(std::move(content))
    {
    }

    const std::shared_ptr<job_queue_handle> queue;
    const job_attempt_id attempt;
    const std::uint64_t id;
    const std::uint64_t token;
    const std::int64_t count;
    const std::shared_ptr<const void> payload;
};

/// A worker that waits for a job.
struct waiting_worker
{
    waiting_worker(std::shared_ptr<job_queue_handle> which, std::shared_ptr<held_job> former,
                   hold_handler handler)
        : queue(std::move(which))
        , finishes(std::move(former))
        , executor(std::make_shared<revocable_executor>(handler.executor()))
        , done(std::move(handler))
    {
    }

    std::shared_ptr<job_queue_handle> queue;
    /// The job to finish before; may be null.
    std::shared_ptr<held_job> finishes;
    std::shared_ptr<revocable_executor> executor;
    completion<error_code, job_hold> done;
    job_request_id request = 0;
};

/// A call to a queue, or the end of an attempt.
struct job_call
{
    using done_type = completion<error_code, std::vector<std::string>>;

    std::shared_ptr<job_queue_handle> queue;
    job_operation op = job_operation::push;
    std::vector<std::string> arguments;
    /// Null if nobody waits for the end of an attempt.
    std::shared_ptr<done_type> done;
    /// The number of removed jobs, if the call had to be continued.
    std::uint64_t removed = 0;
    /// The first answers of a listing that needs several.
    std::vector<std::string> listed{};
};

/**
 * Performs the actions of the client of job queues: the part of a session for them.
 */
class job_engine : public client_engine<job_engine, job_client>
{
public:
    job_engine(connection& wire, std::uint64_t nonce, std::string wake_prefix, std::int64_t drift,
               engine_owner& who);

    void next(const std::shared_ptr<waiting_worker>& worker);
    void cancel(const std::shared_ptr<waiting_worker>& worker);
    void call(const std::shared_ptr<job_call>& what);
    /// Ends an attempt. @p done may be null.
    void end(const std::shared_ptr<held_job>& held, attempt_end how, std::string error,
             const std::shared_ptr<job_call::done_type>& done);
    void progress(const held_job& held, std::string value);
    void forget(job_queue_handle& queue);

    /// Fails all operations, because the configuration has to be changed before the server can be used.
    void fail_after_connect_error(error_code obstacle);

    /// Completes all operations except ends of attempts: with @p unsent if the server certainly executed nothing,
    /// otherwise with @p unknown. Abandons the held jobs.
    void finish_all(error_code unsent, error_code unknown);

    /// Completes the ends of attempts that have not been answered with the error.
    void stop(error_code error);

private:
    friend client_engine;

    using client_engine::perform;
    void perform(const job_command& what);
    void perform(const job_granted& what);
    void perform(const job_refused& what);
    void perform(const job_answered& what);
    void perform(const job_lost& what);
    void perform(const job_renewed& what);
    void fail(const std::shared_ptr<waiting_worker>& worker, error_code error);
    void remove(waiting_worker& worker);
    void fail_all(error_code unsent, error_code unknown);
    void finish_calls(bool ends, error_code unsent, error_code unknown);
    [[nodiscard]] job_queue_id open(job_queue_handle& queue);
    void close(job_queue_handle& queue);
    [[nodiscard]] error_code code_of(client_result result, const std::string& key,
                                     const std::string& text);

    void send_call(const std::shared_ptr<job_call>& what);

    // Ordered by their start.
    std::map<job_request_id, std::shared_ptr<waiting_worker>> waiting_;
    std::unordered_map<job_attempt_id, std::weak_ptr<held_job>> held_;
    std::unordered_map<job_call_id, std::shared_ptr<job_call>> calls_;
};

}  // namespace turnstile::redis::detail

#endif
