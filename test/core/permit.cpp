// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the operations on a permit.

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/bind_immediate_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <support/attempt.hpp>
#include <support/print.hpp>
#include <turnstile/async_semaphore.hpp>
#include <type_traits>
#include <utility>

namespace asio = boost::asio;
using namespace turnstile;
using namespace turnstile::test;

namespace {

using permit_type = async_semaphore::permit_type;

static_assert(!std::is_copy_constructible_v<permit_type>);
static_assert(!std::is_copy_assignable_v<permit_type>);
static_assert(std::is_nothrow_default_constructible_v<permit_type>);
static_assert(std::is_nothrow_move_constructible_v<permit_type>);
static_assert(std::is_nothrow_move_assignable_v<permit_type>);
static_assert(std::is_nothrow_swappable_v<permit_type>);
static_assert(std::is_same_v<permit_type::semaphore_type, async_semaphore>);

/// A semaphore with ten units.
struct scene
{
    [[nodiscard]] permit_type take(std::ptrdiff_t units) { return take_of(*semaphore, units); }

    static permit_type take_of(async_semaphore& s, std::ptrdiff_t units)
    {
        std::optional<permit_type> taken = s.try_acquire(units);
        BOOST_REQUIRE(taken);
        return std::move(*taken);
    }

    [[nodiscard]] std::ptrdiff_t available() const { return semaphore->available(); }

    asio::io_context context;
    std::unique_ptr<async_semaphore> semaphore = std::make_unique<async_semaphore>(context, 10);
};

}  // namespace

// --- holding ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(an_empty_permit_has_no_units)
{
    permit_type p;
    BOOST_TEST(p.count() == 0);
    BOOST_TEST(!p);
    BOOST_TEST(!p.valid());
    BOOST_TEST(!p.lost().is_connected());
    p.release();
    p.forget();
    BOOST_TEST(p.count() == 0);
}

BOOST_AUTO_TEST_CASE(a_permit_knows_its_units)
{
    scene t;
    const permit_type p = t.take(3);
    BOOST_TEST(p.count() == 3);
    BOOST_TEST(static_cast<bool>(p));
    BOOST_TEST(p.valid());
    BOOST_TEST(!p.lost().is_connected());
}

BOOST_AUTO_TEST_CASE(the_destructor_releases_the_units)
{
    scene t;
    {
        const permit_type p = t.take(3);
        BOOST_TEST(t.available() == 7);
    }
    BOOST_TEST(t.available() == 10);
}

BOOST_AUTO_TEST_CASE(moving_moves_the_units)
{
    scene t;
    {
        permit_type a = t.take(3);
        const permit_type b(std::move(a));
        BOOST_TEST(a.count() == 0);  // NOLINT(bugprone-use-after-move)
        BOOST_TEST(b.count() == 3);
        BOOST_TEST(t.available() == 7);
    }
    BOOST_TEST(t.available() == 10);
}

BOOST_AUTO_TEST_CASE(assigning_a_permit_releases_its_former_units)
{
    scene t;
    permit_type a = t.take(3), b = t.take(4);
    a = std::move(b);
    BOOST_TEST(a.count() == 4);
    BOOST_TEST(b.count() == 0);  // NOLINT(bugprone-use-after-move)
    BOOST_TEST(t.available() == 6);
    a = permit_type();
    BOOST_TEST(t.available() == 10);
}

BOOST_AUTO_TEST_CASE(assigning_to_itself_changes_nothing)
{
    scene t;
    permit_type a = t.take(3);
    permit_type& same = a;
    a = std::move(same);
    BOOST_TEST(a.count() == 3);
    BOOST_TEST(t.available() == 7);
}

BOOST_AUTO_TEST_CASE(permits_can_be_exchanged)
{
    scene t;
    permit_type a = t.take(3), b = t.take(4), none;
    swap(a, b);
    BOOST_TEST(a.count() == 4);
    BOOST_TEST(b.count() == 3);
    b.swap(none);
    BOOST_TEST(b.count() == 0);
    BOOST_TEST(none.count() == 3);
    BOOST_TEST(t.available() == 3);
}

