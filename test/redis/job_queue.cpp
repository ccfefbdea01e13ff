// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <turnstile/redis/job_queue.hpp>

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/describe/class.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <clocale>
#include <cstddef>
#include <exception>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/lease_clock.hpp>
#include <turnstile/with_job.hpp>
#include <utility>
#include <vector>

#include "support/expect.hpp"
#include "support/fault_leases.hpp"
#include "support/lock_client.hpp"
#include "support/redis_server.hpp"
#include "support/tcp_proxy.hpp"

// Properties of a job queue over Redis alone: payloads that are structs, and failures of servers, keys and sessions.

namespace turnstile::test {
namespace {

using boost::asio::as_tuple;
using boost::asio::use_future;
using namespace std::chrono_literals;

struct thumbnail
{
    std::string file;
    int width = 0;
};
BOOST_DESCRIBE_STRUCT(thumbnail, (), (file, width))

struct folder
{
    int depth = 0;
    std::vector<folder> folders;
};
BOOST_DESCRIBE_STRUCT(folder, (), (depth, folders))

/// A payload that cannot be made once after a test has set `refuses`.
struct moody
{
    struct exception : std::exception
    {
        [[nodiscard]] const char* what() const noexcept override { return text.c_str(); }

        inline static std::string text;
    };

    moody()
    {
        if (refuses.exchange(false))
            throw exception();
        if (throws_a_number.exchange(false))
            throw 1;
        if (lacks_memory.exchange(false))
            throw std::bad_alloc();
    }

    int number = 0;
    inline static std::atomic<bool> refuses = false;
    inline static std::atomic<bool> throws_a_number = false;
    inline static std::atomic<bool> lacks_memory = false;
};
BOOST_DESCRIBE_STRUCT(moody, (), (number))

/// The error of an operation that was started with as_tuple(use_future). An exception would be shared by two threads,
/// and the sanitizer does not see how the standard library counts its owners.
template <class Outcome>
error_code error_of(std::future<Outcome> pending)
{
    return std::get<0>(pending.get());
}

/// A server with an append-only file, and sessions with short leases.
struct scene
{
    /// Connects with a lease of an hour, or with a short one.
    std::unique_ptr<redis::session> connect(std::chrono::milliseconds lease = 1h)
    {
        redis::config settings = undisturbed(server.url());
        if (lease < 1h)
        {
            settings.lease = lease;
            settings.claim_lease = lease;
            settings.health_check = lease / 3;
        }
        return std::make_unique<redis::session>(context, settings, redis::session_thread::own);
    }

