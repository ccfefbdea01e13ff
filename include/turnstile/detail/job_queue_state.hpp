// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_DETAIL_JOB_QUEUE_STATE_HPP
#define TURNSTILE_DETAIL_JOB_QUEUE_STATE_HPP

#include <algorithm>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/system_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <turnstile/async_semaphore.hpp>
#include <turnstile/detail/context_registry.hpp>
#include <turnstile/detail/deduplication_ids.hpp>
#include <turnstile/detail/delayed_posting.hpp>
#include <turnstile/detail/executor_context.hpp>
#include <turnstile/detail/hosted.hpp>
#include <turnstile/detail/job_backoff.hpp>
#include <turnstile/detail/job_record.hpp>
#include <turnstile/detail/kept_executor.hpp>
#include <turnstile/detail/start_limit.hpp>
#include <turnstile/detail/waiting_jobs.hpp>
#include <turnstile/error.hpp>
#include <turnstile/job.hpp>
#include <turnstile/push_options.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace turnstile::detail {

/**
 * @brief The state of a local job queue: which job starts next, and how attempts end.
 *
 * Workers wait for a unit of a semaphore, so its queue decides all races between grants,
 * cancellations and destroyed contexts. A unit is the right to start the next job. A unit is
 * available, or a worker has it until it starts a job. The number of units is the number of jobs that
 * may be started now; adjust_units() adds the missing ones and removes the surplus. It never removes
 * a unit that a worker has. So there may be more after a pause, but never more than waiting jobs.
 *
 * Jobs have a pointer to the state and may outlive the queue. Both may outlive the context of the
 * queue. Then no job becomes due by time alone.
 */