// --- releasing --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(release_releases_the_units_at_once_and_only_once)
{
    scene t;
    permit_type p = t.take(3);
    p.release();
    BOOST_TEST(p.count() == 0);
    BOOST_TEST(!p.valid());
    BOOST_TEST(t.available() == 10);
    p.release();
    BOOST_TEST(t.available() == 10);
}

TURNSTILE_TEST_BOTH_PATHS(async_release_releases_the_units)
{
    scene t;
    permit_type p = t.take(3);
    attempt<> a;
    launch(how, t.context.get_executor(), a, [&] { return p.async_release(); });
    drain(t.context);
    BOOST_TEST(a.state() == "done");
    BOOST_TEST(p.count() == 0);
    BOOST_TEST(t.available() == 10);
}

TURNSTILE_TEST_BOTH_PATHS(async_release_of_an_empty_permit_is_an_error)
{
    scene t;
    permit_type never, gone = t.take(3);
    gone.release();
    attempt<> a, b;
    launch(how, t.context.get_executor(), a, [&] { return never.async_release(); });
    launch(how, t.context.get_executor(), b, [&] { return gone.async_release(); });
    drain(t.context);
    BOOST_TEST(a.state() == "empty guard");
    BOOST_TEST(b.state() == "empty guard");
    BOOST_TEST(t.available() == 10);
}

BOOST_AUTO_TEST_CASE(async_release_completes_on_the_associated_executor)
{
    scene t;
    permit_type first = t.take(3), second = t.take(3);
    asio::io_context other;
    int completions = 0;
    first.async_release(asio::bind_executor(other, [&](error_code) { ++completions; }));
    // The units are released before the handler runs.
    BOOST_TEST(t.available() == 7);
    second.async_release([&](error_code) { completions += 10; });
    BOOST_TEST(completions == 0);
    drain(t.context);
    BOOST_TEST(completions == 10);
    drain(other);
    BOOST_TEST(completions == 11);
    permit_type third = t.take(1);
    third.async_release(asio::bind_immediate_executor(asio::system_executor(),
                                                      [&](error_code) { completions += 100; }));
    BOOST_TEST(completions == 111);
}

BOOST_AUTO_TEST_CASE(async_release_that_was_not_started_keeps_the_units)
{
    scene t;
    permit_type p = t.take(3);
    const auto operation = p.async_release();
    BOOST_TEST(p.count() == 3);
    BOOST_TEST(t.available() == 7);
    attempt<> a;
    operation(receiver<void>(a, t.context.get_executor(), true));
    BOOST_TEST(p.count() == 0);
    BOOST_TEST(t.available() == 10);
}

TURNSTILE_TEST_BOTH_PATHS(every_way_to_release_units_serves_waiters)
{
    scene t;
    for (int way = 0; way < 5; ++way)
    {
        permit_type p = t.take(10);
        attempt<permit_type> waiting;
        attempt<> released;
        launch(how, t.context.get_executor(), waiting,
               [&] { return t.semaphore->async_acquire(10); });
        drain(t.context);
        switch (way)
        {
        case 0:
            p.release();
            break;
        case 1:
        {
            const permit_type last(std::move(p));
            break;
        }
        case 2:
            p.async_release(receiver<void>(released, t.context.get_executor(), true));
            break;
        case 3:
            p = permit_type();
            break;
        default:
            p.forget();
            t.semaphore->release(10);
        }
        BOOST_TEST(waiting.state() == "waiting");
        drain(t.context);
        BOOST_TEST(waiting.state() == "done");
        BOOST_TEST(waiting.value().count() == 10);
    }
}

// --- splitting --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(split_moves_some_units_to_another_permit)
{
    scene t;
    permit_type whole = t.take(5);
    permit_type part = whole.split(2);
    BOOST_TEST(whole.count() == 3);
    BOOST_TEST(part.count() == 2);
    BOOST_TEST(t.available() == 5);
    part.release();
    BOOST_TEST(t.available() == 7);
    whole.release();
    BOOST_TEST(t.available() == 10);
}

