// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Semaphores that are created, listed and removed, and permits that belong to no session.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <optional>
#include <redis/protocol/names.hpp>
#include <string>
#include <support/expect.hpp>
#include <support/lock_client.hpp>
#include <support/lock_view.hpp>
#include <support/redis_server.hpp>
#include <support/running_context.hpp>
#include <support/tcp_proxy.hpp>
#include <turnstile/redis/error.hpp>
#include <turnstile/redis/semaphore_directory.hpp>
#include <turnstile/redis/session.hpp>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using turnstile::error_code;
using turnstile::redis::async_semaphore;
using turnstile::redis::directory_status;
using turnstile::redis::errc;
using turnstile::redis::listed_permit_options;
using turnstile::redis::semaphore_answer;
using turnstile::redis::semaphore_directory;
using turnstile::redis::session;
using turnstile::redis::session_thread;
using turnstile::test::redis_server;
using turnstile::test::undisturbed;
using turnstile::test::until;

constexpr auto as_result = asio::as_tuple(asio::use_future);

/// A server, and the directory of one session.
struct scene
{
    /// The result of an operation without an error.
    template <class Operation>
    static auto get(Operation operation)
    {
        auto [error, result] = std::move(operation)(as_result).get();
        BOOST_TEST(!error, error.message());
        return std::move(result);
    }

    std::int64_t value(const std::string& name)
    {
        return get(directory.async_read(name)).state.value;
    }

    redis_server server;
    turnstile::test::running_context context;
    session first{context.get_executor(), undisturbed(server.url()), session_thread::own};
    semaphore_directory directory{first, "d"};
    const std::string index = turnstile::redis::detail::object_key("turnstile", "directory", "d");
};

/// A directory of another session.
struct other_process
{
    explicit other_process(const redis_server& server)
        : own(context.get_executor(), undisturbed(server.url()), session_thread::own)
    {
    }

    turnstile::test::running_context context;
    session own;
    semaphore_directory directory{own, "d"};
};

/// The result of an operation whose command the proxy holds. The session sends it again over its next connection.
template <class Operation>
auto result_of_repeated(turnstile::test::tcp_proxy& proxy, Operation operation)
{
    const std::size_t before = proxy.bytes_to_server();
    proxy.hold();
    auto pending = std::move(operation)(as_result);
    BOOST_TEST(until([&] { return proxy.bytes_to_server() > before; }));
    proxy.hang_up_on_clients();
    return pending.get();
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_semaphore_directory, scene)

BOOST_AUTO_TEST_CASE(name_is_created_once_and_removed_once)
{
    BOOST_TEST((get(directory.async_read("a")).status == directory_status::missing));
    BOOST_TEST((get(directory.async_create("a", 3)).status == directory_status::done));
    const semaphore_answer again = get(directory.async_create("a", 5));
    BOOST_TEST((again.status == directory_status::exists));
    BOOST_TEST(again.state.value == 3);
    BOOST_TEST((get(directory.async_remove("a")).status == directory_status::done));
    BOOST_TEST((get(directory.async_remove("a")).status == directory_status::missing));
    BOOST_TEST((get(directory.async_add("a", 1)).status == directory_status::missing));
    BOOST_TEST(server.cli({"ZCARD", index}) == "0");
}

BOOST_AUTO_TEST_CASE(each_name_has_one_object)
{
    auto semaphore = directory.find("a");
    BOOST_TEST(directory.find("a") == semaphore);
    BOOST_TEST(directory.find("b") != semaphore);
    const std::weak_ptr former = semaphore;
    semaphore.reset();
    BOOST_TEST(former.expired());
    BOOST_TEST(directory.find("a") != nullptr);
}

