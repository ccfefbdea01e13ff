// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The promises of transactions over Redis, besides those of every monitor: the number of round trips, and the same
// result from the server and from the client.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <optional>
#include <redis/protocol/names.hpp>
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

enum class color
{
    red,
    green,
};

BOOST_DESCRIBE_ENUM(color, red, green)

struct inner
{
    int x = 0;
};

BOOST_DESCRIBE_STRUCT(inner, (), (x))

struct base
{
    int inherited = 0;
};

BOOST_DESCRIBE_STRUCT(base, (), (inherited))

/// The state of the monitors in these tests.
struct room : base
{
    int readers = 0;
    int writers = 0;
    std::int64_t large = 0;
    std::uint64_t larger = 5;
    std::uint8_t small = 0;
    bool open = false;
    double weight = 0;
    color paint = color::red;
    std::string name{};
    std::optional<std::string> keeper{};
    std::optional<int> limit{};
    std::vector<int> seats{};
    inner nested{};
    int unknown = 0;
};

BOOST_DESCRIBE_STRUCT(room, (base),
                      (readers, writers, large, larger, small, open, weight, paint, name, keeper,
                       limit, seats, nested))

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using task = asio::awaitable<void>;
using change = transaction<room>;
using monitor = redis::monitor<room>;
using section = monitor::section;

/// A server with a written state, and a session that uses it.
struct transaction_scene : coroutine_scene
{
    transaction_scene()
    {
        run(
            [this]() -> task
            {
                co_await session.async_ready(asio::deferred);
                co_await guarded.async_with([](section& s) { s->readers = 0, s->name = "A"; });
            });
    }

    /// Executes a transaction. Returns whether it was executed, and the number of commands that it took.
    template <class... Steps>
    std::pair<bool, std::uint64_t> transact(const transaction<room, Steps...>& what)
    {
        const std::uint64_t before = sent();
        bool result = false;
        run([&]() -> task { result = co_await guarded.async_transact(what); });
        return {result, sent() - before};
    }

    template <class... Steps>
    bool is_one_command(const transaction<room, Steps...>& what, bool is_done = true)
    {
        return transact(what) == std::pair(is_done, std::uint64_t(1));
    }

    template <class... Steps>
    bool is_section(const transaction<room, Steps...>& what, bool is_done = true)
    {
        return transact(what) == std::pair(is_done, std::uint64_t(2));
    }

    /// The text of the error of a transaction.
    template <class... Steps>
    std::string failure_of(const transaction<room, Steps...>& what,
                           const boost::system::error_condition& expected)
    {
        try
        {
            transact(what);
        }
        catch (const system_error& error)
        {
            BOOST_TEST(error.code() == expected, error.what());
            return error.what();
        }
        BOOST_ERROR("the transaction did not fail");
        return "";
    }

    [[nodiscard]] std::uint64_t sent() const
    {
        const auto now = session.metrics();
        return now.acquires + now.releases + now.fetches + now.signals + now.transactions;
    }

    [[nodiscard]] std::string field(const std::string& name) const
    {
        return server.cli({"HGET", guarded.state_key(), name});
    }
    void set(const std::string& name, const std::string& text)
    {
        server.run({"HSET", guarded.state_key(), name, text});
    }

    redis_server server;
    redis::session session{context, undisturbed(server.url()), redis::session_thread::own};
    monitor guarded{session, "room"};
    monitor::condition_type ok_to_read = guarded.make_condition("ok_to_read");
    monitor::condition_type ok_to_write = guarded.make_condition("ok_to_write");
};

BOOST_FIXTURE_TEST_SUITE(redis_transactions, transaction_scene)

