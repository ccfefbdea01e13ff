// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Events, latches and barriers while connections, processes and the server fail.

#include <algorithm>
#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <redis/protocol/names.hpp>
#include <string>
#include <string_view>
#include <support/fault_leases.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/print.hpp>
#include <support/redis_server.hpp>
#include <support/running_context.hpp>
#include <support/tcp_proxy.hpp>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <turnstile/error.hpp>
#include <turnstile/redis/barrier.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/event.hpp>
#include <turnstile/redis/latch.hpp>
#include <turnstile/redis/session.hpp>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace {

namespace asio = boost::asio;
using turnstile::error_code;
using turnstile::event_reset;
using turnstile::redis::config;
using turnstile::redis::session;
using turnstile::test::brief;
using turnstile::test::endless;
using turnstile::test::kill_connections;
using turnstile::test::redis_server;
using turnstile::test::tcp_proxy;
using turnstile::test::until;

/// A session with its own thread. To the server, it looks like a process.
class party
{
public:
    explicit party(const config& settings)
        : session_(std::make_unique<session>(context_.get_executor(), settings))
    {
    }

    operator session&() { return *session_; }
    [[nodiscard]] asio::any_io_executor executor() { return context_.get_executor(); }
    [[nodiscard]] std::uint64_t connections() const { return session_->metrics().connections; }
    /// Destroys the session, but not its context.
    void destroy_session() { session_.reset(); }

private:
    turnstile::test::running_context context_;
    std::unique_ptr<session> session_;
};

/// The outcome of an operation, as seen from the test's thread.
class outcome
{
public:
    /// The handler of the operation. It runs in the thread of a party.
    [[nodiscard]] auto handler(party& whose)
    {
        shared_->executor = whose.executor();
        return asio::bind_cancellation_slot(shared_->signal.slot(),
                                            [shared = shared_](const error_code& error)
                                            {
                                                const std::lock_guard lock(shared->mutex);
                                                shared->text = error ? error.message() : "done";
                                            });
    }

    [[nodiscard]] bool is_complete() const
    {
        const std::lock_guard lock(shared_->mutex);
        return !shared_->text.empty();
    }

    /// "done", or the text of the error; "waiting" if the operation does not complete in time.
    [[nodiscard]] std::string result() const
    {
        if (!until([this] { return is_complete(); }))
            return "waiting";
        const std::lock_guard lock(shared_->mutex);
        return shared_->text;
    }

    void cancel() const
    {
        asio::post(shared_->executor,
                   [shared = shared_] { shared->signal.emit(asio::cancellation_type::total); });
    }

private:
    struct shared
    {
        std::mutex mutex;
        std::string text;
        asio::cancellation_signal signal;
        asio::any_io_executor executor;
    };

    std::shared_ptr<shared> shared_ = std::make_shared<shared>();
};

template <class Start>
outcome start(party& whose, Start what)
{
    outcome result;
    what(result.handler(whose));
    return result;
}

template <class Gate>
outcome wait(party& whose, Gate& gate)
{
    return start(whose, [&](auto handler) { gate.async_wait(std::move(handler)); });
}

/// Waits until all earlier commands have been answered.
std::string ping(party& whose)
{
    session& own = whose;
    return start(whose, [&](auto handler) { own.async_ping(std::move(handler)); }).result();
}

outcome meet(party& whose, turnstile::redis::barrier& barrier)
{
    return start(whose, [&](auto handler) { barrier.async_arrive_and_wait(std::move(handler)); });
}

/// These operations complete when the server has answered.
std::string set(party& whose, turnstile::redis::event& event)
{
    return start(whose, [&](auto handler) { event.async_set(std::move(handler)); }).result();
}

std::string reset(party& whose, turnstile::redis::event& event)
{
    return start(whose, [&](auto handler) { event.async_reset(std::move(handler)); }).result();
}

outcome count_down(party& whose, turnstile::redis::latch& latch, std::ptrdiff_t arrivals)
{
    return start(whose,
                 [&](auto handler) { latch.async_count_down(arrivals, std::move(handler)); });
}