template <class T, class Executor, class Synchronization>
class job_queue_state final
    : public std::enable_shared_from_this<job_queue_state<T, Executor, Synchronization>>,
      private context_guest
{
    using clock = std::chrono::steady_clock;

    struct no_mutex
    {
        void lock() noexcept {}
        void unlock() noexcept {}
    };

    using mutex_type = std::conditional_t<Synchronization::is_thread_safe, std::mutex, no_mutex>;

    /// Locks the mutex. Workers that are granted a unit meanwhile are posted after it was unlocked,
    /// because a strand that has shut down destroys their handlers.
    class lock_type
    {
    public:
        explicit lock_type(mutex_type& mutex)
            : lock_(mutex)
        {
        }

    private:
        delayed_posting posting_;
        std::unique_lock<mutex_type> lock_;
    };

public:
    using synchronization_type = Synchronization;
    using semaphore_type = basic_async_semaphore<Executor, Synchronization>;
    using permit_type = typename semaphore_type::permit_type;
    using unit_state_type =
        std::remove_reference_t<decltype(state_access::state(std::declval<semaphore_type&>()))>;

    using record = job_record<T>;
    using record_ptr = std::shared_ptr<record>;
    using job_node = typename job_map<T>::node_type;

    /// A job that has been started, and the number of its attempt.
    struct start_result
    {
        record_ptr job;
        std::ptrdiff_t attempt = 0;
        std::uint64_t token = 0;
    };

    job_queue_state(const Executor& executor, std::size_t max_payload)
        : max_payload_(max_payload)
        , start_units_(std::make_shared<semaphore_type>(executor, 0, semaphore_type::max_capacity))
        , timer_(std::make_unique<timer_type>(executor))
    {
        // After the timer exists, so that the registry shuts down before the reactor.
        if (auto* context = context_of(executor))
            this->template join<timer_registry>(*context);
    }

    /// The executor. The queue must exist.
    [[nodiscard]] Executor executor() const noexcept { return start_units_->get_executor(); }

    /// The executor of the queue; the system executor if the queue or the executor's context has
    /// been destroyed.
    [[nodiscard]] executor_or_system_t<Executor> fallback()
    {
        const lock_type lock(mutex_);
        if (!start_units_)
            return boost::asio::system_executor();
        return state_access::state(*start_units_).executor_or_system();
    }

    /// The queue is destroyed.
    void close() noexcept
    {
        // Destroyed while the mutex is not locked, since the executor may own its context.
        std::shared_ptr<semaphore_type> units;
        {
            const lock_type lock(mutex_);
            units = std::move(start_units_);
            // Under the mutex, since jobs may use the timer meanwhile.
            if (timer_)
                timer_->waits.reset();
        }
        quit();
    }

    // --- for producers and operators ---

    std::pair<error_code, job_id> push(T payload, push_options options)
    {
        if (const error_code error = options.check())
            return {error, 0};
        if constexpr (std::is_same_v<T, std::string>)
            if (payload.empty() || payload.size() > max_payload_)
                return {errc::invalid_payload, 0};
        // Moves the payload while the mutex is not locked.
        const auto added = std::make_shared<record>(std::move(payload), std::move(options));
        job_node node = make_node(added);
        const lock_type lock(mutex_);
        added->id = last_id_ + 1;
        const auto now = clock::now();
        names_.forget_ended(now);
        deduplication_ids::node_type named;
        if (const auto& name = added->options.deduplication_id())
        {
            if (const auto found = names_.find(*name, now))
            {
                adjust_units();
                return {{}, *found};
            }
            named = deduplication_ids::make(*name, added->id, now + added->options.window());
        }
        move_due_jobs();
        if (const auto delay = added->options.delay(); delay.count() > 0)
            postpone(std::move(node), delay);
        else
            waiting_.append(std::move(node));
        names_.add(std::move(named));
        last_id_ = added->id;
        adjust_units();
        return {{}, added->id};
    }

    void pause(bool paused)
    {
        const lock_type lock(mutex_);
        is_paused_ = paused;
        adjust_units();
    }

    /// Removes the waiting and delayed jobs. Returns their number.
    std::size_t drain()
    {
        // Payloads are destroyed while the mutex is not locked.
        decltype(waiting_) waiting;
        decltype(delayed_) delayed;
        const lock_type lock(mutex_);
        // The remaining units belong to workers. Each of these workers keeps a job.
        take_back_units(0);
        waiting = waiting_.keep_next(units_);
        delayed.swap(delayed_);
        waiting.for_each([this](const record_ptr& each) { forget_name(*each); });
        for (const auto& [due, each] : delayed)
            forget_name(*each);
        adjust_units();
        return waiting.size() + delayed.size();
    }

    /// Removes the dead letters. Returns their number.
    std::size_t purge()
    {
        // Payloads are destroyed while the mutex is not locked.
        decltype(dead_) removed;
        const lock_type lock(mutex_);
        removed.swap(dead_);
        adjust_units();
        return removed.size();
    }

    /// Makes a dead letter wait again.
    error_code retry(job_id id)
    {
        const lock_type lock(mutex_);
        job_node found = dead_.extract(key(id));
        if (!found)
        {
            adjust_units();
            return errc::unknown_job;
        }
        record& job = *found.mapped();
        job.attempt = 0;
        job.failure = job_failure::none;
        job.error.clear();
        move_due_jobs();
        waiting_.append(std::move(found));
        adjust_units();
        return {};
    }

    /// Lets at most @p starts jobs start in each period; 0 for no limit.
    error_code limit_rate(std::ptrdiff_t starts, push_options::duration period)
    {
        if (starts < 0)
            return errc::invalid_count;
        if (starts > 0 && (period.count() <= 0 || period > push_options::longest))
            return errc::invalid_duration;
        const lock_type lock(mutex_);
        limit_.set(static_cast<std::size_t>(starts), period);
        adjust_units();
        return {};
    }

    job_counts counts()
    {
        const lock_type lock(mutex_);
        adjust_units();
        return {waiting_.size(), delayed_.size(), active_.size(), dead_.size(), is_paused_};
    }

    std::pair<error_code, std::vector<job_info<T>>> list(job_state state, std::size_t offset,
                                                         std::size_t count)
    {
        std::pair<error_code, std::vector<job_info<T>>> result;
        if (count < 1 || count > max_page || state < job_state::waiting || state > job_state::dead)
        {
            result.first = errc::invalid_count;
            return result;
        }
        const std::vector<record_ptr> found = describe(state, offset, count, result.second);
        // Payloads are copied while the mutex is not locked.
        for (std::size_t i = 0; i < found.size(); ++i)
            result.second[i].payload.emplace(found[i]->payload);
        return result;
    }

    // --- for workers ---

    /// The semaphore of the workers; null if the queue is destroyed. Moves due jobs from delayed to
    /// waiting, which matters if the context of the queue does not run.
    [[nodiscard]] std::shared_ptr<semaphore_type> units()
    {
        const lock_type lock(mutex_);
        adjust_units();
        return start_units_;
    }

    /// Takes the unit of a worker that will start no job. Another worker gets one if that is still
    /// allowed.
    void take_back(permit_type unit)
    {
        const lock_type lock(mutex_);
        if (!start_units_)
            return;
        unit.forget();
        --units_;
        adjust_units();
    }

    /// Starts a job for a worker that has a unit. Returns nothing if the queue is destroyed.
    std::optional<start_result> start(permit_type unit)
    {
        const lock_type lock(mutex_);
        if (!start_units_)
            return std::nullopt;
        unit.forget();
        --units_;
        if (limit_.is_set())
            limit_.count(clock::now());
        job_node next = waiting_.take_next();
        const record_ptr job = next.mapped();
        job->state = job_state::active;
        move_to(active_, key(++last_token_), std::move(next));
        const std::ptrdiff_t attempt = ++job->attempt;
        adjust_units();
        return start_result{job, attempt, last_token_};
    }

    /// Whether an attempt is in progress.
    [[nodiscard]] bool is_active(std::uint64_t token)
    {
        const lock_type lock(mutex_);
        return start_units_ && active_.contains(key(token));
    }

    void set_progress(std::uint64_t token, double fraction)
    {
        const lock_type lock(mutex_);
        if (const auto found = active_.find(key(token)); found != active_.end())
            // Zero also for a number that is none.
            found->second->progress = fraction > 0 ? std::min(fraction, 1.0) : 0;
    }

    error_code finish(std::uint64_t token)
    {
        const lock_type lock(mutex_);
        const job_node ended = end_attempt(token);
        if (!ended)
            return errc::lost;
        forget_name(*ended.mapped());
        adjust_units();
        return {};
    }

    /// Ends an attempt without success. Returns errc::lost if it was not in progress.
    error_code fail(std::uint64_t token, job_failure why, std::string error = {})
    {
        const lock_type lock(mutex_);
        job_node ended = end_attempt(token);
        if (!ended)
            return errc::lost;
        move_due_jobs();
        record& job = *ended.mapped();
        job.progress = 0;
        job.failure = why;
        if (why == job_failure::failed)
            job.error = std::move(error);
        if (job.attempt >= job.options.attempts())
        {
            job.state = job_state::dead;
            forget_name(job);
            move_to(dead_, key(job.id), std::move(ended));
        }
        else if (why == job_failure::abandoned)
            waiting_.prepend(std::move(ended));
        else if (const auto delay = backoff_.after(job.attempt, job.options); delay.count() > 0)
            postpone(std::move(ended), delay);
        else
            waiting_.append(std::move(ended));
        adjust_units();
        return {};
    }

    static constexpr std::size_t max_page = 512;

private:
    /// The timer, which ends with its context.
    struct timer_type final : context_remains
    {
        explicit timer_type(const Executor& executor)
            : waits(executor)
        {
        }

        /// Empty if the queue is destroyed.
        std::optional<
            boost::asio::basic_waitable_timer<clock, boost::asio::wait_traits<clock>, Executor>>
            waits;
    };

    static job_node make_node(record_ptr job)
    {
        job_map<T> made;
        return made.extract(made.emplace(0, std::move(job)));
    }

    /// The place of a job with this id or token.
    static std::int64_t key(std::uint64_t number) noexcept
    {
        return static_cast<std::int64_t>(number);
    }

    void postpone(job_node job, push_options::duration delay) noexcept
    {
        job.mapped()->state = job_state::delayed;
        const clock::duration due = clock::now().time_since_epoch() + delay;
        move_to(delayed_, due.count(), std::move(job));
    }

    /// When the first delayed job becomes due.
    [[nodiscard]] clock::time_point first_due() const noexcept
    {
        return clock::time_point(clock::duration(delayed_.begin()->first));
    }

    /// Describes jobs without their payloads, and returns them.
    std::vector<record_ptr> describe(job_state state, std::size_t offset, std::size_t count,
                                     std::vector<job_info<T>>& infos)
    {
        std::vector<record_ptr> found;
        const lock_type lock(mutex_);
        adjust_units();
        const auto add = [&](const record_ptr& each)
        {
            if (offset > 0)
                --offset;
            else if (found.size() < count)
            {
                infos.push_back({each->id, each->state, std::nullopt, each->options.priority(),
                                 each->attempt, each->progress, each->failure, each->error});
                found.push_back(each);
            }
        };
        const job_map<T>& others = state == job_state::delayed  ? delayed_
                                   : state == job_state::active ? active_
                                                                : dead_;
        if (state == job_state::waiting)
            waiting_.for_each(add);
        else
            for (const auto& [place, each] : others)
                add(each);
        return found;
    }

    job_node end_attempt(std::uint64_t token) noexcept
    {
        return start_units_ ? active_.extract(key(token)) : job_node();
    }

    /// The job is finished, dead or removed.
    void forget_name(const record& job) noexcept
    {
        if (const auto& name = job.options.deduplication_id())
            names_.job_ended(*name, job.id, clock::now());
    }

    // --- units and time ---

    /// Takes available units back until @p most are left. Units of workers stay.
    void take_back_units(std::size_t most) noexcept
    {
        while (units_ > most)
        {
            const auto surplus =
                std::min(static_cast<std::ptrdiff_t>(units_ - most), start_units_->available());
            if (surplus == 0)
                return;
            // Fails if a worker has acquired a unit since. Then there are fewer to take back.
            if (auto unit = start_units_->try_acquire(surplus))
            {
                unit->forget();
                units_ -= static_cast<std::size_t>(surplus);
            }
        }
    }

    /// Moves due jobs from delayed to waiting. A job that begins to wait later is behind them.
    void move_due_jobs() noexcept
    {
        if (delayed_.empty())
            return;
        const clock::time_point now = clock::now();
        while (!delayed_.empty() && first_due() <= now)
            waiting_.append(delayed_.extract(delayed_.begin()));
    }

    /// Moves due jobs, and lets as many workers start as may.
    void adjust_units() noexcept
    {
        if (!start_units_)
            return;
        move_due_jobs();
        const clock::time_point now = limit_.is_set() ? clock::now() : clock::time_point();
        const std::size_t allowed = std::min(limit_.remaining(now), limit_of_units);
        const std::size_t most = is_paused_ ? 0 : std::min(waiting_.size(), allowed);
        if (units_ < most)
        {
            start_units_->release(static_cast<std::ptrdiff_t>(most - units_));
            units_ = most;
        }
        take_back_units(most);
        std::optional<clock::time_point> next;
        if (!delayed_.empty())
            next = first_due();
        if (const auto end = limit_.period_end(); end && waiting_.size() > units_ && !is_paused_)
            next = next ? std::min(*next, *end) : *end;
        set_timer(next);
    }

    /// Makes the timer wait, or ends its wait. No effect if the context has ended. If the wait
    /// cannot be started, the next operation on the queue tries again.
    void set_timer(std::optional<clock::time_point> when) noexcept
    try
    {
        if (when == timer_due_ || !timer_)
            return;
        timer_due_.reset();
        timer_->waits->cancel();
        if (!when)
            return;
        timer_->waits->expires_at(*when);
        timer_->waits->async_wait(
            [due = *when, weak = this->weak_from_this()](const error_code& error)
            {
                const auto self = error ? nullptr : weak.lock();
                if (!self)
                    return;
                const lock_type lock(self->mutex_);
                if (self->timer_due_ == due)
                    self->timer_due_.reset();
                self->adjust_units();
            });
        timer_due_ = when;
    }
    catch (...)  // NOLINT(bugprone-empty-catch): a job's destructor calls this, too
    {
    }

    context_remains* context_ends() noexcept override
    {
        const lock_type lock(mutex_);
        return timer_.release();
    }

    static constexpr auto limit_of_units = static_cast<std::size_t>(semaphore_type::max_capacity);

    const std::size_t max_payload_;
    mutex_type mutex_;
    // Null if the queue is destroyed. Shared with workers that start to wait meanwhile.
    std::shared_ptr<semaphore_type> start_units_;
    // Available units, and those of workers that have not yet started a job.
    std::size_t units_ = 0;
    job_id last_id_ = 0;
    std::uint64_t last_token_ = 0;
    bool is_paused_ = false;
    waiting_jobs<T> waiting_;
    // The keys are the time at which a job becomes due, the token, and the id.
    job_map<T> delayed_;
    job_map<T> active_;
    job_map<T> dead_;
    deduplication_ids names_;
    start_limit limit_;
    // Null if its context has ended.
    std::unique_ptr<timer_type> timer_;
    std::optional<clock::time_point> timer_due_;
    job_backoff backoff_;
};

}  // namespace turnstile::detail

#endif
