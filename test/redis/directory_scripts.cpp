// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "support/pool_scene.hpp"

// Each script of a semaphore directory alone.

namespace {

using turnstile::test::pool_scene;
using namespace std::chrono_literals;
using words = pool_scene::words;

/// One semaphore of a directory. An answer is 'status value waiters permits fence units more'.
class directory_scene : public pool_scene
{
public:
    directory_scene()
    {
        capacity = 10;
        outside = -1;
    }

    words enlist(std::int64_t units, const std::string& call = "")
    {
        return change("pool_enlist", call, {"name", std::to_string(units)});
    }
    words delist(const std::string& call = "") { return change("pool_delist", call, {"name"}); }
    /// Adds units, which were taken for good if @p fence states when.
    words supply(std::int64_t units, const std::string& call = "", const std::string& fence = "")
    {
        return change("pool_supply", call, {std::to_string(units), fence});
    }
    /// Takes units for good.
    words draw(std::int64_t units, const std::string& call = "")
    {
        return change("pool_draw", call, {std::to_string(units), "", "0", ""});
    }
    /// Takes units for a permit with a lease of a second.
    words take(std::int64_t units, const std::string& id, const std::string& call = "",
               const std::string& client = "a client")
    {
        return change("pool_draw", call, {std::to_string(units), id, "1000", client});
    }
    words renew_permit(const std::string& id, const std::string& span = "",
                       const std::string& call = "")
    {
        return send("pool_permit", call, {"renew", id, span});
    }
    words release_permit(const std::string& id, const std::string& call = "")
    {
        return change("pool_permit", call, {"release", id, ""});
    }
    words free_permit(const std::string& fence, const std::string& call = "")
    {
        return change("pool_permit", call, {"free", fence, ""});
    }
    words read() { return run("pool_states", common()); }
    /// Releases units of a session, of which a permit keeps some, and some stay outside.
    words keep(const std::string& id, const std::string& fence, std::int64_t left,
               const std::string& heir)
    {
        return run("pool_release", {"w:", id, fence, "slot", lease, claim, idle,
                                    std::to_string(capacity), "-1", std::to_string(left), heir});
    }
    /// The parts of the answer, and for the first one its words.
    words detail(int limit = 100)
    {
        store.published.clear();
        words arguments = common();
        arguments.insert(arguments.end(), {"sessions", std::to_string(limit)});
        return engine.run(store, "pool_detail", keys, arguments).leaves();
    }
    words names(const std::string& after, int limit)
    {
        return engine.run(store, "pool_names", {"index"}, {after, std::to_string(limit)}).leaves();
    }

    [[nodiscard]] words common() const
    {
        return {"w:", lease, claim, idle, std::to_string(capacity)};
    }
    [[nodiscard]] std::int64_t ttl(const std::string& key)
    {
        return store.run(words{"PTTL", key}).number;
    }
    [[nodiscard]] bool has(const std::string& entry) const
    {
        return store.hash("pool")->contains(entry);
    }

private:
    /// Runs a script that changes the semaphore. Without a name, the call is a new one.
    words change(const std::string& script, const std::string& call, const words& more)
    {
        return send(script, call.empty() ? "call " + std::to_string(++calls_) : call, more);
    }
    words send(const std::string& script, const std::string& call, const words& more)
    {
        words arguments = common();
        arguments.push_back(call);
        arguments.emplace_back();
        arguments.insert(arguments.end(), more.begin(), more.end());
        keys.emplace_back("index");
        words result = run(script, arguments);
        keys.pop_back();
        return result;
    }

