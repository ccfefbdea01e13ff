// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Tests the error codes, whose values are stable, and their texts.

#include <boost/asio/error.hpp>
#include <boost/system/error_code.hpp>
#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <support/print.hpp>
#include <turnstile/error.hpp>
#include <turnstile/owner_token.hpp>
#include <type_traits>

using namespace turnstile;

namespace {

constexpr errc all[] = {errc::not_owner,
                        errc::closed,
                        errc::invalid_count,
                        errc::over_release,
                        errc::empty_guard,
                        errc::wrong_object,
                        errc::lost,
                        errc::no_participants,
                        errc::duplicate,
                        errc::predicate_threw,
                        errc::invalid_duration,
                        errc::invalid_payload,
                        errc::unknown_job};

static_assert(std::is_same_v<error_code, boost::system::error_code>);
static_assert(boost::system::is_error_code_enum<errc>::value);
static_assert(std::is_base_of_v<system_error, owner_mismatch>);
static_assert(std::is_nothrow_copy_constructible_v<error_code>);

}  // namespace

BOOST_AUTO_TEST_CASE(the_values_are_stable)
{
    int value = 0;
    for (const errc each : all)
        BOOST_TEST(static_cast<int>(each) == ++value);
}

BOOST_AUTO_TEST_CASE(codes_belong_to_one_category)
{
    BOOST_TEST(turnstile_category().name() == std::string("turnstile"));
    for (const errc each : all)
    {
        const error_code code = each;
        BOOST_TEST(code.failed());
        BOOST_TEST(code.value() == static_cast<int>(each));
        BOOST_CHECK(code.category() == turnstile_category());
        BOOST_TEST(code == make_error_code(each));
    }
}

BOOST_AUTO_TEST_CASE(codes_differ_from_those_of_other_categories)
{
    const error_code ours = errc::not_owner;
    const error_code generic(ours.value(), boost::system::generic_category());
    BOOST_TEST(ours != generic);
    BOOST_TEST(ours != error_code(boost::asio::error::operation_aborted));
    BOOST_TEST(ours != error_code(errc::closed));
}

BOOST_AUTO_TEST_CASE(each_code_has_a_text_of_its_own)
{
    std::set<std::string> texts;
    for (const errc each : all)
        texts.insert(make_error_code(each).message());
    BOOST_TEST(texts.size() == std::size(all));
    BOOST_TEST(!texts.contains(""));
    BOOST_TEST(make_error_code(errc::not_owner).message() ==
               "the token or guard does not own the lock");
}

BOOST_AUTO_TEST_CASE(an_unknown_code_has_a_text)
{
    BOOST_TEST(turnstile_category().message(0) == "unknown turnstile error 0");
    BOOST_TEST(turnstile_category().message(4711) == "unknown turnstile error 4711");
    BOOST_TEST(turnstile_category().message(-1) == "unknown turnstile error -1");
}

BOOST_AUTO_TEST_CASE(a_mismatch_names_both_tokens)
{
    const owner_mismatch mismatch(owner_token(1), owner_token(7));
    BOOST_TEST(mismatch.what() == std::string("Owner token mismatch. Expected 1 but received 7"));
    BOOST_TEST(mismatch.expected() == owner_token(1));
    BOOST_TEST(mismatch.received() == owner_token(7));
    BOOST_TEST(mismatch.code() == errc::not_owner);
}

BOOST_AUTO_TEST_CASE(a_mismatch_without_a_holder_token_expects_none)
{
    const owner_mismatch mismatch(owner_token(), owner_token(7));
    BOOST_TEST(mismatch.what() ==
               std::string("Owner token mismatch. Expected none but received 7"));
    BOOST_TEST(!mismatch.expected());
}

BOOST_AUTO_TEST_CASE(a_mismatch_is_a_system_error)
{
    try
    {
        throw owner_mismatch(owner_token(1), owner_token(7));
    }
    catch (const system_error& error)
    {
        BOOST_TEST(error.code() == errc::not_owner);
        BOOST_TEST(error.what() == std::string("Owner token mismatch. Expected 1 but received 7"));
        return;
    }
    BOOST_ERROR("not caught");
}