BOOST_AUTO_TEST_CASE(units_are_bounded_by_the_capacity)
{
    constexpr std::int64_t most = async_semaphore::max_capacity;
    const semaphore_answer refused = get(directory.async_create("a", most + 1));
    BOOST_TEST((refused.status == directory_status::excess));
    BOOST_TEST(refused.state.name == "a");
    BOOST_TEST((get(directory.async_create("a", most)).status == directory_status::done));
    BOOST_TEST((get(directory.async_add("a", 1)).status == directory_status::excess));
    const listed_permit_options terms(1h, "client");
    BOOST_TEST(get(directory.async_take("a", 2, terms)).state.value == most - 2);
    BOOST_TEST((get(directory.async_add("a", 1)).status == directory_status::excess));
    BOOST_TEST(get(directory.async_take("a", 3, listed_permit_options())).state.value == most - 5);
    BOOST_TEST(get(directory.async_add("a", 3)).state.value == most - 2);
    constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
    BOOST_TEST(get(directory.async_add("a", huge)).units == huge);
    BOOST_TEST(get(directory.async_take("a", huge, terms)).units == huge);
}

BOOST_AUTO_TEST_CASE(units_return_to_their_semaphore_and_to_no_later_one_with_its_name)
{
    get(directory.async_create("a", 2));
    const semaphore_answer taken = get(directory.async_take("a", 1, listed_permit_options()));
    auto units = std::get<1>(directory.find("a")->async_acquire(1, as_result).get());
    const semaphore_answer kept = get(directory.async_keep("a", units, listed_permit_options()));
    BOOST_TEST(kept.state.value == 0);
    BOOST_TEST(get(directory.async_return("a", 1, taken.fencing_token)).state.value == 1);
    BOOST_TEST(get(directory.async_return("a", 1, kept.fencing_token)).state.value == 2);
    get(directory.async_remove("a"));
    get(directory.async_create("a", 1));
    for (const semaphore_answer& each : {taken, kept})
        BOOST_TEST((get(directory.async_return("a", 1, each.fencing_token)).status ==
                    directory_status::missing));
    BOOST_TEST(value("a") == 1);
}

BOOST_AUTO_TEST_CASE(permit_survives_its_session)
{
    get(directory.async_create("a", 3));
    semaphore_answer taken;
    {
        other_process killed(server);
        taken = get(killed.directory.async_take("a", 2, listed_permit_options(1h, "client")));
    }
    BOOST_TEST(taken.state.value == 1);
    BOOST_TEST(taken.state.permits == 1U);
    BOOST_TEST(get(directory.async_renew("a", taken.permit, 2h)).fencing_token ==
               taken.fencing_token);
    const semaphore_answer released = get(directory.async_release("a", taken.permit));
    BOOST_TEST((released.status == directory_status::done));
    BOOST_TEST(released.units == 2);
    BOOST_TEST(released.state.value == 3);
    BOOST_TEST(
        (get(directory.async_release("a", taken.permit)).status == directory_status::unheld));
    BOOST_TEST(
        (get(directory.async_renew("a", taken.permit, {})).status == directory_status::unheld));
}

BOOST_AUTO_TEST_CASE(granted_units_are_kept_beyond_their_session)
{
    get(directory.async_create("a", 1));
    get(directory.async_take("a", 1, listed_permit_options()));
    semaphore_answer kept;
    {
        other_process killed(server);
        const auto semaphore = killed.directory.find("a");
        auto waiting = semaphore->async_acquire(1, as_result);
        BOOST_TEST(until([&] { return get(directory.async_read("a")).state.waiters == 1; }));
        // The granted unit is neither available nor in a permit.
        const auto added = get(directory.async_add("a", 1)).state;
        BOOST_TEST(added.value == 0);
        BOOST_TEST(added.waiters == 1U);
        auto [error, units] = waiting.get();
        BOOST_TEST(!error);
        const std::uint64_t token = units.fencing_token();
        kept = get(killed.directory.async_keep("a", units, listed_permit_options(1h, "client")));
        BOOST_TEST(!units);
        BOOST_TEST(kept.fencing_token == token);
    }
    BOOST_TEST((kept.status == directory_status::done));
    BOOST_TEST(kept.state.value == 0);
    BOOST_TEST(kept.state.waiters == 0U);
    BOOST_TEST(kept.state.permits == 1U);
    BOOST_TEST(get(directory.async_free("a", kept.fencing_token)).state.value == 1);
    BOOST_TEST(
        (get(directory.async_free("a", kept.fencing_token)).status == directory_status::unheld));
}