BOOST_AUTO_TEST_CASE(splitting_off_all_units_leaves_an_empty_permit)
{
    scene t;
    permit_type whole = t.take(5);
    permit_type part = whole.split(5);
    BOOST_TEST(whole.count() == 0);
    BOOST_TEST(!whole.valid());
    BOOST_TEST(part.count() == 5);
    whole.release();
    BOOST_TEST(t.available() == 5);
    part.release();
    BOOST_TEST(t.available() == 10);
}

BOOST_AUTO_TEST_CASE(a_permit_can_be_split_into_single_units)
{
    scene t;
    permit_type whole = t.take(10);
    std::optional<permit_type> parts[9];
    for (auto& each : parts)
        each.emplace(whole.split(1));
    BOOST_TEST(whole.count() == 1);
    std::ptrdiff_t returned = 0;
    for (auto& each : parts)
    {
        each.reset();
        BOOST_TEST(t.available() == ++returned);
    }
}

BOOST_AUTO_TEST_CASE(splitting_off_too_many_units_is_an_error)
{
    scene t;
    permit_type p = t.take(5), none;
    constexpr std::ptrdiff_t largest = std::numeric_limits<std::ptrdiff_t>::max();
    for (const std::ptrdiff_t units :
         {std::ptrdiff_t{0}, std::ptrdiff_t{-1}, std::ptrdiff_t{6}, largest})
    {
        const auto refuses = [&](const system_error& error)
        {
            const std::string text = "permit::split: " + std::to_string(units) + " of 5 units";
            return error.code() == errc::invalid_count &&
                   std::string(error.what()).find(text) != std::string::npos;
        };
        BOOST_CHECK_EXCEPTION((void)p.split(units), system_error, refuses);
        BOOST_CHECK_THROW((void)none.split(units), system_error);
    }
    BOOST_CHECK_THROW((void)none.split(1), system_error);
    BOOST_TEST(p.count() == 5);
    BOOST_TEST(t.available() == 5);
}

// --- merging ----------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(merge_takes_over_the_units)
{
    scene t;
    permit_type a = t.take(3), b = t.take(4);
    a.merge(std::move(b));
    BOOST_TEST(a.count() == 7);
    BOOST_TEST(b.count() == 0);  // NOLINT(bugprone-use-after-move)
    BOOST_TEST(t.available() == 3);
    b.release();
    BOOST_TEST(t.available() == 3);
    a.release();
    BOOST_TEST(t.available() == 10);
}

BOOST_AUTO_TEST_CASE(merging_with_an_empty_permit)
{
    scene t;
    permit_type a = t.take(3), none;
    a.merge(permit_type());
    BOOST_TEST(a.count() == 3);
    none.merge(std::move(a));
    BOOST_TEST(none.count() == 3);
    BOOST_TEST(a.count() == 0);  // NOLINT(bugprone-use-after-move)
    a.merge(permit_type());
    BOOST_TEST(a.count() == 0);
    BOOST_TEST(t.available() == 7);
    none.release();
    BOOST_TEST(t.available() == 10);
}

BOOST_AUTO_TEST_CASE(merging_with_itself_changes_nothing)
{
    scene t;
    permit_type a = t.take(3);
    permit_type& same = a;
    a.merge(std::move(same));
    BOOST_TEST(a.count() == 3);
    BOOST_TEST(t.available() == 7);
    a.release();
    BOOST_TEST(t.available() == 10);
}

BOOST_AUTO_TEST_CASE(merging_permits_of_different_semaphores_is_an_error)
{
    scene t, other;
    permit_type a = t.take(3), b = other.take(4);
    BOOST_CHECK_EXCEPTION(a.merge(std::move(b)), system_error, [](const system_error& error)
                          { return error.code() == errc::wrong_object; });
    BOOST_TEST(a.count() == 3);
    BOOST_TEST(b.count() == 4);  // NOLINT(bugprone-use-after-move)
    BOOST_TEST(t.available() == 7);
    BOOST_TEST(other.available() == 6);
    // An empty permit belongs to no semaphore.
    b.release();
    b.merge(std::move(a));
    BOOST_TEST(b.count() == 3);
    b.release();
    BOOST_TEST(t.available() == 10);
}

