// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <ostream>
#include <string>
#include <turnstile/redis/config.hpp>
#include <turnstile/redis/error.hpp>
#include <unistd.h>
#include <vector>

using namespace std::chrono_literals;
namespace data = boost::unit_test::data;

using turnstile::redis::config;
using turnstile::redis::errc;
using turnstile::redis::host_and_port;
using turnstile::redis::redis_error;

namespace {

/// A URL that is rejected, and the text of the error.
struct refused
{
    std::string url;
    std::string text;

    friend std::ostream& operator<<(std::ostream& os, const refused& r) { return os << r.url; }
};

const std::vector<refused> refused_urls{
    {"", "the URL must begin with redis://, rediss://, unix://, redis+sentinel:// or "
         "rediss+sentinel://"},
    {"localhost:6379", "the URL must begin with redis://, rediss://, unix://, redis+sentinel:// or "
                       "rediss+sentinel://"},
    {"http://localhost", "the URL must begin with redis://, rediss://, unix://, redis+sentinel:// "
                         "or rediss+sentinel://"},
    {"redisss://localhost", "the URL must begin with redis://, rediss://, unix://, "
                            "redis+sentinel:// or rediss+sentinel://"},
    {"redis://", "host: must not be empty"},
    {"redis://:6379", "host: must not be empty"},
    {"redis://a%20b", "host: must not be empty or have white space"},
    {"redis://h:0", "port=0: must be a number between 1 and 65535"},
    {"redis://h:65536", "port=65536: must be a number between 1 and 65535"},
    {"redis://h:123456", "port: must be a number between 1 and 65535"},
    {"redis://h:x", "port: must be a number between 1 and 65535"},
    {"redis://h:-1", "port: must be a number between 1 and 65535"},
    {"redis://[::1", "host '[::1': the closing bracket is missing"},
    {"redis://[::1]x", "host '[::1]x': only a port may follow the bracket"},
    {"redis://h/x", "db=x: must be a number, at least 0"},
    {"redis://h/-1", "db=-1: must be a number, at least 0"},
    {"redis://h/1/2", "db=1/2: must be a number, at least 0"},
    {"redis://h/9999999", "db=9999999: must be between 0 and 1000000"},
    {"redis://h/99999999999", "db=99999999999: must be a number, at least 0"},
    {"redis://h?db=two", "db=two: must be a number, at least 0"},
    {"redis://h?lease", "an option must be name=value"},
    {"redis://h?=1", "an option must be name=value"},
    {"redis://h?leese=1s", "unknown option 'leese'"},
    {"redis://h?password=a&b", "password: an & in it must be percent-encoded. If there is none, a "
                               "later option is unknown, not name=value, or has a wrong value"},
    {"redis://h?sentinel_password=a&leese=1s",
     "sentinel_password: an & in it must be percent-encoded. If there is none, a later option is "
     "unknown, not name=value, or has a wrong value"},
    {"redis://h?lease=15", "lease=15: must be a whole number with its unit, like 500ms, 15s, 2min "
                           "or 1h"},
    {"redis://h?lease=", "lease=: must be a whole number with its unit, like 500ms, 15s, 2min or "
                         "1h"},
    {"redis://h?lease=1.5s", "lease=1.5s: must be a whole number with its unit, like 500ms, 15s, "
                             "2min or 1h"},
    {"redis://h?lease=-1s",
     "lease=-1s: must be a whole number with its unit, like 500ms, 15s, 2min "
     "or 1h"},
    {"redis://h?lease=99999999999s", "lease=99999999999s: must be a whole number with its unit, "
                                     "like 500ms, 15s, 2min or 1h"},
    {"redis://h?lease=15%20s", "lease=15 s: must be a whole number with its unit, like 500ms, 15s, "
                               "2min or 1h"},
    {"redis://h?lease=99ms", "lease=99ms: must be between 100ms and 24h"},
    {"redis://h?lease=25h", "lease=90000000ms: must be between 100ms and 24h"},
    {"redis://h?claim_lease=99ms", "claim_lease=99ms: must be between 100ms and 24h"},
    {"redis://h?claim_lease=16s", "claim_lease=16000ms: must be at most the lease, 15000ms"},
    {"redis://h?idle_time=25h", "idle_time=90000000ms: must be between 0ms and 24h"},
    {"redis://h?renew_fraction=1.1",
     "renew_fraction=1.1: must be between 0.05 and 0.9 of the lease"},
    {"redis://h?renew_fraction=0", "renew_fraction=0: must be between 0.05 and 0.9 of the lease"},
    {"redis://h?renew_fraction=nan",
     "renew_fraction=nan: must be between 0.05 and 0.9 of the lease"},
    {"redis://h?renew_fraction=x", "renew_fraction=x: must be a number like 0.33"},
    {"redis://h?clock_drift=0", "clock_drift=0: must be between 0.0001 and 0.5"},
    {"redis://h?clock_drift=0.6", "clock_drift=0.6: must be between 0.0001 and 0.5"},
    {"redis://h?clock_drift=nan", "clock_drift=nan: must be between 0.0001 and 0.5"},
    {"redis://h?loss_margin=0ms",
     "loss_margin=0ms: must be between 1ms and half of the claim lease, "
     "4000ms"},
    {"redis://h?loss_margin=2001ms",
     "loss_margin=2001ms: must be between 1ms and half of the claim "
     "lease, 4000ms"},
    {"redis://h?grace=25h", "grace=90000000ms: must be between 0ms and 24h"},
    {"redis://h?health_check=9ms", "health_check=9ms: must be between 10ms and 24h"},
    {"redis://h?health_check=6s", "health_check=6000ms: must be at most a third of the lease, "
                                  "15000ms"},
    {"redis://h?connect_timeout=0s", "connect_timeout=0ms: must be between 10ms and 24h"},
    {"redis://h?max_backoff=0s", "max_backoff=0ms: must be between 10ms and 24h"},
    {"redis://h?verify=maybe", "verify=maybe: must be yes or no"},
    {"redis://h?prefix=", "prefix: must not be empty"},
    {"redis://h?prefix=a%20b", "prefix: must have no white space or control characters"},
    {"redis://h?prefix=a%0ab", "prefix: must have no white space or control characters"},
    {"redis://h?prefix=a%7fb", "prefix: must have no white space or control characters"},
    {"redis://h?prefix=a%00b", "prefix: must not contain a zero byte"},
    {"redis://h?prefix={a}", "prefix: must have none of {}"},
    {"redis://h?prefix=a%", "prefix: a % must be followed by two hexadecimal digits"},
    {"redis://h?prefix=a%4", "prefix: a % must be followed by two hexadecimal digits"},
    {"redis://h?prefix=a%4x", "prefix: a % must be followed by two hexadecimal digits"},
    {"redis://h?client_name=a%20b", "client_name: must have only the characters from '!' to '~'"},
    {"redis://h?client_name=caff%c3%a9",
     "client_name: must have only the characters from '!' to '~'"},
    {"rediss://h?cert_file=c.pem",
     "cert_file=c.pem: cert_file and key_file must be given together"},
    {"rediss://h?key_file=k.pem", "key_file=k.pem: cert_file and key_file must be given together"},
    {"redis://h?cert_file=c.pem&key_file=k.pem",
     "cert_file=c.pem: must go with TLS, as in rediss://"},
    // Otherwise a user could believe that the connection is encrypted.
    {"redis://h?ca_file=ca.pem", "ca_file=ca.pem: must go with TLS, as in rediss://"},
    {"redis://h?tls_name=db.internal", "tls_name=db.internal: must go with TLS, as in rediss://"},
    {"unix:///a?ca_file=ca.pem", "ca_file=ca.pem: must go with TLS, as in rediss://"},
    {"redis+sentinel://a/m?ca_file=ca.pem", "ca_file=ca.pem: must go with TLS, as in rediss://"},
    {"rediss://h?tls_name=a%20b", "tls_name: must have no white space or control characters"},
    {"redis://h?sentinel_user=watch",
     "sentinel_user=watch: must go with sentinels, as in redis+sentinel://"},
    {"redis://h?sentinel_password=s3cr3t",
     "sentinel_password: must go with sentinels, as in redis+sentinel://"},
    {"unix:///a?sentinel_user=watch",
     "sentinel_user=watch: must go with sentinels, as in redis+sentinel://"},
    {"redis://a%20b:c@h", "user: must have no white space or control characters"},
    {"unix://path", "unix: three slashes must stand before the path, as in unix:///run/redis.sock"},
    {"unix://", "unix: three slashes must stand before the path, as in unix:///run/redis.sock"},
    {"unix:///a?db=x", "db=x: must be a number, at least 0"},
    {"redis+sentinel://", "host: must not be empty"},
    {"redis+sentinel://a,,b/m", "host: must not be empty"},
    {"redis+sentinel://a:1,b:x/m", "port: must be a number between 1 and 65535"},
    {"redis+sentinel://a", "master_name: must not be empty"},
    {"redis+sentinel://a/m/x", "db=x: must be a number, at least 0"},
};

std::string refusal_of(const std::string& url)
{
    try
    {
        static_cast<void>(config::from_url(url));
    }
    catch (const redis_error& error)
    {
        BOOST_TEST((error.code() == errc::invalid_config));
        return error.what();
    }
    return "accepted";
}

std::string rule_broken_by(const config& c)
{
    return c.broken_rule().value_or("none");
}

}  // namespace

