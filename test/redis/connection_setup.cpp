// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// Servers that a connection cannot use, and the errors that it reports about them.

#include <algorithm>
#include <atomic>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>
#include <stdexcept>
#include <string>
#include <support/connection_scene.hpp>
#include <support/fake_server.hpp>
#include <support/redis_server.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>
#include <utility>
#include <vector>

namespace data = boost::unit_test::data;

namespace {

using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::test::connection_scene;
using turnstile::test::fake_server;
using turnstile::test::redis_server;

/// Runs until an attempt to connect has failed, and expects this failure.
void expect_failure(connection_scene& scene, errc code, const std::string& text)
{
    BOOST_REQUIRE(scene.until([&] { return !scene.seen.calls.empty(); }));
    BOOST_TEST(scene.seen.calls == "f");
    BOOST_TEST(scene.seen.last == make_error_code(code));
    BOOST_TEST(scene.it->trouble().find(text) != std::string::npos, scene.it->trouble());
    BOOST_TEST(scene.log.find(text) != std::string::npos);
}

/// A permission that a user lacks, and the text of the error.
struct lack
{
    std::string rule;
    std::string text;

    friend std::ostream& operator<<(std::ostream& os, const lack& l) { return os << l.rule; }
};

const std::vector<lack> lacks{
    {"resetchannels",
     "user 'app' may not subscribe to channel turnstile:0:wake:*; add &turnstile:*"},
    {"-subscribe", "user 'app' may not run the command subscribe; add +subscribe"},
    {"-publish", "user 'app' may not run the command publish; add +publish"},
    {"-info", "user 'app' may not run the command info; add +info"},
    {"-script", "user 'app' may not run the command script|load; add +script|load"},
    {"-evalsha", "user 'app' may not run the command evalsha; add +evalsha"},
    // Commands that scripts call. Some of them are needed only for the state of monitors.
    {"-hlen", "user 'app' may not run all commands of the scripts; add +hlen"},
    {"-hgetall", "user 'app' may not run all commands of the scripts; add +hgetall"},
    {"-hdel", "user 'app' may not run all commands of the scripts; add +hdel"},
    {"-hset", "user 'app' may not run all commands of the scripts; add +hset"},
    {"-time", "user 'app' may not run all commands of the scripts; add +time"},
    {"-@hash", "add +hdel +hexists +hget +hgetall +hincrby +hlen +hmget +hset"},
    {"-pubsub|numsub", "add +pubsub|numsub"},
};

/// The permissions that a user needs besides those for keys.
const std::vector<std::string> needed{"&turnstile:*",
                                      "+hello",
                                      "+select",
                                      "+subscribe",
                                      "+publish",
                                      "+info",
                                      "+ping",
                                      "+script|load",
                                      "+evalsha",
                                      "+exists",
                                      "+hdel",
                                      "+hexists",
                                      "+hget",
                                      "+hgetall",
                                      "+hincrby",
                                      "+hlen",
                                      "+hmget",
                                      "+hset",
                                      "+persist",
                                      "+pexpire",
                                      "+time",
                                      "+zadd",
                                      "+zcard",
                                      "+zpopmin",
                                      "+zrange",
                                      "+zrem",
                                      "+zscore",
                                      "+zrangebyscore",
                                      "+zremrangebyscore",
                                      "+pubsub|numsub",
                                      "+lpush",
                                      "+rpush",
                                      "+lpop",
                                      "+llen",
                                      "+lrange"};

/// The answer of a supported server to a command of the set-up.
std::string answer_of(const std::vector<std::string>& words, const std::string& version)
{
    if (words[0] == "HELLO")
        return "%1\r\n+server\r\n+redis\r\n";
    if (words[0] == "SUBSCRIBE")
        return ">3\r\n+subscribe\r\n+c\r\n:1\r\n";
    const std::string info = "redis_version:" + version + "\r\nrun_id:1\r\n";
    if (words[0] == "INFO")
        return "$" + std::to_string(info.size()) + "\r\n" + info + "\r\n";
    if (words[0] == "PUBLISH")
        return ":1\r\n";
    return "+OK\r\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(acl_wrong_password)
{
    const redis_server server({"--requirepass", "right"});
    config settings = config::from_url(server.url());
    settings.password = "s3cr3t";
    connection_scene scene(settings);
    expect_failure(scene, errc::wrong_credentials, "user 'default': WRONGPASS");
    BOOST_TEST(scene.log.find("s3cr3t") == std::string::npos);

    // The connection keeps trying, and succeeds after the password has been corrected.
    server.run({"CONFIG", "SET", "requirepass", "s3cr3t"});
    BOOST_TEST(scene.until_seen("c"));
    BOOST_TEST(scene.it->trouble() == "");
    scene.close();
}

BOOST_AUTO_TEST_CASE(acl_no_password)
{
    const redis_server server({"--requirepass", "right"});
    connection_scene scene(config::from_url(server.url()));
    expect_failure(scene, errc::wrong_credentials, "user 'default': NOAUTH");
    BOOST_TEST(scene.it->trouble().find("config::password") != std::string::npos,
               scene.it->trouble());
    scene.close();
}

// A server closes the connection of a user that it has not accepted when it reads a word above 16 KiB. A client that has
// sent one may not receive the refusal.
BOOST_AUTO_TEST_CASE(acl_user_that_is_refused_has_sent_no_script)
{
    const fake_server server(
        [](const std::vector<std::string>& words)
        {
            // The answer to HELLO waits for the last command that follows in the same write.
            if (words[0] == "PUBLISH")
                return "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
            return words[0] == "SCRIPT" ? "-ERR Protocol error: unauthenticated bulk length\r\n"
                                        : "";
        });
    config settings = config::from_url(server.url());
    settings.password = "s3cr3t";
    connection_scene scene(settings);
    expect_failure(scene, errc::wrong_credentials, "user 'default': WRONGPASS");
    scene.close();
}

BOOST_DATA_TEST_CASE(acl_user_without, data::make(lacks))
{
    const redis_server server;
    server.run({"ACL", "SETUSER", "app", "on", ">pw", "~*", "&*", "+@all", sample.rule});
    config settings = config::from_url(server.url());
    settings.username = "app";
    settings.password = "pw";
    connection_scene scene(settings);
    expect_failure(scene, errc::missing_permission, sample.text);
    scene.close();
}

BOOST_AUTO_TEST_CASE(acl_user_with_the_minimal_permissions)
{
    const redis_server server;
    std::vector<std::string> rules{"ACL", "SETUSER", "app", "on", ">pw", "~turnstile:*"};
    rules.insert(rules.end(), needed.begin(), needed.end());
    server.run(rules);
    config settings = config::from_url(server.url() + "/1");
    settings.username = "app";
    settings.password = "pw";
    connection_scene scene(settings);
    BOOST_TEST(scene.until_seen("c"), scene.log);
    BOOST_TEST(scene.warnings == 0);
    scene.close();
}

BOOST_AUTO_TEST_CASE(acl_user_of_a_deployment_with_sentinels)
{
    const redis_server server;
    const redis_server sentinel(server, "main");
    std::vector<std::string> rules{"ACL", "SETUSER", "app", "on", ">pw", "~turnstile:*"};
    rules.insert(rules.end(), needed.begin(), needed.end());
    server.run(rules);
    connection_scene scene(
        config("redis+sentinel://app:pw@127.0.0.1:" + std::to_string(sentinel.port()) + "/main"));
    expect_failure(scene, errc::missing_permission,
                   "user 'app' may not run the command role; add +role");
    server.run({"ACL", "SETUSER", "app", "+role"});
    BOOST_TEST(scene.until_seen("c"), scene.log);
    scene.close();
}

BOOST_AUTO_TEST_CASE(acl_user_of_some_keys_alone)
{
    const redis_server server;
    std::vector<std::string> rules{"ACL", "SETUSER", "app", "on", ">pw", "~turnstile:*:mutex:a*"};
    rules.insert(rules.end(), needed.begin(), needed.end());
    server.run(rules);
    config settings = config::from_url(server.url());
    settings.username = "app";
    settings.password = "pw";
    connection_scene scene(settings);
    BOOST_TEST(scene.until_seen("c"), scene.log);
    BOOST_TEST(scene.warnings == 1);
    BOOST_TEST(scene.log.find("add ~turnstile:*") != std::string::npos, scene.log);
    scene.close();
}

BOOST_AUTO_TEST_CASE(trouble_is_logged_once_per_cause)
{
    const redis_server server({"--requirepass", "right"});
    config settings = config::from_url(server.url() + "?max_backoff=10ms");
    settings.password = "wrong";
    connection_scene scene(settings);
    BOOST_REQUIRE(scene.until_seen("fffff"));
    BOOST_TEST(scene.errors == 1, scene.log);
    BOOST_TEST(scene.warnings == 0, scene.log);
    // The log that contains the failure also reports its end.
    server.run({"CONFIG", "SET", "requirepass", "wrong"});
    BOOST_REQUIRE(scene.until_seen("c"));
    BOOST_TEST(scene.warnings == 1, scene.log);
    BOOST_TEST(scene.errors == 1, scene.log);
    scene.close();
}

BOOST_AUTO_TEST_CASE(alternating_causes_are_logged_once_each)
{
    const redis_server server({"--requirepass", "right"});
    config settings = config::from_url(server.url() + "?max_backoff=10ms");
    int asked = 0;
    settings.credentials = [&]
    {
        if (asked++ % 2 != 0)
            throw std::runtime_error("the vault is sealed");
        return turnstile::redis::user_credentials("default", "wrong");
    };
    connection_scene scene(settings);
    BOOST_REQUIRE(scene.until_seen("fdfdfd"));
    BOOST_TEST(scene.errors == 1, scene.log);
    BOOST_TEST(scene.warnings == 1, scene.log);
    scene.close();
}

// For instance, a text may contain the number of the request.
BOOST_AUTO_TEST_CASE(missing_credentials_are_logged_once_although_the_texts_differ)
{
    const redis_server server;
    config settings = config::from_url(server.url() + "?max_backoff=10ms");
    int asked = 0;
    settings.credentials = [&]() -> turnstile::redis::user_credentials
    { throw std::runtime_error("request " + std::to_string(++asked) + " failed"); };
    connection_scene scene(settings);
    BOOST_REQUIRE(scene.until_seen("dddd"));
    BOOST_TEST(scene.warnings == 1, scene.log);
    scene.close();
}

BOOST_AUTO_TEST_CASE(credentials_are_requested_for_each_attempt)
{
    const redis_server server({"--requirepass", "first"});
    config settings = config::from_url(server.url() + "?max_backoff=10ms");
    std::vector<std::string> passwords{"first", "", "too-early", "second"};
    std::size_t asked = 0;
    settings.credentials = [&]
    {
        const std::string& password = passwords.at(std::min(asked++, passwords.size() - 1));
        if (password.empty())
            throw std::runtime_error("the vault is sealed");
        return turnstile::redis::user_credentials("default", password);
    };
    connection_scene scene(settings);
    BOOST_REQUIRE(scene.until_seen("c"));
    BOOST_TEST(asked == 1U);
    server.run({"CONFIG", "SET", "requirepass", "second"});
    // An established connection is not affected.
    BOOST_TEST(scene.ask({"PING"}).text() == "PONG");
    BOOST_TEST(turnstile::test::redis_command(server.unix_socket(), "second",
                                              {"CLIENT", "KILL", "TYPE", "pubsub"}) == "1");
    // The connection breaks. The next attempt fails with a temporary error, the second one with a permanent error, and
    // then the password is right.
    BOOST_TEST(scene.until_seen("cddfc"));
    BOOST_TEST(scene.seen.calls == "cddfc");
    BOOST_TEST(asked == 4U);
    BOOST_TEST(scene.log.find("the credentials are not available: the vault is sealed") !=
                   std::string::npos,
               scene.log);
    BOOST_TEST(scene.log.find("too-early") == std::string::npos);
    scene.close();
}

BOOST_AUTO_TEST_CASE(credentials_may_throw_an_object_of_any_type)
{
    const redis_server server;
    config settings = config::from_url(server.url() + "?max_backoff=10ms");
    bool is_sealed = true;
    settings.credentials = [&]
    {
        if (std::exchange(is_sealed, false))
            throw 1;
        return turnstile::redis::user_credentials();
    };
    connection_scene scene(settings);
    BOOST_TEST(scene.until_seen("dc"));
    BOOST_TEST(scene.log.find("an exception that is no std::exception") != std::string::npos,
               scene.log);
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_node_of_a_cluster)
{
    const redis_server server({"--cluster-enabled", "yes"});
    connection_scene scene(config::from_url(server.url()));
    expect_failure(scene, errc::unsupported_server,
                   "the server is a node of a Redis Cluster, which is not supported");
    scene.close();
}

// Such a node already refuses the selection of a database.
BOOST_AUTO_TEST_CASE(a_node_of_a_cluster_and_a_database)
{
    const redis_server server({"--cluster-enabled", "yes"});
    connection_scene scene(config::from_url(server.url() + "/1"));
    expect_failure(scene, errc::unsupported_server, "SELECT is not allowed in cluster mode");
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_server_whose_scripts_lack_a_command)
{
    const redis_server server({"--rename-command", "HGETALL", "DISABLED"});
    connection_scene scene(config::from_url(server.url()));
    expect_failure(scene, errc::unsupported_server, "no renamed or disabled commands (ERR");
    scene.close();
}

// Valkey names the field of INFO differently.
BOOST_AUTO_TEST_CASE(a_node_of_a_cluster_of_valkey)
{
    const fake_server server(
        [](const std::vector<std::string>& words)
        {
            std::string answer = answer_of(words, "7.2.4");
            if (words[0] != "INFO")
                return answer;
            const std::string info = "server_name:valkey\r\nserver_mode:cluster\r\n"
                                     "run_id:1\r\nredis_version:7.2.4\r\n";
            answer = "$" + std::to_string(info.size()) + "\r\n" + info + "\r\n";
            return answer;
        });
    connection_scene scene(config::from_url(server.url()));
    expect_failure(scene, errc::unsupported_server,
                   "the server is a node of a Redis Cluster, which is not supported");
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_database_out_of_range_is_refused)
{
    const redis_server server({"--databases", "2"});
    connection_scene scene(config::from_url(server.url() + "/2"));
    expect_failure(scene, errc::invalid_config, "db=2: ERR DB index is out of range");
    scene.close();
}

BOOST_AUTO_TEST_CASE(certificates_that_cannot_be_read)
{
    connection_scene scene(config::from_url("rediss://127.0.0.1:1?ca_file=/there/is/none"));
    expect_failure(scene, errc::invalid_config, "ca_file=/there/is/none: cannot be read");
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_server_that_does_not_know_hello)
{
    const fake_server server(
        [](const std::vector<std::string>& words)
        {
            // The error repeats the arguments of the command, up to a length.
            std::string arguments;
            for (std::size_t i = 1; i < words.size(); ++i)
                arguments += " `" + words[i] + "`,";
            const std::string text = "-ERR unknown command `" + words[0] +
                                     "`, with args beginning with:" + arguments.substr(0, 128);
            return text.substr(0, text.find_first_of("\r\n")) + "\r\n";
        });
    config settings = config::from_url(server.url());
    for (const std::size_t times : {1U, 100U})
    {
        settings.password.clear();
        for (std::size_t i = 0; i < times; ++i)
            settings.password += "s3cr3t";
        connection_scene scene(settings);
        expect_failure(scene, errc::unsupported_server,
                       "no renamed or disabled commands (ERR unknown");
        BOOST_TEST(scene.it->trouble().find("s3cr3t") == std::string::npos);
        BOOST_TEST(scene.log.find("s3cr3t") == std::string::npos);
        scene.close();
    }
    settings.sentinels = {settings.server};
    settings.master_name = "main";
    settings.sentinel_password = "s3cr3t";
    settings.password.clear();
    connection_scene scene(settings);
    BOOST_TEST(scene.until_seen("d"));
    BOOST_TEST(scene.log.find("unknown command `HELLO`") != std::string::npos);
    BOOST_TEST(scene.log.find("s3cr3t") == std::string::npos);
    scene.close();
}

BOOST_AUTO_TEST_CASE(refusals_of_all_commands)
{
    const auto expect = [](const std::string& refusal, errc code, const std::string& text)
    {
        const fake_server server([&](const std::vector<std::string>&)
                                 { return '-' + refusal + "\r\n"; });
        connection_scene scene(config::from_url(server.url()));
        expect_failure(scene, code, text);
        scene.close();
    };
    expect("NOPROTO unsupported protocol version", errc::unsupported_server, "speaks RESP3");
    // A real server in protected mode refuses only clients of other machines.
    expect("DENIED Redis is running in protected mode because protected mode is",
           errc::wrong_credentials,
           "DENIED, the server is in protected mode, so it accepts only clients of its own "
           "machine; set a password for its user 'default', or set protected-mode to no");
    // A proxy may answer with a text of another form than that of Redis.
    expect("unsupported command", errc::server_error, "unsupported command");
}

BOOST_AUTO_TEST_CASE(a_server_of_an_old_version_is_unsupported)
{
    const fake_server server([](const std::vector<std::string>& words)
                             { return answer_of(words, "6.2.6"); });
    connection_scene scene(config::from_url(server.url()));
    expect_failure(scene, errc::unsupported_server,
                   "the server must be Redis 7.0 or newer, not '6.2.6'");
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_server_that_swallows_messages)
{
    const fake_server server([](const std::vector<std::string>& words)
                             { return answer_of(words, "7.0.0"); });
    connection_scene scene(config::from_url(server.url() + "?connect_timeout=4s"));
    expect_failure(scene, errc::missing_permission,
                   "a message to the session's own wake channel did not arrive; user 'default' may "
                   "not listen to");
    scene.close();
}

BOOST_AUTO_TEST_CASE(the_client_waits_for_a_server_that_loads_its_data)
{
    std::atomic<int> greetings{0};
    const fake_server server(
        [&](const std::vector<std::string>& words)
        {
            if (words[0] == "HELLO")
                ++greetings;
            return words[0] == "HELLO" ? std::string("%1\r\n+server\r\n+redis\r\n")
                                       : std::string("-LOADING Redis is loading\r\n");
        });
    connection_scene scene(config::from_url(server.url()));
    BOOST_TEST(scene.until_seen("ddd"));
    BOOST_TEST(scene.seen.calls == "ddd");
    BOOST_TEST(scene.seen.last == make_error_code(errc::unreachable));
    BOOST_TEST(scene.it->trouble().find("LOADING") != std::string::npos);
    BOOST_TEST(greetings >= 3);
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_server_of_another_protocol_is_unreachable)
{
    const fake_server server([](const std::vector<std::string>&)
                             { return "HTTP/1.1 400 Bad Request\r\n\r\n"; });
    connection_scene scene(config::from_url(server.url()));
    BOOST_TEST(scene.until_seen("dd"));
    BOOST_TEST(scene.seen.last == make_error_code(errc::unreachable));
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_server_that_does_not_answer_is_unreachable)
{
    const fake_server server([](const std::vector<std::string>&) { return ""; });
    connection_scene scene(config::from_url(server.url() + "?health_check=50ms"));
    BOOST_TEST(scene.until_seen("d"));
    BOOST_TEST(scene.seen.last == make_error_code(errc::unreachable));
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_server_that_sends_no_answers_is_unreachable)
{
    const fake_server server([](const std::vector<std::string>&)
                             { return ">2\r\n+hello\r\n+you\r\n"; });
    // Each of the frequent health checks receives something.
    connection_scene scene(config(server.url() + "?health_check=200ms&connect_timeout=200ms"));
    const auto is_expected = [&]
    { return scene.it->trouble().find("does not answer") != std::string::npos; };
    BOOST_TEST(scene.until(is_expected), scene.it->trouble());
    scene.close();
}

BOOST_AUTO_TEST_CASE(a_connection_succeeds_as_soon_as_the_server_runs)
{
    redis_server server;
    server.stop();
    connection_scene scene(config::from_url(server.url() + "?max_backoff=50ms"));
    BOOST_TEST(scene.until_seen("ddd"));
    BOOST_TEST(scene.seen.last == make_error_code(errc::unreachable));
    BOOST_TEST(scene.it->trouble().starts_with(server.url() + ": "));
    BOOST_TEST((scene.ask({"PING"}).result == connection_scene::reply::status::unknown));
    server.start();
    BOOST_TEST(scene.until_seen("c"));
    scene.close();
}

BOOST_DATA_TEST_CASE(an_evicting_memory_policy_is_reported,
                     data::make({"allkeys-lru", "volatile-ttl", "noeviction"}))
{
    const std::string policy = sample;
    const redis_server server({"--maxmemory-policy", policy});
    connection_scene scene(config::from_url(server.url()));
    BOOST_REQUIRE(scene.until_seen("c"));
    const bool warned = scene.log.find("maxmemory-policy is " + policy) != std::string::npos;
    BOOST_TEST(warned == (policy != "noeviction"));
    BOOST_TEST(scene.warnings == (policy != "noeviction" ? 1 : 0));
    scene.close();
}