BOOST_AUTO_TEST_CASE(the_rest_of_units_that_are_released_or_forgotten_can_be_kept)
{
    get(directory.async_create("a", 6));
    auto [error, units] = directory.find("a")->async_acquire(6, as_result).get();
    BOOST_TEST(!error);
    units.split(1).forget();
    auto released = units.split(2).async_release(as_result);
    const auto kept = get(directory.async_keep("a", units, listed_permit_options(1h, "client")));
    BOOST_TEST(kept.units == 3);
    BOOST_TEST(!std::get<0>(released.get()));
    BOOST_TEST(get(directory.async_read("a")).state.value == 2);
    BOOST_TEST(get(directory.async_release("a", kept.permit)).units == 3);
    BOOST_TEST(get(directory.async_read("a")).state.value == 5);
}

BOOST_AUTO_TEST_CASE(permit_is_named_although_its_session_ends_between_two_commands)
{
    get(directory.async_create("a", 1));
    asio::io_context idle;
    auto ending = std::make_unique<session>(idle, undisturbed(server.url()), session_thread::own);
    semaphore_directory same(*ending, "d");
    auto units = std::get<1>(same.find("a")->async_acquire(1, as_result).get());
    error_code error;
    semaphore_answer kept;
    const listed_permit_options terms(1h, "client");
    same.async_keep("a", units, terms,
                    [&](const error_code& failed, semaphore_answer answer)
                    {
                        error = failed;
                        kept = std::move(answer);
                    });
    // The answer to the first command has arrived. The next step waits until the context runs.
    BOOST_TEST(until([&] { return ending->metrics().round_trip.count == 2; }));
    ending.reset();
    idle.run();
    BOOST_TEST((error == errc::session_closed));
    BOOST_TEST((get(directory.async_release("a", kept.permit)).status == directory_status::done));
}

BOOST_AUTO_TEST_CASE(the_capacity_of_a_listed_semaphore_cannot_be_set)
{
    get(directory.async_create("a", 2));
    const auto [error] = directory.find("a")->async_set_capacity(5, as_result).get();
    BOOST_TEST(error == asio::error::operation_not_supported);
    BOOST_TEST(get(directory.async_read("a")).state.value == 2);
}

BOOST_AUTO_TEST_CASE(granted_units_are_taken_for_good)
{
    get(directory.async_create("a", 2));
    auto [error, units] = directory.find("a")->async_acquire(2, as_result).get();
    BOOST_TEST(!error);
    const auto kept = get(directory.async_keep("a", units, listed_permit_options()));
    BOOST_TEST(kept.permit.empty());
    BOOST_TEST(kept.state.value == 0);
    BOOST_TEST(kept.state.waiters == 0U);
    BOOST_TEST(get(directory.async_add("a", 2)).state.value == 2);
}

BOOST_AUTO_TEST_CASE(units_that_cannot_be_kept_are_released)
{
    get(directory.async_create("a", 3));
    const auto semaphore = directory.find("a");
    const auto acquire = [&](int units)
    { return std::get<1>(semaphore->async_acquire(units, as_result).get()); };
    const auto keep = [&](async_semaphore::permit_type& units, const listed_permit_options& terms)
    { return std::get<0>(directory.async_keep("a", units, terms, as_result).get()); };

    for (const listed_permit_options& terms :
         {listed_permit_options(), listed_permit_options(1h, "client")})
    {
        async_semaphore::permit_type whole = acquire(2);
        async_semaphore::permit_type part = whole.split(1);
        BOOST_TEST(keep(part, terms) == turnstile::errc::invalid_count);
        BOOST_TEST(!part);
        BOOST_TEST(until([&] { return get(directory.async_read("a")).state.value == 2; }));

        whole.merge(acquire(1));
        BOOST_TEST(keep(whole, terms) == turnstile::errc::empty_guard);
        BOOST_TEST(!whole);
        BOOST_TEST(until([&] { return get(directory.async_read("a")).state.value == 3; }));
    }
}