BOOST_DATA_TEST_CASE(a_bad_url_is_refused_with_the_value_and_the_rule, data::make(refused_urls))
{
    BOOST_TEST(refusal_of(sample.url) == sample.text);
}

BOOST_AUTO_TEST_CASE(the_defaults)
{
    const config c;
    BOOST_TEST(!c.broken_rule());
    BOOST_TEST((c.server == host_and_port("127.0.0.1", 6379)));
    BOOST_TEST(c.prefix == "turnstile");
    BOOST_TEST((c.lease == 15s && c.effective_claim_lease() == 4s && c.idle_time == 60s));
    BOOST_TEST((c.loss_margin == 50ms && c.grace == 0s && c.effective_health_check() == 500ms));
    BOOST_TEST(c.clock_drift == 0.1);
    BOOST_TEST((c.connect_timeout == 1s && c.max_backoff == 1s));
    BOOST_TEST(c.server_name() == "redis://127.0.0.1:6379");
}

BOOST_AUTO_TEST_CASE(a_url_can_set_every_option)
{
    const config c(
        "rediss://us%2Fer:pa%3As%40s@db.example:6380/5?lease=10s&claim_lease=2s&idle_time=0s"
        "&renew_fraction=0.25&loss_margin=20ms&grace=10s&health_check=1s&connect_timeout=3s"
        "&max_backoff=2s&prefix=shop%3a1&client_name=till&ca_file=%2Fetc%2Fca.pem&verify=no"
        "&cert_file=%2Fetc%2Ftill.pem&key_file=%2Fetc%2Ftill.key"
        "&tls_name=db.internal&clock_drift=0.001");
    BOOST_TEST((c.server == host_and_port("db.example", 6380)));
    BOOST_TEST(c.tls);
    BOOST_TEST(!c.tls_verify);
    BOOST_TEST(c.tls_ca_file == "/etc/ca.pem");
    BOOST_TEST(c.tls_name == "db.internal");
    BOOST_TEST(c.tls_cert_file == "/etc/till.pem");
    BOOST_TEST(c.tls_key_file == "/etc/till.key");
    BOOST_TEST(c.username == "us/er");
    BOOST_TEST(c.password == "pa:s@s");
    BOOST_TEST(c.database == 5);
    BOOST_TEST(c.prefix == "shop:1");
    BOOST_TEST(c.client_name == "till");
    BOOST_TEST((c.lease == 10s && c.claim_lease == 2s && c.idle_time == 0s));
    BOOST_TEST((c.loss_margin == 20ms && c.grace == 10s && c.health_check == 1s));
    BOOST_TEST((c.connect_timeout == 3s && c.max_backoff == 2s));
    BOOST_TEST(c.renew_fraction == 0.25);
    BOOST_TEST(c.clock_drift == 0.001);
    BOOST_TEST(c.server_name() == "rediss://db.example:6380");
}

