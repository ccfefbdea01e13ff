// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "redis/protocol/protocol.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using namespace turnstile::redis::detail;

BOOST_AUTO_TEST_SUITE(redis_protocol)

BOOST_AUTO_TEST_CASE(a_reply)
{
    const std::vector<std::string> leaves{"own 5 6 7", "queued 1 4 2 3 1 12"};
    const auto answers = parse_answers(leaves);
    BOOST_TEST_REQUIRE(answers.has_value());
    BOOST_TEST_REQUIRE(answers->size() == 2U);
    const script_answer& first = (*answers)[0];
    BOOST_TEST((first.status == script_answer::status_code::own));
    BOOST_TEST(first.now == 5);
    BOOST_TEST(first.fence == 6);
    BOOST_TEST(first.deadline == 7);
    BOOST_TEST(first.ticket == 0);
    BOOST_TEST(!first.more);
    BOOST_TEST(first.extra.empty());
    const script_answer& second = (*answers)[1];
    BOOST_TEST((second.status == script_answer::status_code::queued));
    BOOST_TEST(second.ticket == 3);
    BOOST_TEST(second.more);
    BOOST_TEST(second.extra == "12");
}

BOOST_AUTO_TEST_CASE(every_status)
{
    using status = script_answer::status_code;
    const std::vector<std::pair<std::string, status>> all{{"own", status::own},
                                                          {"queued", status::queued},
                                                          {"asleep", status::asleep},
                                                          {"busy", status::busy},
                                                          {"gone", status::gone},
                                                          {"released", status::released},
                                                          {"cancelled", status::cancelled},
                                                          {"lost", status::lost},
                                                          {"unmet", status::unmet},
                                                          {"unknown", status::unknown},
                                                          {"impossible", status::impossible},
                                                          {"ok", status::ok},
                                                          {"excess", status::excess},
                                                          {"exists", status::exists},
                                                          {"mismatch", status::mismatch},
                                                          {"foreign", status::foreign},
                                                          {"wrongtype", status::wrong_type},
                                                          {"damaged", status::damaged},
                                                          {"missing", status::missing}};
    for (const auto& [name, said] : all)
    {
        // If the keys are not ours, the answer contains only its status.
        const bool ours = said < status::foreign;
        const auto alone = parse_answers(std::vector{name});
        BOOST_TEST(alone.has_value() == !ours, name);
        const auto answers = ours ? parse_answers(std::vector{name + " 1 2 3"}) : alone;
        BOOST_TEST((answers->front().status == said), name);
        BOOST_TEST(answers->front().now == (ours ? 1 : 0), name);
    }
}

BOOST_AUTO_TEST_CASE(malformed_replies_are_rejected)
{
    const std::vector<std::string> good{"own", "1", "2", "3", "4", "1"};
    const auto parses = [](const std::vector<std::string>& words, std::size_t size)
    {
        std::string text;
        for (std::size_t i = 0; i < size; ++i)
            text += (i > 0 ? " " : "") + words[i];
        return parse_answers(std::vector{text}).has_value();
    };
    BOOST_TEST(!parse_answers({}));
    for (std::size_t size = 0; size <= good.size(); ++size)
        BOOST_TEST(parses(good, size) == (size >= 4), size);
    for (std::size_t i = 0; i < good.size(); ++i)
        for (const char* wrong : {"", "x", "1x", "1.5", "99999999999999999999"})
        {
            std::vector<std::string> bad = good;
            bad[i] = wrong;
            // An empty last word does not count as a word.
            if (*wrong != '\0' || i + 1 < good.size())
                BOOST_TEST(!parses(bad, bad.size()), i << " is '" << wrong << "'");
        }
}

BOOST_AUTO_TEST_CASE(an_answer_with_contributions)
{
    const auto answers = parse_answers(std::vector<std::string>{"own 1 2 3,4,a.b"});
    BOOST_TEST_REQUIRE(answers.has_value());
    BOOST_TEST(answers->front().deadline == 3);
    BOOST_TEST(answers->front().next_expiry == 4);
    BOOST_TEST(answers->front().bad_field == "a.b");
    BOOST_TEST(parse_answers(std::vector<std::string>{"own 1 2 3,4"})->front().bad_field == "");
    for (const char* wrong : {"own 1 2 3,", "own 1 2 ,4", "own 1 2 3,,a", "own 1 2 3,a"})
        BOOST_TEST(!parse_answers(std::vector<std::string>{wrong}), wrong);
}

BOOST_AUTO_TEST_CASE(a_malformed_reply_among_several_counts_as_damaged)
{
    for (const char* wrong :
         {"own 1 2", "own 1 1.5 3", "own 1 -2 3", "own 1 9999999999999999 3", ""})
    {
        const auto answers = parse_answers(std::vector<std::string>{"own 1 2 3", wrong});
        BOOST_TEST_REQUIRE(answers.has_value());
        BOOST_TEST((answers->at(0).status == script_answer::status_code::own));
        BOOST_TEST((answers->at(1).status == script_answer::status_code::damaged));
        BOOST_TEST(!parse_answers(std::vector<std::string>{wrong}));
    }
}