BOOST_AUTO_TEST_CASE(units_that_were_split_off_and_merged_again_are_kept)
{
    get(directory.async_create("a", 2));
    auto [error, units] = directory.find("a")->async_acquire(2, as_result).get();
    BOOST_TEST(!error);
    units.merge(units.split(1));
    const auto kept = get(directory.async_keep("a", units, listed_permit_options(1h, "client")));
    BOOST_TEST(kept.units == 2);
    BOOST_TEST(get(directory.async_read("a")).state.permits == 1U);
}

BOOST_AUTO_TEST_CASE(lost_units_are_not_kept)
{
    for (const listed_permit_options& terms :
         {listed_permit_options(), listed_permit_options(1h, "client")})
    {
        get(directory.async_create("a", 1));
        auto [error, units] = directory.find("a")->async_acquire(1, as_result).get();
        BOOST_TEST(!error);
        BOOST_TEST(get(directory.find("a")->async_break(units.fencing_token())) == 1U);
        BOOST_TEST(until([&] { return !units.valid(); }));
        BOOST_TEST(std::get<0>(directory.async_keep("a", units, terms, as_result).get()) ==
                   turnstile::errc::lost);
        BOOST_TEST(!units);
        BOOST_TEST(value("a") == 1);
        get(directory.async_remove("a"));
    }
}

BOOST_AUTO_TEST_CASE(units_of_a_removed_semaphore_are_not_kept)
{
    for (const listed_permit_options& terms :
         {listed_permit_options(), listed_permit_options(1h, "client")})
    {
        get(directory.async_create("a", 2));
        auto [error, units] = directory.find("a")->async_acquire(1, as_result).get();
        BOOST_TEST(!error);
        get(directory.async_remove("a"));
        BOOST_TEST((std::get<0>(directory.async_keep("a", units, terms, as_result).get()) ==
                    errc::no_such_object));
    }
}

BOOST_AUTO_TEST_CASE(units_of_another_semaphore_are_not_kept)
{
    const listed_permit_options terms(1h, "client");
    get(directory.async_create("a", 1));
    get(directory.async_create("b", 1));
    auto other = directory.find("b")->async_acquire(1, as_result).get();
    BOOST_TEST(std::get<0>(directory.async_keep("a", std::get<1>(other), terms, as_result).get()) ==
               turnstile::errc::wrong_object);
    BOOST_TEST(until([&] { return value("b") == 1; }));

    async_semaphore unlisted(first, "a", 1);
    auto outside = unlisted.async_acquire(1, as_result).get();
    BOOST_TEST(
        std::get<0>(directory.async_keep("a", std::get<1>(outside), terms, as_result).get()) ==
        turnstile::errc::wrong_object);
    BOOST_TEST(!std::get<0>(unlisted.async_acquire(1, as_result).get()));

    auto unnamed = directory.find("a")->async_acquire(1, as_result).get();
    BOOST_TEST(
        (std::get<0>(directory.async_keep("", std::get<1>(unnamed), terms, as_result).get()) ==
         errc::invalid_name));
    BOOST_TEST(until([&] { return value("a") == 1; }));
}

BOOST_AUTO_TEST_CASE(lease_that_is_out_of_range_is_refused)
{
    constexpr auto longest = listed_permit_options::longest_lease;
    const auto refused = make_error_code(turnstile::errc::invalid_duration);
    get(directory.async_create("a", 3));
    // As long as this permit is held, the server does not count the held units anew.
    const auto held = get(directory.async_take("a", 1, listed_permit_options(1h, "client")));
    for (const std::chrono::milliseconds lease :
         {std::chrono::milliseconds(-1), longest + 1ms, std::chrono::milliseconds::max()})
    {
        const listed_permit_options terms(lease, "client");
        BOOST_TEST(std::get<0>(directory.async_take("a", 1, terms, as_result).get()) == refused);
        BOOST_TEST(std::get<0>(directory.async_renew("a", held.permit, lease, as_result).get()) ==
                   refused);
        auto [error, units] = directory.find("a")->async_acquire(1, as_result).get();
        BOOST_TEST(!error);
        BOOST_TEST(std::get<0>(directory.async_keep("a", units, terms, as_result).get()) ==
                   refused);
        BOOST_TEST(!units);
        BOOST_TEST(until([&] { return value("a") == 2; }));
    }
    get(directory.async_take("a", 1, listed_permit_options(longest, "client")));
    const auto permits = get(directory.async_detail("a", 10)).permits;
    BOOST_TEST(permits.size() == 2U);
    BOOST_TEST((permits.at(1).lease == longest));
}