/// The keys of a gate on the server.
class gate_view
{
public:
    gate_view(const redis_server& server, std::string_view kind, std::string_view name)
        : keys(turnstile::redis::detail::gate_keys("turnstile", kind, name))
        , server_(&server)
    {
    }

    [[nodiscard]] std::string number() const { return server_->cli({"HGET", keys[0], "number"}); }
    /// The members, one on each line.
    [[nodiscard]] std::string waiters() const { return members(1); }
    [[nodiscard]] std::string arrivals() const { return members(3); }

    const std::vector<std::string> keys;

private:
    [[nodiscard]] std::string members(std::size_t key) const
    {
        return server_->cli({"ZRANGE", keys[key], "0", "-1"});
    }

    const redis_server* server_;
};

std::ptrdiff_t lines(const std::string& text)
{
    return text.empty() ? 0 : 1 + std::count(text.begin(), text.end(), '\n');
}

/// With a Unix socket, no thread has to resolve a name.
std::string local_url(const redis_server& server)
{
    return "unix://" + server.unix_socket().string();
}

/// A child process with a session of its own, which keeps one operation running. It is forked before this process
/// starts threads, and needs none itself.
class child
{
public:
    child(const config& settings, const std::function<void(session&)>& what)
        : pid_(::fork())
    {
        if (pid_ != 0)
            return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        asio::io_context context;
        session own(context, settings);
        what(own);
        context.run();
        ::_exit(0);
    }
    child(const child&) = delete;
    child& operator=(const child&) = delete;
    ~child()
    {
        if (pid_ > 0)
            kill();
    }

    /// Kills the child, and returns whether SIGKILL ended it.
    bool kill()
    {
        int status = 0;
        ::kill(pid_, SIGKILL);
        const bool is_ended = ::waitpid(pid_, &status, 0) == pid_;
        pid_ = 0;
        return is_ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    }

    /// Stops the child, and returns whether it is stopped.
    bool stop() const
    {
        int status = 0;
        ::kill(pid_, SIGSTOP);
        return ::waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status);
    }

private:
    pid_t pid_;
};

/// The number of PUBLISH commands so far.
std::uint64_t published(const redis_server& server)
{
    return turnstile::test::counted(server, "commandstats", "cmdstat_publish:calls=");
}

}  // namespace

// --- messages and connections -------------------------------------------------------------------

// Fails if each waiter is registered at the server, instead of its session.
BOOST_AUTO_TEST_CASE(a_set_event_sends_one_message_to_each_process)
{
    const redis_server server;
    party first(endless(server.url(), "first"));
    party second(endless(server.url(), "second"));
    turnstile::redis::event a(first, "e");
    turnstile::redis::event b(second, "e");
    const outcome waits[] = {wait(first, a), wait(first, a), wait(first, a), wait(second, b)};
    BOOST_TEST(until([&] { return lines(gate_view(server, "event", "e").waiters()) == 2; }));
    const std::uint64_t before = published(server);
    BOOST_TEST(set(second, b) == "done");
    for (const outcome& each : waits)
        BOOST_TEST(each.result() == "done");
    BOOST_TEST(published(server) == before + 2);
}

// Fails without the question after a reconnect, and without the generation, which shows a set even
// after a reset.
BOOST_AUTO_TEST_CASE(a_disconnected_waiter_learns_that_its_event_was_set_and_reset)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    party deaf(endless(proxy.url(), "deaf"));
    party other(endless(server.url(), "other"));
    turnstile::redis::event a(deaf, "e");
    turnstile::redis::event b(other, "e");
    const outcome waiter = wait(deaf, a);
    BOOST_TEST(until([&] { return lines(gate_view(server, "event", "e").waiters()) == 1; }));
    BOOST_TEST(ping(deaf) == "done");

    proxy.swallow(tcp_proxy::to_client);
    BOOST_TEST(set(other, b) == "done");
    BOOST_TEST(reset(other, b) == "done");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!waiter.is_complete());
    proxy.mend();
    BOOST_TEST(waiter.result() == "done");
    BOOST_TEST(deaf.connections() >= 2U);
}

