// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <support/connection_scene.hpp>
#include <support/redis_server.hpp>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>

using namespace std::chrono_literals;

namespace {

using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::test::connection_scene;
using turnstile::test::redis_server;

std::string port_of(const redis_server& server)
{
    return std::to_string(server.port());
}

/// A master, its replica, and the sentinel that monitors both.
struct deployment
{
    deployment()
    {
        // The sentinel looks for replicas only every ten seconds.
        const auto deadline = std::chrono::steady_clock::now() + 60s;
        while (replica.info("master_link_status") != "up" ||
               sentinel.cli({"SENTINEL", "REPLICAS", "main"}).find(port_of(replica)) ==
                   std::string::npos)
            BOOST_REQUIRE((std::chrono::steady_clock::now() < deadline));
    }

    /// Kills the master, and makes the sentinel notice it soon. Until then, the sentinel's long time-out prevents a
    /// failover away from a master that is only slow.
    void kill_master()
    {
        sentinel.run({"SENTINEL", "SET", "main", "down-after-milliseconds", "300"});
        master.kill();
    }

    [[nodiscard]] std::string url() const
    {
        // No sentinel listens at the first address.
        return "redis+sentinel://127.0.0.1:" + std::to_string(nobody.number()) +
               ",127.0.0.1:" + port_of(sentinel) + "/main?max_backoff=100ms";
    }

    turnstile::test::closed_port nobody;
    redis_server master{{"--repl-diskless-sync-delay", "0"}};
    redis_server replica{{"--replicaof", "127.0.0.1 " + port_of(master)}};
    redis_server sentinel{master.port(), "main", "sentinel down-after-milliseconds main 600000\n"};
};

}  // namespace

BOOST_AUTO_TEST_CASE(sentinel_leads_to_the_master_and_after_its_crash_to_the_replica)
{
    deployment d;
    connection_scene scene{config(d.url())};
    BOOST_REQUIRE(scene.until_seen("c"));
    BOOST_TEST(scene.seen.server.run_id == d.master.run_id());
    BOOST_TEST((scene.ask({"SET", "key", "value"}).result == connection_scene::reply::status::ok));

    const std::string heir = d.replica.run_id();
    d.kill_master();
    // A sentinel that was paused for two seconds starts no failover for thirty seconds.
    BOOST_TEST(scene.until([&] { return scene.seen.server.run_id == heir; }, 300s));
    BOOST_TEST(d.replica.info("role") == "master");
    BOOST_TEST((scene.ask({"SET", "key", "value"}).result == connection_scene::reply::status::ok));
    scene.close();
}

BOOST_AUTO_TEST_CASE(sentinel_that_does_not_know_the_master)
{
    const redis_server master;
    const redis_server sentinel(master, "main");
    connection_scene scene{
        config("redis+sentinel://127.0.0.1:" + port_of(sentinel) + "/other?max_backoff=50ms")};
    BOOST_TEST(scene.until_seen("dd"));
    BOOST_TEST(scene.seen.last == make_error_code(errc::unreachable));
    const std::string text =
        "no sentinel reports the master 'other' (Sentinel at 127.0.0.1:" + port_of(sentinel) +
        ": doesn't know about the configured master)";
    BOOST_TEST(scene.it->trouble().find(text) != std::string::npos, scene.it->trouble());
    scene.close();
}

BOOST_AUTO_TEST_CASE(sentinels_that_cannot_be_reached)
{
    const turnstile::test::closed_port one;
    const turnstile::test::closed_port other;
    connection_scene scene{config("redis+sentinel://127.0.0.1:" + std::to_string(one.number()) +
                                  ",127.0.0.1:" + std::to_string(other.number()) + "/main")};
    BOOST_TEST(scene.until_seen("d"));
    for (const auto* each : {&one, &other})
    {
        const std::string text = "127.0.0.1:" + std::to_string(each->number()) +
                                 ": connection establishment error: Connection refused";
        BOOST_TEST(scene.it->trouble().find(text) != std::string::npos, scene.it->trouble());
    }
    scene.close();
}

BOOST_AUTO_TEST_CASE(sentinel_of_a_master_that_cannot_be_reached)
{
    const turnstile::test::closed_port nobody;
    const redis_server sentinel(nobody.number(), "main", "");
    connection_scene scene{config("redis+sentinel://127.0.0.1:" + port_of(sentinel) + "/main")};
    BOOST_TEST(scene.until_seen("d"));
    const std::string text =
        "the master at 127.0.0.1:" + std::to_string(nobody.number()) + ": Connection refused";
    BOOST_TEST(scene.it->trouble().find(text) != std::string::npos, scene.it->trouble());
    scene.close();
}

BOOST_AUTO_TEST_CASE(sentinel_in_place_of_a_server)
{
    const redis_server master;
    const redis_server sentinel(master, "main");
    connection_scene scene{config("redis://127.0.0.1:" + port_of(sentinel))};
    BOOST_TEST(scene.until_seen("f"));
    BOOST_TEST(scene.seen.last == make_error_code(errc::invalid_config));
    BOOST_TEST(scene.it->trouble().find("use redis+sentinel://") != std::string::npos,
               scene.it->trouble());
    scene.close();
}

BOOST_AUTO_TEST_CASE(sentinel_that_requires_a_user_without_a_password)
{
    const redis_server master;
    const redis_server sentinel(master, "main");
    sentinel.run({"ACL", "SETUSER", "watch", "on", "nopass", "+sentinel|get-master-addr-by-name",
                  "+sentinel|sentinels"});
    sentinel.run({"ACL", "SETUSER", "default", "resetpass", ">s3cr3t"});
    connection_scene scene{
        config("redis+sentinel://127.0.0.1:" + port_of(sentinel) + "/main?sentinel_user=watch")};
    BOOST_TEST(scene.until_seen("c"), scene.log);
    scene.close();
}

BOOST_AUTO_TEST_CASE(sentinels_that_refuse_the_password)
{
    const redis_server master;
    const redis_server sentinel(master, "main");
    sentinel.run({"ACL", "SETUSER", "default", "resetpass", ">right"});
    const turnstile::test::closed_port nobody;
    const std::string refuses = "127.0.0.1:" + port_of(sentinel);
    const std::string silent = "127.0.0.1:" + std::to_string(nobody.number());
    for (const std::string password : {"s3cr3t", ""})
        for (const bool all_refuse : {true, false})
        {
            connection_scene scene{config("redis+sentinel://" + refuses +
                                          (all_refuse ? "" : "," + silent) +
                                          "/main?max_backoff=50ms&sentinel_password=" + password)};
            // A sentinel that is not reachable may accept the password.
            BOOST_TEST(scene.until_seen(all_refuse ? "ff" : "dd"), scene.log);
            BOOST_TEST(scene.seen.last ==
                       make_error_code(all_refuse ? errc::wrong_credentials : errc::unreachable));
            const std::string trouble = scene.it->trouble();
            BOOST_TEST(trouble.find(password.empty() ? "NOAUTH" : "WRONGPASS") != std::string::npos,
                       trouble);
            BOOST_TEST(trouble.find("sentinel_password") != std::string::npos, trouble);
            BOOST_TEST(scene.log.find("s3cr3t") == std::string::npos);
            scene.close();
        }
}