BOOST_AUTO_TEST_CASE(expired_permit_passes_to_the_next_waiter)
{
    get(directory.async_create("a", 1));
    get(directory.async_take("a", 1, listed_permit_options(100ms, "client")));
    auto [error, units] = directory.find("a")->async_acquire(1, as_result).get();
    BOOST_TEST(!error);
    BOOST_TEST(get(directory.async_read("a")).state.permits == 0U);
}

BOOST_AUTO_TEST_CASE(removal_ends_waits_and_permits)
{
    get(directory.async_create("a", 1));
    const auto taken = get(directory.async_take("a", 1, listed_permit_options(1h, "client")));
    const auto semaphore = directory.find("a");
    auto waiting = semaphore->async_acquire(1, as_result);
    BOOST_TEST(until([&] { return get(directory.async_read("a")).state.waiters == 1; }));
    other_process remover(server);
    get(remover.directory.async_remove("a"));
    BOOST_TEST((std::get<0>(waiting.get()) == errc::no_such_object));
    BOOST_TEST((std::get<0>(semaphore->async_acquire(1, as_result).get()) == errc::no_such_object));
    get(directory.async_create("a", 4));
    BOOST_TEST(
        (get(directory.async_release("a", taken.permit)).status == directory_status::unheld));
    BOOST_TEST(value("a") == 4);
}

BOOST_AUTO_TEST_CASE(missing_semaphore_is_neither_inspected_nor_broken_nor_changed)
{
    const auto missing = directory.find("a");
    BOOST_TEST((std::get<0>(missing->async_inspect(as_result).get()) == errc::no_such_object));
    BOOST_TEST((std::get<0>(missing->async_break(as_result).get()) == errc::no_such_object));
    BOOST_TEST((std::get<0>(missing->async_available(as_result).get()) == errc::no_such_object));
    BOOST_TEST((std::get<0>(missing->async_release(1, as_result).get()) == errc::no_such_object));
}

BOOST_AUTO_TEST_CASE(newcomer_does_not_overtake_a_waiter)
{
    get(directory.async_create("a", 1));
    const auto semaphore = directory.find("a");
    auto waiting = semaphore->async_acquire(2, as_result);
    BOOST_TEST(until([&] { return get(directory.async_read("a")).state.waiters == 1; }));
    const auto refused = get(directory.async_take("a", 1, listed_permit_options(1h, "client")));
    BOOST_TEST((refused.status == directory_status::busy));
    BOOST_TEST(refused.permit == "");
    get(directory.async_add("a", 1));
    BOOST_TEST(!std::get<0>(waiting.get()));
}

BOOST_AUTO_TEST_CASE(more_waiters_than_one_script_serves_are_granted)
{
    constexpr int count = 300;
    get(directory.async_create("a", 0));
    std::vector<std::future<std::tuple<error_code, async_semaphore::permit_type>>> waiting;
    const auto semaphore = directory.find("a");
    for (int i = 0; i < count; ++i)
        waiting.push_back(semaphore->async_acquire(1, as_result));
    BOOST_TEST(until([&] { return get(directory.async_read("a")).state.waiters == count; }));
    get(directory.async_add("a", count));
    std::uint64_t last = 0;
    for (auto& each : waiting)
    {
        auto [error, units] = each.get();
        BOOST_TEST(!error);
        BOOST_TEST(units.fencing_token() > last);
        last = units.fencing_token();
    }
}

