// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_JOB_JUDGE_HPP
#define TURNSTILE_TEST_SUPPORT_JOB_JUDGE_HPP

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "redis/protocol/job_client.hpp"
#include "redis_store.hpp"

namespace turnstile::test {

/// The contents of a job queue at the server.
struct job_contents
{
    enum class place
    {
        ready,
        delayed,
        active,
        dead,
    };

    struct job
    {
        place at{};
        /// The entry, or the text of the attempt.
        std::string text;
        /// The end of the lease or of the delay; the position in its list.
        double score = 0;
    };

    /// Jobs by id.
    std::map<std::string, job> jobs;
    /// Waiting workers by ticket.
    std::vector<std::pair<double, std::string>> idle;
    std::size_t ready = 0;
    std::int64_t due = 0;
    bool paused = false;
    bool has_rate = false;
    bool rate_is_used_up = false;
    /// The end of the period of the rate limit.
    std::int64_t period_end = 0;
    /// A contradiction between the keys; empty if there is none.
    std::string contradiction;
};

[[nodiscard]] job_contents look_at_jobs(const redis_store& store, const std::string& key);

/**
 * The judge of a job queue.
 *
 * It keeps a ledger of jobs: each is waiting, active, a dead letter, finished or removed, and changes only for a reason
 * that the ledger knows. In addition, it knows which attempts the clients believe that they have.
 */
class job_judge
{
public:
    using time = std::int64_t;

    job_judge(std::string key, time lease)
        : key_(std::move(key))
        , lease_(lease)
    {
    }

    [[nodiscard]] const std::string& violation() const noexcept { return violation_; }
    void violate(const std::string& what);

    /// A script was executed. @p arguments are all of its ARGV.
    void after_script(const redis_store& store, redis::detail::job_operation op,
                      const std::vector<std::string>& arguments,
                      const std::vector<std::string>& answer, time now);

    /// A client believes that it has an attempt until this time.
    void believes(std::uint64_t id, std::uint64_t token, time until);
    void ends_belief(std::uint64_t token) { beliefs_.erase(token); }

    /// A client has received the result of the end of an attempt.
    void ended(std::uint64_t id, std::uint64_t token, const std::string& what,
               redis::detail::client_result result, bool server_was_replaced);
    /// A client has received the id of a job that it pushed.
    void pushed(const std::string& id, const std::string& payload,
                const std::string& deduplication_id);

    /// The server's memory and the judge's ledger of it, for a replica.
    struct ledger;
    [[nodiscard]] ledger remember() const { return ledger_; }
    /// The server has another memory from now on.
    void server_has(const redis_store& store, const ledger& what, time now);
    void clock_was_set(std::int64_t by, time now);

    /// Whether each job has its end.
    [[nodiscard]] bool all_ended() const;
    /// Checks the keys when nothing is under way. @p waiting are the workers that wait according to their clients.
    void check_rest(const redis_store& store, const std::vector<std::string>& waiting);

    /// Whether a waiting worker that is connected has no job although one could be started for it.
    [[nodiscard]] bool is_left_waiting(const redis_store& store) const;

    struct sums
    {
        std::uint64_t pushed = 0;
        std::uint64_t finished = 0;
        std::uint64_t dead = 0;
        std::uint64_t removed = 0;
        std::uint64_t starts = 0;
        std::uint64_t lost = 0;
    };
    [[nodiscard]] const sums& counted() const noexcept { return sums_; }

    enum class fate
    {
        live,
        dead,
        finished,
        removed,
    };

    struct job
    {
        std::string payload;
        std::string level;
        std::string deduplication_id;
        std::int64_t max_attempts = 5;
        std::int64_t attempts = 0;
        char failure = '-';
        std::string error;
        bool was_delayed = false;
        bool was_started = false;
        fate is = fate::live;
    };

    /// The job that holds a deduplication id.
    struct deduplication_holder
    {
        std::string id;
        std::int64_t until = 0;
        /// Whether the job has ended, so that only the window remains.
        bool done = false;
    };

    struct ledger
    {
        std::map<std::string, job> jobs;
        std::map<std::string, deduplication_holder> deduplication_ids;
    };

private:
    struct executed
    {
        redis::detail::job_operation op{};
        const std::vector<std::string>* arguments = nullptr;
        const std::vector<std::string>* answer = nullptr;
        std::int64_t shown = 0;
        /// The attempt that the script ends, how, and its error text.
        std::string ends;
        std::string how;
        std::string error;
    };

    struct belief
    {
        std::string id;
        time until = 0;
    };

    void note_push(const executed& script, const job_contents& after);
    void note_ends(const executed& script, const job_contents& after);
    void end(const executed& script, const std::string& text, double lease_end,
             const job_contents& after);
    void check_dropped(const executed& script, const std::string& lost, const job_contents& after);
    void note_starts(const executed& script, const job_contents& after, time now);
    void start(const std::string& id, const std::string& text, time now);
    void check_order(const std::string& id, const job_contents& after);
    void check_worker(const executed& script, const std::string& text, const job_contents& after,
                      const redis_store& store);
    void note_retries(const executed& script);
    void note_removals(const executed& script, const job_contents& after);
    void check_places(const job_contents& after);
    void excuse(time now);
    void free_deduplication_id(const std::string& id, const job& each);

    std::string key_;
    time lease_;
    std::string violation_;
    job_contents seen_;
    ledger ledger_;
    std::int64_t top_token_ = 0;
    std::set<std::string> pushed_;
    std::map<std::uint64_t, belief> beliefs_;
    /// How the server has ended attempts, by token; and the finishes that a client knows to be accepted, by job.
    std::set<std::pair<std::uint64_t, std::string>> ends_;
    std::map<std::uint64_t, int> accepted_;
    bool has_forgotten_ = false;
    bool went_back_ = false;
    time excused_until_ = -1;
    sums sums_;
};

}  // namespace turnstile::test

#endif