    int calls_ = 0;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(redis_directory_scripts, directory_scene)

// --- enlist -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_new_semaphore_has_the_units_that_its_creator_names)
{
    TEST_WORDS(enlist(3), "ok", "3", "0", "0", "0", "0", "0");
    TEST_WORDS(members("index"), "name");
    BOOST_TEST(field("capacity") == "10");
    TEST_WORDS(read(), "ok", "3", "0", "0", "0", "0", "0");
}

BOOST_AUTO_TEST_CASE(a_new_semaphore_may_have_all_units_or_none)
{
    for (const int units : {10, 0})
    {
        BOOST_TEST(enlist(units)[0] == "ok");
        BOOST_TEST(ttl("pool") == -1);
        pass(24'000h);
        BOOST_TEST(read()[1] == std::to_string(units));
        delist();
    }
}

BOOST_AUTO_TEST_CASE(a_semaphore_is_created_once)
{
    enlist(3, "call");
    TEST_WORDS(enlist(5, "other"), "exists", "3", "0", "0", "0", "0", "0");
    TEST_WORDS(enlist(3, "call"), "ok", "3", "0", "0", "0", "0", "0");
}

BOOST_AUTO_TEST_CASE(a_repeated_creation_does_not_restore_a_removed_semaphore)
{
    enlist(3, "call");
    delist();
    TEST_WORDS(enlist(3, "call"), "ok", "3", "0", "0", "0", "0", "0");
    BOOST_TEST(read()[0] == "missing");
    BOOST_TEST(!store.exists("index"));
}

BOOST_AUTO_TEST_CASE(creation_of_a_semaphore_that_exists_serves_its_waiters)
{
    enlist(2);
    take(2, "p");
    acquire("b#1.1", 1);
    pass(1s);
    TEST_WORDS(enlist(3), "exists", "1", "1", "0", "0", "0", "0");
    TEST_WORDS(messages(), "w:b#1 grant b#1.1");
}

BOOST_AUTO_TEST_CASE(a_foreign_semaphore_is_refused)
{
    store.run(words{"HSET", "pool", "layout", "1"});
    for (const words& answer :
         {enlist(1), delist(), supply(1), draw(1), release_permit("p"), read()})
        BOOST_TEST(answer[0] == "foreign");
    TEST_WORDS(detail(), "foreign");
    BOOST_TEST(!store.exists("index"));
    BOOST_TEST(!store.exists("index{calls}"));
}

BOOST_AUTO_TEST_CASE(a_missing_semaphore_is_reported)
{
    for (const words& answer : {delist(), supply(1), draw(1), take(1, "p"), release_permit("p"),
                                free_permit("1"), renew_permit("p"), read(), acquire("a#1.1", 1)})
        BOOST_TEST(answer[0] == "missing");
    TEST_WORDS(detail(), "missing");
    BOOST_TEST(store.key_count() == 0U);
}

BOOST_AUTO_TEST_CASE(a_new_semaphore_has_no_permits_of_a_deleted_one)
{
    for (const bool holders_remain : {true, false})
    {
        enlist(3);
        take(1, "p");
        take(1, "q");
        store.run(words{"DEL", "pool"});
        if (!holders_remain)
            store.run(words{"DEL", "pool{holders}"});
        TEST_WORDS(enlist(3), "ok", "3", "0", "0", "0", "0", "0");
        take(1, "r");
        TEST_WORDS(read(), "ok", "2", "0", "1", "0", "0", "0");
        delist();
    }
}

// --- delist -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(removal_ends_everything)
{
    enlist(3);
    take(1, "p");
    acquire("a#1.1", 1);
    acquire("b#1.1", 3);
    acquire("c#1.1", 1);
    store.run(words{"ZADD", "index", "0", "another"});
    BOOST_TEST(delist()[0] == "ok");
    TEST_WORDS(messages(), "w:b#1 missing b#1.1", "w:c#1 missing c#1.1");
    TEST_WORDS(members("index"), "another");
    for (const char* key : {"pool", "pool{queue}", "pool{holders}", "pool{permits}"})
        BOOST_TEST(!store.exists(key), key);
    BOOST_TEST(delist()[0] == "missing");
}

BOOST_AUTO_TEST_CASE(removal_keeps_the_releases_of_sessions)
{
    enlist(3);
    release("a#1.1", std::stoll(acquire("a#1.1", 1)[2]), "a#0.0");
    delist();
    BOOST_TEST(store.exists("pool{done}"));
}

BOOST_AUTO_TEST_CASE(removal_of_a_semaphore_whose_key_was_deleted_removes_its_name)
{
    enlist(3);
    store.run(words{"DEL", "pool"});
    BOOST_TEST(delist()[0] == "missing");
    BOOST_TEST(!store.exists("index"));
}

// These keys would stay for ever, because a semaphore of a directory does not expire.
BOOST_AUTO_TEST_CASE(removal_of_a_semaphore_whose_key_was_deleted_ends_everything_else)
{
    enlist(1);
    take(1, "p");
    acquire("b#1.1", 1);
    store.run(words{"DEL", "pool"});
    BOOST_TEST(delist()[0] == "missing");
    TEST_WORDS(messages(), "w:b#1 missing b#1.1");
    for (const char* key : {"pool", "pool{queue}", "pool{holders}", "pool{permits}"})
        BOOST_TEST(!store.exists(key), key);
}

BOOST_AUTO_TEST_CASE(a_repeated_removal_does_not_remove_the_next_semaphore)
{
    enlist(3);
    delist("call");
    BOOST_TEST(delist("call")[0] == "ok");
    enlist(4);
    BOOST_TEST(delist("call")[0] == "ok");
    BOOST_TEST(read()[1] == "4");
    TEST_WORDS(members("index"), "name");
}

BOOST_AUTO_TEST_CASE(holder_of_a_removed_semaphore_takes_no_units_of_the_next_one)
{
    for (const bool has_grace : {false, true})
    {
        enlist(2);
        const std::int64_t fence = std::stoll(acquire("a#1.1", 2)[2]);
        pass(1ms);
        delist();
        if (has_grace)
            begin_grace(10s);
        enlist(has_grace ? 1 : 3);
        BOOST_TEST(resync("a#1.1", "a#2.1", fence, 2)[0] == "unknown");
        BOOST_TEST(release("a#2.1", fence)[0] == "missing");
        BOOST_TEST(read()[1] == (has_grace ? "1" : "3"));
        delist();
    }
}

BOOST_AUTO_TEST_CASE(waiter_of_a_removed_semaphore_does_not_wait_for_the_next_one)
{
    for (const int units : {0, 1})
    {
        enlist(0);
        const std::int64_t ticket = std::stoll(acquire("a#1.1", 1)[4]);
        pass(1ms);
        delist();
        enlist(units);
        BOOST_TEST(resync("a#1.1", "a#2.1")[0] == "gone");
        BOOST_TEST(acquire("a#2.1", 1, "queue", ticket)[0] == "missing");
        BOOST_TEST(acquire("b#1.1", 1)[0] == (units == 0 ? "queued" : "own"));
        delist();
    }
}

BOOST_AUTO_TEST_CASE(former_waiter_returns_to_its_position_in_its_semaphore)
{
    enlist(0);
    const std::int64_t ticket = std::stoll(acquire("a#1.1", 1)[4]);
    acquire("b#1.1", 1);
    cancel("a#1.1");
    BOOST_TEST(acquire("a#2.1", 1, "queue", ticket)[0] == "queued");
    TEST_WORDS(queue(), "a#2.1", "b#1.1");
}

BOOST_AUTO_TEST_CASE(holder_reclaims_its_units_from_an_outdated_state_of_its_semaphore)
{
    enlist(3);
    const auto outdated = store;
    const std::int64_t fence = std::stoll(acquire("a#1.1", 2)[2]);
    store = outdated;
    BOOST_TEST(resync("a#1.1", "a#2.1", fence, 2)[0] == "own");
    BOOST_TEST(read()[1] == "1");
}

// --- supply -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(units_are_added)
{
    enlist(3);
    TEST_WORDS(supply(2), "ok", "5", "0", "0", "0", "2", "0");
    BOOST_TEST(read()[1] == "5");
}

BOOST_AUTO_TEST_CASE(added_units_are_granted_in_order)
{
    enlist(0);
    acquire("a#1.1", 2);
    acquire("b#1.1", 2);
    acquire("c#1.1", 1);
    TEST_WORDS(supply(3), "ok", "1", "3", "0", "0", "3", "0");
    TEST_WORDS(messages(), "w:a#1 grant a#1.1", "w:b#1 due b#1.1", "w:c#1 due c#1.1");
    TEST_WORDS(queue(), "b#1.1", "c#1.1");
}

BOOST_AUTO_TEST_CASE(no_more_units_are_added_than_the_capacity)
{
    enlist(3);
    TEST_WORDS(supply(8, "call"), "excess", "3", "0", "0", "0", "8", "0");
    BOOST_TEST(supply(7)[0] == "ok");
    BOOST_TEST(supply(1)[0] == "excess");
    // A refused call may be repeated.
    draw(8);
    BOOST_TEST(supply(8, "call")[1] == "10");
}

BOOST_AUTO_TEST_CASE(units_of_permits_cannot_be_added)
{
    enlist(10);
    take(2, "p");
    BOOST_TEST(supply(1)[0] == "excess");
}

BOOST_AUTO_TEST_CASE(repeated_units_are_added_once)
{
    enlist(3);
    supply(2, "call");
    TEST_WORDS(supply(2, "call"), "ok", "5", "0", "0", "0", "2", "0");
}

BOOST_AUTO_TEST_CASE(units_return_to_their_semaphore_only)
{
    enlist(2);
    const std::string first = draw(1)[4];
    pass(1s);
    const std::string second = draw(1)[4];
    BOOST_TEST(supply(1, "", first)[1] == "1");
    delist();
    // The next semaphore with that name is created a microsecond later.
    pass(1us);
    enlist(3);
    BOOST_TEST(supply(1, "", second)[0] == "missing");
    BOOST_TEST(read()[1] == "3");
}

BOOST_AUTO_TEST_CASE(units_return_to_no_later_semaphore_if_the_clock_was_set_back)
{
    enlist(2);
    store.clock -= 2 * 3'600'000'000;
    const std::string taken = draw(1)[4];
    delist();
    BOOST_TEST(ttl("pool{done}") == 3 * 3'600'000);
    pass(1min);
    enlist(3);
    pass(1s);
    BOOST_TEST(supply(1, "", taken)[0] == "missing");
    BOOST_TEST(read()[1] == "3");
    // The clock of the semaphore begins after the removal, and runs.
    BOOST_TEST(std::stoll(take(1, "p")[4]) == std::stoll(taken) + 1'000'001);
    pass(1s);
    BOOST_TEST(read()[1] == "3");
}

// A token may be ahead of the clock, and so may the tickets of several waiters of one moment.
BOOST_AUTO_TEST_CASE(tokens_and_tickets_of_a_removed_semaphore_are_older_than_the_next_one)
{
    enlist(1);
    const std::int64_t seen = store.clock + 3 * 3'600'000'000;
    const std::int64_t fence = std::stoll(acquire("a#1.1", 1, "queue", 0, seen)[2]);
    BOOST_TEST(fence == seen + 1);
    delist();
    pass(2h);
    enlist(0);
    BOOST_TEST(release("a#1.1", fence)[0] == "missing");
    acquire("b#1.1", 1);
    acquire("b#1.2", 1);
    const std::int64_t ticket = std::stoll(acquire("c#1.1", 1)[4]);
    delist();
    enlist(1);
    BOOST_TEST(acquire("c#1.1", 1, "queue", ticket)[0] == "missing");
}

BOOST_AUTO_TEST_CASE(the_grace_of_a_new_semaphore_does_not_depend_on_a_removed_one)
{
    enlist(1);
    store.clock -= 2 * 3'600'000'000;
    delist();
    begin_grace(10s);
    enlist(1);
    BOOST_TEST(draw(1)[0] == "busy");
    pass(10s);
    BOOST_TEST(draw(1)[0] == "ok");
}

// The answer to the first call may be lost, and the semaphore replaced before the repetition.
BOOST_AUTO_TEST_CASE(units_of_a_repeated_call_return_to_their_semaphore_only)
{
    enlist(1);
    const std::string taken = draw(1, "call")[4];
    pass(1s);
    delist();
    enlist(1);
    draw(1);
    pass(1s);
    TEST_WORDS(draw(1, "call"), "ok", "0", "0", "0", taken, "1", "0");
    BOOST_TEST(supply(1, "", taken)[0] == "missing");
    BOOST_TEST(read()[1] == "0");
}

BOOST_AUTO_TEST_CASE(an_addition_ends_expired_permits)
{
    enlist(3);
    take(2, "p");
    pass(1s);
    TEST_WORDS(supply(1), "ok", "4", "0", "0", "0", "1", "0");
}

// --- draw ---------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(units_are_taken_for_good)
{
    enlist(3);
    TEST_WORDS(draw(2), "ok", "1", "0", "0", std::to_string(start), "2", "0");
    pass(24'000h);
    BOOST_TEST(read()[1] == "1");
    BOOST_TEST(supply(9)[1] == "10");
}

BOOST_AUTO_TEST_CASE(units_are_taken_for_a_permit)
{
    enlist(3);
    TEST_WORDS(take(2, "p"), "ok", "1", "0", "1", std::to_string(start), "2", "0");
    BOOST_TEST(store.zset("pool{holders}")->scores.at("p") == start + 1'000'000);
    pass(999'999us);
    BOOST_TEST(read()[3] == "1");
    pass(1us);
    TEST_WORDS(read(), "ok", "3", "0", "0", "0", "0", "0");
    BOOST_TEST(!has("h p"));
    BOOST_TEST(!store.exists("pool{permits}"));
}

BOOST_AUTO_TEST_CASE(more_units_than_are_available_are_not_taken)
{
    enlist(3);
    TEST_WORDS(take(4, "p", "call"), "busy", "3", "0", "0", "0", "4", "0");
    BOOST_TEST(draw(4)[0] == "busy");
    BOOST_TEST(draw(3)[0] == "ok");
    // A refused call may be repeated.
    supply(5);
    BOOST_TEST(take(4, "p", "call")[1] == "1");
}

BOOST_AUTO_TEST_CASE(waiters_are_not_overtaken)
{
    enlist(3);
    acquire("a#1.1", 4);
    BOOST_TEST(draw(1)[0] == "busy");
    BOOST_TEST(take(1, "p")[0] == "busy");
    BOOST_TEST(read()[1] == "3");
}

BOOST_AUTO_TEST_CASE(waiters_are_served_before_units_are_taken)
{
    enlist(3);
    take(3, "p");
    acquire("a#1.1", 1);
    pass(1s);
    BOOST_TEST(take(2, "q")[0] == "ok");
    TEST_WORDS(messages(), "w:a#1 grant a#1.1");
}

BOOST_AUTO_TEST_CASE(disconnected_waiters_do_not_keep_units_from_being_taken)
{
    enlist(3);
    acquire("x#1.1", 4);
    BOOST_TEST(draw(3)[0] == "ok");
    TEST_WORDS(queue());
}

BOOST_AUTO_TEST_CASE(repeated_units_are_taken_once)
{
    enlist(3);
    draw(1, "call");
    const words first = take(1, "p", "other");
    pass(500ms);
    TEST_WORDS(draw(1, "call"), "ok", "1", "0", "1", std::to_string(start), "1", "0");
    BOOST_TEST(take(1, "p", "other") == first, boost::test_tools::per_element());
    pass(500ms);
    BOOST_TEST(read()[1] == "2");
}

BOOST_AUTO_TEST_CASE(a_permit_that_has_ended_is_not_reported_again)
{
    enlist(1);
    take(1, "p", "call");
    pass(2s);
    TEST_WORDS(take(1, "p", "call"), "busy", "1", "0", "0", "0", "1", "0");
}

// A client may receive the messages of all channels.
BOOST_AUTO_TEST_CASE(the_break_of_a_permit_does_not_publish_its_id)
{
    enlist(3);
    const std::string fence = take(2, "p")[4];
    BOOST_TEST(break_lock(fence)[6] == "1");
    TEST_WORDS(messages(), "broken pool " + fence);
    BOOST_TEST(read()[1] == "3");
}

BOOST_AUTO_TEST_CASE(units_of_a_session_are_kept_partly)
{
    enlist(6);
    release("b#1.1", std::stoll(acquire("b#1.1", 1)[2]), "slot");
    for (const int left : {0, 1})
    {
        const std::string fence = acquire("a#1.1", 5)[2];
        for (int calls = 0; calls < 2; ++calls)
        {
            BOOST_TEST(keep("a#1.1", fence, left, "3 p 1000 a client")[0] == "released");
            TEST_WORDS(read(), "ok", std::to_string(3 - left), "0", "1", "0", "0", "0");
        }
        TEST_WORDS(release_permit("p"), "ok", std::to_string(6 - left), "0", "0", fence, "3", "0");
    }
}

BOOST_AUTO_TEST_CASE(tokens_of_permits_rise_with_those_of_sessions)
{
    enlist(5);
    const std::int64_t first = std::stoll(take(1, "p")[4]);
    const std::int64_t second = std::stoll(take(1, "q")[4]);
    BOOST_TEST(second == first + 1);
    store.clock -= 3'600'000'000;
    const std::int64_t third = std::stoll(acquire("a#1.1", 1)[2]);
    BOOST_TEST(third > second);
    BOOST_TEST(std::stoll(take(1, "r")[4]) > third);
}

// --- permit -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(a_permit_is_renewed_for_its_lease_or_another)
{
    enlist(3);
    const std::string fence = take(2, "p")[4];
    pass(600ms);
    TEST_WORDS(renew_permit("p"), "ok", "1", "0", "1", fence, "2", "0");
    pass(999'999us);
    BOOST_TEST(renew_permit("p", "5000")[0] == "ok");
    pass(4s);
    // The last lease counts.
    BOOST_TEST(renew_permit("p")[0] == "ok");
    pass(4'999'999us);
    BOOST_TEST(detail().at(2) ==
               "2 " + fence + ' ' + std::to_string(store.clock + 1) + " 5000 a client");
    pass(1us);
    TEST_WORDS(renew_permit("p"), "unheld", "3", "0", "0", "0", "0", "0");
}

BOOST_AUTO_TEST_CASE(a_late_copy_of_a_renewal_does_not_shorten_a_lease)
{
    enlist(1);
    const std::string fence = take(1, "p")[4];
    renew_permit("p", "200", "call");
    renew_permit("p", "60000", "later");
    TEST_WORDS(renew_permit("p", "200", "call"), "ok", "0", "0", "1", fence, "1", "0");
    pass(59'999ms);
    BOOST_TEST(read()[3] == "1");
    pass(1ms);
    BOOST_TEST(renew_permit("p", "60000", "later")[0] == "unheld");
}

BOOST_AUTO_TEST_CASE(a_permit_is_renewed_repeatedly_for_its_former_lease)
{
    enlist(1);
    take(1, "p");
    for (int i = 0; i < 3; ++i)
    {
        BOOST_TEST(renew_permit("p")[0] == "ok");
        pass(600ms);
    }
    BOOST_TEST(read()[3] == "1");
}

BOOST_AUTO_TEST_CASE(a_permit_is_released_once)
{
    enlist(3);
    const std::string fence = take(2, "p")[4];
    TEST_WORDS(release_permit("p", "call"), "ok", "3", "0", "0", fence, "2", "0");
    BOOST_TEST(!has("h p"));
    BOOST_TEST(!store.exists("pool{holders}"));
    BOOST_TEST(!store.exists("pool{permits}"));
    TEST_WORDS(release_permit("p", "call"), "ok", "3", "0", "0", "0", "0", "0");
    TEST_WORDS(release_permit("p", "other"), "unheld", "3", "0", "0", "0", "0", "0");
}

BOOST_AUTO_TEST_CASE(units_of_a_permit_pass_to_waiters)
{
    enlist(2);
    take(2, "p");
    acquire("a#1.1", 1);
    acquire("b#1.1", 1);
    release_permit("p");
    TEST_WORDS(messages(), "w:a#1 grant a#1.1", "w:b#1 grant b#1.1");
}

BOOST_AUTO_TEST_CASE(waiters_learn_of_a_permit_that_ends_earlier)
{
    enlist(0);
    acquire("a#1.1", 1);
    acquire("b#1.1", 1);
    supply(1);
    TEST_WORDS(messages(), "w:a#1 grant a#1.1", "w:b#1 due b#1.1");
    // The permit of the unit has a shorter lease than the grant.
    keep("a#1.1", acquire("a#1.1", 1)[2], 0, "1 p 3000 a client");
    TEST_WORDS(messages(), "w:b#1 due b#1.1");
    BOOST_TEST(store.published.back().second == "due b#1.1 0 " +
                                                    std::to_string(store.clock + 3'000'000) + ' ' +
                                                    std::to_string(store.clock));
    renew_permit("p", "5000");
    TEST_WORDS(messages());
    renew_permit("p", "2000");
    TEST_WORDS(messages(), "w:b#1 due b#1.1");
    pass(2s);
    nudge("b#1.1");
    BOOST_TEST(acquire("b#1.1", 1)[0] == "own");

    // The waiters know of a lease that ends earlier.
    acquire("c#1.1", 1);
    acquire("d#1.1", 1);
    keep("b#1.1", acquire("b#1.1", 1)[2], 0, "1 q 1000 a client");
    TEST_WORDS(messages(), "w:c#1 due c#1.1", "w:d#1 due d#1.1");
    release_permit("q");
    TEST_WORDS(messages(), "w:c#1 grant c#1.1");
}

BOOST_AUTO_TEST_CASE(a_permit_is_freed_by_its_token)
{
    enlist(3);
    const std::string first = take(1, "p")[4];
    const std::string second = take(2, "q")[4];
    TEST_WORDS(free_permit(second, "call"), "ok", "2", "0", "1", second, "2", "0");
    BOOST_TEST(free_permit(second, "call")[0] == "ok");
    BOOST_TEST(free_permit(second)[0] == "unheld");
    BOOST_TEST(free_permit("1")[0] == "unheld");
    BOOST_TEST(release_permit("p")[4] == first);
}

BOOST_AUTO_TEST_CASE(units_of_a_session_are_not_a_permit)
{
    enlist(3);
    const std::string fence = acquire("a#1.1", 2)[2];
    BOOST_TEST(free_permit(fence)[0] == "unheld");
    BOOST_TEST(release_permit("a#1.1")[0] == "unheld");
    BOOST_TEST(renew_permit("a#1.1", "1")[0] == "unheld");
    BOOST_TEST(held() == 2);
}

BOOST_AUTO_TEST_CASE(the_id_of_a_permit_is_not_its_token)
{
    enlist(3);
    const std::string fence = take(1, "p")[4];
    BOOST_TEST(release_permit(fence)[0] == "unheld");
    BOOST_TEST(renew_permit(fence)[0] == "unheld");
    BOOST_TEST(read()[3] == "1");
}

// --- states -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(the_numbers_of_several_semaphores_are_read)
{
    enlist(5);
    take(1, "p");
    acquire("a#1.1", 2);
    acquire("b#1.1", 3);
    store.run(words{"HSET", "foreign", "layout", "1"});
    store.run(words{"SET", "text", "value"});
    store.run(words{"HSET", "damaged", "state", "2 x"});
    keys = {"missing", "foreign", "text", "damaged", "pool"};
    const words all = read();
    BOOST_TEST(all.size() == 35U);
    BOOST_TEST(all[0] == "missing");
    BOOST_TEST(all[7] == "foreign");
    BOOST_TEST(all[14] == "wrongtype");
    BOOST_TEST(all[21] == "damaged");
    // The units of a session count as a waiter until they are kept.
    TEST_WORDS(words(all.begin() + 28, all.end()), "ok", "2", "2", "1", "0", "0", "0");
}

BOOST_AUTO_TEST_CASE(reading_serves_waiters)
{
    enlist(1);
    take(1, "p");
    acquire("a#1.1", 1);
    pass(1s);
    TEST_WORDS(read(), "ok", "0", "1", "0", "0", "0", "0");
    TEST_WORDS(messages(), "w:a#1 grant a#1.1");
    // The grant has been written.
    read();
    TEST_WORDS(messages());
}

BOOST_AUTO_TEST_CASE(reading_writes_nothing_if_only_the_time_has_passed)
{
    enlist(1);
    take(1, "p");
    acquire("a#1.1", 1);
    pass(500ms);
    const auto before = *store.hash("pool");
    BOOST_TEST(read()[2] == "1");
    detail();
    BOOST_TEST((*store.hash("pool") == before));
    renew_permit("p");
    BOOST_TEST((*store.hash("pool") != before));
}

// Otherwise, the time would stand still as long as everybody only reads.
BOOST_AUTO_TEST_CASE(reading_notes_that_the_clock_was_set_back)
{
    enlist(1);
    take(1, "p");
    store.clock -= 3'600'000'000;
    TEST_WORDS(read(), "ok", "0", "0", "1", "0", "0", "0");
    pass(1s);
    TEST_WORDS(read(), "ok", "1", "0", "0", "0", "0", "0");
}

BOOST_AUTO_TEST_CASE(many_waiters_are_served_by_several_calls)
{
    capacity = 100;
    enlist(0);
    for (int i = 0; i < 70; ++i)
        acquire("a#1." + std::to_string(i), 1);
    BOOST_TEST(supply(70)[6] == "1");
    // The last messages inform the other waiters of the claim leases.
    BOOST_TEST(messages().size() == 70U);
    BOOST_TEST(messages().back() == "w:a#1 due a#1.69");
    BOOST_TEST(read()[6] == "0");
    BOOST_TEST(messages().size() == 6U);
}

// --- names --------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(names_are_listed_in_pages)
{
    TEST_WORDS(names("", 2), "0");
    for (const char* each : {"b", "a", "c", "-", "\xF0"})
        store.run(words{"ZADD", "index", "0", each});
    TEST_WORDS(names("", 2), "5", "-", "a");
    TEST_WORDS(names("a", 2), "5", "b", "c");
    TEST_WORDS(names("bb", 9), "5", "c", "\xF0");
    TEST_WORDS(names("\xF0", 2), "5");
}

// --- detail -------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(permits_and_waiters_are_listed)
{
    announce("b", "session b");
    enlist(5);
    const std::string first = take(1, "q")[4];
    pass(100ms);
    const std::string second = take(2, "p")[4];
    renew_permit("q", "60000");
    const std::string ticket = acquire("a#1.1", 4)[4];
    acquire("b#1.1", 3);
    const std::string now = std::to_string(store.clock);
    const std::string end = std::to_string(store.clock + 1'000'000);
    const std::string later = std::to_string(store.clock + 60'000'000);
    TEST_WORDS(detail(), "ok 2 2 2 0 0 0", now + " 2",
               "1 " + first + ' ' + later + " 60000 a client",
               "2 " + second + ' ' + end + " 1000 a client", "4 " + ticket, "",
               "3 " + std::to_string(std::stoll(ticket) + 1), "session b");
    TEST_WORDS(detail(0), "ok 2 2 2 0 0 0", now + " 0");
    TEST_WORDS(detail(1), "ok 2 2 2 0 0 0", now + " 1",
               "1 " + first + ' ' + later + " 60000 a client", "4 " + ticket, "");
}

// Lua's format() would end a text at its first null character.
BOOST_AUTO_TEST_CASE(the_name_of_a_client_may_contain_null_characters)
{
    enlist(1);
    const std::string client("a\0b", 3);
    take(1, "p", "", client);
    const words listed = detail();
    BOOST_TEST_REQUIRE(listed.size() == 3U);
    BOOST_TEST(listed[2].ends_with(" 1000 " + client));
    renew_permit("p");
    BOOST_TEST(detail() == listed, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(listing_ends_expired_permits_and_serves_waiters)
{
    enlist(2);
    take(2, "p");
    acquire("a#1.1", 1);
    pass(1s);
    TEST_WORDS(detail(), "ok 1 1 0 0 0 0", std::to_string(store.clock) + " 0");
    TEST_WORDS(messages(), "w:a#1 grant a#1.1");
}

BOOST_AUTO_TEST_CASE(permits_and_waiters_without_a_record_are_not_listed)
{
    enlist(2);
    take(1, "p");
    acquire("a#1.1", 2);
    store.run(words{"HDEL", "pool", "h p"});
    store.run(words{"ZADD", "pool{permits}", "1", "q"});
    const words all = detail();
    BOOST_TEST(all.at(1) == std::to_string(store.clock) + " 0");
}

BOOST_AUTO_TEST_CASE(a_waiter_without_a_record_behind_another_is_not_listed)
{
    enlist(2);
    take(2, "p");
    acquire("a#1.1", 1);
    acquire("b#1.1", 1);
    store.run(words{"HDEL", "pool", "w b#1.1"});
    // The head of the list, a permit, and a waiter with its session.
    BOOST_TEST(detail().size() == 2U + 1U + 2U);
}

BOOST_AUTO_TEST_CASE(permits_end_if_somebody_deletes_the_holders)
{
    enlist(3);
    take(1, "p");
    take(1, "q");
    store.run(words{"DEL", "pool{holders}"});
    for (int i = 0; i < 2; ++i)
    {
        const words numbers = read();
        BOOST_TEST(numbers[1] == "3");
        BOOST_TEST(numbers[2] == "0");
        BOOST_TEST(numbers[3] == "0");
    }
    BOOST_TEST(!store.exists("pool{permits}"));
    BOOST_TEST(take(2, "r")[1] == "1");
    BOOST_TEST(read()[3] == "1");
}

BOOST_AUTO_TEST_CASE(no_negative_number_of_units_is_available_during_a_grace)
{
    enlist(1);
    acquire("a#1.1", 1);
    pass(1s);
    begin_grace(60s);
    // The outdated state has another holder than the one that reconnects.
    BOOST_TEST(resync("d#0.1", "d#1.1", store.clock - 100'000, 1)[0] == "own");
    BOOST_TEST(read()[1] == "0");
}

// --- calls --------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(calls_are_remembered_for_an_hour)
{
    enlist(3);
    supply(1, "call");
    BOOST_TEST(ttl("index{calls}") == 3'600'000);
    pass(59min);
    supply(1, "other");
    BOOST_TEST(ttl("index{calls}") == 3'600'000);
    supply(1, "call");
    BOOST_TEST(read()[1] == "5");
    pass(61min);
    supply(1, "call");
    BOOST_TEST(read()[1] == "6");
}

// After the server's clock was set back, that of the first semaphore is two hours ahead.
BOOST_AUTO_TEST_CASE(a_semaphore_whose_clock_is_ahead_forgets_no_calls_of_others)
{
    enlist(1);
    store.clock -= 2 * 3'600'000'000;
    keys = {"other"};
    enlist(5);
    draw(1, "call");
    keys = {"pool"};
    supply(1);
    keys = {"other"};
    BOOST_TEST(draw(1, "call")[1] == "4");
}

BOOST_AUTO_TEST_SUITE_END()