BOOST_AUTO_TEST_CASE(a_state)
{
    using namespace std::string_literals;
    using fields = turnstile::redis::detail::field_map;
    const auto state = parse_state("1:a2:12"
                                   "3:b c0:"
                                   "0:5:\0 :1:"s);
    BOOST_TEST_REQUIRE(state.has_value());
    BOOST_TEST((*state == fields{{"a", "12"}, {"b c", ""}, {"", "\0 :1:"s}}));
    BOOST_TEST(parse_state("").has_value());
    for (const std::string_view text :
         {"1", "a", "1:", "1:a", "1:a1", "1:a2:1", "1:a1:b2", "-1:a0:", "1 :a0:", " ",
          ":a0:", "99999999999999999999:a0:"})
        BOOST_TEST(!parse_state(text), text);
}

BOOST_AUTO_TEST_CASE(messages)
{
    using namespace std::string_literals;
    const auto grant = parse_message("grant abc#1.2 3 4 5");
    BOOST_TEST_REQUIRE(grant.has_value());
    BOOST_TEST((grant->what == message::kind::grant));
    BOOST_TEST((grant->id == waiter_id{0xABC, 1, 2}));
    BOOST_TEST(grant->fence == 3);
    BOOST_TEST(grant->deadline == 4);
    BOOST_TEST(grant->now == 5);
    BOOST_TEST(!grant->state);

    const auto lost = parse_message("lost abc#1.2 3 5");
    BOOST_TEST_REQUIRE(lost.has_value());
    BOOST_TEST((lost->what == message::kind::lost));
    BOOST_TEST(lost->fence == 3);
    BOOST_TEST(lost->now == 5);

    const auto due = parse_message("due abc#1.2 0 4 5 later");
    BOOST_TEST_REQUIRE(due.has_value());
    BOOST_TEST((due->what == message::kind::due));
    BOOST_TEST(due->deadline == 4);
    BOOST_TEST(due->now == 5);

    for (const bool executed : {true, false})
    {
        const auto end = parse_message((executed ? "released"s : "unmet"s) + " abc#1.2+ 3 5");
        BOOST_TEST_REQUIRE(end.has_value());
        BOOST_TEST((end->what == (executed ? message::kind::released : message::kind::unmet)));
        BOOST_TEST((end->id == waiter_id{0xABC, 1, 2, true}));
        BOOST_TEST(end->fence == 3);
        BOOST_TEST(end->now == 5);
    }
}

BOOST_AUTO_TEST_CASE(messages_with_a_state)
{
    const auto whole = parse_message("grant abc#1.2 3 4 5 =1:n4:a =b");
    BOOST_TEST_REQUIRE(whole.has_value());
    BOOST_TEST(whole->now == 5);
    BOOST_TEST((whole->state == field_map{{"n", "a =b"}}));
    const auto empty = parse_message("grant abc#1.2 3 4 5 =");
    BOOST_TEST_REQUIRE(empty.has_value());
    BOOST_TEST((empty->state == field_map()));
}

// A later version may append words.
BOOST_AUTO_TEST_CASE(unknown_words_at_the_end_of_a_message_are_ignored)
{
    const auto grant = parse_message("grant abc#1.2 3 4 5 6");
    BOOST_TEST_REQUIRE(grant.has_value());
    BOOST_TEST(grant->now == 5);
    BOOST_TEST(!grant->state);
    const auto lost = parse_message("lost abc#1.2 3 5 later");
    BOOST_TEST_REQUIRE(lost.has_value());
    BOOST_TEST(!lost->is_broken);
    const auto broken = parse_message("lost abc#1.2 3 5 broken later");
    BOOST_TEST_REQUIRE(broken.has_value());
    BOOST_TEST(broken->is_broken);
    BOOST_TEST(parse_message("released abc#1.2+ 3 4 5").has_value());
    BOOST_TEST(parse_message("unmet abc#1.2+ 3 5 =later").has_value());
}

BOOST_AUTO_TEST_CASE(malformed_messages_are_ignored)
{
    for (const std::string_view text : {"",
                                        " ",
                                        "grant",
                                        "grant ",
                                        "grant abc#1.2",
                                        "grant abc#1.2 3",
                                        "grant abc#1.2 3 4",
                                        "grant abc#1.2 3 4 5 =1:n",
                                        "grant abc#1.2 3 4 =",
                                        "grant  abc#1.2 3 4 5",
                                        "grant abc 3 4 5",
                                        "grant abc#1.2 x 4 5",
                                        "grant abc#1.2 3 x 5",
                                        "grant abc#1.2 3 4 x",
                                        "GRANT abc#1.2 3 4 5",
                                        "lost abc#1.2 3",
                                        "lost",
                                        "due abc#1.2 0 4",
                                        "released abc#1.2+ 3",
                                        "moved abc#1.2 3 4 5",
                                        "moved abc#1.2 3 5",
                                        "grant abc#1.2 9007199254740992 4 5",
                                        "grant abc#1.2 3 9007199254740992 5",
                                        "grant abc#1.2 3 4 9007199254740992",
                                        "lost abc#1.2 -3 5"})
        BOOST_TEST(!parse_message(text), text);
}

BOOST_AUTO_TEST_CASE(scripts_have_names)
{
    BOOST_TEST(name_of(operation::acquire) == "acquire");
    BOOST_TEST(name_of(operation::resync) == "resync");
    BOOST_TEST(name_of(operation::fetch) == "fetch");
    BOOST_TEST(name_of(operation::transact) == "transact");
}

BOOST_AUTO_TEST_SUITE_END()
