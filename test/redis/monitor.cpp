// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The promises of a monitor over Redis, besides those of every monitor.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/describe/class.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <redis/protocol/names.hpp>
#include <set>
#include <sstream>
#include <string>
#include <support/coroutine_scene.hpp>
#include <support/lock_client.hpp>
#include <support/packed_state.hpp>
#include <support/print.hpp>
#include <support/redis_server.hpp>
#include <turnstile/error.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/transaction.hpp>
#include <utility>
#include <vector>

namespace turnstile::test {

struct place
{
    std::string town{};
    int number = 0;
};

BOOST_DESCRIBE_STRUCT(place, (), (town, number))

/// The state of the monitors in these tests.
struct stock
{
    int parts = 0;
    std::optional<std::string> keeper{};
    place at{};
};

BOOST_DESCRIBE_STRUCT(stock, (), (parts, keeper, at))

/// A state whose address operator does not return its address, like some smart pointers.
struct handle
{
    handle* operator&() noexcept { return nullptr; }  // NOLINT(google-runtime-operator)

    int value = 1;
};

BOOST_DESCRIBE_STRUCT(handle, (), (value))

/// A state with a value that cannot be written unless it is UTF-8.
struct letters
{
    std::vector<std::string> texts{};
    int number = 0;
};

BOOST_DESCRIBE_STRUCT(letters, (), (texts, number))

/// A state that cannot be constructed while a test forbids that.
struct moody
{
    moody()
    {
        if (refuses)
            throw 5;
    }

    inline static bool refuses = false;
    int number = 0;
};

BOOST_DESCRIBE_STRUCT(moody, (), (number))

/// A container that cannot be read while a test forbids that.
struct moody_list : std::vector<int>
{
    [[nodiscard]] const_iterator begin() const
    {
        if (refuses)
            throw 5;
        return std::vector<int>::begin();
    }

    inline static bool refuses = false;
};

struct list_state
{
    moody_list list{};
    int number = 0;
};

BOOST_DESCRIBE_STRUCT(list_state, (), (list, number))

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using task = asio::awaitable<void>;
using monitor = redis::monitor<stock>;
using section = monitor::section;

/// A server, and a session that uses it.
struct monitor_scene : coroutine_scene
{
    /// Changes the state in a critical section.
    [[nodiscard]] task change(std::function<void(section&)> what)
    {
        co_await guarded.async_with(what, asio::deferred);
    }

    /// The fields and values of the state.
    [[nodiscard]] std::set<std::string> state() const
    {
        std::set<std::string> result;
        std::istringstream names(server.cli({"HKEYS", guarded.state_key()}));
        for (std::string name; std::getline(names, name);)
            if (!name.empty())
                result.insert(name + '=' + server.cli({"HGET", guarded.state_key(), name}));
        return result;
    }

    [[nodiscard]] std::string owner() const
    {
        return packed_word(server.cli({"HGET", key, "state"}), "owner");
    }

    /// Whether a waiter waits on the condition.
    [[nodiscard]] bool is_asleep() const
    {
        return server.cli({"ZCARD", key + "{sleepers}changed"}) == "1";
    }

    /// Ends the grant of the holder, as if its lease had expired.
    void take_away() const
    {
        std::string state = server.cli({"HGET", key, "state"});
        state = with_packed_word(state, "deadline", "1");
        state = with_packed_word(state, "owner", "somebody#0.1");
        server.run({"HSET", key, "state", with_packed_word(state, "fence", "9000000000000000")});
    }