BOOST_AUTO_TEST_CASE(claim_lease_and_health_check_follow_from_a_short_lease)
{
    const config brief("redis://h?lease=1s");
    BOOST_TEST((brief.lease == 1s));
    BOOST_TEST((brief.effective_claim_lease() == 1s));
    BOOST_TEST((brief.effective_health_check() == 250ms));

    config shortest;
    shortest.lease = 100ms;
    BOOST_TEST(rule_broken_by(shortest) == "none");
    BOOST_TEST((shortest.effective_claim_lease() == 100ms));
    BOOST_TEST((shortest.effective_health_check() == 25ms));

    // The derived values do not grow with a longer lease.
    const config patient("redis://h?lease=1h");
    BOOST_TEST(
        (patient.effective_claim_lease() == 4s && patient.effective_health_check() == 500ms));

    // An explicit value is checked against the lease, but never adapted to it.
    BOOST_TEST(refusal_of("redis://h?lease=1s&claim_lease=2s") ==
               "claim_lease=2000ms: must be at most the lease, 1000ms");
    BOOST_TEST(refusal_of("redis://h?lease=1s&health_check=500ms") ==
               "health_check=500ms: must be at most a third of the lease, 1000ms");
}

BOOST_AUTO_TEST_CASE(the_last_option_of_a_name_counts)
{
    const config c("redis://u:a@h/1?lease=1s&lease=2s&user=v&password=b&db=2");
    BOOST_TEST((c.lease == 2s));
    BOOST_TEST(c.username == "v");
    BOOST_TEST(c.password == "b");
    BOOST_TEST(c.database == 2);
}

