// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <redis/transport/diagnosis.hpp>
#include <string>
#include <turnstile/redis/config.hpp>
#include <vector>

// The diagnosis of an error that a server answers during the set-up of a connection.

using turnstile::redis::config;
using turnstile::redis::detail::diagnose;

BOOST_AUTO_TEST_CASE(transient_errors_are_retried)
{
    const config settings;
    for (const std::string& error : std::vector<std::string>{
             "LOADING Redis is loading the dataset in memory",
             "BUSY Redis is busy running a script", "MASTERDOWN Link with MASTER is down",
             "TRYAGAIN Multiple keys request", "CLUSTERDOWN The cluster is down",
             "ERR max number of clients reached",
             // A server that has just been started has no replicas yet.
             "NOREPLICAS Not enough good replicas to write.",
             // Another client has flushed the scripts between the loading of one and its call.
             "NOSCRIPT No matching script. Please use EVAL.",
             "MISCONF Redis is configured to save RDB snapshots, but it is unable to persist"})
    {
        const auto made = diagnose(error, "EVALSHA", settings);
        BOOST_TEST(made.is_temporary(), error);
        BOOST_TEST(made.text == error);
    }
}

BOOST_AUTO_TEST_CASE(a_missing_key_pattern_is_named)
{
    config settings;
    settings.username = "app";
    settings.prefix = "shop";
    for (const std::string error :
         {"NOPERM this user has no permissions to access one of the keys used as arguments",
          "NOPERM No permissions to access a key",
          "ERR ACL failure in script: No permissions to access a key script: 5fd3, on "
          "@user_script:12.",
          "ERR ACL failure in script: User app has no permissions to access the "
          "'shop:{1}:mutex:channel' key script: 5fd3, on @user_script:12.",
          "ERR The user executing the script can't access at least one of the keys mentioned in "
          "the "
          "command arguments script: 5fd3, on @user_script:12."})
        BOOST_TEST(diagnose(error, "EVALSHA", settings).text ==
                   "user 'app' may not use the keys; add ~shop:*");
}

BOOST_AUTO_TEST_CASE(a_missing_command_is_named_if_it_is_known)
{
    const config settings;
    BOOST_TEST(diagnose("NOPERM this user has no permissions to run the 'Hget' command", "EVALSHA",
                        settings)
                   .text == "user 'default' may not run the command hget; add +hget");
    BOOST_TEST(diagnose("ERR ACL failure in script: User default has no permissions to run the "
                        "'hgetall' command script: 5fd3, on @user_script:12.",
                        "EVALSHA", settings)
                   .text == "user 'default' may not run the command hgetall; add +hgetall");
    const std::string unnamed = "ERR The user executing the script can't run this command or "
                                "subcommand script: 5fd3, on @user_script:12.";
    BOOST_TEST(diagnose(unnamed, "EVALSHA", settings).text ==
               "user 'default' lacks a permission (" + unnamed + ')');
}

BOOST_AUTO_TEST_CASE(permanent_errors_are_not_retried)
{
    const config settings;
    for (const std::string& error : std::vector<std::string>{
             "WRONGPASS invalid username-password pair", "NOAUTH Authentication required.",
             "NOPERM this user has no permissions to run the 'evalsha' command",
             "READONLY You can't write against a read only replica.", "ERR unknown command 'HELLO'",
             "NOPROTO unsupported protocol version", "DENIED Redis is running in protected mode",
             "ERR DB index is out of range", "ERR something else"})
        BOOST_TEST(!diagnose(error, "HELLO", settings).is_temporary(), error);
}