// Fails without the question after each lease.
BOOST_AUTO_TEST_CASE(a_forgotten_waiter_learns_that_its_event_was_set_and_reset)
{
    const redis_server server;
    party first(brief(server.url()));
    party other(endless(server.url(), "other"));
    turnstile::redis::event a(first, "e");
    turnstile::redis::event b(other, "e");
    const gate_view view(server, "event", "e");
    const outcome waiter = wait(first, a);
    BOOST_TEST(until([&] { return lines(view.waiters()) == 1; }));
    BOOST_TEST(ping(first) == "done");
    BOOST_TEST(server.cli({"DEL", view.keys[1]}) == "1");
    BOOST_TEST(set(other, b) == "done");
    BOOST_TEST(reset(other, b) == "done");
    BOOST_TEST(waiter.result() == "done");
}

// Fails without the question after a reconnect, and without the generation.
BOOST_AUTO_TEST_CASE(a_waiter_misses_no_set_however_often_its_connection_is_killed)
{
    const redis_server server;
    party first(endless(server.url(), "victim"));
    party other(endless(server.url(), "other"));
    for (int i = 0; i < 10; ++i)
    {
        const std::string name = std::to_string(i);
        turnstile::redis::event a(first, name);
        turnstile::redis::event b(other, name);
        const outcome waiter = wait(first, a);
        BOOST_TEST(until([&] { return lines(gate_view(server, "event", name).waiters()) == 1; }));
        BOOST_TEST(ping(first) == "done");
        BOOST_TEST(until([&] { return kill_connections(server, "victim") == 1; }));
        BOOST_TEST(set(other, b) == "done");
        BOOST_TEST(reset(other, b) == "done");
        BOOST_TEST(waiter.result() == "done");
    }
    BOOST_TEST(first.connections() >= 11U);
}

// Fails without the names of calls.
BOOST_AUTO_TEST_CASE(an_arrival_at_a_latch_whose_answer_is_lost_counts_once)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    party deaf(endless(proxy.url(), "deaf"));
    turnstile::redis::latch latch(deaf, "l", 3);
    const gate_view view(server, "latch", "l");
    BOOST_TEST(count_down(deaf, latch, 1).result() == "done");

    proxy.swallow(tcp_proxy::to_client);
    const outcome second = count_down(deaf, latch, 1);
    BOOST_TEST(until([&] { return view.number() == "1"; }));
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!second.is_complete());
    proxy.mend();
    BOOST_TEST(second.result() == "done");
    BOOST_TEST(view.number() == "1");
    BOOST_TEST(count_down(deaf, latch, 1).result() == "done");
    BOOST_TEST(wait(deaf, latch).result() == "done");
}

// Fails if the server does not remember the names of counted arrivals.
BOOST_AUTO_TEST_CASE(the_last_arrival_at_a_barrier_whose_answer_is_lost_counts_once)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    party deaf(endless(proxy.url(), "deaf"));
    party other(endless(server.url(), "other"));
    turnstile::redis::barrier a(deaf, "b", 2);
    turnstile::redis::barrier b(other, "b", 2);
    const gate_view view(server, "barrier", "b");
    const outcome first = meet(other, b);
    BOOST_TEST(until([&] { return lines(view.arrivals()) == 1; }));
    // The session of the last arrival is connected.
    const outcome nobody = start(deaf, [&](auto handler)
                                 { static_cast<session&>(deaf).async_ready(std::move(handler)); });
    BOOST_TEST(nobody.result() == "done");

    proxy.swallow(tcp_proxy::to_client);
    const outcome last = meet(deaf, a);
    BOOST_TEST(first.result() == "done");
    BOOST_TEST(until([&] { return proxy.swallowed() > 0; }));
    BOOST_TEST(!last.is_complete());
    proxy.mend();
    BOOST_TEST(last.result() == "done");
    // The repeated arrival did not count for the next round.
    BOOST_TEST(view.arrivals().empty());
}