BOOST_AUTO_TEST_CASE(parts_may_be_absent)
{
    BOOST_TEST((config("redis://h").server == host_and_port("h", 6379)));
    BOOST_TEST((config("redis://h/").database == 0));
    BOOST_TEST((config("redis://h:1?").server == host_and_port("h", 1)));
    BOOST_TEST((config("redis://:secret@h").username.empty()));
    BOOST_TEST(config("redis://:secret@h").password == "secret");
    BOOST_TEST(config("redis://user@h").username == "user");
    BOOST_TEST(config("redis://u:a@b@h").password == "a@b");
    BOOST_TEST(config("redis://u:a:b@h").password == "a:b");
    BOOST_TEST(config("redis://h?user=u&password=p").password == "p");
}

BOOST_AUTO_TEST_CASE(addresses_of_ipv6)
{
    BOOST_TEST((config("redis://[::1]").server == host_and_port("::1", 6379)));
    BOOST_TEST((config("redis://u:p@[::1]:7/2").server == host_and_port("::1", 7)));
    BOOST_TEST(config("redis://[::1]:7").server_name() == "redis://[::1]:7");
}

BOOST_AUTO_TEST_CASE(a_unix_socket)
{
    const config c("unix:///run/my%20redis.sock?db=1");
    BOOST_TEST(c.unix_socket == "/run/my redis.sock");
    BOOST_TEST(c.database == 1);
    BOOST_TEST(c.server_name() == "unix:///run/my redis.sock");

    const config d("unix://user:p%2Fw@/run/a@b");
    BOOST_TEST(d.unix_socket == "/run/a@b");
    BOOST_TEST(d.username == "user");
    BOOST_TEST(d.password == "p/w");
}

BOOST_AUTO_TEST_CASE(sentinels)
{
    const config c("redis+sentinel://user:pw@s1,s2:7,[::1]:8/the%2Dmaster/3?sentinel_password=sp");
    BOOST_TEST((c.sentinels == std::vector<host_and_port>{{"s1", 26379}, {"s2", 7}, {"::1", 8}}));
    BOOST_TEST(c.master_name == "the-master");
    BOOST_TEST(c.database == 3);
    BOOST_TEST(c.username == "user");
    BOOST_TEST(c.sentinel_password == "sp");
    BOOST_TEST(c.server_name() == "redis+sentinel://s1:26379,s2:7,[::1]:8/the-master");
}

BOOST_AUTO_TEST_CASE(options_set_in_code_are_checked_too)
{
    config c;
    c.unix_socket = "/run/redis.sock";
    c.tls = true;
    BOOST_TEST(rule_broken_by(c) ==
               "unix_socket=/run/redis.sock: there is no TLS over a unix socket");
    c.tls = false;
    c.sentinels.emplace_back("h", 1);
    BOOST_TEST(rule_broken_by(c) == "unix_socket=/run/redis.sock: cannot go with sentinels");
    c.sentinels.clear();
    c.unix_socket.assign(108, 'x');
    BOOST_TEST(rule_broken_by(c).ends_with("must have at most 107 bytes"));
    c.unix_socket.clear();
    c.server.port = 0;
    BOOST_TEST(rule_broken_by(c) == "port=0: must be between 1 and 65535");
    c.server.port = 1;
    c.database = -1;
    BOOST_TEST(rule_broken_by(c) == "db=-1: must be between 0 and 1000000");
    BOOST_CHECK_THROW(c.validate(), redis_error);
    c.database = 0;
    c.loss_margin = std::chrono::milliseconds::max();
    BOOST_TEST(
        rule_broken_by(c).ends_with("must be between 1ms and half of the claim lease, 4000ms"));
}

BOOST_AUTO_TEST_CASE(the_environment)
{
    // The environment may be changed because the test has only one thread.
    ::unsetenv("TURNSTILE_REDIS_URL");  // NOLINT(concurrency-mt-unsafe)
    BOOST_TEST((config::from_environment().server == host_and_port()));
    BOOST_TEST(config::from_environment().notice == "TURNSTILE_REDIS_URL is not set");
    ::setenv("TURNSTILE_REDIS_URL", "redis://there:1", 1);  // NOLINT(concurrency-mt-unsafe)
    BOOST_TEST((config::from_environment().server == host_and_port("there", 1)));
    BOOST_TEST(config::from_environment().notice == "");
    ::setenv("TURNSTILE_REDIS_URL", "nonsense", 1);  // NOLINT(concurrency-mt-unsafe)
    BOOST_CHECK_EXCEPTION(static_cast<void>(config::from_environment()), redis_error,
                          [](const redis_error& error)
                          {
                              return std::string_view(error.what())
                                         .starts_with("TURNSTILE_REDIS_URL: the URL must begin ") &&
                                     error.code() == errc::invalid_config;
                          });
    ::setenv("TURNSTILE_REDIS_URL", "", 1);  // NOLINT(concurrency-mt-unsafe)
    BOOST_TEST((config::from_environment().server == host_and_port()));
    BOOST_TEST(config::from_environment().notice == "TURNSTILE_REDIS_URL is empty");
}

