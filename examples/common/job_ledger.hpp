// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_JOB_LEDGER_HPP
#define TURNSTILE_EXAMPLES_COMMON_JOB_LEDGER_HPP

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fmt/format.h>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace examples::scheduler {

/// Records what happens to each job. The record is in memory that forked processes share, so it survives a process that
/// is killed, and costs no command.
///
/// A worker records that it is going to report a job as finished, and then the answer of the queue. If it is killed or
/// disconnected in between, only the queue knows the answer: the job was finished if it is not in the queue at the end.
/// If the queue starts such a job again, the ledger cannot tell whether the first finish was accepted as well.
class ledger
{
public:
    explicit ledger(int jobs)
        : size_(sizeof(totals) + static_cast<std::size_t>(jobs) * sizeof(entry))
        , memory_(::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
    {
        if (memory_ == MAP_FAILED)
            throw std::bad_alloc();
        totals_ = new (memory_) totals;
        // The memory is zero, but no object exists there before it is constructed.
        auto* const first = reinterpret_cast<entry*>(totals_ + 1);
        std::uninitialized_value_construct_n(first, jobs);
        entries_ = {first, static_cast<std::size_t>(jobs)};
    }

    ledger(const ledger&) = delete;
    ledger& operator=(const ledger&) = delete;
    ~ledger() { ::munmap(memory_, size_); }

    /// Nanoseconds of a clock that all processes of a machine share.
    static std::int64_t now()
    {
        return std::chrono::duration_cast<std::chrono::nanoseconds>(
                   std::chrono::steady_clock::now().time_since_epoch())
            .count();
    }

    /// Jobs are pushed in the order of their numbers.
    void note_push(int number)
    {
        if (number == 0)
            totals_->begin = now();
        totals_->pushed = number + 1;
    }

    /// @param delay    the time since the job was generated.
    /// @param is_capable whether the worker is capable of doing the job.
    void note_start(int number, std::int64_t delay, bool is_capable)
    {
        entry& e = at(number);
        if (e.starts++ == 0)
            e.delay = delay;
        if (!is_capable)
            ++totals_->incapable;
    }

    /// The worker is about to report that it has finished the job.
    void note_report(int number, int worker) { at(number).reporter = worker; }

    /// The queue has answered the report.
    void note_answer(int number, int worker, bool was_accepted)
    {
        entry& e = at(number);
        // Another worker may have started the job meanwhile, and reported it.
        e.reporter.compare_exchange_strong(worker, 0);
        if (!was_accepted)
        {
            ++totals_->rejected;
            return;
        }
        if (e.finishes++ == 0)
            ++totals_->finished;
        totals_->end = now();
    }

    void note_pause() { ++totals_->pauses; }

    /// A participant lost its connection and has begun again. A worker may have received no answer to its report.
    void note_restart() { ++totals_->restarts; }

    /// Asks the processes to end.
    void close() { totals_->is_closed = 1; }

    [[nodiscard]] bool is_closed() const noexcept { return totals_->is_closed != 0; }

    [[nodiscard]] int jobs() const noexcept { return static_cast<int>(entries_.size()); }

    /// The number of jobs that were pushed.
    [[nodiscard]] int pushed() const noexcept { return totals_->pushed; }

    /// The number of jobs that were finished, as far as their workers know.
    [[nodiscard]] int finished() const noexcept { return totals_->finished; }

    /// Whether each job was finished or reported. Then only the queue knows whether all are done.
    [[nodiscard]] bool all_reported() const
    {
        return std::all_of(entries_.begin(), entries_.end(),
                           [](const entry& e) { return e.finishes != 0 || e.reporter != 0; });
    }

    /// Prints throughput, latency and the jobs that ran again.
    void show(int killed) const
    {
        std::vector<std::int64_t> delays;
        int again = 0;
        int starts = 0;
        for (const entry& e : entries_)
        {
            delays.push_back(e.delay);
            again += e.starts > 1 ? 1 : 0;
            starts += e.starts;
        }
        std::sort(delays.begin(), delays.end());
        const auto at_part = [&](double part)
        {
            const auto last = static_cast<double>(delays.size() - 1);
            return static_cast<double>(delays[static_cast<std::size_t>(part * last)]) / 1e6;
        };
        const auto duration = static_cast<double>(totals_->end - totals_->begin) / 1e9;
        fmt::print("{} jobs in {:.2f} s: {:.0f} jobs a second\n", jobs(), duration,
                   jobs() / std::max(duration, 1e-9));
        fmt::print(
            "from push to start: p50 {:.2f} ms, p90 {:.2f} ms, p99 {:.2f} ms, at most {:.2f} "
            "ms\n",
            at_part(0.5), at_part(0.9), at_part(0.99), at_part(1));
        fmt::print("killed: {}, pauses: {}, restarts after a lost connection: {}\n", killed,
                   totals_->pauses.load(), totals_->restarts.load());
        fmt::print("starts: {}, jobs that ran again: {}{}\n", starts, again, repeated());
        fmt::print("finishes: {} accepted, {} rejected, {} without an answer, because the "
                   "worker was killed or disconnected\n",
                   totals_->finished.load(), totals_->rejected.load(), unanswered());
    }

    /// Describes each mistake in a sentence. The list is empty if each job was finished, and none twice as
    /// far as the workers know.
    ///
    /// @param killed        the number of workers that were killed, each with one job at most.
    /// @param queues_are_empty whether the queues have no jobs left, not even dead letters.
    [[nodiscard]] std::vector<std::string> complaints(int killed, bool queues_are_empty) const
    {
        std::vector<std::string> result;
        for (int number = 0; number != jobs(); ++number)
        {
            const entry& e = at(number);
            if (number >= pushed())
                result.push_back(fmt::format("job {} was not pushed", number));
            else if (e.starts == 0)
                result.push_back(fmt::format("job {} was never started", number));
            else if (e.finishes > 1)
                result.push_back(
                    fmt::format("job {} was finished {} times", number, e.finishes.load()));
            else if (e.finishes == 0 && e.reporter == 0)
                result.push_back(fmt::format("job {} was not finished", number));
        }
        const int interrupted = killed + totals_->restarts;
        if (unanswered() > interrupted)
            result.push_back(fmt::format("{} reports have no answer, but only {} workers were "
                                         "killed or disconnected",
                                         unanswered(), interrupted));
        if (totals_->incapable != 0)
            result.push_back(fmt::format("{} jobs were started by workers without the capability",
                                         totals_->incapable.load()));
        if (!queues_are_empty)
            result.emplace_back("jobs are left in the queues");
        return result;
    }

private:
    struct entry
    {
        std::atomic<std::int64_t> delay{0};
        std::atomic<int> starts{0};
        /// The worker whose report has no answer yet.
        std::atomic<int> reporter{0};
        std::atomic<int> finishes{0};
    };

    struct totals
    {
        std::atomic<std::int64_t> begin{0};
        std::atomic<std::int64_t> end{0};
        std::atomic<int> pushed{0};
        std::atomic<int> finished{0};
        std::atomic<int> rejected{0};
        std::atomic<int> incapable{0};
        std::atomic<int> pauses{0};
        std::atomic<int> restarts{0};
        std::atomic<int> is_closed{0};
    };

    // Only atomic variables without a lock work between processes.
    static_assert(std::atomic<std::int64_t>::is_always_lock_free &&
                  std::atomic<int>::is_always_lock_free);
    static_assert(sizeof(totals) % alignof(entry) == 0);

    [[nodiscard]] entry& at(int number) { return entries_[static_cast<std::size_t>(number)]; }

    [[nodiscard]] const entry& at(int number) const
    {
        return entries_[static_cast<std::size_t>(number)];
    }

    [[nodiscard]] int unanswered() const
    {
        return static_cast<int>(std::count_if(entries_.begin(), entries_.end(), [](const entry& e)
                                              { return e.finishes == 0 && e.reporter != 0; }));
    }

    /// The numbers of the first jobs that ran again.
    [[nodiscard]] std::string repeated() const
    {
        constexpr int most = 20;
        std::string result;
        int count = 0;
        for (int number = 0; number != jobs(); ++number)
            if (at(number).starts > 1 && ++count <= most)
                result += fmt::format("{}{}", count == 1 ? " (" : ", ", number);
        if (count > most)
            result += ", …";
        return count == 0 ? result : result + ")";
    }

    std::size_t size_;
    void* memory_;
    totals* totals_ = nullptr;
    std::span<entry> entries_;
};

/// Prints the complaints, or that there are none.
///
/// @return The exit status of the program.
inline int judge(const std::vector<std::string>& complaints, int jobs)
{
    constexpr std::size_t most = 20;
    for (std::size_t i = 0; i != std::min(most, complaints.size()); ++i)
        fmt::print("WRONG: {}\n", complaints[i]);
    if (complaints.size() > most)
        fmt::print("WRONG: and {} more mistakes\n", complaints.size() - most);
    if (complaints.empty())
        fmt::print("All {} jobs were finished, none twice as far as the workers know, and the "
                   "queues are empty.\n",
                   jobs);
    return complaints.empty() ? 0 : 1;
}

/// Prints the number of finished jobs into one line again and again, if the output is a terminal.
class progress_line
{
public:
    explicit progress_line(const ledger& book)
        : book_(book)
        , is_shown_(::isatty(STDOUT_FILENO) != 0)
    {
    }

    progress_line(const progress_line&) = delete;
    progress_line& operator=(const progress_line&) = delete;

    ~progress_line()
    {
        if (is_shown_)
            fmt::print("\r{:60}\r", "");
    }

    void show(int killed) const
    {
        if (!is_shown_)
            return;
        fmt::print("\r{} of {} jobs finished, {} wait, {} killed ", book_.finished(), book_.jobs(),
                   book_.pushed() - book_.finished(), killed);
        std::fflush(stdout);
    }

private:
    const ledger& book_;
    bool is_shown_;
};

}  // namespace examples::scheduler

#endif
