// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/job_queue.hpp>

#include "redis/objects/lock_support.hpp"
#include "redis/protocol/job_text.hpp"
#include "redis/protocol/protocol.hpp"
#include "redis/session/job_engine.hpp"
#include "redis/session/session_core.hpp"

namespace turnstile::redis::detail {

namespace {

/// The number in this word of an answer's first text; 0 if there is none.
std::uint64_t number_at(const std::vector<std::string>& answer, std::size_t which) noexcept
{
    const std::int64_t number = answer.empty() ? 0 : number_in(job_word(answer[0], which));
    return static_cast<std::uint64_t>(number);
}

job_failure failure_of(char letter) noexcept
{
    switch (letter)
    {
    case 'f':
        return job_failure::failed;
    case 'a':
        return job_failure::abandoned;
    case 't':
        return job_failure::timed_out;
    default:
        return job_failure::none;
    }
}

void start(const std::shared_ptr<waiting_worker>& worker)
{
    session_core& core = *worker->queue->core;
    worker->done.on_cancel(
        [weak = std::weak_ptr(worker)]
        {
            if (const auto cancelled = weak.lock())
                cancelled->queue->core->post([cancelled](session_engine& engine)
                                             { engine.jobs().cancel(cancelled); });
        });
    if (!core.post(worker->done, [worker](session_engine& engine) { engine.jobs().next(worker); }))
        worker->done.complete(errc::session_closed, {});
}

}  // namespace

// --- holds --------------------------------------------------------------------------------------

bool job_hold::valid() const noexcept
{
    return held_ && held_->valid();
}

boost::asio::cancellation_slot job_hold::lost() const noexcept
{
    return held_ ? held_->lost_slot() : boost::asio::cancellation_slot();
}

boost::asio::any_io_executor job_hold::executor() const
{
    return held_ ? held_->queue->core->fallback() : system_executor();
}

const void* job_hold::payload() const noexcept
{
    return held_->payload.get();
}

job_id job_hold::id() const noexcept
{
    return held_ ? held_->id : 0;
}

std::ptrdiff_t job_hold::attempt() const noexcept
{
    return held_ ? static_cast<std::ptrdiff_t>(held_->count) : 0;
}

std::uint64_t job_hold::fencing_token() const noexcept
{
    return held_ ? held_->token : 0;
}

void job_hold::progress(double fraction) noexcept
{
    if (!held_)
        return;
    // Zero also for a number that is none.
    const double value = fraction > 0 ? std::min(fraction, 1.0) : 0;
    held_->queue->core->post([held = held_, text = fmt::format("{}", value)](session_engine& engine)
                             { engine.jobs().progress(*held, text); });
}

void job_hold::release() noexcept
{
    if (const auto held = take(); held && held->give_up())
        held->queue->core->post([held](session_engine& engine)
                                { engine.jobs().end(held, attempt_end::abandoned, {}, nullptr); });
}

// --- operations ---------------------------------------------------------------------------------

std::shared_ptr<job_queue_handle> make_job_queue(const session& owner, std::string_view name,
                                                 job_reader reader)
{
    check_name(name);
    const auto& core = session_access::core(owner);
    job_queue_options options;
    options.key = object_key(core->settings.prefix, "jobs", name);
    options.lease = core->settings.lease;
    options.margin = std::min(core->settings.loss_margin, core->settings.lease / 4);
    return std::make_shared<job_queue_handle>(core, std::string(name), std::move(options),
                                              std::move(reader));
}

void forget(const std::shared_ptr<job_queue_handle>& queue) noexcept
{
    queue->core->post([queue](session_engine& engine) { engine.jobs().forget(*queue); });
}

boost::asio::any_io_executor executor_of(const job_queue_handle& queue) noexcept
{
    return queue.core->fallback();
}

const std::string& name_of(const job_queue_handle& queue) noexcept
{
    return queue.name;
}

void start_next(const std::shared_ptr<job_queue_handle>& queue, hold_handler handler)
{
    start(std::make_shared<waiting_worker>(queue, nullptr, std::move(handler)));
}

void start_finish_and_next(job_hold& hold, hold_handler handler)
{
    if (hold.is_empty())
        return complete(std::move(handler), turnstile::errc::empty_guard, {});
    consume(hold, hold.take(),
            [&](const std::shared_ptr<held_job>& held)
            {
                start(std::make_shared<waiting_worker>(held->queue, held, std::move(handler)));
                held->give_up();
            });
}

void start_end(job_hold& hold, attempt_end how, std::string error, answer_handler handler)
{
    const auto done = std::make_shared<job_call::done_type>(std::move(handler));
    if (hold.is_empty())
        return complete(done, turnstile::errc::empty_guard, {});
    const auto post_end = [&](const std::shared_ptr<held_job>& held)
    {
        const bool posted = held->queue->core->post(
            *done, [held, how, error = std::move(error), done](session_engine& engine)
            { engine.jobs().end(held, how, error, done); });
        held->give_up();
        if (!posted)
            done->complete(errc::session_closed, {});
    };
    consume(hold, hold.take(), post_end);
}

void start_push(const std::shared_ptr<job_queue_handle>& queue, error_code error,
                const std::string& payload, const push_options& options, answer_handler handler)
{
    start_job_call(queue, job_operation::push, error, push_arguments(options, payload),
                   std::move(handler));
}

void start_job_call(const std::shared_ptr<job_queue_handle>& queue, job_operation what,
                    error_code error, std::vector<std::string> arguments, answer_handler handler)
{
    if (error)
        return complete(std::move(handler), error, {});
    ask(*queue->core, std::move(handler),
        [queue, what, arguments = std::move(arguments)](session_engine& engine,
                                                        const auto& done) mutable
        {
            engine.jobs().call(
                std::make_shared<job_call>(job_call{queue, what, std::move(arguments), done}));
        });
}

// --- answers ------------------------------------------------------------------------------------

std::uint64_t job_number(const std::vector<std::string>& answer) noexcept
{
    return number_at(answer, 2);
}

job_counts counts_of_jobs(const std::vector<std::string>& answer) noexcept
{
    return {number_at(answer, 3), number_at(answer, 4), number_at(answer, 5), number_at(answer, 6),
            number_at(answer, 2) == 1};
}

std::vector<job_info<std::string>> job_list(job_state state, const std::vector<std::string>& answer)
{
    std::vector<job_info<std::string>> result;
    for (std::size_t i = 1; i + 3 < answer.size(); i += 4)
    {
        const std::vector<std::string> entry{answer[i]};
        job_info<std::string>& each = result.emplace_back();
        each.state = state;
        each.id = number_at(entry, 0);
        const bool is_active = state == job_state::active;
        each.attempt = static_cast<std::ptrdiff_t>(number_at(entry, is_active ? 2 : 1));
        const std::string_view failure = job_word(entry[0], is_active ? 3 : 2);
        each.failure = failure_of(failure.empty() ? '-' : failure[0]);
        if (auto job = parse_job_record(answer[i + 1]))
        {
            each.payload = std::move(job->first);
            each.priority = job->second;
        }
        // std::strtod depends on the locale.
        const std::string& progress = answer[i + 2];
        std::from_chars(progress.data(), progress.data() + progress.size(), each.progress);
        each.error = answer[i + 3];
    }
    return result;
}

}  // namespace turnstile::redis::detail