// Fails if the client does not send the withdrawal after its reconnect.
BOOST_AUTO_TEST_CASE(an_arrival_cancelled_without_a_connection_is_withdrawn_after_the_reconnect)
{
    const redis_server server;
    tcp_proxy proxy(server.port());
    party first(endless(proxy.url(), "first"));
    party other(endless(server.url(), "other"));
    turnstile::redis::barrier a(first, "b", 2);
    turnstile::redis::barrier b(other, "b", 2);
    const gate_view view(server, "barrier", "b");
    const outcome fickle = meet(first, a);
    BOOST_TEST(until([&] { return lines(view.arrivals()) == 1; }));

    proxy.disconnect();
    BOOST_TEST(until([&] { return proxy.refused() > 0; }));
    fickle.cancel();
    BOOST_TEST(fickle.result() == error_code(asio::error::operation_aborted).message());
    BOOST_TEST(lines(view.arrivals()) == 1);
    proxy.refuse(false);
    BOOST_TEST(until([&] { return view.arrivals().empty(); }));
    const outcome next = meet(other, b);
    BOOST_TEST(until([&] { return lines(view.arrivals()) == 1; }));
    BOOST_TEST(!next.is_complete());
    const outcome last = meet(first, a);
    BOOST_TEST(next.result() == "done");
    BOOST_TEST(last.result() == "done");
}

// --- processes ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_arrival_at_a_latch_outlives_its_killed_process)
{
    const redis_server server;
    const gate_view view(server, "latch", "l");
    child arriving(config(local_url(server)),
                   [](session& own)
                   {
                       static turnstile::redis::latch latch(own, "l", 2);
                       latch.async_arrive_and_wait(asio::detached);
                   });
    BOOST_TEST(until([&] { return view.number() == "1"; }));
    BOOST_TEST(arriving.kill());
    party other(endless(server.url(), "other"));
    turnstile::redis::latch latch(other, "l", 2);
    BOOST_TEST(count_down(other, latch, 1).result() == "done");
    BOOST_TEST(wait(other, latch).result() == "done");
    BOOST_TEST(count_down(other, latch, 1).result() ==
               make_error_code(turnstile::errc::over_release).message());
}

// Fails without the leases of arrivals.
BOOST_AUTO_TEST_CASE(an_arrival_of_a_killed_process_at_a_barrier_expires)
{
    const redis_server server;
    const gate_view view(server, "barrier", "b");
    child arriving(brief(local_url(server)),
                   [](session& own)
                   {
                       static turnstile::redis::barrier barrier(own, "b", 3);
                       barrier.async_arrive_and_wait(asio::detached);
                   });
    BOOST_TEST(until([&] { return lines(view.arrivals()) == 1; }));
    const std::string dead = view.arrivals();
    BOOST_TEST(arriving.kill());
    BOOST_TEST(view.arrivals() == dead);

    party other(brief(server.url()));
    turnstile::redis::barrier barrier(other, "b", 3);
    const outcome first = meet(other, barrier);
    // The server has removed the arrival of the killed process.
    BOOST_TEST(until(
        [&]
        {
            const std::string there = view.arrivals();
            return lines(there) == 1 && there != dead;
        }));
    const outcome second = meet(other, barrier);
    BOOST_TEST(until([&] { return lines(view.arrivals()) == 2; }));
    BOOST_TEST(!first.is_complete());
    BOOST_TEST(!second.is_complete());
    const outcome third = meet(other, barrier);
    for (const outcome& each : {first, second, third})
        BOOST_TEST(each.result() == "done");
}