BOOST_AUTO_TEST_CASE(a_split_permit_can_be_merged_again)
{
    scene t;
    permit_type whole = t.take(6);
    for (int i = 0; i < 3; ++i)
    {
        permit_type part = whole.split(4);
        permit_type smaller = part.split(1);
        smaller.merge(std::move(whole));
        part.merge(std::move(smaller));
        whole = std::move(part);
        BOOST_TEST(whole.count() == 6);
        BOOST_TEST(t.available() == 4);
    }
    whole.release();
    BOOST_TEST(t.available() == 10);
}

// --- forgetting -------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(forgotten_units_are_not_released)
{
    scene t;
    {
        permit_type p = t.take(3);
        p.forget();
        BOOST_TEST(p.count() == 0);
        BOOST_TEST(!p.valid());
    }
    BOOST_TEST(t.available() == 7);
    t.semaphore->release(3);
    BOOST_TEST(t.available() == 10);
    BOOST_CHECK_THROW(t.semaphore->release(1), system_error);
}

BOOST_AUTO_TEST_CASE(a_part_can_be_forgotten)
{
    scene t;
    permit_type p = t.take(5);
    p.split(2).forget();
    BOOST_TEST(p.count() == 3);
    p.release();
    BOOST_TEST(t.available() == 8);
}

// --- a permit that outlives its semaphore -----------------------------------------------------

BOOST_AUTO_TEST_CASE(a_permit_of_a_destroyed_semaphore_is_not_valid)
{
    scene t;
    permit_type p = t.take(5);
    t.semaphore.reset();
    BOOST_TEST(p.count() == 5);
    BOOST_TEST(!p.valid());
    BOOST_TEST(!p.lost().is_connected());
    p.release();
    BOOST_TEST(p.count() == 0);
}

BOOST_AUTO_TEST_CASE(a_permit_of_a_destroyed_semaphore_can_be_split_merged_and_moved)
{
    scene t;
    permit_type p = t.take(5), q = t.take(2);
    t.semaphore.reset();
    permit_type part = p.split(2);
    permit_type rest = p.split(3);
    BOOST_TEST(p.count() == 0);
    part.merge(std::move(q));
    BOOST_TEST(part.count() == 4);
    permit_type moved(std::move(rest));
    moved.merge(part.split(1));
    BOOST_TEST(moved.count() == 4);
    part = std::move(moved);
    BOOST_TEST(part.count() == 4);
    BOOST_CHECK_THROW((void)part.split(5), system_error);
}

BOOST_AUTO_TEST_CASE(every_release_of_a_permit_of_a_destroyed_semaphore_is_harmless)
{
    for (int end = 0; end < 4; ++end)
    {
        scene t;
        permit_type p = t.take(5);
        permit_type part = p.split(2);
        t.semaphore.reset();
        attempt<> released;
        if (end == 0)
            p.release();
        else if (end == 1)
            p.forget();
        else if (end == 2)
            p.async_release(receiver<void>(released, t.context.get_executor(), true));
        else
            part.merge(std::move(p));
        BOOST_TEST(p.count() == 0);  // NOLINT(bugprone-use-after-move)
        drain(t.context);
        BOOST_TEST(released.state() == (end == 2 ? "done" : "idle"));
    }
}

BOOST_AUTO_TEST_CASE(permits_of_a_destroyed_and_of_another_semaphore_do_not_merge)
{
    scene t, other;
    permit_type dead = t.take(5), living = other.take(1);
    t.semaphore.reset();
    BOOST_CHECK_THROW(dead.merge(std::move(living)), system_error);
    // Neither has been moved from.
    // NOLINTBEGIN(bugprone-use-after-move)
    BOOST_CHECK_THROW(living.merge(std::move(dead)), system_error);
    BOOST_TEST(dead.count() == 5);
    // NOLINTEND(bugprone-use-after-move)
    BOOST_TEST(living.count() == 1);
}

BOOST_AUTO_TEST_CASE(a_permit_may_outlive_its_context_too)
{
    auto t = std::make_unique<scene>();
    permit_type p = t->take(5), q = t->take(1);
    t.reset();
    BOOST_TEST(!p.valid());
    q.merge(p.split(2));
    BOOST_TEST(q.count() == 3);
}
