// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#include "contract.hpp"

#include "service/server_process.hpp"
#include "support/redis_server.hpp"
#include "support/undisturbed_url.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace turnstile::test::contract {

namespace {

/// An environment variable; empty if it is not set.
std::string variable(const char* name)
{
    // No thread changes the environment meanwhile.
    const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr ? "" : value;
}

/// The method, target and status of each answer that a test has received.
class answer_log
{
public:
    answer_log()
    {
        http_client::observer =
            [this](const std::string& method, const std::string& target, int status)
        {
            const std::scoped_lock lock(mutex_);
            all_.emplace(method, target, status);
        };
    }

    [[nodiscard]] const auto& all() const noexcept { return all_; }

private:
    std::mutex mutex_;
    std::set<std::tuple<std::string, std::string, int>> all_;
};

answer_log seen;

}  // namespace

bool is_over_redis()
{
    return variable("TURNSTILE_SERVICE_BACKEND") == "redis";
}

std::int64_t largest_value()
{
    return is_over_redis() ? 268'435'455 : 9'007'199'254'740'991;
}

const std::set<std::tuple<std::string, std::string, int>>& answers_seen()
{
    return seen.all();
}

const site& server()
{
    static std::unique_ptr<redis_server> redis;
    static std::unique_ptr<server_process> own;
    static const site address = []
    {
        const std::string text = variable("TURNSTILE_SERVICE_URL");
        if (text.empty())
        {
            // The tests are not about time: a slow machine must not end their connections.
            std::vector<std::string> options{"--request-timeout", "600", "--idle-timeout", "600"};
            if (is_over_redis())
            {
                redis = std::make_unique<redis_server>();
                options.insert(options.end(), {"--redis", undisturbed_url(redis->url())});
            }
            own = std::make_unique<server_process>(options);
            return own->address();
        }
        const std::size_t host = text.find("//") + 2;
        const std::size_t colon = text.find(':', host);
        const std::size_t end = std::min(text.find('/', host), text.size());
        return site{text.substr(host, colon - host), text.substr(colon + 1, end - colon - 1)};
    }();
    return address;
}

std::string new_name()
{
    static const std::string run = std::to_string(std::random_device()());
    static int last = 0;
    return "test-" + run + '-' + std::to_string(++last) + '-';
}

std::string named(const std::string& name, const std::string& more)
{
    return "{\"name\":\"" + name + '"' + (more.empty() ? "" : ',' + more) + '}';
}

std::string state(const std::string& name, const std::string& value)
{
    return "{\"name\":\"" + name + "\",\"value\":" + value + '}';
}

http_answer post(const std::string& target, const std::string& body)
{
    return ask(server(), "POST", target, body);
}

std::string created(const std::string& value)
{
    const std::string name = new_name();
    BOOST_TEST_REQUIRE(post("/semaphore", named(name, "\"value\":" + value)).status == 200);
    return name;
}

http_answer value_of(const std::string& name)
{
    return ask(server(), "GET", "/semaphore/value/" + name);
}

void check(const http_answer& answer, int status, const std::string& body)
{
    BOOST_TEST(answer.status == status);
    BOOST_TEST(answer.body == body);
}

http_client waiting(const std::string& name, std::size_t waiters, const std::string& more)
{
    http_client client(server());
    client.send(request_text("POST", "/semaphore/down", named(name, "\"wait\":600" + more)));
    const std::string expected = "\"waiters\":" + std::to_string(waiters) + ',';
    const std::string target = "/semaphore?limit=1&after=" + name.substr(0, name.size() - 1);
    while (ask(server(), "GET", target).body.find(expected) == std::string::npos)
        std::this_thread::yield();
    return client;
}

std::string permit_of(const http_answer& answer)
{
    const std::string key = "\"permit\":\"";
    const std::size_t start = answer.body.find(key);
    BOOST_TEST_REQUIRE(start != std::string::npos);
    return answer.body.substr(start + key.size(),
                              answer.body.find('"', start + key.size()) - start - key.size());
}

}  // namespace turnstile::test::contract