// Fails if a set() counts as used before its waiter has confirmed the grant.
BOOST_AUTO_TEST_CASE(a_unit_of_an_event_passes_to_the_next_process_if_the_first_does_not_confirm_it)
{
    const redis_server server;
    const auto key = turnstile::redis::detail::object_key("turnstile", "event", "e");
    const auto queued = [&] { return std::stoi(server.cli({"ZCARD", key + "{queue}"})); };
    child stopped(brief(local_url(server)),
                  [](session& own)
                  {
                      static turnstile::redis::event event(own, "e", event_reset::automatic);
                      event.async_wait(asio::detached);
                  });
    BOOST_TEST(until([&] { return queued() == 1; }));
    party other(brief(server.url()));
    turnstile::redis::event event(other, "e", event_reset::automatic);
    const outcome next = wait(other, event);
    BOOST_TEST(until([&] { return queued() == 2; }));
    BOOST_TEST(stopped.stop());
    BOOST_TEST(set(other, event) == "done");
    BOOST_TEST(next.result() == "done");
    BOOST_TEST(stopped.kill());
    BOOST_TEST(set(other, event) == "done");
    BOOST_TEST(set(other, event) == "done");
    BOOST_TEST(wait(other, event).result() == "done");
    std::atomic<bool> is_over{false};
    const outcome last =
        start(other,
              [&](auto handler)
              {
                  event.async_wait_for(std::chrono::milliseconds(0),
                                       [handler = std::move(handler), &is_over](
                                           const error_code& error, std::cv_status status) mutable
                                       {
                                           is_over = status == std::cv_status::timeout;
                                           std::move(handler)(error);
                                       });
              });
    BOOST_TEST(last.result() == "done");
    BOOST_TEST(is_over);
}

// --- the server ---------------------------------------------------------------------------------

// Fails if the client does not register its waiters and arrivals again after a reconnect.
BOOST_AUTO_TEST_CASE(waiters_of_gates_survive_a_restart_with_empty_memory)
{
    redis_server server;
    party first(endless(server.url(), "first"));
    party other(endless(server.url(), "other"));
    turnstile::redis::event was_set(first, "was set");
    turnstile::redis::event event_a(first, "e");
    turnstile::redis::event event_b(other, "e");
    turnstile::redis::latch latch(first, "l", 2);
    turnstile::redis::barrier barrier_a(first, "b", 2);
    turnstile::redis::barrier barrier_b(other, "b", 2);
    BOOST_TEST(set(first, was_set) == "done");
    BOOST_TEST(count_down(first, latch, 1).result() == "done");
    const outcome passage = wait(first, event_a);
    const outcome opening = wait(first, latch);
    const outcome meeting = meet(first, barrier_a);
    const gate_view event(server, "event", "e");
    const gate_view barrier(server, "barrier", "b");
    BOOST_TEST(until([&] { return lines(event.waiters()) == 1; }));
    BOOST_TEST(until([&] { return lines(barrier.arrivals()) == 1; }));

    server.restart();
    // The waiters are known again after the restart, but the counted arrivals are not.
    BOOST_TEST(until([&] { return lines(event.waiters()) == 1; }));
    BOOST_TEST(until([&] { return lines(barrier.arrivals()) == 1; }));
    const outcome late = wait(first, was_set);
    BOOST_TEST(until([&] { return lines(gate_view(server, "event", "was set").waiters()) == 1; }));
    BOOST_TEST(!late.is_complete());
    BOOST_TEST(!passage.is_complete());
    BOOST_TEST(set(other, event_b) == "done");
    BOOST_TEST(passage.result() == "done");
    BOOST_TEST(count_down(first, latch, 1).result() == "done");
    BOOST_TEST(!opening.is_complete());
    BOOST_TEST(count_down(first, latch, 1).result() == "done");
    BOOST_TEST(opening.result() == "done");
    BOOST_TEST(meet(other, barrier_b).result() == "done");
    BOOST_TEST(meeting.result() == "done");
}

// Fails without allow-oom.
BOOST_AUTO_TEST_CASE(an_event_can_be_awaited_while_the_memory_is_full)
{
    const redis_server server({"--maxmemory-policy", "noeviction"});
    party one(endless(server.url(), "one"));
    turnstile::redis::event event(one, "e");
    const gate_view view(server, "event", "e");
    const outcome nobody = start(one, [&](auto handler)
                                 { static_cast<session&>(one).async_ready(std::move(handler)); });
    BOOST_TEST(nobody.result() == "done");
    server.run({"CONFIG", "SET", "maxmemory", "1"});
    const outcome waiter = wait(one, event);
    BOOST_TEST(until([&] { return waiter.is_complete() || lines(view.waiters()) == 1; }));
    BOOST_TEST(set(one, event) == "done");
    BOOST_TEST(waiter.result() == "done");
}