    const std::string key = redis::detail::object_key("turnstile", "monitor", "stock");
    redis_server server;
    redis::session session{context, undisturbed(server.url()), redis::session_thread::own};
    monitor guarded{session, "stock"};
    monitor::condition_type changed = guarded.make_condition("changed");
};

using words = std::set<std::string>;

BOOST_FIXTURE_TEST_SUITE(redis_monitor, monitor_scene)

// --- the state ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_state_lies_in_a_hash_field_by_field)
{
    BOOST_TEST(guarded.state_key() ==
               redis::detail::object_key("turnstile", "monitor.state", "stock"));
    run(
        [this]() -> task
        {
            co_await change(
                [](section& s)
                {
                    s->parts = 3;
                    s->keeper = "Ann";
                    s->at = {"Ulm", 7};
                });
        });
    BOOST_TEST(state() == (words{"at.number=7", "at.town=Ulm", "keeper=Ann", "parts=3"}),
               boost::test_tools::per_element());
    BOOST_TEST(server.cli({"PTTL", guarded.state_key()}) == "-1");
    run([this]() -> task { co_await change([](section& s) { s->keeper.reset(); }); });
    BOOST_TEST(state() == (words{"at.number=7", "at.town=Ulm", "parts=3"}),
               boost::test_tools::per_element());
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(only_what_has_changed_is_written)
{
    server.run({"HSET", guarded.state_key(), "parts", "05", "at.number", "1", "other", "x"});
    run([this]() -> task { co_await change([](section& s) { ++s->at.number; }); });
    // Unknown fields and fields with another text of the same value stay as they are. Missing fields are written.
    BOOST_TEST(state() == (words{"at.number=2", "at.town=", "other=x", "parts=05"}),
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_critical_section_takes_two_commands_whatever_it_does)
{
    run(
        [this]() -> task
        {
            co_await session.async_ready(asio::deferred);
            co_await change([](section& s) { s->parts = 1; });
            const auto before = session.metrics();
            server.run({"CONFIG", "RESETSTAT"});
            co_await change(
                [this](section& s)
                {
                    ++s->parts;
                    s.notify_all(changed);
                });
            co_await change([](section& s) { BOOST_TEST(s->parts == 2); });
            const auto after = session.metrics();
            BOOST_TEST(after.acquires - before.acquires == 2U);
            BOOST_TEST(after.releases - before.releases == 2U);
            BOOST_TEST(after.fetches == 0U);
            BOOST_TEST(after.signals == 0U);
        });
    // The server has run four scripts since the reset of its statistics.
    BOOST_TEST(server.cli({"INFO", "commandstats"}).find("cmdstat_evalsha:calls=4,") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_first_value_counts_until_another_is_written)
{
    stock first;
    first.parts = 10;
    first.at.town = "Bern";
    monitor made(session, "made", first);
    run(
        [&]() -> task
        {
            co_await made.async_with([](section& s) { BOOST_TEST(s->parts == 10); });
            BOOST_TEST(server.cli({"EXISTS", made.state_key()}) == "0");
            co_await made.async_with([](section& s) { ++s->parts; });
            monitor other(session, "made");
            co_await other.async_with(
                [](section& s)
                {
                    BOOST_TEST(s->parts == 11);
                    BOOST_TEST(s->at.town == "Bern");
                });
        });
}

BOOST_AUTO_TEST_CASE(a_mutex_of_the_same_name_is_another_lock)
{
    redis::async_mutex mutex(session, "stock");
    run(
        [&]() -> task
        {
            const auto guard = co_await mutex.async_lock();
            co_await change([](section& s) { s->parts = 1; });
            BOOST_TEST(guard.valid());
        });
}

BOOST_AUTO_TEST_CASE(a_state_may_overload_the_address_operator)
{
    redis::monitor<handle> other(session, "handle");
    int sum = 0;
    run(
        [&]() -> task
        {
            co_await other.async_with([&](redis::monitor<handle>::section& s)
                                      { sum = s->value + std::as_const(s)->value; });
        });
    BOOST_TEST(sum == 2);
}

BOOST_AUTO_TEST_CASE(invalid_names_are_refused)
{
    const auto code_of = [](const std::function<void()>& makes)
    {
        try
        {
            makes();
        }
        catch (const system_error& error)
        {
            return error.code();
        }
        return error_code();
    };
    const auto invalid = make_error_code(redis::errc::invalid_name);
    BOOST_TEST(code_of([this] { const monitor nameless(session, ""); }) == invalid);
    BOOST_TEST(code_of([this] { const auto nameless = guarded.make_condition(""); }) == invalid);
    BOOST_TEST(changed.name() == "changed");
    BOOST_TEST(guarded.name() == "stock");
}

BOOST_AUTO_TEST_CASE(an_unreadable_state_is_an_error_that_names_the_field)
{
    server.run({"HSET", guarded.state_key(), "parts", "many"});
    bool ran = false;
    std::string text;
    run(
        [&]() -> task
        {
            try
            {
                co_await change([&](section&) { ran = true; });
            }
            catch (const system_error& error)
            {
                BOOST_TEST(error.code() == make_error_code(redis::errc::bad_state));
                text = error.what();
            }
        });
    BOOST_TEST(!ran);
    BOOST_TEST(text.find("parts") != std::string::npos, text);
    BOOST_TEST(text.find("many") != std::string::npos, text);
    BOOST_TEST(text.find(guarded.state_key()) != std::string::npos, text);
    BOOST_TEST(owner() == "");
    BOOST_TEST(state() == (words{"parts=many"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_state_of_another_kind_is_an_error)
{
    server.run({"SET", guarded.state_key(), "x"});
    run(
        [this]() -> task
        {
            const auto error = co_await error_of([this] { return change([](section&) {}); });
            BOOST_TEST(error == make_error_code(redis::errc::wrong_type));
        });
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(a_state_that_may_not_be_read_is_an_error_and_stays)
{
    const auto forbidden = make_error_code(redis::errc::missing_permission);
    const auto try_to_change = [&]() -> task
    {
        const auto error =
            co_await error_of([this] { return change([](section& s) { s->parts = 1; }); });
        BOOST_TEST(error == forbidden);
    };
    const auto may_read = [this](const char* rule)
    { server.run({"ACL", "SETUSER", "default", rule}); };
    run(
        [&, this]() -> task
        {
            co_await change([](section& s) { s->parts = 7; });
            may_read("-hgetall");
            co_await try_to_change();
            // The server granted the lock before the script failed.
            co_await until_so([this] { return owner().empty(); });
            may_read("+hgetall");
            auto body = [&, this](section&) -> task
            {
                start(try_to_change);
                co_await until_so([this] { return server.cli({"ZCARD", key + "{queue}"}) == "1"; });
                may_read("-hgetall");
            };
            co_await guarded.async_with(body);
            co_await until_so([this] { return owner().empty(); });
            may_read("+hgetall");
            co_await change([](section& s) { BOOST_TEST(s->parts == 7); });
        });
}

// --- all or nothing -----------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_body_that_throws_has_changed_nothing)
{
    run(
        [this]() -> task
        {
            co_await change([](section& s) { s->parts = 1; });
            auto plain = [this](section& s)
            {
                s->parts = 2;
                s.notify_all(changed);
                throw 1;
            };
            auto awaited = [this](section& s) -> task
            {
                s->parts = 3;
                co_await session.async_ping(asio::deferred);
                throw 2;
            };
            int thrown = 0;
            try
            {
                co_await guarded.async_with(plain);
            }
            catch (int number)
            {
                thrown += number;
            }
            try
            {
                co_await guarded.async_with(awaited);
            }
            catch (int number)
            {
                thrown += number;
            }
            BOOST_TEST(thrown == 3);
            co_await change([](section& s) { BOOST_TEST(s->parts == 1); });
        });
    BOOST_TEST(session.metrics().signals == 0U);
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(a_notification_passes_to_the_next_waiter_if_the_body_throws)
{
    int woken = 0;
    const auto waiter = [&]() -> task
    {
        auto body = [&](section& s) -> task
        {
            co_await s.async_wait(changed, [](const stock& now) { return now.parts > 0; });
            --s->parts;
            if (++woken == 1)
                throw 1;
        };
        try
        {
            co_await guarded.async_with(body);
        }
        catch (int)
        {
            woken += 10;
        }
    };
    const std::string condition_waiters = key + "{sleepers}changed";
    run(
        [&]() -> task
        {
            start(waiter);
            start(waiter);
            co_await until_so([&] { return server.cli({"ZCARD", condition_waiters}) == "2"; });
            co_await change(
                [this](section& s)
                {
                    s->parts = 1;
                    s.notify_one(changed);
                });
        });
    // One notification and one part served both waiters, because the first one threw without taking the part.
    BOOST_TEST(woken == 12);
    BOOST_TEST(state().contains("parts=0"));
}

BOOST_AUTO_TEST_CASE(a_section_that_lost_the_lock_writes_nothing)
{
    run(
        [this]() -> task
        {
            co_await change([](section& s) { s->parts = 1; });
            const auto error = co_await error_of(
                [this]() -> task
                {
                    auto body = [this](section& s)
                    {
                        s->parts = 2;
                        take_away();
                    };
                    co_await guarded.async_with(body);
                });
            BOOST_TEST(error == make_error_code(turnstile::errc::lost));
        });
    BOOST_TEST(state().contains("parts=1"));
}

BOOST_AUTO_TEST_CASE(a_section_that_lost_the_lock_cannot_wait)
{
    run(
        [this]() -> task
        {
            const auto error = co_await error_of(
                [this]() -> task
                {
                    auto body = [this](section& s) -> task
                    {
                        s->parts = 2;
                        take_away();
                        const auto never = [](const stock&) { return false; };
                        const auto [lost] = co_await s.async_wait(changed, never, asio::as_tuple);
                        BOOST_TEST(lost == make_error_code(turnstile::errc::lost));
                        const auto [empty] = co_await s.async_wait(changed, never, asio::as_tuple);
                        BOOST_TEST(empty == make_error_code(turnstile::errc::empty_guard));
                        BOOST_TEST(s.fencing_token() == 0U);
                        s->parts = 3;
                    };
                    co_await guarded.async_with(body);
                });
            BOOST_TEST(error == make_error_code(turnstile::errc::lost));
        });
    BOOST_TEST(state().empty());
}

BOOST_AUTO_TEST_CASE(the_outcome_is_unknown_after_a_restart_without_memory)
{
    run(
        [this]() -> task
        {
            const auto error = co_await error_of(
                [this]() -> task
                {
                    auto body = [this](section& s)
                    {
                        s->parts = 2;
                        server.run({"FLUSHALL"});
                    };
                    co_await guarded.async_with(body);
                });
            BOOST_TEST(error == make_error_code(redis::errc::unknown_outcome));
        });
    BOOST_TEST(state().empty());
}

BOOST_AUTO_TEST_CASE(a_commit_writes_only_into_the_state_that_was_read)
{
    run([this]() -> task { co_await change([](section& s) { s->at = {"Ulm", 7}; }); });
    run(
        [this]() -> task
        {
            const auto error = co_await error_of(
                [this]() -> task
                {
                    auto body = [this](section& s) -> task
                    {
                        s->parts = 2;
                        // No other client gets the lock, so the session regains it from a server without a state.
                        server.restart();
                        co_await until_so([this] { return !owner().empty(); });
                    };
                    co_await guarded.async_with(body);
                });
            BOOST_TEST(error == make_error_code(redis::errc::unknown_outcome));
            co_await until_so([this] { return owner().empty(); });
        });
    BOOST_TEST(state().empty());
}

BOOST_AUTO_TEST_CASE(a_refused_commit_releases_the_lock)
{
    run(
        [this]() -> task
        {
            const auto error = co_await error_of(
                [this]() -> task
                {
                    auto body = [this](section& s)
                    {
                        s->parts = 2;
                        server.run({"CONFIG", "SET", "maxmemory", "1"});
                    };
                    co_await guarded.async_with(body);
                });
            BOOST_TEST(error == make_error_code(redis::errc::server_error));
            co_await until_so([this] { return owner().empty(); });
        });
    BOOST_TEST(state().empty());
}

BOOST_AUTO_TEST_CASE(a_section_that_begins_after_the_end_of_its_monitor_is_aborted)
{
    auto former = std::make_unique<monitor>(session, "former");
    auto late = former->async_with([](section&) {}, asio::deferred);
    // The session knows the lock of the monitor from now on.
    run([&]() -> task { co_await former->async_with([](section&) {}, asio::deferred); });
    former.reset();
    run(
        [&]() -> task
        {
            const auto error = co_await error_of([&]() -> task { co_await std::move(late); });
            BOOST_TEST(error == error_code(asio::error::operation_aborted));
        });
}

BOOST_AUTO_TEST_CASE(a_condition_of_another_monitor_is_not_notified)
{
    monitor other(session, "other");
    auto strange = other.make_condition("changed");
    run(
        [&]() -> task
        {
            const auto error = co_await error_of(
                [&]() -> task { co_await change([&](section& s) { s.notify_one(strange); }); });
            BOOST_TEST(error == make_error_code(turnstile::errc::wrong_object));
        });
}

// --- waiting ------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_wait_commits_and_returns_with_the_current_state)
{
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    run(
        [&]() -> task
        {
            start(
                [&]() -> task
                {
                    auto body = [&](section& s) -> task
                    {
                        first = s.fencing_token();
                        s->keeper = "waiter";
                        co_await s.async_wait(changed,
                                              [](const stock& now) { return now.parts > 1; });
                        second = s.fencing_token();
                        BOOST_TEST(s->keeper.value() == "other");
                        s->at.number = s->parts;
                    };
                    co_await guarded.async_with(body);
                });
            co_await until_so([this] { return is_asleep(); });
            BOOST_TEST(state().contains("keeper=waiter"));
            co_await change(
                [this](section& s)
                {
                    BOOST_TEST(s->keeper.value() == "waiter");
                    s->keeper = "other";
                    s->parts = 1;
                    s.notify_one(changed);
                });
            // The predicate does not hold, so the waiter waits again.
            co_await until_so([this]
                              { return session.metrics().granted_by_message == 1 && is_asleep(); });
            co_await change(
                [this](section& s)
                {
                    s->parts = 5;
                    s.notify_one(changed);
                });
        });
    BOOST_TEST(state().contains("at.number=5"));
    BOOST_TEST(second > first);
    // The messages that granted the lock contained the state.
    BOOST_TEST(session.metrics().granted_by_message == 2U);
    BOOST_TEST(session.metrics().fetches == 0U);
}

BOOST_AUTO_TEST_CASE(closing_the_session_makes_the_outcome_of_a_wait_that_commits_unknown)
{
    run(
        [this]() -> task
        {
            error_code result;
            auto body = [&](section& s) -> task
            {
                s->parts = 7;
                server.pause();
                const auto never = [](const stock&) { return false; };
                result =
                    co_await error_of([&]() -> task { co_await s.async_wait(changed, never); });
                throw system_error(result);
            };
            start([&]() -> task
                  { co_await error_of([&]() -> task { co_await guarded.async_with(body); }); });
            co_await until_so([this] { return session.metrics().releases == 1; });
            session.async_close(asio::detached);
            co_await until_so([&] { return !!result; });
            BOOST_TEST(result == make_error_code(redis::errc::unknown_outcome));
            server.resume();
        });
}

BOOST_AUTO_TEST_CASE(an_unreadable_state_ends_the_wait)
{
    run(
        [this]() -> task
        {
            start(
                [this]() -> task
                {
                    const auto error = co_await error_of(
                        [this]() -> task
                        {
                            auto body = [this](section& s) -> task
                            {
                                const auto full = [](const stock& now) { return now.parts > 0; };
                                const auto bad = make_error_code(redis::errc::bad_state);
                                for (int i = 0; i < 2; ++i)
                                {
                                    const auto [ending] =
                                        co_await s.async_wait(changed, full, asio::as_tuple);
                                    BOOST_TEST(ending == bad);
                                }
                                s->keeper = "somebody";
                            };
                            co_await guarded.async_with(body);
                        });
                    BOOST_TEST(error == make_error_code(redis::errc::bad_state));
                });
            co_await until_so([this] { return is_asleep(); });
            server.run({"HSET", guarded.state_key(), "parts", "many"});
            // A monitor that does not read this field notifies the waiter.
            redis::monitor<place> other(session, "stock");
            auto theirs = other.make_condition("changed");
            co_await other.async_with([&](redis::monitor<place>::section& s)
                                      { s.notify_one(theirs); });
        });
    BOOST_TEST(state() == (words{"parts=many"}), boost::test_tools::per_element());
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(a_state_of_another_kind_ends_the_wait_without_the_lock)
{
    run(
        [this]() -> task
        {
            start(
                [this]() -> task
                {
                    const auto error = co_await error_of(
                        [this]() -> task
                        {
                            auto body = [this](section& s) -> task
                            {
                                const auto full = [](const stock& now) { return now.parts > 0; };
                                const auto [ending] =
                                    co_await s.async_wait(changed, full, asio::as_tuple);
                                BOOST_TEST(ending == make_error_code(redis::errc::wrong_type));
                                BOOST_TEST(s.fencing_token() == 0U);
                                s->parts = 5;
                            };
                            co_await guarded.async_with(body);
                        });
                    BOOST_TEST(error == make_error_code(turnstile::errc::lost));
                });
            co_await until_so([this] { return is_asleep(); });
            co_await change(
                [this](section& s)
                {
                    s.notify_one(changed);
                    server.run({"SET", guarded.state_key(), "x"});
                });
        });
    BOOST_TEST(server.cli({"GET", guarded.state_key()}) == "x");
}

// The constructor of a state may throw anything.
BOOST_AUTO_TEST_CASE(a_state_whose_constructor_throws_ends_the_wait)
{
    redis::monitor<moody> other(session, "stock");
    auto theirs = other.make_condition("changed");
    run(
        [&]() -> task
        {
            start(
                [&]() -> task
                {
                    auto body = [&](redis::monitor<moody>::section& s) -> task
                    {
                        const auto [ending] = co_await s.async_wait(
                            theirs, [](const moody& now) { return now.number > 0; },
                            asio::as_tuple);
                        BOOST_TEST(ending == make_error_code(redis::errc::bad_state));
                        moody::refuses = false;
                    };
                    BOOST_CHECK_THROW(co_await other.async_with(body), int);
                });
            co_await until_so([this] { return is_asleep(); });
            co_await guarded.async_with(
                [&](section& s)
                {
                    ++s->parts;
                    s.notify_one(changed);
                    moody::refuses = true;
                });
        });
    BOOST_TEST(owner() == "");
}

BOOST_AUTO_TEST_CASE(a_section_can_correct_a_value_that_a_wait_could_not_write)
{
    redis::monitor<letters> box(session, "letters");
    auto filled = box.make_condition("filled");
    run(
        [&]() -> task
        {
            auto body = [&](redis::monitor<letters>::section& s) -> task
            {
                s->number = 5;
                s->texts = {"\xff"};
                const auto [ending] = co_await s.async_wait(
                    filled, [](const letters&) { return false; }, asio::as_tuple);
                BOOST_TEST(ending == make_error_code(redis::errc::bad_state));
                // Nothing was committed, and the lock is still held.
                BOOST_TEST(server.cli({"EXISTS", box.state_key()}) == "0");
                s->texts = {"fine"};
            };
            co_await box.async_with(body);
        });
    BOOST_TEST(server.cli({"HGET", box.state_key(), "number"}) == "5");
    BOOST_TEST(server.cli({"HGET", box.state_key(), "texts"}) == R"(["fine"])");
}

// The container of a state may throw anything.
BOOST_AUTO_TEST_CASE(a_section_can_correct_a_container_that_throws_while_a_wait_writes_it)
{
    redis::monitor<list_state> box(session, "lists");
    auto filled = box.make_condition("filled");
    run(
        [&]() -> task
        {
            auto body = [&](redis::monitor<list_state>::section& s) -> task
            {
                s->number = 5;
                moody_list::refuses = true;
                const auto [ending] = co_await s.async_wait(
                    filled, [](const list_state&) { return false; }, asio::as_tuple);
                BOOST_TEST(ending == make_error_code(redis::errc::bad_state));
                BOOST_TEST(server.cli({"EXISTS", box.state_key()}) == "0");
                moody_list::refuses = false;
            };
            co_await box.async_with(body);
        });
    BOOST_TEST(server.cli({"HGET", box.state_key(), "number"}) == "5");
}

BOOST_AUTO_TEST_CASE(a_value_that_a_transaction_cannot_write_is_an_error_that_names_the_field)
{
    redis::monitor<letters> box(session, "letters");
    const auto names_the_field = [](const redis::redis_error& error)
    {
        return error.code() == make_error_code(redis::errc::bad_state) &&
               std::string(error.what()).starts_with("field 'texts': '\\xff' is not UTF-8");
    };
    BOOST_CHECK_EXCEPTION(static_cast<void>(box.async_transact(
                              transaction<letters>().set(&letters::texts, {"\xff"}))),
                          redis::redis_error, names_the_field);
}

// A critical section reports the loss of each of its grants, not only of the first one.
BOOST_AUTO_TEST_CASE(the_loss_of_the_lock_after_a_wait_cancels_the_body)
{
    bool cancelled = false;
    run(
        [&]() -> task
        {
            start(
                [&]() -> task
                {
                    const auto error = co_await error_of(
                        [&]() -> task
                        {
                            auto body = [&](section& s) -> task
                            {
                                co_await s.async_wait(changed, [](const stock& now)
                                                      { return now.parts > 0; });
                                try
                                {
                                    co_await session.async_close(asio::deferred);
                                    asio::steady_timer forever(context, 24h);
                                    co_await forever.async_wait(asio::deferred);
                                }
                                catch (const system_error& ending)
                                {
                                    cancelled = ending.code() == asio::error::operation_aborted;
                                }
                            };
                            co_await guarded.async_with(body);
                        });
                    BOOST_TEST(error == make_error_code(turnstile::errc::lost));
                });
            co_await until_so([this] { return is_asleep(); });
            co_await change(
                [this](section& s)
                {
                    s->parts = 1;
                    s.notify_one(changed);
                });
        });
    BOOST_TEST(cancelled);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test
