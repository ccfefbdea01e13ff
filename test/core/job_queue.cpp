// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the local job queue beyond the conformance suite: several threads, and jobs, queues and contexts that are
// destroyed in any order.

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution/any_executor.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <support/owning_executor.hpp>
#include <support/race.hpp>
#include <thread>
#include <turnstile/detail/job_backoff.hpp>
#include <turnstile/job_queue.hpp>
#include <utility>
#include <vector>

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace turnstile;
using turnstile::test::owning_executor;
using turnstile::test::race;

namespace {

/// How often two threads race.
constexpr int races = 500;

using queue_type = job_queue<std::string>;
using job_type = queue_type::job_type;

/// Pushes a job from outside of a context.
void push(queue_type& queue, const std::string& payload, const push_options& options = {})
{
    queue.async_push(payload, options, asio::detached);
}

/// Waits for a job, in a context of its own choice.
struct worker
{
    explicit worker(queue_type& queue, asio::io_context& context)
    {
        queue.async_next(asio::bind_executor(
            context, asio::bind_cancellation_slot(signal.slot(),
                                                  [this](const error_code& e, job_type next)
                                                  {
                                                      error = e;
                                                      job = std::move(next);
                                                  })));
    }

    asio::cancellation_signal signal;
    std::optional<error_code> error;
    job_type job;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_worker_that_is_cancelled_after_its_grant_gives_it_to_the_next)
{
    asio::io_context context;
    asio::io_context other;
    queue_type queue(context);
    worker first(queue, context);
    worker second(queue, other);
    push(queue, "a");
    // The grant is not yet delivered.
    first.signal.emit(asio::cancellation_type::terminal);
    context.run();
    BOOST_TEST(*first.error == asio::error::operation_aborted);
    BOOST_TEST(!first.job);
    other.run();
    BOOST_TEST(second.job.payload() == "a");
    BOOST_TEST(second.job.attempt() == 1);
}

BOOST_AUTO_TEST_CASE(a_grant_that_is_released_during_a_pause_starts_no_job)
{
    asio::io_context context;
    queue_type queue(context);
    worker first(queue, context);
    push(queue, "a");
    queue.async_pause(asio::detached);
    first.signal.emit(asio::cancellation_type::terminal);
    context.run();
    BOOST_TEST(!first.job);
    worker second(queue, context);
    context.restart();
    context.poll();
    BOOST_TEST(!second.error.has_value());
    queue.async_resume(asio::detached);
    context.restart();
    context.run();
    BOOST_TEST(second.job.payload() == "a");
}

BOOST_AUTO_TEST_CASE(a_grant_that_is_released_during_a_pause_passes_to_no_other_worker)
{
    asio::io_context context;
    queue_type queue(context);
    worker first(queue, context);
    worker second(queue, context);
    push(queue, "a");
    queue.async_pause(asio::detached);
    first.signal.emit(asio::cancellation_type::terminal);
    context.poll();
    BOOST_TEST(!first.job);
    BOOST_TEST(!second.error.has_value());
    queue.async_resume(asio::detached);
    context.run();
    BOOST_TEST(second.job.payload() == "a");
}

BOOST_AUTO_TEST_CASE(a_context_that_is_destroyed_during_a_pause_gives_its_grant_to_no_other_worker)
{
    asio::io_context context;
    auto doomed = std::make_unique<asio::io_context>();
    queue_type queue(context);
    worker first(queue, *doomed);
    worker second(queue, context);
    push(queue, "a");
    queue.async_pause(asio::detached);
    doomed.reset();
    context.poll();
    BOOST_TEST(!second.error.has_value());
    queue.async_resume(asio::detached);
    context.run();
    BOOST_TEST(second.job.payload() == "a");
}

BOOST_AUTO_TEST_CASE(a_granted_worker_gets_its_job_although_the_queue_is_drained)
{
    asio::io_context context;
    asio::io_context other;
    queue_type queue(context);
    worker granted(queue, other);
    push(queue, "a");
    push(queue, "b");
    std::size_t removed = 0;
    queue.async_drain([&](const error_code&, std::size_t number) { removed = number; });
    context.run();
    BOOST_TEST(removed == 1U);
    other.run();
    BOOST_TEST(granted.job.payload() == "a");
}

BOOST_AUTO_TEST_CASE(a_destroyed_context_gives_its_grant_to_another_worker)
{
    asio::io_context context;
    auto doomed = std::make_unique<asio::io_context>();
    queue_type queue(context);
    worker first(queue, *doomed);
    worker parked(queue, *doomed);
    worker second(queue, context);
    push(queue, "a");
    doomed.reset();
    BOOST_TEST(!first.error.has_value());
    BOOST_TEST(!parked.error.has_value());
    context.run();
    BOOST_TEST(second.job.payload() == "a");
}

BOOST_AUTO_TEST_CASE(a_job_may_outlive_its_queue)
{
    asio::io_context context;
    auto queue = std::make_unique<queue_type>(context);
    worker w(*queue, context);
    push(*queue, "a");
    context.run();
    BOOST_TEST(w.job.valid());
    queue.reset();
    BOOST_TEST(!w.job.valid());
    BOOST_TEST(w.job.payload() == "a");
    w.job.progress(0.5);
    std::optional<error_code> finished;
    w.job.async_finish(
        asio::bind_executor(context, [&](const error_code& error) { finished = error; }));
    context.restart();
    context.run();
    BOOST_TEST(*finished == make_error_code(errc::lost));
}

BOOST_AUTO_TEST_CASE(a_grant_that_is_delivered_after_the_end_of_the_queue_is_aborted)
{
    asio::io_context context;
    auto queue = std::make_unique<queue_type>(context);
    worker w(*queue, context);
    push(*queue, "a");
    queue.reset();
    context.run();
    BOOST_TEST(*w.error == asio::error::operation_aborted);
    BOOST_TEST(!w.job);
}

BOOST_AUTO_TEST_CASE(a_destroyed_queue_does_not_keep_its_context_running)
{
    asio::io_context context;
    {
        queue_type queue(context);
        push(queue, "a", push_options().delay(1h));
    }
    context.run();
}

BOOST_AUTO_TEST_CASE(a_job_with_a_time_limit_may_outlive_the_context_of_its_worker)
{
    asio::io_context context;
    queue_type queue(context);
    job_type job;
    {
        asio::io_context doomed;
        worker w(queue, doomed);
        push(queue, "a", push_options().timeout(1h));
        doomed.poll();
        job = std::move(w.job);
        BOOST_TEST(job.valid());
    }
    BOOST_TEST(job.valid());
}

// Such an executor would keep a context running, and its destructor could use a context that has ended meanwhile.
BOOST_AUTO_TEST_CASE(a_job_whose_time_limit_has_expired_keeps_no_executor_of_its_worker)
{
    asio::io_context others;
    const auto context = std::make_shared<asio::io_context>();
    queue_type queue(others);
    push(queue, "a", push_options().timeout(1ms).attempts(1));
    job_type job;
    queue.async_next(asio::bind_executor(owning_executor(context),
                                         [&](const error_code&, job_type next)
                                         { job = std::move(next); }));
    while (!job.valid())
        context->run_one();
    while (job.valid())
        context->run_one();
    context->poll();
    BOOST_TEST(context->stopped());
    BOOST_TEST(context.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(a_job_whose_time_limit_has_expired_lets_the_context_of_its_worker_end)
{
    asio::io_context context;
    queue_type queue(context);
    push(queue, "a", push_options().timeout(1ms).attempts(1));
    job_type job;
    // Without an executor of its own.
    queue.async_next([&](const error_code&, job_type next) { job = std::move(next); });
    while (!job.valid())
        context.run_one();
    while (job.valid())
        context.run_one();
    context.poll();
    BOOST_TEST(context.stopped());
}

// The executor of a future owns the job in it.
BOOST_AUTO_TEST_CASE(a_future_that_is_dropped_returns_its_job_despite_a_time_limit)
{
    asio::io_context context;
    queue_type queue(context);
    push(queue, "a", push_options().timeout(1h));
    queue.async_next(asio::use_future).wait();
    BOOST_TEST(queue.async_next(asio::use_future).get().payload() == "a");
}

BOOST_AUTO_TEST_CASE(a_worker_whose_executor_has_no_context_may_have_a_time_limit)
{
    using executor_type = asio::execution::any_executor<asio::execution::blocking_t::never_t>;
    asio::io_context context;
    queue_type queue(context);
    push(queue, "a", push_options().timeout(1ms).attempts(1));
    std::optional<job_type> job;
    queue.async_next(asio::bind_executor(executor_type(context.get_executor()),
                                         [&](const error_code&, job_type next)
                                         { job.emplace(std::move(next)); }));
    context.run();
    BOOST_TEST_REQUIRE(job.has_value());
    // The system executor runs the timer.
    while (job->valid())
    {
        std::this_thread::yield();
        context.restart();
        context.poll();
    }
}

BOOST_AUTO_TEST_CASE(the_time_limit_of_a_job_is_reported_even_if_its_queue_is_destroyed)
{
    asio::io_context context;
    std::optional<queue_type> queue(context);
    push(*queue, "a", push_options().timeout(1ms));
    job_type job;
    queue->async_next([&](const error_code&, job_type next) { job = std::move(next); });
    while (!job)
        context.run_one();
    bool is_lost = false;
    job.lost().assign([&](asio::cancellation_type) { is_lost = true; });
    queue.reset();
    while (!is_lost)
        context.run_one();
    BOOST_TEST(!job.valid());
}

BOOST_AUTO_TEST_CASE(a_delayed_job_may_outlive_the_context_of_its_queue)
{
    auto context = std::make_unique<asio::io_context>();
    queue_type queue(asio::make_strand(*context));
    push(queue, "a", push_options().delay(1h));
    context.reset();
}

BOOST_AUTO_TEST_CASE(a_handler_that_a_strand_destroys_may_return_its_job)
{
    asio::io_context context;
    queue_type queue(context);
    {
        asio::io_context doomed;
        // The library knows the context from these waits, so the strand shuts down first.
        worker first(queue, doomed);
        worker second(queue, doomed);
        push(queue, "a");
        push(queue, "b");
        doomed.poll();
        const auto strand = asio::make_strand(doomed);
        queue.async_next(asio::bind_executor(
            strand, [held = std::move(first.job)](const error_code&, const job_type&) {}));
        // Its destructor grants the other job to the worker on the strand.
        asio::post(strand, [held = std::move(second.job)] {});
    }
    worker third(queue, context);
    worker fourth(queue, context);
    context.run();
    BOOST_TEST(third.job.valid());
    BOOST_TEST(fourth.job.valid());
}

BOOST_AUTO_TEST_CASE(a_queue_may_hold_the_last_executor_that_keeps_its_context)
{
    using owning_queue = basic_job_queue<std::string, owning_executor>;
    auto context = std::make_shared<asio::io_context>();
    const std::weak_ptr<asio::io_context> observer = context;
    auto queue = std::make_unique<owning_queue>(owning_executor(context));
    queue->async_push("a", asio::detached);
    // Destroyed with the context, which returns the job.
    owning_queue::job_type job;
    queue->async_next([&](const error_code&, owning_queue::job_type next)
                      { job = std::move(next); });
    context->poll();
    BOOST_TEST(job.payload() == "a");
    asio::post(*context, [held = std::move(job)] {});
    context.reset();
    BOOST_TEST(!observer.expired());
    queue.reset();
    BOOST_TEST(observer.expired());
}

namespace {

/// A payload that looks at its queue when it is copied or destroyed.
class curious_payload
{
public:
    using queue_type = job_queue<curious_payload>;

    curious_payload(queue_type*& queue, int& looks)
        : queue_(&queue)
        , looks_(&looks)
    {
    }

    curious_payload(const curious_payload& other)
        : queue_(other.queue_)
        , looks_(other.looks_)
    {
        look();
    }

    curious_payload(curious_payload&& other) noexcept
        : queue_(std::exchange(other.queue_, nullptr))
        , looks_(other.looks_)
    {
    }

    curious_payload& operator=(const curious_payload&) = delete;

    ~curious_payload() { look(); }

private:
    void look() const
    {
        if (queue_ != nullptr && *queue_ != nullptr)
            (*queue_)->async_counts([looks = looks_](const error_code&, const job_counts&)
                                    { ++*looks; });
    }

    queue_type** queue_;
    int* looks_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_payload_may_use_its_queue)
{
    using curious_queue = curious_payload::queue_type;
    asio::io_context context;
    auto queue = std::make_unique<curious_queue>(context);
    curious_queue* observed = queue.get();
    int looks = 0;
    const auto push = [&](const push_options& options)
    { queue->async_push(curious_payload(observed, looks), options, asio::detached); };
    push({});
    push(push_options().delay(1h));
    push(push_options().priority(job_priority::high).attempts(1));
    std::optional<curious_queue::job_type> job;
    queue->async_next([&](const error_code&, curious_queue::job_type next)
                      { job.emplace(std::move(next)); });
    context.poll();
    BOOST_TEST_REQUIRE(job.has_value());
    job->async_fail("", asio::detached);
    queue->async_list(job_state::waiting, 0, 1, asio::detached);
    queue->async_drain(asio::detached);
    queue->async_purge(asio::detached);
    context.restart();
    context.poll();
    BOOST_TEST(looks >= 4);
    observed = nullptr;
}

BOOST_AUTO_TEST_CASE(an_operation_that_is_started_later_finishes_the_job_of_that_time)
{
    asio::io_context context;
    queue_type former(context), queue(context);
    push(former, "a");
    push(queue, "b");
    push(queue, "c");
    worker first(former, context), second(queue, context);
    context.run();
    job_type job;
    job_type next;
    const auto take_next = asio::bind_executor(context,
                                               [&](const error_code& error, job_type result)
                                               {
                                                   BOOST_TEST(!error);
                                                   next = std::move(result);
                                               });
    // The job is empty at the first call, and one of another queue at the second call.
    auto of_none = job.async_finish_and_next();
    job = std::move(first.job);
    auto of_former = job.async_finish_and_next();
    job = std::move(second.job);
    std::move(of_former)(take_next);
    context.restart();
    context.run();
    BOOST_TEST_REQUIRE(next.valid());
    BOOST_TEST(next.payload() == "c");
    push(queue, "d");
    job = std::exchange(next, job_type());
    std::move(of_none)(take_next);
    context.restart();
    context.run();
    BOOST_TEST_REQUIRE(next.valid());
    BOOST_TEST(next.payload() == "d");
}

BOOST_AUTO_TEST_CASE(a_job_whose_end_destroys_the_queue_has_no_next_one)
{
    using fatal_queue = job_queue<std::shared_ptr<void>>;
    asio::io_context context;
    auto queue = std::make_unique<fatal_queue>(context);
    fatal_queue::job_type job;
    queue->async_next([&](const error_code&, fatal_queue::job_type next)
                      { job = std::move(next); });
    queue->async_push(std::shared_ptr<void>(nullptr, [&](void*) { queue.reset(); }),
                      asio::detached);
    context.run();
    BOOST_TEST_REQUIRE(job.valid());
    std::optional<error_code> error;
    job.async_finish_and_next([&](const error_code& e, const auto& /*next*/) { error = e; });
    context.restart();
    context.run();
    BOOST_TEST(error.value() == asio::error::operation_aborted);
}

namespace {

/// Fails a job with a back-off, after the context of its queue was destroyed.
template <class MakeExecutor>
void fail_without_the_context_of_the_queue(MakeExecutor make)
{
    auto doomed = std::make_unique<asio::io_context>();
    asio::io_context context;
    queue_type queue(make(*doomed));
    worker w(queue, context);
    push(queue, "a", push_options().attempts(2));
    context.run();
    doomed.reset();
    std::optional<error_code> failed;
    job_counts counts;
    w.job.async_fail("", asio::bind_executor(context, [&](const error_code& e) { failed = e; }));
    queue.async_counts(asio::bind_executor(context, [&](const error_code&, const job_counts& result)
                                           { counts = result; }));
    context.restart();
    context.run();
    BOOST_TEST(!failed.value());
    BOOST_TEST(counts.delayed == 1U);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_job_may_fail_after_the_end_of_the_context_of_its_queue)
{
    fail_without_the_context_of_the_queue([](asio::io_context& context)
                                          { return context.get_executor(); });
    fail_without_the_context_of_the_queue([](asio::io_context& context)
                                          { return asio::make_strand(context); });
}

BOOST_AUTO_TEST_CASE(
    a_handler_without_an_executor_may_finish_a_job_after_the_end_of_the_context_of_its_queue)
{
    auto doomed = std::make_unique<asio::io_context>();
    asio::io_context context;
    queue_type queue(asio::make_strand(*doomed));
    worker w(queue, context);
    push(queue, "a");
    context.run();
    BOOST_TEST_REQUIRE(w.job.valid());
    doomed.reset();
    // The system executor runs the handler.
    std::promise<error_code> finished;
    w.job.async_finish([&](const error_code& error) { finished.set_value(error); });
    BOOST_TEST(!finished.get_future().get());
}

BOOST_AUTO_TEST_CASE(a_worker_gets_a_due_job_without_the_context_of_the_queue)
{
    auto doomed = std::make_unique<asio::io_context>();
    asio::io_context context;
    queue_type queue(*doomed);
    push(queue, "a", push_options().delay(1ms));
    const auto due = std::chrono::steady_clock::now() + 1ms;
    doomed.reset();
    // Nobody reports that the time has come.
    while (std::chrono::steady_clock::now() <= due)
        std::this_thread::yield();
    worker w(queue, context);
    context.poll();
    BOOST_TEST_REQUIRE(w.job.valid());
    BOOST_TEST(w.job.payload() == "a");
}

BOOST_AUTO_TEST_CASE(each_operation_moves_due_jobs_without_the_context_of_the_queue)
{
    using operation = void (*)(queue_type&, job_type&);
    const operation purge = [](queue_type& queue, job_type&) { queue.async_purge(asio::detached); };
    const operation finish = [](queue_type&, job_type& job) { job.async_finish(asio::detached); };
    const operation fail_for_good = [](queue_type&, job_type& job)
    { job.async_fail("error", asio::detached); };
    const operation push_again = [](queue_type& queue, job_type&)
    { queue.async_push("again", push_options().deduplicate("first"), asio::detached); };
    const operation retry_unknown = [](queue_type& queue, job_type&)
    { queue.async_retry(77, asio::detached); };
    for (const operation run : {purge, finish, fail_for_good, push_again, retry_unknown})
    {
        asio::io_context idle;
        asio::io_context context;
        queue_type queue(idle);
        push(queue, "first", push_options().attempts(1).deduplicate("first"));
        worker first(queue, context);
        context.run();
        BOOST_TEST_REQUIRE(first.job.valid());
        worker second(queue, context);
        push(queue, "due", push_options().delay(1ms));
        const auto due = std::chrono::steady_clock::now() + 1ms;
        while (std::chrono::steady_clock::now() <= due)
            std::this_thread::yield();
        run(queue, first.job);
        context.restart();
        context.poll();
        BOOST_TEST(second.job.valid());
    }
}

// The end of the job sets the timer of the queue: another job is delayed, and starts are limited.
BOOST_AUTO_TEST_CASE(a_job_and_the_context_of_its_queue_may_end_at_once)
{
    for (const bool has_strand : {false, true})
    {
        for (int i = 0; i < races; ++i)
        {
            asio::io_context context;
            auto doomed = std::make_unique<asio::io_context>();
            asio::any_io_executor executor = doomed->get_executor();
            if (has_strand)
                executor = asio::make_strand(*doomed);
            queue_type queue(std::exchange(executor, {}));
            queue.async_limit_rate(1, 1min, asio::detached);
            push(queue, "later", push_options().delay(1h));
            push(queue, "now");
            worker w(queue, context);
            context.poll();
            BOOST_TEST_REQUIRE(w.job.valid());
            race([&] { doomed.reset(); }, [&] { w.job = job_type(); });
        }
    }
}

namespace {

/// A payload with a value may throw when it is moved.
class fragile_payload
{
public:
    explicit fragile_payload(int& moves_left)
        : moves_left_(&moves_left)
    {
    }

    // NOLINTNEXTLINE(performance-noexcept-move-constructor)
    fragile_payload(fragile_payload&& other)
        : moves_left_(other.moves_left_)
    {
        if (moves_left_ != nullptr && (*moves_left_)-- == 0)
            throw std::runtime_error("fragile");
        other.moves_left_ = nullptr;
    }

    fragile_payload& operator=(fragile_payload&&) = delete;
    ~fragile_payload() = default;

private:
    int* moves_left_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_push_that_throws_does_not_keep_its_deduplication_id)
{
    asio::io_context context;
    job_queue<fragile_payload> queue(context);
    const auto options = push_options().deduplicate("name", 1h);
    int failures = 0;
    for (bool is_pushed = false; !is_pushed;)
    {
        int moves_left = failures;
        try
        {
            queue.async_push(fragile_payload(moves_left), options, asio::detached);
            is_pushed = true;
        }
        catch (const std::runtime_error&)
        {
            ++failures;
        }
    }
    BOOST_TEST(failures > 2);
    job_counts counts;
    queue.async_counts([&](const error_code&, const job_counts& result) { counts = result; });
    context.restart();
    context.run();
    BOOST_TEST(counts.waiting == 1U);
}

BOOST_AUTO_TEST_CASE(a_job_with_a_time_limit_and_the_context_of_its_worker_may_end_at_once)
{
    asio::io_context context;
    for (int i = 0; i < races; ++i)
    {
        auto doomed = std::make_unique<asio::io_context>();
        queue_type queue(context);
        worker w(queue, *doomed);
        push(queue, "a", push_options().timeout(1h));
        doomed->poll();
        BOOST_TEST_REQUIRE(w.job.valid());
        race([&] { doomed.reset(); }, [&] { w.job = job_type(); });
    }
}

BOOST_AUTO_TEST_CASE(a_payload_need_not_be_copyable)
{
    asio::io_context context;
    job_queue<std::unique_ptr<int>> queue(context);
    int seen = 0;
    queue.async_next([&](const error_code&, const auto& job) { seen = *job.payload(); });
    queue.async_push(std::make_unique<int>(7), asio::detached);
    context.run();
    BOOST_TEST(seen == 7);
}

BOOST_AUTO_TEST_CASE(a_back_off_doubles_up_to_its_limit)
{
    using duration = push_options::duration;
    detail::job_backoff delays;
    // The limits of the random delays before the first attempts, and before a late one.
    const auto check =
        [&](const push_options& options, const std::vector<duration>& limits, duration last)
    {
        const auto is_allowed = [](duration delay, duration limit)
        { return delay >= limit / 2 && delay <= limit; };
        for (std::size_t i = 0; i < limits.size(); ++i)
            BOOST_TEST(
                is_allowed(delays.after(static_cast<std::ptrdiff_t>(i + 1), options), limits[i]));
        BOOST_TEST(
            is_allowed(delays.after(std::numeric_limits<std::ptrdiff_t>::max(), options), last));
    };
    check(push_options().backoff(10ms, 50ms), {10ms, 20ms, 40ms, 50ms, 50ms}, 50ms);
    check(push_options().backoff(0ms, 1ms), {0ms, 0ms, 0ms}, 0ms);
    check(push_options().backoff(1ms, push_options::longest), {1ms, 2ms}, push_options::longest);
    check(push_options().backoff(push_options::longest), {push_options::longest},
          push_options::longest);
}

BOOST_AUTO_TEST_CASE(threads_finish_each_job_once)
{
    constexpr int workers = 8;
    constexpr int producers = 4;
    constexpr int jobs_of_each = 250;
    constexpr int all = producers * jobs_of_each;
    asio::thread_pool pool(4);
    queue_type queue(pool.get_executor());
    std::vector<std::atomic<int>> finished(all);
    std::atomic<int> count = 0;

    auto produce = [&](int first) -> asio::awaitable<void>
    {
        for (int i = 0; i < jobs_of_each; ++i)
            co_await queue.async_push(std::to_string(first + i),
                                      push_options().attempts(1000).backoff(i % 2 * 1ms));
    };
    // Every third attempt fails, and every fifth one is abandoned.
    auto work = [&](int number) -> asio::awaitable<void>
    {
        for (int i = number;; ++i)
        {
            auto job = co_await queue.async_next();
            if (job.payload() == "stop")
            {
                co_await job.async_finish();
                co_return;
            }
            const int which = std::stoi(job.payload());
            if (i % 5 == 0)
                continue;
            if (i % 3 == 0)
            {
                co_await job.async_fail("");
                continue;
            }
            co_await job.async_finish();
            ++finished[static_cast<std::size_t>(which)];
            if (++count == all)
                for (int stops = 0; stops < workers; ++stops)
                    co_await queue.async_push("stop");
        }
    };
    for (int i = 0; i < workers; ++i)
        asio::co_spawn(pool, work(i), asio::detached);
    for (int i = 0; i < producers; ++i)
        asio::co_spawn(pool, produce(i * jobs_of_each), asio::detached);
    pool.join();
    for (const auto& each : finished)
        BOOST_TEST(each == 1);
}

BOOST_AUTO_TEST_CASE(workers_start_jobs_while_the_queue_is_drained)
{
    constexpr int workers = 4;
    constexpr int rounds = 3000;
    asio::thread_pool pool(4);
    queue_type queue(pool.get_executor());
    std::atomic<std::size_t> started = 0;
    std::size_t removed = 0;

    auto work = [&]() -> asio::awaitable<void>
    {
        for (;;)
        {
            auto job = co_await queue.async_next();
            const bool is_last = job.payload() == "stop";
            co_await job.async_finish();
            if (is_last)
                co_return;
            ++started;
        }
    };
    auto push_and_drain = [&]() -> asio::awaitable<void>
    {
        for (int i = 0; i < rounds; ++i)
        {
            for (int each = 0; each < 3; ++each)
                co_await queue.async_push("a");
            removed += co_await queue.async_drain();
        }
        for (int i = 0; i < workers; ++i)
            co_await queue.async_push("stop");
    };
    for (int i = 0; i < workers; ++i)
        asio::co_spawn(pool, work(), asio::detached);
    asio::co_spawn(pool, push_and_drain(), asio::detached);
    pool.join();
    BOOST_TEST(started + removed == 3U * rounds);
}