// --- ends ---------------------------------------------------------------------------------------

// Fails if closing a session does not send the withdrawals of its arrivals.
BOOST_AUTO_TEST_CASE(closing_a_session_withdraws_its_arrivals)
{
    const redis_server server;
    party first(endless(server.url(), "first"));
    turnstile::redis::barrier barrier(first, "b", 2);
    turnstile::redis::event event(first, "e");
    const gate_view view(server, "barrier", "b");
    const outcome meeting = meet(first, barrier);
    const outcome passage = wait(first, event);
    BOOST_TEST(until([&] { return lines(view.arrivals()) == 1; }));
    const outcome end = start(first, [&](auto handler)
                              { static_cast<session&>(first).async_close(std::move(handler)); });
    const std::string closed = make_error_code(turnstile::redis::errc::session_closed).message();
    BOOST_TEST(meeting.result() == closed);
    BOOST_TEST(passage.result() == closed);
    BOOST_TEST(end.result() == "done");
    BOOST_TEST(view.arrivals().empty());
    BOOST_TEST(set(first, event) == closed);
}

BOOST_AUTO_TEST_CASE(destroying_a_session_aborts_its_waiters)
{
    const redis_server server;
    party owner(endless(server.url(), "owner"));
    turnstile::redis::barrier barrier(owner, "b", 2);
    turnstile::redis::event manual(owner, "m");
    turnstile::redis::event automatic(owner, "a", event_reset::automatic);
    const outcome waiters[] = {meet(owner, barrier), wait(owner, manual), wait(owner, automatic)};
    BOOST_TEST(until([&] { return lines(gate_view(server, "barrier", "b").arrivals()) == 1; }));
    owner.destroy_session();
    for (const outcome& each : waiters)
        BOOST_TEST(each.result() == error_code(asio::error::operation_aborted).message());
    BOOST_TEST(wait(owner, manual).result() ==
               make_error_code(turnstile::redis::errc::session_closed).message());
}

BOOST_AUTO_TEST_CASE(invalid_objects_are_refused)
{
    const redis_server server;
    party owner(endless(server.url(), "owner"));
    const auto code_of = [](const std::function<void()>& make)
    {
        try
        {
            make();
        }
        catch (const turnstile::system_error& error)
        {
            return error.code();
        }
        return error_code();
    };
    using turnstile::errc;
    BOOST_TEST(code_of([&] { turnstile::redis::latch(owner, "l", -1); }) == errc::invalid_count);
    BOOST_TEST(code_of([&] { turnstile::redis::barrier(owner, "b", 0); }) == errc::invalid_count);
    for (const auto reset : {event_reset::manual, event_reset::automatic})
        BOOST_TEST(code_of([&] { turnstile::redis::event(owner, "", reset); }) ==
                   make_error_code(turnstile::redis::errc::invalid_name));
    // A barrier over Redis has no completion step.
    static_assert(!std::is_constructible_v<turnstile::redis::barrier, session&, std::string_view,
                                           std::ptrdiff_t, std::function<void()>>);
}

BOOST_AUTO_TEST_CASE(an_event_cannot_be_manual_and_automatic)
{
    const redis_server server;
    party owner(endless(server.url(), "owner"));
    turnstile::redis::event manual(owner, "e");
    turnstile::redis::event automatic(owner, "e", event_reset::automatic);
    BOOST_TEST(set(owner, manual) == "done");
    const std::string foreign = make_error_code(turnstile::redis::errc::foreign_layout).message();
    BOOST_TEST(set(owner, automatic) == foreign);
    BOOST_TEST(wait(owner, automatic).result() == foreign);
    turnstile::redis::event other(owner, "f", event_reset::automatic);
    turnstile::redis::event again(owner, "f");
    BOOST_TEST(set(owner, other) == "done");
    BOOST_TEST(set(owner, again) == foreign);
    BOOST_TEST(wait(owner, again).result() == foreign);
}