BOOST_AUTO_TEST_CASE(more_permits_than_one_script_ends_expire_before_the_answer)
{
    constexpr int count = 300;
    const auto take_all = [&]
    {
        get(directory.async_create("a", count));
        for (int i = 0; i < count; ++i)
            get(directory.async_take("a", 1, listed_permit_options(1h, "client")));
        // All leases end now.
        const std::string holders = turnstile::redis::detail::listed_key(index, "a") + "{holders}";
        server.run({"EVAL",
                    "for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do "
                    "redis.call('ZADD', KEYS[1], 1, id) end",
                    "1", holders});
    };
    take_all();
    BOOST_TEST((get(directory.async_take("a", count, listed_permit_options())).status ==
                directory_status::done));
    get(directory.async_remove("a"));
    take_all();
    BOOST_TEST(value("a") == count);
    get(directory.async_remove("a"));
    take_all();
    BOOST_TEST(get(directory.async_list("", 10)).semaphores.at(0).value == count);
    get(directory.async_remove("a"));
    take_all();
    BOOST_TEST(get(directory.async_detail("a", 10)).permits.empty());
}

BOOST_AUTO_TEST_CASE(list_is_in_the_order_of_bytes)
{
    const std::string odd("\0 {x}%\xF0\x9F\x98\x80", 9);
    for (const std::string& name :
         {std::string("b"), std::string("a"), std::string("a{queue}"), odd})
        get(directory.async_create(name, 1));
    const auto page = get(directory.async_list("", 2));
    BOOST_TEST(page.total == 4U);
    BOOST_TEST(page.semaphores.size() == 2U);
    BOOST_TEST(page.semaphores.at(0).name == odd);
    BOOST_TEST(page.semaphores.at(1).name == "a");
    BOOST_TEST(page.next.value_or("") == "a");
    const auto rest = get(directory.async_list("a", 2));
    BOOST_TEST(rest.semaphores.size() == 2U);
    BOOST_TEST(!rest.next);
    BOOST_TEST(rest.semaphores.at(1).name == "b");
}

BOOST_AUTO_TEST_CASE(list_leaves_out_semaphores_whose_numbers_cannot_be_read)
{
    for (const char* const name : {"a", "b", "c", "d"})
        get(directory.async_create(name, 1));
    using turnstile::redis::detail::listed_key;
    server.run({"HSET", listed_key(index, "b"), "state", "2 x"});
    // As if it had been removed between the command for the names and that for the numbers.
    server.run({"DEL", listed_key(index, "c")});
    const auto page = get(directory.async_list("", 10));
    BOOST_TEST_REQUIRE(page.semaphores.size() == 2U);
    BOOST_TEST(page.semaphores[0].name == "a");
    BOOST_TEST(page.semaphores[1].name == "d");
}

BOOST_AUTO_TEST_CASE(detail_lists_permits_by_token_and_waiters_in_order)
{
    get(directory.async_create("a", 5));
    get(directory.async_take("a", 2, listed_permit_options(10min, "first client")));
    get(directory.async_take("a", 3, listed_permit_options(1min, "second")));
    const auto semaphore = directory.find("a");
    [[maybe_unused]] auto waiting = semaphore->async_acquire(4, as_result);
    BOOST_TEST(until([&] { return get(directory.async_read("a")).state.waiters == 1; }));
    const auto found = get(directory.async_detail("a", 10));
    BOOST_TEST(found.permits.size() == 2U);
    BOOST_TEST(found.permits.at(0).client == "first client");
    BOOST_TEST(found.permits.at(0).units == 2);
    BOOST_TEST((found.permits.at(1).lease == 1min));
    BOOST_TEST((found.permits.at(1).lease_left <= 1min));
    BOOST_TEST(found.waiters.size() == 1U);
    BOOST_TEST(found.waiters.at(0).units == 4);
    BOOST_TEST(!found.waiters.at(0).session.empty());
    BOOST_TEST((get(directory.async_detail("b", 10)).status == directory_status::missing));
}