    redis_server server{{"--appendonly", "yes", "--appendfsync", "always"}};
    boost::asio::io_context context;
    std::unique_ptr<redis::session> session = connect();
    redis::job_queue<std::string> queue{*session, "q"};
    std::string key = "turnstile:{" + tag() + "}:jobs:q";

private:
    /// The hash tag of the queue.
    std::string tag()
    {
        queue.async_push("first", use_future).get();
        queue.async_drain(use_future).get();
        const std::string keys = server.cli({"KEYS", "*jobs:q"});
        const std::size_t open = keys.find('{');
        return keys.substr(open + 1, keys.find('}') - open - 1);
    }
};

BOOST_FIXTURE_TEST_SUITE(redis_job_queue, scene)

// By default, the server closes a connection to which it has to send 32 MB at once.
BOOST_AUTO_TEST_CASE(large_jobs_are_listed_in_several_steps)
{
    constexpr std::size_t jobs = 40;
    for (std::size_t i = 0; i != jobs; ++i)
        queue.async_push(std::string(1U << 20U, static_cast<char>('a' + i % 26)), use_future).get();
    const auto listed = queue.async_list(job_state::waiting, 1, 512, use_future).get();
    BOOST_TEST_REQUIRE(listed.size() == jobs - 1);
    for (std::size_t i = 1; i != jobs; ++i)
        BOOST_TEST(listed[i - 1].payload->front() == static_cast<char>('a' + i % 26));
    BOOST_TEST(queue.async_list(job_state::waiting, 0, 3, use_future).get().size() == 3U);
    BOOST_TEST(session->metrics().connections == 1U);
}

BOOST_AUTO_TEST_CASE(large_jobs_are_granted_over_one_connection)
{
    constexpr std::size_t jobs = 40;
    const std::string payload(1U << 20U, 'x');
    for (const bool wait : {false, true})
    {
        if (wait)
            queue.async_pause(use_future).get();
        for (std::size_t i = 0; i != jobs; ++i)
            queue.async_push(payload, use_future).get();
        std::vector<std::future<redis::job_queue<std::string>::job_type>> pending;
        for (std::size_t i = 0; i != jobs; ++i)
            pending.push_back(queue.async_next(use_future));
        if (wait)
        {
            // The answer comes after those of the workers.
            queue.async_counts(use_future).get();
            queue.async_resume(use_future).get();
        }
        for (auto& each : pending)
        {
            auto job = each.get();
            BOOST_TEST((job.payload() == payload));
            job.async_finish(use_future).get();
        }
    }
    BOOST_TEST(session->metrics().connections == 1U);
}

BOOST_AUTO_TEST_CASE(the_exception_of_a_body_is_reported_even_if_its_job_cannot_be_failed)
{
    queue.async_push("a", use_future).get();
    std::string text;
    const auto body = [&](redis::job_queue<std::string>::job_type&)
    {
        // The attempt cannot be ended with a key of another type.
        server.run({"SET", key, "x"});
        throw std::runtime_error("no disk");
    };
    const auto work = [&]() -> boost::asio::awaitable<void>
    {
        try
        {
            co_await with_job(queue, body);
        }
        catch (const std::exception& error)
        {
            text = error.what();
        }
    };
    test::run(context, work());
    BOOST_TEST(text == "no disk");
}

BOOST_AUTO_TEST_CASE(a_payload_above_the_default_limit_is_refused)
{
    const std::string largest(decltype(queue)::default_max_payload, 'x');
    queue.async_push(largest, use_future).get();
    const auto invalid = make_error_code(turnstile::errc::invalid_payload);
    BOOST_TEST(error_of(queue.async_push(largest + 'x', as_tuple(use_future))) == invalid);
    BOOST_TEST((queue.async_next(use_future).get().payload() == largest));
}

BOOST_AUTO_TEST_CASE(workers_wait_again_after_a_reconnect_if_the_database_was_emptied)
{
    auto pending = queue.async_next(use_future);
    // The answer comes after that of the worker.
    queue.async_counts(use_future).get();
    server.run({"FLUSHALL"});
    server.run({"CLIENT", "KILL", "TYPE", "pubsub"});
    // Adds the job twice if an answer is lost.
    while (error_of(queue.async_push("x", as_tuple(use_future))))
    {
    }
    BOOST_TEST(pending.get().payload() == "x");
}

BOOST_AUTO_TEST_CASE(a_payload_can_be_a_described_struct)
{
    redis::job_queue<thumbnail> thumbnails(*session, "thumbnails");
    thumbnails.async_push({"a.png", 200}, use_future).get();
    const auto listed = thumbnails.async_list(job_state::waiting, 0, 1, use_future).get();
    BOOST_TEST(listed.at(0).payload->file == "a.png");
    auto job = thumbnails.async_next(use_future).get();
    BOOST_TEST(job.payload().file == "a.png");
    BOOST_TEST(job.payload().width == 200);
    job.async_finish(use_future).get();
}

BOOST_AUTO_TEST_CASE(a_payload_that_cannot_be_read_becomes_a_dead_letter)
{
    redis::job_queue<thumbnail> thumbnails(*session, "q");
    queue.async_push("{\"file\":7", use_future).get();
    queue.async_push("{\"file\":\"b.png\",\"width\":1}", use_future).get();
    auto job = thumbnails.async_next(use_future).get();
    BOOST_TEST(job.payload().file == "b.png");
    const auto dead = thumbnails.async_list(job_state::dead, 0, 10, use_future).get();
    BOOST_TEST_REQUIRE(dead.size() == 1U);
    BOOST_TEST(!dead[0].payload);
    BOOST_TEST(dead[0].error != "");
    job.async_finish(use_future).get();
}

BOOST_AUTO_TEST_CASE(a_payload_that_fails_without_a_text_becomes_a_dead_letter)
{
    redis::job_queue<moody> moods(*session, "q");
    queue.async_push("{\"number\":1}", use_future).get();
    queue.async_push("{\"number\":2}", use_future).get();
    moody::refuses = true;
    auto job = moods.async_next(use_future).get();
    BOOST_TEST(job.payload().number == 2);
    BOOST_TEST(moods.async_counts(use_future).get().dead == 1U);
    job.async_finish(use_future).get();
}

BOOST_AUTO_TEST_CASE(the_reason_of_a_payload_that_cannot_be_read_is_limited)
{
    redis::job_queue<moody> moods(*session, "q");
    queue.async_push("{\"number\":1}", use_future).get();
    queue.async_push("{\"number\":2}", use_future).get();
    moody::exception::text = std::string(100'000, 'x');
    moody::refuses = true;
    moods.async_next(use_future).get().async_finish(use_future).get();
    moody::exception::text.clear();
    const auto dead = moods.async_list(job_state::dead, 0, 10, use_future).get();
    BOOST_TEST_REQUIRE(dead.size() == 1U);
    BOOST_TEST(dead[0].error.size() == redis::job_queue<moody>::job_type::max_error);
}

BOOST_AUTO_TEST_CASE(a_payload_that_throws_no_standard_exception_becomes_a_dead_letter)
{
    redis::job_queue<moody> moods(*session, "q");
    queue.async_push("{\"number\":1}", use_future).get();
    queue.async_push("{\"number\":2}", use_future).get();
    moody::throws_a_number = true;
    auto pending = moods.async_next(use_future);
    BOOST_TEST_REQUIRE((pending.wait_for(10s) == std::future_status::ready));
    auto job = pending.get();
    BOOST_TEST(job.payload().number == 2);
    moody::throws_a_number = true;
    auto listing = moods.async_list(job_state::dead, 0, 10, use_future);
    BOOST_TEST_REQUIRE((listing.wait_for(10s) == std::future_status::ready));
    const auto dead = listing.get();
    BOOST_TEST_REQUIRE(dead.size() == 1U);
    BOOST_TEST(!dead[0].payload);
    job.async_finish(use_future).get();
}

BOOST_AUTO_TEST_CASE(an_attempt_fails_if_there_is_no_memory_for_its_payload)
{
    redis::job_queue<moody> moods(*session, "q");
    queue.async_push("{\"number\":1}", push_options().attempts(2).backoff(0ms, 0ms), use_future)
        .get();
    moody::lacks_memory = true;
    auto job = moods.async_next(use_future).get();
    BOOST_TEST(job.payload().number == 1);
    BOOST_TEST(job.attempt() == 2);
    BOOST_TEST(moods.async_counts(use_future).get().dead == 0U);
    job.async_finish(use_future).get();
}

// A late copy of a repeated pause would act after a later resume.
BOOST_AUTO_TEST_CASE(a_pause_or_a_limit_is_not_repeated)
{
    tcp_proxy proxy(server.port());
    redis::session distant(context, undisturbed(proxy.url()), redis::session_thread::own);
    redis::job_queue<std::string> other(distant, "q");
    for (const bool limits : {false, true})
    {
        other.async_counts(use_future).get();
        const std::size_t before = proxy.swallowed();
        proxy.swallow(tcp_proxy::to_client);
        auto pending = limits ? other.async_limit_rate(1, 1s, as_tuple(use_future))
                              : other.async_pause(as_tuple(use_future));
        while (proxy.swallowed() == before)
            std::this_thread::yield();
        proxy.mend();
        BOOST_TEST((error_of(std::move(pending)) == redis::errc::unknown_outcome));
    }
    BOOST_TEST(queue.async_counts(use_future).get().is_paused);
}

BOOST_AUTO_TEST_CASE(a_question_is_repeated_after_a_reconnect)
{
    queue.async_push("a", use_future).get();
    tcp_proxy proxy(server.port());
    redis::session distant(context, undisturbed(proxy.url()), redis::session_thread::own);
    redis::job_queue<std::string> other(distant, "q");
    const auto interrupted = [&](auto question)
    {
        other.async_counts(use_future).get();
        const std::size_t before = proxy.swallowed();
        proxy.swallow(tcp_proxy::to_client);
        auto pending = question();
        while (proxy.swallowed() == before)
            std::this_thread::yield();
        proxy.mend();
        return pending.get();
    };
    BOOST_TEST(interrupted([&] { return other.async_counts(use_future); }).waiting == 1U);
    const auto listed =
        interrupted([&] { return other.async_list(job_state::waiting, 0, 9, use_future); });
    BOOST_TEST(listed.size() == 1U);
    BOOST_TEST(distant.metrics().connections == 3U);
}

BOOST_AUTO_TEST_CASE(a_finish_whose_script_loses_a_permission_has_an_unknown_outcome)
{
    server.run({"ACL", "SETUSER", "app", "on", ">secret", "+@all", "&*", "~*"});
    redis::config settings = undisturbed(server.url());
    settings.username = "app";
    settings.password = "secret";
    redis::session confined(context, settings, redis::session_thread::own);
    redis::job_queue<std::string> other(confined, "q");
    queue.async_push("a", use_future).get();
    auto job = other.async_next(use_future).get();
    server.run({"ACL", "SETUSER", "app", "-zrem"});
    BOOST_TEST((error_of(job.async_finish_and_next(as_tuple(use_future))) ==
                redis::errc::unknown_outcome));
}

// No worker could read it.
BOOST_AUTO_TEST_CASE(a_payload_that_is_nested_too_deeply_is_not_added)
{
    redis::job_queue<folder> folders(*session, "folders");
    // Each folder adds two levels: an object and an array.
    folder outermost;
    folder* innermost = &outermost;
    for (int depth = 1; depth <= 32; ++depth)
    {
        innermost = &innermost->folders.emplace_back();
        innermost->depth = depth;
    }
    BOOST_TEST(error_of(folders.async_push(outermost, as_tuple(use_future))) ==
               make_error_code(redis::errc::bad_state));
    BOOST_TEST(folders.async_counts(use_future).get().waiting == 0U);
    folders.async_push(outermost.folders[0], use_future).get();
    BOOST_TEST(folders.async_next(use_future).get().payload().depth == 1);
}

BOOST_AUTO_TEST_CASE(a_future_that_is_dropped_returns_its_job)
{
    queue.async_push("a", use_future).get();
    queue.async_next(use_future).wait();
    BOOST_TEST(queue.async_next(use_future).get().payload() == "a");
}

// Shows something only if the machine has that locale.
BOOST_AUTO_TEST_CASE(progress_does_not_depend_on_the_locale)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe)
    const bool has_comma = std::setlocale(LC_NUMERIC, "de_DE.UTF-8") != nullptr;
    BOOST_TEST_MESSAGE("the decimal point is a " << (has_comma ? "comma" : "point"));
    queue.async_push("a", use_future).get();
    auto job = queue.async_next(use_future).get();
    job.progress(0.5);
    session->async_ping(use_future).get();
    const auto listed = queue.async_list(job_state::active, 0, 1, use_future).get();
    std::setlocale(LC_NUMERIC, "C");  // NOLINT(concurrency-mt-unsafe)
    BOOST_TEST(listed.at(0).progress == 0.5);
    job.async_finish(use_future).get();
}

BOOST_AUTO_TEST_CASE(jobs_survive_a_restart_of_the_server)
{
    for (const char* each : {"a", "b", "c"})
        queue.async_push(each, use_future).get();
    auto job = queue.async_next(use_future).get();
    server.restart();
    // The holder keeps its job, and finishes it.
    job.async_finish(use_future).get();
    auto next = queue.async_next(use_future).get();
    BOOST_TEST(next.payload() == "b");
    next.async_finish(use_future).get();
    BOOST_TEST(queue.async_counts(use_future).get().waiting == 1U);
}

BOOST_AUTO_TEST_CASE(a_waiting_worker_survives_a_restart_of_the_server)
{
    auto waiting = queue.async_next(use_future);
    session->async_ping(use_future).get();
    server.restart();
    queue.async_push("a", use_future).get();
    auto job = waiting.get();
    BOOST_TEST(job.payload() == "a");
    job.async_finish(use_future).get();
}

BOOST_AUTO_TEST_CASE(a_waiting_worker_survives_a_broken_connection)
{
    auto waiting = queue.async_next(use_future);
    session->async_ping(use_future).get();
    server.run({"CLIENT", "KILL", "TYPE", "normal"});
    server.run({"CLIENT", "KILL", "TYPE", "pubsub"});
    const auto other = connect();
    redis::job_queue<std::string> pusher(*other, "q");
    pusher.async_push("a", use_future).get();
    auto job = waiting.get();
    BOOST_TEST(job.payload() == "a");
    job.async_finish(use_future).get();
}

BOOST_AUTO_TEST_CASE(the_jobs_of_a_session_that_ends_go_to_a_waiting_worker)
{
    queue.async_push("a", use_future).get();
    auto doomed = connect(600ms);
    redis::job_queue<std::string> other(*doomed, "q");
    auto lost = other.async_next(use_future).get();
    auto waiting = queue.async_next(use_future);
    session->async_ping(use_future).get();
    // As if its process had crashed: the session sends the server nothing.
    doomed.reset();
    BOOST_TEST(!lost.valid());
    auto job = waiting.get();
    BOOST_TEST(job.attempt() == lost.attempt() + 1);
    BOOST_TEST(job.fencing_token() > lost.fencing_token());
    job.async_finish(use_future).get();
}

BOOST_AUTO_TEST_CASE(the_lease_of_a_job_is_renewed)
{
    redis::config settings = undisturbed(server.url());
    // The first renewal comes soon, and long before the end of the lease.
    settings.renew_fraction = 0.05;
    settings.lease = settings.claim_lease.emplace(12s);
    settings.health_check = 4s;
    redis::session renewing(context, settings, redis::session_thread::own);
    redis::job_queue<std::string> other(renewing, "q");
    queue.async_push("a", use_future).get();
    auto job = other.async_next(use_future).get();
    const auto end_without_renewal = redis::lease_clock::now() + settings.lease;
    // The end of the lease in microseconds.
    const auto end = [&]
    {
        const std::string attempt = server.cli({"ZRANGE", key + "{active}", "0", "0"});
        return std::stod(server.cli({"ZSCORE", key + "{active}", attempt}));
    };
    const double first = end();
    BOOST_TEST(until([&] { return end() > first + 1e6; }));
    BOOST_TEST(until([&] { return redis::lease_clock::now() > end_without_renewal; }));
    BOOST_TEST(job.valid());
    job.async_finish(use_future).get();
}

BOOST_AUTO_TEST_CASE(a_closed_session_returns_its_jobs)
{
    queue.async_push("a", use_future).get();
    const auto other = connect();
    redis::job_queue<std::string> its(*other, "q");
    auto job = its.async_next(use_future).get();
    std::atomic<bool> is_lost = false;
    job.lost().assign([&](boost::asio::cancellation_type) { is_lost = true; });
    other->async_close(use_future).get();
    BOOST_TEST(!job.valid());
    BOOST_TEST(until([&] { return is_lost.load(); }));
    BOOST_TEST(queue.async_counts(use_future).get().waiting == 1U);
    // The attempt has begun, so it counts.
    auto again = queue.async_next(use_future).get();
    BOOST_TEST(again.attempt() == job.attempt() + 1);
    again.async_finish(use_future).get();
    BOOST_TEST((error_of(its.async_next(as_tuple(use_future))) == redis::errc::session_closed));
}

BOOST_AUTO_TEST_CASE(a_session_is_closed_after_the_answers_to_finished_jobs)
{
    tcp_proxy proxy(server.port());
    queue.async_push("a", use_future).get();
    redis::session other(context, undisturbed(proxy.url()), redis::session_thread::own);
    redis::job_queue<std::string> its(other, "q");
    auto job = its.async_next(use_future).get();
    proxy.hold();
    auto finished = job.async_finish(as_tuple(use_future));
    auto closed = other.async_close(as_tuple(use_future));
    proxy.resume();
    BOOST_TEST((error_of(std::move(finished)) == error_code()));
    BOOST_TEST((error_of(std::move(closed)) == error_code()));
}

BOOST_AUTO_TEST_CASE(the_end_of_a_job_is_unknown_if_its_session_is_closed_without_an_answer)
{
    tcp_proxy proxy(server.port());
    queue.async_push("a", use_future).get();
    redis::config settings = undisturbed(proxy.url());
    settings.connect_timeout = 1s;
    redis::session other(context, settings, redis::session_thread::own);
    redis::job_queue<std::string> its(other, "q");
    auto job = its.async_next(use_future).get();
    proxy.hold();
    auto finished = job.async_finish(as_tuple(use_future));
    auto closed = other.async_close(as_tuple(use_future));
    BOOST_TEST((error_of(std::move(finished)) == redis::errc::unknown_outcome));
    BOOST_TEST((error_of(std::move(closed)) == redis::errc::unknown_outcome));
}

BOOST_AUTO_TEST_CASE(an_invalid_name_is_refused)
{
    const auto refused = make_error_code(redis::errc::invalid_name);
    for (const std::string& name : {std::string(), std::string(65'537, 'x')})
        text_of(refused, [&] { redis::job_queue<std::string>(*session, name); });
}

BOOST_AUTO_TEST_CASE(workers_of_a_destroyed_context_use_up_no_attempt)
{
    auto gone = std::make_unique<boost::asio::io_context>();
    for (int i = 0; i < 5; ++i)
        queue.async_next(boost::asio::bind_executor(
            *gone, [](const error_code&, const auto&)
            { BOOST_ERROR("a handler ran after its context was destroyed"); }));
    session->async_ping(use_future).get();
    gone.reset();
    auto waiting = queue.async_next(use_future);
    queue.async_push("a", push_options().attempts(1), use_future).get();
    auto job = waiting.get();
    BOOST_TEST(job.payload() == "a");
    BOOST_TEST(job.attempt() == 1);
    job.async_finish(use_future).get();
}

// The session repeats the command, which removes 256 jobs at most.
BOOST_AUTO_TEST_CASE(a_drain_continues_after_its_queue_is_destroyed)
{
    std::vector<std::future<job_id>> pushes;
    for (int i = 0; i < 600; ++i)
        pushes.push_back(queue.async_push("a", use_future));
    for (auto& each : pushes)
        each.get();
    const auto other = connect();
    std::future<std::size_t> removed;
    {
        redis::job_queue<std::string> brief(*other, "q");
        removed = brief.async_drain(use_future);
    }
    BOOST_TEST(removed.get() == 600U);
}

BOOST_AUTO_TEST_CASE(the_server_forgets_the_workers_of_a_destroyed_queue)
{
    const auto idle = [&] { return server.cli({"ZCARD", key + "{idle}"}); };
    auto brief = std::make_unique<redis::job_queue<std::string>>(*session, "q");
    auto waiting = brief->async_next(as_tuple(use_future));
    session->async_ping(use_future).get();
    BOOST_TEST(idle() == "1");
    brief.reset();
    BOOST_TEST((error_of(std::move(waiting)) == error_code(boost::asio::error::operation_aborted)));
    BOOST_TEST(until([&] { return idle() == "0"; }));
}

BOOST_AUTO_TEST_CASE(a_job_is_finished_after_its_queue_was_destroyed_and_no_other_is_granted)
{
    const auto other = connect();
    auto brief = std::make_unique<redis::job_queue<std::string>>(*other, "q");
    for (const char* payload : {"a", "b"})
        queue.async_push(payload, use_future).get();
    auto job = brief->async_next(use_future).get();
    brief.reset();
    BOOST_TEST((error_of(job.async_finish_and_next(as_tuple(use_future))) ==
                error_code(boost::asio::error::operation_aborted)));
    BOOST_TEST(turnstile::test::until(
        [&]
        {
            const auto counts = queue.async_counts(use_future).get();
            return counts.waiting == 1 && counts.active == 0;
        }));
}

BOOST_AUTO_TEST_CASE(keys_of_other_programs_are_refused)
{
    const auto fails_with = [&](redis::errc expected)
    {
        BOOST_TEST((error_of(queue.async_push("a", as_tuple(use_future))) == expected));
        BOOST_TEST((error_of(queue.async_next(as_tuple(use_future))) == expected));
        BOOST_TEST((error_of(queue.async_counts(as_tuple(use_future))) == expected));
    };
    server.run({"HSET", key, "state", "2 x"});
    fails_with(redis::errc::foreign_layout);
    server.run({"HSET", key, "state", "1 x"});
    fails_with(redis::errc::bad_state);
    server.run({"DEL", key});
    server.run({"SET", key, "x"});
    fails_with(redis::errc::wrong_type);
    server.run({"DEL", key});
    queue.async_push("a", use_future).get();
}

BOOST_AUTO_TEST_CASE(a_missing_permission_for_the_keys_is_reported)
{
    server.run({"ACL", "SETUSER", "app", "on", ">secret", "+@all", "&*", "~turnstile:*mutex*",
                "~turnstile:{0}*", "~turnstile:{sessions}*"});
    redis::config settings = undisturbed(server.url());
    settings.username = "app";
    settings.password = "secret";
    redis::session confined(context, settings, redis::session_thread::own);
    redis::job_queue<std::string> other(confined, "q");
    BOOST_TEST(
        (error_of(other.async_next(as_tuple(use_future))) == redis::errc::missing_permission));
}

BOOST_AUTO_TEST_CASE(a_session_that_is_closed_without_a_server_has_certainly_not_pushed)
{
    const closed_port nobody;
    redis::session unconnected(
        context,
        redis::config("redis://127.0.0.1:" + std::to_string(nobody.number()) +
                      "?connect_timeout=1s"),
        redis::session_thread::own);
    redis::job_queue<std::string> other(unconnected, "q");
    auto pushed = other.async_push("a", as_tuple(use_future));
    auto closed = unconnected.async_close(as_tuple(use_future));
    BOOST_TEST((error_of(std::move(pushed)) == redis::errc::session_closed));
    closed.wait();
}

BOOST_AUTO_TEST_CASE(the_end_of_a_job_is_unknown_if_credentials_are_revoked_for_a_lease)
{
    server.run({"ACL", "SETUSER", "app", "on", ">right", "~*", "&*", "+@all"});
    redis::config settings = brief(server.url());
    settings.username = "app";
    settings.password = "right";
    redis::session locked_out(context, settings, redis::session_thread::own);
    redis::job_queue<std::string> other(locked_out, "q");
    queue.async_push("a", use_future).get();
    queue.async_push("b", use_future).get();
    queue.async_push("c", use_future).get();
    auto first = other.async_next(use_future).get();
    auto second = other.async_next(use_future).get();
    auto third = other.async_next(use_future).get();
    server.run({"ACL", "SETUSER", "app", "resetpass"});
    server.run({"CLIENT", "KILL", "USER", "app"});
    while (locked_out.metrics().connected)
        std::this_thread::yield();
    auto finished = first.async_finish(as_tuple(use_future));
    auto failed = second.async_fail("x", as_tuple(use_future));
    auto next = third.async_finish_and_next(as_tuple(use_future));
    BOOST_TEST((error_of(std::move(finished)) == redis::errc::unknown_outcome));
    BOOST_TEST((error_of(std::move(failed)) == redis::errc::unknown_outcome));
    BOOST_TEST((error_of(std::move(next)) == redis::errc::unknown_outcome));
}

// The server sees the connection of a stopped process. Each of its waiting workers could use up an attempt.
BOOST_AUTO_TEST_CASE(a_suspended_process_uses_up_one_attempt_of_a_job)
{
    tcp_proxy proxy(server.port());
    redis::session far(context, brief(proxy.url()), redis::session_thread::own);
    redis::job_queue<std::string> theirs(far, "q");
    const auto are_parked = [&](int workers)
    {
        const std::string expected = std::to_string(workers);
        BOOST_TEST_REQUIRE(
            until([&] { return server.cli({"ZCARD", key + "{idle}"}) == expected; }));
    };
    std::vector<std::future<redis::job_queue<std::string>::job_type>> stopped;
    for (int i = 1; i <= 4; ++i)
    {
        stopped.push_back(theirs.async_next(use_future));
        are_parked(i);
    }
    // Its workers are on the list of the server even while it is disconnected.
    BOOST_TEST(until([&] { return !error_of(far.async_ping(as_tuple(use_future))); }));
    proxy.hold(true);
    queue.async_push("a", use_future).get();
    are_parked(3);
    auto job = queue.async_next(use_future).get();
    BOOST_TEST(job.attempt() == 2);
    job.async_finish(use_future).get();
    are_parked(0);
    // All workers wait again.
    proxy.resume();
    are_parked(4);
    for (auto& each : stopped)
    {
        queue.async_push("b", use_future).get();
        BOOST_TEST(each.get().payload() == "b");
    }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test
