// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/session/job_engine.hpp"

#include <array>
#include <boost/asio/error.hpp>
#include <exception>
#include <new>
#include <string>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/job_queue.hpp>

#include "redis/protocol/job_text.hpp"
#include "redis/protocol/protocol.hpp"
#include "redis/session/error_of.hpp"
#include "redis/transport/scripts.hpp"

namespace turnstile::redis::detail {

job_engine::job_engine(connection& wire, std::uint64_t nonce, std::string wake_prefix,
                       std::int64_t drift, engine_owner& who)
    : client_engine(job_client(nonce, std::move(wake_prefix), drift), wire, who)
{
}

// --- operations ---------------------------------------------------------------------------------

job_queue_id job_engine::open(job_queue_handle& queue)
{
    if (queue.id == 0)
        queue.id = client_.open_queue(queue.options);
    return queue.id;
}

void job_engine::close(job_queue_handle& queue)
{
    if (queue.id != 0)
        client_.close_queue(std::exchange(queue.id, 0));
}

void job_engine::next(const std::shared_ptr<waiting_worker>& worker)
{
    const auto former = std::exchange(worker->finishes, nullptr);
    if (former)
        held_.erase(former->attempt);
    // The lease may have expired before this ran on the strand.
    if (former && !client_.holds(former->attempt))
        return fail(worker, turnstile::errc::lost);
    if (const error_code why = owner_->why_refused())
        return fail(worker, why);
    if (worker->queue->forgotten)
    {
        if (former)
            end(former, attempt_end::finished, {}, nullptr);
        return fail(worker, boost::asio::error::operation_aborted);
    }
    worker->request = client_.next(boot_time(), open(*worker->queue), former ? former->attempt : 0);
    waiting_.emplace(worker->request, worker);
    worker->queue->waiting.insert(worker->request);
    perform();
}

void job_engine::cancel(const std::shared_ptr<waiting_worker>& worker)
{
    if (worker->request == 0)
        return;
    client_.cancel(boot_time(), worker->request);
    fail(worker, boost::asio::error::operation_aborted);
    perform();
}

void job_engine::call(const std::shared_ptr<job_call>& what)
{
    if (const error_code why = owner_->why_refused())
        what->done->complete(why, {});
    else
        send_call(what);
}

void job_engine::send_call(const std::shared_ptr<job_call>& what)
{
    calls_.emplace(client_.call(boot_time(), open(*what->queue), what->op, what->arguments), what);
    // The queue object was destroyed, so this continued call must not keep the queue open.
    if (what->queue->forgotten)
        close(*what->queue);
    perform();
}

void job_engine::end(const std::shared_ptr<held_job>& held, attempt_end how, std::string error,
                     const std::shared_ptr<job_call::done_type>& done)
{
    held_.erase(held->attempt);
    // The lease may have expired before this ran on the strand.
    if (!client_.holds(held->attempt))
        return complete(done, turnstile::errc::lost, {});
    const auto call = std::make_shared<job_call>();
    call->queue = held->queue;
    call->op = job_operation::end;
    call->done = done;
    calls_.emplace(client_.end(boot_time(), held->attempt, how, std::move(error)), call);
    perform();
}

void job_engine::progress(const held_job& held, std::string value)
{
    client_.progress(boot_time(), held.attempt, std::move(value));
    perform();
}

void job_engine::forget(job_queue_handle& queue)
{
    queue.forgotten = true;
    while (!queue.waiting.empty())
        cancel(std::shared_ptr(waiting_.at(*queue.waiting.begin())));
    close(queue);
    perform();
}

void job_engine::fail_after_connect_error(error_code obstacle)
{
    // The client still sends the ends of attempts when it is connected, so that no finished job runs again.
    fail_all(obstacle, errc::unknown_outcome);
    stop(errc::unknown_outcome);
    perform();
}

void job_engine::finish_all(error_code unsent, error_code unknown)
{
    fail_all(unsent, unknown);
    for (const auto& [attempt, weak] : std::exchange(held_, {}))
    {
        if (const auto held = weak.lock(); held && held->end())
            held->report_loss();
        if (client_.holds(attempt))
            client_.end(boot_time(), attempt, attempt_end::abandoned);
    }
    client_.leave(boot_time());
    perform();
}

/// Completes all operations except ends of attempts.
void job_engine::fail_all(error_code unsent, error_code unknown)
{
    for (const auto& [id, worker] : std::map(waiting_))
        fail(worker, client_.cancel(boot_time(), id) ? unknown : unsent);
    finish_calls(false, unsent, unknown);
}

void job_engine::stop(error_code error)
{
    finish_calls(true, error, error);
}

/// Completes the ends of attempts, or all other calls.
void job_engine::finish_calls(bool ends, error_code unsent, error_code unknown)
{
    std::erase_if(calls_,
                  [&](const auto& each)
                  {
                      const auto& [id, call] = each;
                      if ((call->op == job_operation::end) != ends)
                          return false;
                      const bool did_nothing = client_.drop_call(id) && call->removed == 0;
                      complete(call->done, did_nothing ? unsent : unknown, {});
                      return true;
                  });
}

// --- actions of the client ----------------------------------------------------------------------

void job_engine::perform(const job_command& what)
{
    const std::array<std::string, 1> keys{what.key};
    connection_->eval(script_named(name_of(what.op)), keys, what.arguments, on_reply(what.number));
}

void job_engine::perform(const job_granted& what)
{
    const auto found = waiting_.find(what.request);
    if (found == waiting_.end())
    {
        client_.end(boot_time(), what.attempt, attempt_end::uncounted);
        return;
    }
    const std::shared_ptr<waiting_worker> worker = found->second;
    std::shared_ptr<const void> payload;
    attempt_end how = attempt_end::buried;
    error_code error = errc::bad_state;
    std::string reason = "the payload cannot be read";
    try
    {
        payload = worker->queue->read(what.payload);
    }
    catch (const std::bad_alloc&)
    {
        // There may be enough memory later, or in another process.
        how = attempt_end::failed;
        error = boost::asio::error::no_memory;
        reason = "there is not enough memory for the payload";
    }
    catch (const std::exception& thrown)
    {
        if (const std::string text = thrown.what(); !text.empty())
            reason = text.substr(0, job_queue<std::string>::job_type::max_error);
    }
    catch (...)  // NOLINT(bugprone-empty-catch): a constructor of the payload may throw anything
    {
    }
    if (!payload)
    {
        owner_->report(error, worker->queue->options.key,
                       "job " + std::to_string(what.id) + ": " + reason);
        remove(*worker);
        worker->request = client_.reject(boot_time(), what.attempt, how, reason);
        waiting_.emplace(worker->request, worker);
        worker->queue->waiting.insert(worker->request);
        return;
    }
    const auto held =
        std::make_shared<held_job>(worker->queue, what, std::move(payload), worker->executor);
    held_.emplace(what.attempt, held);
    // If the worker's context has ended, no handler was posted, so the attempt does not count.
    remove(*worker);
    if (!worker->done.complete({}, job_hold(held)))
        end(held, attempt_end::uncounted, {}, nullptr);
}

void job_engine::perform(const job_refused& what)
{
    const auto found = waiting_.find(what.request);
    if (found == waiting_.end())
        return;
    const std::shared_ptr<waiting_worker> worker = found->second;
    fail(worker, code_of(what.result, worker->queue->options.key, what.text));
}

void job_engine::perform(const job_answered& what)
{
    const auto found = calls_.find(what.call);
    if (found == calls_.end())
        return;
    const std::shared_ptr<job_call> ended = found->second;
    calls_.erase(found);
    const error_code code = code_of(what.result, ended->queue->options.key, what.text);
    std::vector<std::string> answer = what.answer;
    std::vector<std::string>& listed = ended->listed;
    if (!code && ended->op == job_operation::list && (answer.size() > 1 || !listed.empty()))
    {
        listed.insert(listed.end(), answer.begin() + (listed.empty() ? 0 : 1), answer.end());
        if (job_word(answer[0], 2) == "1")
        {
            const auto jobs = static_cast<std::int64_t>(answer.size() / 4);
            std::string& offset = ended->arguments.at(1);
            std::string& number = ended->arguments.at(2);
            offset = std::to_string(number_in(offset) + jobs);
            number = std::to_string(number_in(number) - jobs);
            return send_call(ended);
        }
        answer = std::move(listed);
    }
    if (!code && ended->op == job_operation::manage)
    {
        ended->removed += job_number(answer);
        if (job_word(answer[0], 3) == "1")
            return send_call(ended);
        answer[0] = "ok 0 " + std::to_string(ended->removed);
    }
    complete(ended->done, code, std::move(answer));
}

void job_engine::perform(const job_lost& what)
{
    const auto held = find_held(held_, what.attempt);
    held_.erase(what.attempt);
    // The worker may have ended the job, and that has not reached the strand.
    if (held && held->end())
        held->report_loss();
}

void job_engine::perform(const job_renewed& what)
{
    if (const auto held = find_held(held_, what.attempt))
        held->set_expiry(what.expires);
}

error_code job_engine::code_of(client_result result, const std::string& key,
                               const std::string& text)
{
    const error_code code = error_of(result, text);
    if (is_about_keys(result, text))
        owner_->report(code, key, text);
    return code;
}

void job_engine::fail(const std::shared_ptr<waiting_worker>& worker, error_code error)
{
    remove(*worker);
    worker->done.complete(error, {});
}

/// Removes a worker that no longer waits, or never did.
void job_engine::remove(waiting_worker& worker)
{
    const job_request_id id = std::exchange(worker.request, 0);
    waiting_.erase(id);
    worker.queue->waiting.erase(id);
}

}  // namespace turnstile::redis::detail