BOOST_AUTO_TEST_CASE(limits_of_lists_are_obeyed_at_their_bounds)
{
    get(directory.async_create("a", 3));
    get(directory.async_create("b", 1));
    for (int i = 0; i < 3; ++i)
        get(directory.async_take("a", 1, listed_permit_options(1h, "client")));
    constexpr std::size_t all = std::numeric_limits<std::size_t>::max();
    BOOST_TEST(get(directory.async_detail("a", 0)).permits.empty());
    BOOST_TEST(get(directory.async_detail("a", 0)).state.permits == 3U);
    BOOST_TEST(get(directory.async_list("", 0)).semaphores.empty());
    for (const std::size_t limit : {all, all / 2, all - 1})
    {
        BOOST_TEST(get(directory.async_detail("a", limit)).permits.size() == 3U);
        BOOST_TEST(get(directory.async_list("", limit)).semaphores.size() == 2U);
    }
}

BOOST_AUTO_TEST_CASE(call_whose_answer_was_lost_is_executed_once)
{
    get(directory.async_create("a", 1000));
    std::vector<std::future<std::tuple<error_code, semaphore_answer>>> calls;
    const listed_permit_options terms(1h, "client");
    std::uint64_t kills = 0;
    for (int i = 0; i < 200; ++i)
    {
        calls.push_back(directory.async_take("a", 1, listed_permit_options(), as_result));
        calls.push_back(directory.async_take("a", 1, terms, as_result));
        calls.push_back(directory.async_add("a", 1, as_result));
        if (i % 50 != 20)
            continue;
        // A call is sent five times at most, so there are four kills. A failed attempt to connect ends the calls that
        // wait for it, so only a complete connection is killed.
        ++kills;
        BOOST_TEST(until([&] { return first.metrics().connections == kills; }));
        server.run({"CLIENT", "KILL", "TYPE", "pubsub"});
    }
    std::vector<std::string> permits;
    for (auto& each : calls)
    {
        const auto [error, answer] = each.get();
        BOOST_TEST(!error, error.message());
        if (!answer.permit.empty())
            permits.push_back(answer.permit);
    }
    BOOST_TEST(permits.size() == 200U);
    BOOST_TEST(value("a") == 800);
    for (const std::string& permit : permits)
        get(directory.async_release("a", permit));
    BOOST_TEST(value("a") == 1000);
    BOOST_TEST(first.metrics().connections == kills + 1);
}

BOOST_AUTO_TEST_CASE(late_copy_of_a_call_takes_nothing)
{
    turnstile::test::tcp_proxy proxy(server.port());
    session slow(context.get_executor(), undisturbed(proxy.url()), session_thread::own);
    semaphore_directory same(slow, "d");
    const listed_permit_options good;
    get(same.async_create("a", 10));
    get(same.async_take("a", 1, good));

    // The call is sent on this connection, and again on the next one.
    BOOST_TEST(!std::get<0>(result_of_repeated(proxy, same.async_take("a", 1, good))));
    BOOST_TEST(slow.metrics().connections == 2U);
    get(same.async_take("a", 1, good));
    BOOST_TEST(value("a") == 7);
    const std::uint64_t before = turnstile::test::scripts_run(server);
    proxy.resume();
    BOOST_TEST(until([&] { return turnstile::test::scripts_run(server) > before; }));
    BOOST_TEST(value("a") == 7);
}

// The server does not remember a refused call, so it executes the first copy when it arrives.
BOOST_AUTO_TEST_CASE(outcome_of_a_repeated_call_that_is_refused_is_unknown)
{
    turnstile::test::tcp_proxy proxy(server.port());
    session slow(context.get_executor(), undisturbed(proxy.url()), session_thread::own);
    semaphore_directory same(slow, "d");
    get(same.async_create("a", 1));
    const auto taken = get(directory.async_take("a", 1, listed_permit_options(1h, "client")));

    const auto [error, answer] =
        result_of_repeated(proxy, same.async_take("a", 1, listed_permit_options()));
    BOOST_TEST((error == errc::unknown_outcome));
    get(directory.async_release("a", taken.permit));
    proxy.resume();
    BOOST_TEST(until([&] { return value("a") == 0; }));
}