BOOST_AUTO_TEST_CASE(no_text_of_an_error_shows_the_password)
{
    for (const std::string url :
         {"redis://u:s3cr3t@h:x", "redis://u:s3cr3t@", "redis://u:s3/cr3t@h", "redis://u:s3?cr3t@h",
          "redis://u:%s3cr3t@h", "rediss://u:s3cr3t@h/x", "redis://h?password=s3cr3t&lease=x",
          "redis://h?password=%s3cr3t", "unix://u:s3cr3t@path", "unix://u:s3/cr3t@/path",
          "redis+sentinel://u:s3cr3t@a", "redis://h?sentinel_password=s3cr3t&x=1", "u:s3cr3t@h",
          "redis://u:a@b/s3cr3t@h", "redis+sentinel://u:a@b/s3cr3t@h",
          "redis://u:a@b?s3cr3t@h?lease=1s",
          // The host was forgotten.
          "redis://:s3cr3t", "redis://u:s3cr3t", "redis://u:s3cr3t/1", "redis://u:12?s3cr3t",
          "redis:/u:s3://cr3t@h",
          // The & was not encoded.
          "redis://h?password=a&s3cr3t", "redis://h?password=a&s3cr3t=1",
          "redis://h?password=a&db=s3cr3t", "redis://h?password=a&lease=s3cr3t",
          "redis://h?password=a&verify=s3cr3t", "redis://h?password=a&prefix={s3cr3t",
          "redis://h?password=a&s3cr3t=%", "redis://h?sentinel_password=a&lease=1s&s3cr3t",
          "http://u:s3cr3t@h"})
    {
        const std::string text = refusal_of(url);
        BOOST_TEST_CONTEXT(url << ": " << text)
        {
            BOOST_TEST(text != "accepted");
            BOOST_TEST(text.find("s3") == std::string::npos);
            BOOST_TEST(text.find("cr3t") == std::string::npos);
        }
    }
}

// An exception in the log would end the session.
BOOST_AUTO_TEST_CASE(a_line_that_cannot_be_written_to_stderr_is_dropped)
{
    const int kept = ::dup(STDERR_FILENO);
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    BOOST_REQUIRE(kept >= 0);
    BOOST_REQUIRE(full >= 0);
    BOOST_REQUIRE(::dup2(full, STDERR_FILENO) >= 0);
    BOOST_CHECK_NO_THROW(
        turnstile::redis::log_to_stderr(turnstile::redis::log_level::error, "text"));
    ::dup2(kept, STDERR_FILENO);
    ::close(full);
    ::close(kept);
}

BOOST_AUTO_TEST_CASE(codes_have_texts_and_kinds)
{
    using turnstile::redis::error_kind;
    for (int value = 1; value <= 17; ++value)
    {
        const turnstile::error_code code(value, turnstile::redis::redis_category());
        BOOST_TEST(code.message().find("unknown turnstile") == std::string::npos);
    }
    const turnstile::error_code beyond(18, turnstile::redis::redis_category());
    BOOST_TEST(beyond.message() == "unknown turnstile.redis error 18");
    BOOST_TEST((turnstile::error_code(errc::unreachable) == error_kind::temporary));
    BOOST_TEST((turnstile::error_code(errc::unreachable) != error_kind::configuration));
    for (const errc each :
         {errc::invalid_config, errc::wrong_credentials, errc::missing_permission,
          errc::foreign_layout, errc::unsupported_server, errc::untrusted_certificate})
        BOOST_TEST((turnstile::error_code(each) == error_kind::configuration));
    BOOST_TEST((turnstile::error_code(errc::wrong_type) != error_kind::temporary));
    // An event has another layout with the other event_reset.
    BOOST_TEST(turnstile::error_code(errc::foreign_layout).message().find("event_reset") !=
               std::string::npos);
    BOOST_TEST(std::string(turnstile::redis::redis_category().name()) == "turnstile.redis");
    BOOST_TEST(redis_error(errc::wrong_type, "text").what() == std::string("text"));
}
