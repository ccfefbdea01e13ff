// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_JOB_HPP
#define TURNSTILE_REDIS_DETAIL_JOB_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <turnstile/error.hpp>
#include <turnstile/job.hpp>
#include <turnstile/lock_guard.hpp>
#include <turnstile/push_options.hpp>
#include <turnstile/redis/detail/described.hpp>
#include <turnstile/redis/detail/erased_handler.hpp>
#include <turnstile/redis/detail/initiation.hpp>
#include <turnstile/redis/detail/job_operation.hpp>
#include <turnstile/redis/detail/mapped_handler.hpp>
#include <turnstile/redis/session.hpp>
#include <type_traits>
#include <utility>
#include <vector>

// The parts of a job queue that do not depend on the type of the payload, and its conversion to text.

namespace turnstile::redis::detail {

class job_queue_handle;
class held_job;

/// Reads a payload. Throws an exception whose text is the reason if it cannot.
using job_reader = std::function<std::shared_ptr<const void>(std::string)>;

/// An attempt that a worker holds, or nothing.
class job_hold
{
public:
    job_hold() noexcept = default;
    explicit job_hold(std::shared_ptr<held_job> held) noexcept
        : held_(std::move(held))
    {
    }
    job_hold(job_hold&&) noexcept = default;
    job_hold& operator=(job_hold&&) noexcept = default;
    /// A hold whose handler is destroyed returns its job.
    ~job_hold() { release(); }

    [[nodiscard]] bool is_empty() const noexcept { return !held_; }
    [[nodiscard]] bool valid() const noexcept;
    [[nodiscard]] boost::asio::cancellation_slot lost() const noexcept;
    /// The executor of the queue; the system executor if nothing is held.
    [[nodiscard]] boost::asio::any_io_executor executor() const;
    [[nodiscard]] const void* payload() const noexcept;
    [[nodiscard]] job_id id() const noexcept;
    [[nodiscard]] std::ptrdiff_t attempt() const noexcept;
    [[nodiscard]] std::uint64_t fencing_token() const noexcept;
    void progress(double fraction) noexcept;

    /// Returns the job in the background.
    void release() noexcept;

    [[nodiscard]] std::shared_ptr<held_job> take() noexcept
    {
        return std::exchange(held_, nullptr);
    }

private:
    std::shared_ptr<held_job> held_;
};

using hold_handler = erased_handler<void(error_code, job_hold)>;
using answer_handler = erased_handler<void(error_code, std::vector<std::string>)>;

/// Makes a queue. Throws if the name is invalid.
[[nodiscard]] std::shared_ptr<job_queue_handle> make_job_queue(const session& owner,
                                                               std::string_view name,
                                                               job_reader reader);

/// Completes the waiting workers with `operation_aborted`.
void forget(const std::shared_ptr<job_queue_handle>& queue) noexcept;

[[nodiscard]] boost::asio::any_io_executor executor_of(const job_queue_handle& queue) noexcept;
[[nodiscard]] const std::string& name_of(const job_queue_handle& queue) noexcept;

/// Waits for a job.
void start_next(const std::shared_ptr<job_queue_handle>& queue, hold_handler handler);

/// Finishes a job and waits for the next one. If this throws, the hold keeps the job.
void start_finish_and_next(job_hold& hold, hold_handler handler);

/// Ends an attempt. If this throws, the hold keeps the job.
void start_end(job_hold& hold, attempt_end how, std::string error, answer_handler handler);

/// Adds a job, unless @p error is set. The payload is text.
void start_push(const std::shared_ptr<job_queue_handle>& queue, error_code error,
                const std::string& payload, const push_options& options, answer_handler handler);

/// Runs the script `manage` or `list`, unless @p error is set.
void start_job_call(const std::shared_ptr<job_queue_handle>& queue, job_operation what,
                    error_code error, std::vector<std::string> arguments, answer_handler handler);

/// The number in the third word of an answer; 0 if there is none.
[[nodiscard]] std::uint64_t job_number(const std::vector<std::string>& answer) noexcept;

[[nodiscard]] job_counts counts_of_jobs(const std::vector<std::string>& answer) noexcept;

/// The jobs in an answer, with their payloads as text.
[[nodiscard]] std::vector<job_info<std::string>> job_list(job_state state,
                                                          const std::vector<std::string>& answer);

/// How payloads are stored: a text as it is, a described struct as JSON.
template <class T>
struct job_payload
{
    static_assert(structure<T>, "the payload of a job queue over Redis is a std::string, or a "
                                "struct described with Boost.Describe");

    static std::string write(const T& value)
    {
        expect_storable<T>();
        std::string text;
        detail::write_json("payload", text, value);
        // No worker could read a payload that is nested too deeply.
        (void)parse_json({"payload", text});
        return text;
    }

    static T read(const std::string& text)
    {
        T value{};
        detail::read_json("payload", parse_json({"payload", text}), value);
        return value;
    }
};

template <>
struct job_payload<std::string>
{
    static std::string write(std::string value) { return value; }
    static std::string read(std::string text) { return text; }
};

template <class T>
struct to_job_list
{
    job_state state;

    std::vector<job_info<T>> operator()(const std::vector<std::string>& answer) const
    {
        std::vector<job_info<T>> result;
        for (auto& each : job_list(state, answer))
        {
            job_info<T>& added = result.emplace_back();
            added.id = each.id;
            added.state = each.state;
            added.priority = each.priority;
            added.attempt = each.attempt;
            added.progress = each.progress;
            added.failure = each.failure;
            added.error = std::move(each.error);
            try
            {
                if (each.payload)
                    added.payload = job_payload<T>::read(std::move(*each.payload));
            }
            catch (...)
            {
                // The stored text is no payload of type T, or a constructor of T has thrown anything.
                added.payload.reset();
            }
        }
        return result;
    }
};

/// Makes a job from a hold.
template <class Job>
struct to_job
{
    Job operator()(job_hold hold) const
    {
        if (hold.is_empty())
            return Job();
        return turnstile::detail::guard_access::make<Job>(
            typename Job::queue_type::grant_type(std::move(hold)));
    }
};

/// The content of a job: an attempt, or nothing.
template <class T>
class redis_job : public job_hold
{
public:
    redis_job() noexcept = default;
    explicit redis_job(job_hold hold) noexcept
        : job_hold(std::move(hold))
    {
    }

    [[nodiscard]] const T& payload() const noexcept
    {
        return *static_cast<const T*>(job_hold::payload());
    }

    template <class CompletionToken>
    static auto async_finish(redis_job& grant, CompletionToken&& token)
    {
        return grant.end(attempt_end::finished, {}, std::forward<CompletionToken>(token));
    }

    template <class CompletionToken>
    static auto async_fail(redis_job& grant, std::string error, CompletionToken&& token)
    {
        return grant.end(attempt_end::failed, std::move(error),
                         std::forward<CompletionToken>(token));
    }

    template <class CompletionToken>
    static auto async_release(redis_job& grant, CompletionToken&& token)
    {
        return grant.end(attempt_end::abandoned, {}, std::forward<CompletionToken>(token));
    }

    template <class Job, class CompletionToken>
    static auto async_finish_and_next(redis_job& grant, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code, Job)>(
            initiation<job_hold>(grant), token, &start_finish_and_next, to_job<Job>());
    }

private:
    template <class CompletionToken>
    auto end(attempt_end how, std::string error, CompletionToken&& token)
    {
        return boost::asio::async_initiate<CompletionToken, void(error_code)>(
            initiation<job_hold>(*this), token, &start_end, without_result(), how,
            std::move(error));
    }
};

}  // namespace turnstile::redis::detail

#endif