BOOST_AUTO_TEST_CASE(repeated_release_of_an_ended_permit_is_certain)
{
    turnstile::test::tcp_proxy proxy(server.port());
    session slow(context.get_executor(), undisturbed(proxy.url()), session_thread::own);
    semaphore_directory same(slow, "d");
    get(same.async_create("a", 1));
    const auto [error, answer] = result_of_repeated(proxy, same.async_release("a", "permit"));
    BOOST_TEST(!error);
    BOOST_TEST((answer.status == directory_status::unheld));
}

BOOST_AUTO_TEST_CASE(server_remembers_the_last_calls_only)
{
    get(directory.async_create("a", 1));
    for (int i = 0; i < 10; ++i)
    {
        const auto taken = get(directory.async_take("a", 1, listed_permit_options(1h, "client")));
        get(directory.async_renew("a", taken.permit, {}));
        get(directory.async_renew("a", taken.permit, 2h));
        get(directory.async_release("a", taken.permit));
    }
    BOOST_TEST(server.cli({"ZCARD", index + "{calls}"}) == "1");
}

BOOST_AUTO_TEST_CASE(keys_that_cannot_be_used_are_named)
{
    const auto errors = [&]
    {
        const auto error_of = [](auto operation)
        { return std::get<0>(std::move(operation)(as_result).get()); };
        const listed_permit_options terms(1h, "client");
        return std::vector<error_code>{error_of(directory.async_read("a")),
                                       error_of(directory.async_add("a", 1)),
                                       error_of(directory.async_take("a", 1, terms)),
                                       error_of(directory.async_renew("a", "permit", 1h)),
                                       error_of(directory.async_release("a", "permit")),
                                       error_of(directory.async_free("a", 1)),
                                       error_of(directory.async_detail("a", 10)),
                                       error_of(directory.async_remove("a"))};
    };
    const std::string key = turnstile::redis::detail::listed_key(index, "a");
    get(directory.async_create("a", 1));
    server.run({"HSET", key, "state", "2 x"});
    for (const error_code& each : errors())
        BOOST_TEST(each == make_error_code(errc::bad_state));
    server.run({"DEL", key, index});
    server.run({"SET", key, "x"});
    for (const error_code& each : errors())
        BOOST_TEST(each == make_error_code(errc::wrong_type));
    server.run({"SET", index, "x"});
    BOOST_TEST(std::get<0>(directory.async_create("b", 1, as_result).get()) ==
               make_error_code(errc::wrong_type));
    BOOST_TEST(std::get<0>(directory.async_list("", 10, as_result).get()) ==
               make_error_code(errc::wrong_type));
}

BOOST_AUTO_TEST_CASE(unreachable_server_is_an_error)
{
    turnstile::redis::config settings = undisturbed(server.url());
    settings.logger = nullptr;
    session impatient(context.get_executor(), settings, session_thread::own);
    semaphore_directory same(impatient, "d");
    BOOST_TEST(!std::get<0>(same.async_create("a", 1, as_result).get()));
    server.stop();
    const auto [error, answer] = same.async_read("a", as_result).get();
    BOOST_TEST((error == turnstile::redis::error_kind::temporary));
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_errors)
{
    BOOST_TEST((std::get<0>(directory.async_create("", 1, as_result).get()) == errc::invalid_name));
    BOOST_TEST((get(directory.async_create("a", -1)).status == directory_status::excess));
    get(directory.async_create("a", 1));
    BOOST_TEST(std::get<0>(directory.async_add("a", 0, as_result).get()) ==
               turnstile::errc::invalid_count);
    BOOST_TEST(
        std::get<0>(directory.async_take("a", 0, listed_permit_options(), as_result).get()) ==
        turnstile::errc::invalid_count);
    BOOST_CHECK_THROW(semaphore_directory(first, ""), turnstile::system_error);
    async_semaphore::permit_type none;
    BOOST_TEST(
        std::get<0>(directory.async_keep("a", none, listed_permit_options(), as_result).get()) ==
        turnstile::errc::empty_guard);
}

BOOST_AUTO_TEST_SUITE_END()