BOOST_AUTO_TEST_CASE(a_reader_takes_two_round_trips)
{
    const auto enter = change()
                           .require(&room::writers, std::equal_to(), 0)
                           .wait_on(ok_to_read)
                           .add(&room::readers, 1);
    const auto leave = change().add(&room::readers, -1).notify_one(ok_to_write);
    server.run({"CONFIG", "RESETSTAT"});
    const auto before = session.metrics();
    run(
        [&]() -> task
        {
            BOOST_TEST(co_await guarded.async_transact(enter));
            BOOST_TEST(field("readers") == "1");
            BOOST_TEST(co_await guarded.async_transact(leave));
            BOOST_TEST(field("readers") == "0");
        });
    const auto after = session.metrics();
    BOOST_TEST(after.transactions - before.transactions == 2U);
    BOOST_TEST(sent() - before.acquires - before.releases == 2U);
    BOOST_TEST(server.cli({"INFO", "commandstats"}).find("cmdstat_evalsha:calls=2,") !=
               std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_first_transaction_writes_the_whole_state)
{
    room first;
    first.writers = 3;
    monitor made(session, "made", first);
    run(
        [&]() -> task
        {
            const auto what =
                change().require(&room::writers, std::equal_to(), 3).add(&room::readers, 1);
            BOOST_TEST(co_await made.async_transact(what));
            BOOST_TEST(co_await made.async_transact(what));
        });
    BOOST_TEST(server.cli({"HGET", made.state_key(), "writers"}) == "3");
    BOOST_TEST(server.cli({"HGET", made.state_key(), "readers"}) == "2");
    BOOST_TEST(session.metrics().transactions == 2U);
    // These are the release in the scene and that of the first transaction.
    BOOST_TEST(session.metrics().releases == 2U);
}

BOOST_AUTO_TEST_CASE(a_transaction_that_the_server_can_execute_takes_one_command)
{
    BOOST_TEST(is_one_command(change().add(&room::inherited, 1)));
    BOOST_TEST(field("inherited") == "1");
    BOOST_TEST(is_one_command(change().require(&room::readers, std::less(), 0), false));
    BOOST_TEST(is_one_command(change().require(&room::open, std::equal_to(), true), false));
    BOOST_TEST(is_one_command(change().require(&room::open, std::equal_to(), false)));
    BOOST_TEST(is_one_command(change().require(&room::name, std::equal_to(), "A")));
    BOOST_TEST(is_one_command(change().require(&room::name, std::equal_to(), "B"), false));
    BOOST_TEST(is_one_command(change().require(&room::paint, std::equal_to(), color::red)));
    BOOST_TEST(is_one_command(change()
                                  .require(&room::keeper, std::equal_to(), std::nullopt)
                                  .set(&room::keeper, "Ann")
                                  .set(&room::limit, 4)));
    BOOST_TEST(field("keeper") == "Ann");
    BOOST_TEST(field("limit") == "4");
    BOOST_TEST(is_one_command(change().require(&room::keeper, std::equal_to(), "Ann")));
    BOOST_TEST(
        is_one_command(change().require(&room::keeper, std::equal_to(), std::nullopt), false));
    BOOST_TEST(is_one_command(change().require(&room::limit, std::equal_to(), 4)));
    BOOST_TEST(is_one_command(change()
                                  .set(&room::keeper, std::nullopt)
                                  .set(&room::open, true)
                                  .set(&room::paint, color::green)
                                  .set(&room::weight, 0.5)
                                  .set(&room::seats, {1, 2})
                                  .set(&room::name, "")));
    BOOST_TEST(server.cli({"HEXISTS", guarded.state_key(), "keeper"}) == "0");
    run(
        [&]() -> task
        {
            const room now = co_await guarded.async_with([](section& s) { return *s; });
            BOOST_TEST(!now.keeper);
            BOOST_TEST(now.open);
            BOOST_TEST((now.paint == color::green));
            BOOST_TEST(now.weight == 0.5);
            BOOST_TEST((now.seats == std::vector{1, 2}));
            BOOST_TEST(now.name == "");
        });
}

BOOST_AUTO_TEST_CASE(other_transactions_are_executed_in_a_critical_section)
{
    BOOST_TEST(is_section(change().require(&room::weight, std::less(), 0.5)));
    BOOST_TEST(is_section(change().require(&room::name, std::less(), "B")));
    BOOST_TEST(is_section(change().require(&room::paint, std::equal_to(), color::green), false));
    BOOST_TEST(is_section(change().require(&room::paint, std::not_equal_to(), color::green)));
    BOOST_TEST(is_section(change().set(&room::nested, inner{3})));
    BOOST_TEST(field("nested.x") == "3");
    BOOST_TEST(
        is_section(change().set(&room::limit, 5).require(&room::seats, std::equal_to(), {})));
    BOOST_TEST(is_section(change().require(&room::limit, std::greater(), 4)));
    BOOST_TEST(is_section(change().require(&room::limit, std::equal_to(), 4), false));
}

// Redis computes with doubles, but these numbers have 64 bits.
BOOST_AUTO_TEST_CASE(large_numbers_are_exact)
{
    constexpr std::int64_t odd = (std::int64_t(1) << 53) + 1;
    BOOST_TEST(is_one_command(change().set(&room::large, odd)));
    BOOST_TEST(is_section(change().require(&room::large, std::equal_to(), odd - 1), false));
    BOOST_TEST(is_section(change().require(&room::large, std::less(), odd + 1)));
    BOOST_TEST(is_section(change().add(&room::large, 1)));
    BOOST_TEST(field("large") == std::to_string(odd + 1));
    constexpr auto most = std::numeric_limits<std::uint64_t>::max();
    BOOST_TEST(is_one_command(change().set(&room::larger, most - 1)));
    BOOST_TEST(is_section(change().add(&room::larger, 1)));
    BOOST_TEST(field("larger") == std::to_string(most));
    BOOST_TEST(is_section(change().add(&room::larger, std::numeric_limits<std::int64_t>::min())));
    BOOST_TEST(field("larger") == std::to_string(most / 2));
    const auto out_of_range = make_error_condition(boost::system::errc::result_out_of_range);
    const auto least = std::numeric_limits<std::int64_t>::min();
    BOOST_TEST(is_one_command(change().set(&room::large, least)));
    const std::string text = failure_of(change().add(&room::large, -1), out_of_range);
    BOOST_TEST(text.find("'large'") != std::string::npos, text);
    BOOST_TEST(field("large") == std::to_string(least));
}

BOOST_AUTO_TEST_CASE(a_sum_has_to_be_a_value_of_its_member)
{
    const auto out_of_range = make_error_condition(boost::system::errc::result_out_of_range);
    const std::string text = failure_of(
        change().add(&room::readers, 1).set(&room::name, "B").add(&room::small, -1), out_of_range);
    BOOST_TEST(text.find("'small': 0 - 1 is not between 0 and 255") != std::string::npos, text);
    BOOST_TEST(field("readers") == "0");
    BOOST_TEST(field("name") == "A");
    BOOST_TEST(is_one_command(change().add(&room::small, 255)));
    failure_of(change().add(&room::small, 1), out_of_range);
    BOOST_TEST(field("small") == "255");
    const std::string key = redis::detail::object_key("turnstile", "monitor", "room");
    BOOST_TEST(packed_word(server.cli({"HGET", key, "state"}), "owner") == "");
}

BOOST_AUTO_TEST_CASE(a_text_of_another_form_is_read_by_the_client)
{
    set("readers", "07");
    BOOST_TEST(is_section(change().require(&room::readers, std::equal_to(), 7)));
    BOOST_TEST(field("readers") == "07");
    BOOST_TEST(is_section(change().add(&room::readers, 1)));
    BOOST_TEST(field("readers") == "8");
    server.run({"HDEL", guarded.state_key(), "larger"});
    // The missing field has the default value of its type.
    BOOST_TEST(is_one_command(change().add(&room::larger, 1)));
    BOOST_TEST(field("larger") == "6");
}

BOOST_AUTO_TEST_CASE(an_invalid_text_is_an_error)
{
    const auto bad = make_error_code(redis::errc::bad_state).default_error_condition();
    for (const char* text : {"many", "2147483648", "1.5"})
    {
        set("readers", text);
        const std::string why = failure_of(change().add(&room::readers, 1), bad);
        BOOST_TEST(why.find("readers") != std::string::npos, why);
        BOOST_TEST(why.find(text) != std::string::npos, why);
        BOOST_TEST(field("readers") == text);
    }
    // A transaction that does not use this field succeeds.
    BOOST_TEST(is_one_command(change().add(&room::writers, 1)));
}

BOOST_AUTO_TEST_CASE(any_text_differs_from_an_empty_optional)
{
    set("limit", "many");
    BOOST_TEST(is_one_command(change().require(&room::limit, std::not_equal_to(), std::nullopt)));
    BOOST_TEST(
        is_one_command(change().require(&room::limit, std::equal_to(), std::nullopt), false));
    failure_of(change().require(&room::limit, std::equal_to(), 5),
               make_error_code(redis::errc::bad_state).default_error_condition());
}

BOOST_AUTO_TEST_CASE(an_undescribed_member_cannot_be_used)
{
    const auto bad = make_error_code(redis::errc::bad_state).default_error_condition();
    const std::string why = failure_of(change().add(&room::unknown, 1), bad);
    BOOST_TEST(why.find("not described") != std::string::npos, why);
    failure_of(change().set(&room::unknown, 1), bad);
    failure_of(change().require(&room::unknown, std::equal_to(), 1), bad);
}

BOOST_AUTO_TEST_CASE(a_condition_of_another_monitor_is_not_notified)
{
    monitor other(session, "other");
    auto strange = other.make_condition("ok_to_read");
    const auto wrong = make_error_code(turnstile::errc::wrong_object).default_error_condition();
    failure_of(change().add(&room::readers, 1).notify_one(strange), wrong);
    BOOST_TEST(field("readers") == "0");
}

BOOST_AUTO_TEST_CASE(grants_of_transactions_wait_for_replicas)
{
    monitor durable(session, "room", room(), redis::mutex_options().durability(1, 1ms));
    const auto before = session.metrics().transactions;
    run(
        [&]() -> task
        {
            try
            {
                co_await durable.async_transact(change().add(&room::readers, 1));
                BOOST_ERROR("there is no replica");
            }
            catch (const system_error& error)
            {
                BOOST_TEST(error.code() == make_error_code(redis::errc::not_replicated));
            }
        });
    BOOST_TEST(session.metrics().transactions == before);
    BOOST_TEST(field("readers") == "0");
}

BOOST_AUTO_TEST_CASE(a_waiting_transaction_takes_one_command_and_one_message)
{
    redis::session second(context, undisturbed(server.url()), redis::session_thread::own);
    monitor theirs(second, "room");
    const auto waiting = [this]
    {
        return server.cli(
            {"ZCARD", redis::detail::object_key("turnstile", "monitor", "room") + "{queue}"});
    };
    std::string completed;
    run(
        [&]() -> task
        {
            auto body = [&](section& s) -> task
            {
                for (const int each : {1, 2, 3})
                    start(
                        [&, each]() -> task
                        {
                            const auto next = change()
                                                  .require(&room::readers, std::equal_to(), each)
                                                  .add(&room::readers, 1);
                            if (co_await theirs.async_transact(next))
                                completed += std::to_string(each);
                        });
                co_await until_so([&] { return waiting() == "3"; });
                s->readers = 1;
                server.run({"CONFIG", "RESETSTAT"});
            };
            co_await guarded.async_with(body);
        });
    BOOST_TEST(completed == "123");
    BOOST_TEST(field("readers") == "4");
    // The end of the critical section has executed all three transactions.
    BOOST_TEST(server.cli({"INFO", "commandstats"}).find("cmdstat_evalsha:calls=1,") !=
               std::string::npos);
    const auto after = second.metrics();
    BOOST_TEST(after.transactions == 3U);
    BOOST_TEST(after.acquires + after.releases + after.fetches == 0U);
}

BOOST_AUTO_TEST_CASE(a_transaction_on_a_condition_takes_one_command_and_one_message)
{
    const std::string key =
        redis::detail::object_key("turnstile", "monitor", "room") + "{sleepers}ok_to_read";
    const auto before = session.metrics();
    bool has_entered = false;
    run(
        [&]() -> task
        {
            set("writers", "2");
            start(
                [&]() -> task
                {
                    const auto enter = change()
                                           .require(&room::writers, std::equal_to(), 0)
                                           .wait_on(ok_to_read)
                                           .add(&room::readers, 1);
                    has_entered = co_await guarded.async_transact(enter);
                });
            co_await until_so([&] { return server.cli({"ZCARD", key}) == "1"; });
            const auto leave = change().add(&room::writers, -1).notify_all(ok_to_read);
            co_await guarded.async_transact(leave);
            BOOST_TEST(!has_entered);
            BOOST_TEST(server.cli({"ZCARD", key}) == "1");
            co_await guarded.async_transact(leave);
        });
    BOOST_TEST(has_entered);
    BOOST_TEST(field("readers") == "1");
    const auto after = session.metrics();
    BOOST_TEST(after.transactions - before.transactions == 3U);
    BOOST_TEST(after.acquires == before.acquires);
    BOOST_TEST(after.releases == before.releases);
}

BOOST_AUTO_TEST_CASE(closing_the_session_makes_the_outcome_of_a_waiting_transaction_unknown)
{
    run(
        [&]() -> task
        {
            auto body = [&](section&) -> task
            {
                redis::session second(context, undisturbed(server.url()),
                                      redis::session_thread::own);
                monitor theirs(second, "room");
                error_code result;
                start(
                    [&]() -> task
                    {
                        result = co_await error_of(
                            [&]() -> task
                            { co_await theirs.async_transact(change().add(&room::readers, 1)); });
                    });
                co_await until_so([&] { return second.metrics().transactions == 1U; });
                co_await second.async_close(asio::deferred);
                co_await until_so([&] { return !!result; });
                BOOST_TEST(result == make_error_code(redis::errc::unknown_outcome));
            };
            co_await guarded.async_with(body);
        });
}

// Several sessions run transactions. Each keeps its own record of what the server remembers.
BOOST_AUTO_TEST_CASE(each_transaction_is_executed_once)
{
    constexpr int each = 50;
    redis::session second(context, undisturbed(server.url()), redis::session_thread::own);
    monitor theirs(second, "room");
    const auto more = change().add(&room::readers, 1);
    int done = 0;
    const auto count = [&](monitor& whose) -> task
    {
        for (int i = 0; i < each; ++i)
            if (co_await whose.async_transact(more))
                ++done;
    };
    for (monitor* whose : {&guarded, &guarded, &theirs, &theirs})
        asio::co_spawn(context, count(*whose),
                       [](const std::exception_ptr& error)
                       {
                           if (error)
                               std::rethrow_exception(error);
                       });
    context.restart();
    context.run();
    BOOST_TEST(done == 4 * each);
    BOOST_TEST(field("readers") == std::to_string(4 * each));
    // No transaction had to wait, because no critical section was in progress.
    BOOST_TEST(second.metrics().acquires == 0U);
    BOOST_TEST(second.metrics().releases == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace
}  // namespace turnstile::test
