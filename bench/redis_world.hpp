// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_BENCH_REDIS_WORLD_HPP
#define TURNSTILE_BENCH_REDIS_WORLD_HPP

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/consign.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/redis/connection.hpp>
#include <boost/redis/logger.hpp>
#include <boost/redis/response.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <fmt/format.h>
#include <initializer_list>
#include <map>
#include <memory>
#include <redis/protocol/names.hpp>
#include <redis/transport/scripts.hpp>
#include <sched.h>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <support/redis_server.hpp>
#include <system_error>
#include <turnstile/redis/async_mutex.hpp>
#include <utility>
#include <vector>

#include "harness.hpp"

// What the benchmarks of the Redis backend stand on: a server, connections to it with and without
// Turnstile, and the processors that they run on.

namespace bench {

namespace asio = boost::asio;
namespace redis = turnstile::redis;
namespace inside = turnstile::redis::detail;
using turnstile::test::redis_server;

using inside::script_named;

// --- processors ---------------------------------------------------------------------------------

/// Who runs where.
struct placement
{
    std::string name;
    int client;
    int server;
};

inline std::vector<int> own_processors()
{
    cpu_set_t set;
    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof set, &set);
    std::vector<int> result;
    for (int i = 0; i != CPU_SETSIZE; ++i)
        if (CPU_ISSET(i, &set))
            result.push_back(i);
    return result;
}

/// Lets a process, 0 for this one, run on one processor only; what it starts inherits that.
inline void pin(pid_t process, int processor)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(process, sizeof set, &set) != 0)
        throw std::system_error(errno, std::system_category(), "sched_setaffinity");
}

// --- what the server says of itself -------------------------------------------------------------

/// A look at the counters of a server.
class server_counters
{
public:
    explicit server_counters(const redis_server& server)
    {
        std::istringstream all(server.cli({"INFO", "everything"}));
        for (std::string line; std::getline(all, line);)
            if (const auto colon = line.find(':'); colon != std::string::npos)
                fields_[line.substr(0, colon)] = line.substr(colon + 1);
    }

    /// How often clients and scripts called a command.
    [[nodiscard]] double calls(const std::string& command) const
    {
        return part("cmdstat_" + command, "calls");
    }

    /// What the calls of a command took in the server, in microseconds.
    [[nodiscard]] double microseconds(const std::string& command) const
    {
        return part("cmdstat_" + command, "usec");
    }

    /// The processor time of the server, in nanoseconds.
    [[nodiscard]] double processor_time() const
    {
        return 1e9 * (number("used_cpu_user") + number("used_cpu_sys"));
    }

    /// The memory that the server uses, in bytes.
    [[nodiscard]] double memory() const { return number("used_memory"); }

    /// All commands that were called, with their numbers.
    [[nodiscard]] std::map<std::string, double> all_calls() const
    {
        static constexpr std::string_view prefix = "cmdstat_";
        std::map<std::string, double> result;
        for (const auto& [name, value] : fields_)
            if (name.starts_with(prefix))
                result[name.substr(prefix.size())] = part(name, "calls");
        return result;
    }

private:
    [[nodiscard]] double number(const std::string& field) const
    {
        return std::stod(fields_.at(field));
    }

    [[nodiscard]] double part(const std::string& field, const std::string& name) const
    {
        const auto found = fields_.find(field);
        if (found == fields_.end())
            return 0;
        const auto at = ("," + found->second).find("," + name + "=");
        return std::stod(found->second.substr(at + name.size() + 1));
    }

    std::map<std::string, std::string> fields_;
};

// --- without Turnstile --------------------------------------------------------------------------

inline void push(boost::redis::request& request, const std::vector<std::string>& words)
{
    // Of an empty range nothing would be sent, not even the command.
    if (words.size() == 1)
        request.push(words.front());
    else
        request.push_range(words.front(), words.begin() + 1, words.end());
}

/// A connection of Boost.Redis and nothing else.
class bare_connection
{
public:
    bare_connection(asio::io_context& context, std::uint16_t port)
        : connection_(std::make_shared<boost::redis::connection>(
              context, boost::redis::logger(boost::redis::logger::level::disabled)))
    {
        boost::redis::config settings;
        settings.addr.port = std::to_string(port);
        settings.read_buffer_append_size = 4096;
        connection_->async_run(settings, asio::consign(asio::detached, connection_));
    }

    bare_connection(const bare_connection&) = delete;
    bare_connection& operator=(const bare_connection&) = delete;
    ~bare_connection() { connection_->cancel(); }

    /// Makes the socket send at once, as a session does. For a connection that has answered before.
    void set_no_delay()
    {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        connection_->next_layer().next_layer().set_option(asio::ip::tcp::no_delay(true));
#pragma GCC diagnostic pop
    }

    /// Sends a command; the texts in the answer.
    asio::awaitable<std::vector<std::string>> send(std::vector<std::string> words)
    {
        boost::redis::request request;
        push(request, words);
        boost::redis::generic_flat_response response;
        co_await connection_->async_exec(request, response, asio::deferred);
        std::vector<std::string> result;
        for (const auto& node : response.value())
            if (!is_aggregate(node.data_type))
                result.emplace_back(node.value);
        co_return result;
    }

    boost::redis::connection& get() { return *connection_; }

private:
    std::shared_ptr<boost::redis::connection> connection_;
};

/// A command that is sent again and again, with as little effort as Boost.Redis allows.
class raw_command
{
public:
    raw_command(bare_connection& connection, std::vector<std::string> words)
        : connection_(&connection)
        , words_(std::move(words))
    {
    }

    asio::awaitable<void> send()
    {
        request_.clear();
        push(request_, words_);
        response_.value().clear();
        co_await connection_->get().async_exec(request_, response_, asio::deferred);
        // Throws what the server refused.
        if (response_.value().empty())
            throw std::runtime_error("no answer");
    }

    std::string& word(std::size_t i) { return words_[i]; }

    /// The i-th word of the answer, a text as our scripts return it.
    [[nodiscard]] std::string_view answer(std::size_t i)
    {
        std::string_view text = response_.value().front().value;
        for (; i != 0; --i)
            text.remove_prefix(std::min(text.find(' '), text.size() - 1) + 1);
        return text.substr(0, text.find(' '));
    }

private:
    bare_connection* connection_;
    std::vector<std::string> words_;
    boost::redis::request request_;
    boost::redis::generic_flat_response response_;
};

/// The commands of a lock, as the library sends them.
class raw_lock
{
public:
    raw_lock(bare_connection& connection, std::string_view name)
        : key_(inside::object_key("bench", "mutex", name))
        , acquire_(connection, acquire(id(0)))
        , release_(connection, release(id(0), "0"))
    {
    }

    /// Acquires and releases, which must be free, one after the other.
    asio::awaitable<void> pair()
    {
        const std::string name = id(++sequence_);
        acquire_.word(first_argument + 1) = name;
        co_await acquire_.send();
        if (acquire_.answer(0) != "own")
            throw std::runtime_error("a raw lock was not free");
        release_.word(first_argument + 1) = name;
        release_.word(first_argument + 2) = acquire_.answer(2);
        co_await release_.send();
        if (release_.answer(0) != "released")
            throw std::runtime_error("a raw lock was not released");
    }

    [[nodiscard]] std::vector<std::string> acquire(const std::string& id,
                                                   const char* lease = "15000",
                                                   const char* claim = "4000") const
    {
        return words("acquire", {id, "0", lease, claim, "60000", "0"});
    }

    [[nodiscard]] std::vector<std::string> release(const std::string& id,
                                                   const std::string& fence) const
    {
        return words("release",
                     {id, fence, inside::wake_name(nonce, 0) + ".0", "15000", "4000", "60000"});
    }

    [[nodiscard]] std::vector<std::string> cancel(const std::string& id) const
    {
        return words("cancel", {id, "600000", "600000", "60000", ""});
    }

    [[nodiscard]] std::vector<std::string> nudge() const
    {
        return words("nudge", {"", "600000", "600000", "60000", "", ""});
    }

    /// The id of a waiter; nobody listens to its channel, unless a benchmark does.
    [[nodiscard]] static std::string id(std::uint64_t sequence)
    {
        return inside::to_string({nonce, 0, sequence});
    }

    [[nodiscard]] static std::string channel()
    {
        return inside::wake_prefix("bench", 0) + inside::wake_name(nonce, 0);
    }

    [[nodiscard]] const std::string& key() const { return key_; }

private:
    static constexpr std::uint64_t nonce = 0x123456789ABCDEF0;
    /// EVALSHA, the script, the number of keys, the key.
    static constexpr std::size_t first_argument = 4;

    [[nodiscard]] std::vector<std::string> words(std::string_view script,
                                                 std::initializer_list<std::string> arguments) const
    {
        std::vector<std::string> result{"EVALSHA", std::string(script_named(script).sha1), "1",
                                        key_, inside::wake_prefix("bench", 0)};
        result.insert(result.end(), arguments);
        return result;
    }

    std::string key_;
    raw_command acquire_;
    raw_command release_;
    std::uint64_t sequence_ = 0;
};

/// The commands of a semaphore, as the library sends them.
class raw_pool
{
public:
    raw_pool(std::string_view name, int capacity)
        : key_(inside::object_key("bench", "semaphore", name))
        , capacity_(std::to_string(capacity))
    {
    }

    /// Of one unit.
    [[nodiscard]] std::vector<std::string> acquire(const std::string& id) const
    {
        return words("pool_acquire",
                     {id, "queue", "0", lease, lease, idle, capacity_, "0", "0", "1", "", ""});
    }

    [[nodiscard]] std::vector<std::string> renew(const std::string& id,
                                                 const std::string& fence) const
    {
        return words("pool_renew", {id, fence, "1", "0", lease, lease, idle, capacity_, "0"});
    }

    [[nodiscard]] std::vector<std::string> release(const std::string& id,
                                                   const std::string& fence) const
    {
        return words("pool_release",
                     {id, fence, "bench.0", lease, lease, idle, capacity_, "0", "0", ""});
    }

    [[nodiscard]] std::vector<std::string> cancel(const std::string& id) const
    {
        return words("pool_cancel", {id, lease, lease, idle, capacity_, "0", "0"});
    }

private:
    static constexpr const char* lease = "600000";
    static constexpr const char* idle = "60000";

    [[nodiscard]] std::vector<std::string> words(std::string_view script,
                                                 std::initializer_list<std::string> arguments) const
    {
        std::vector<std::string> result{"EVALSHA", std::string(script_named(script).sha1), "1",
                                        key_, inside::wake_prefix("bench", 0)};
        result.insert(result.end(), arguments);
        return result;
    }

    std::string key_;
    std::string capacity_;
};

// --- everything ---------------------------------------------------------------------------------

/// Connections to the server, with Turnstile and without, and who runs them: this thread.
class world
{
public:
    world(const redis_server& whose, placement where)
        : server(whose)
        , bare(context, server.port())
        , listener(context, server.port())
        , session(context, settings_of(server))
        , other(context, settings_of(server))
        , where_(std::move(where))
    {
        run(
            [this]() -> asio::awaitable<void>
            {
                co_await session.async_ready();
                co_await other.async_ready();
                for (const inside::script& each : inside::scripts())
                    co_await bare.send(words("SCRIPT", "LOAD", each.text));
                co_await listener.send(words("PING"));
                bare.set_no_delay();
                listener.set_no_delay();
            });
    }

    world(const world&) = delete;
    world& operator=(const world&) = delete;

    ~world()
    {
        // After a failure, suspended coroutines refer to destroyed objects, so they must not be resumed.
        if (has_failed_)
            return;
        run(
            [this]() -> asio::awaitable<void>
            {
                // Units that were not released do not affect the next world.
                co_await session.async_close(asio::as_tuple(asio::deferred));
                co_await other.async_close(asio::as_tuple(asio::deferred));
            });
    }

    /// Runs a coroutine to its end, while everything else goes on. The nanoseconds that it took.
    template <class Body>
    double run(Body&& body)
    {
        return run_all(1, [&](int) { return body(); });
    }

    /// The same with several at a time, each of which is made from its number.
    template <class Body>
    double run_all(int count, Body&& body)
    {
        std::exception_ptr failure;
        int left = count;
        const double begin = real_time();
        for (int i = 0; i != count; ++i)
            asio::co_spawn(context, body(i),
                           [&](const std::exception_ptr& error)
                           {
                               if (error)
                                   failure = error;
                               if (--left == 0 || error)
                                   context.stop();
                           });
        context.restart();
        context.run();
        if (failure)
        {
            has_failed_ = true;
            std::rethrow_exception(failure);
        }
        return real_time() - begin;
    }

    /// Loads a script into the server; its SHA-1.
    std::string loaded(std::string_view text)
    {
        std::string sha1;
        run([&]() -> asio::awaitable<void>
            { sha1 = (co_await bare.send(words("SCRIPT", "LOAD", text))).at(0); });
        return sha1;
    }

    /// The name of a case here.
    [[nodiscard]] std::string named(std::string_view what) const
    {
        return fmt::format("{}, {}", what, where_.name);
    }

    [[nodiscard]] bool server_is_apart() const { return where_.client != where_.server; }

    template <class... Words>
    static std::vector<std::string> words(const Words&... each)
    {
        return {std::string(each)...};
    }

    const redis_server& server;
    asio::io_context context{1};
    bare_connection bare;
    bare_connection listener;
    redis::session session;
    redis::session other;

    static redis::config settings_of(const redis_server& server)
    {
        return settings_of(server.url());
    }

    static redis::config settings_of(const std::string& url)
    {
        redis::config result{url};
        result.prefix = "bench";
        // A burst of ten thousand commands may take its time on a busy machine.
        result.health_check = std::chrono::seconds(5);
        return result;
    }

private:
    placement where_;
    bool has_failed_ = false;
};

inline asio::awaitable<void> pause(std::chrono::milliseconds duration)
{
    asio::steady_timer timer(co_await asio::this_coro::executor, duration);
    co_await timer.async_wait(asio::deferred);
}

// --- a whole benchmark --------------------------------------------------------------------------

/// The options of each benchmark over Redis.
struct common_options
{
    std::string json;
    bool strict = false;
    std::vector<std::string> parts;

    /// @param all the names of the parts.
    void add_to(CLI::App& app, const std::vector<std::string>& all)
    {
        app.add_option("--json", json, "Where the figures are written to");
        app.add_flag("--strict", strict, "Fail if a bar is missed");
        app.add_option("--only", parts, "The parts to be measured; all of them if none is named")
            ->check(CLI::IsMember(all));
    }

    [[nodiscard]] bool wants(std::string_view part) const
    {
        return parts.empty() || std::find(parts.begin(), parts.end(), part) != parts.end();
    }
};

/// A server, and what runs where.
struct site
{
    const redis_server& server;
    const placement& where;
    const common_options& options;

    /// Measures a part in a world of its own, if it is wanted.
    template <class Measure>
    void measure(std::string_view part, const Measure& what) const
    {
        if (!options.wants(part))
            return;
        world w{server, where};
        what(w);
        server.run({"FLUSHALL"});
    }
};

/// Measures with client and server on one processor, and on one each.
///
/// @param in_place `void(const site&, report&)`.
/// @return What the program ends with.
template <class InPlace>
int measure_everywhere(const common_options& o, const InPlace& in_place)
{
    const std::vector<int> processors = own_processors();
    report out;
    report::print_header();
    // Started before anything is pinned: it keeps threads for its own purposes.
    const redis_server server;
    const auto measure = [&](const placement& where)
    {
        pin(0, where.client);
        pin(server.pid(), where.server);
        in_place(site{server, where, o}, out);
    };
    measure({"one core", processors.front(), processors.front()});
    if (processors.size() > 1)
        measure({"two cores", processors.front(), processors.back()});
    else
        out.add_missing("all cases, two cores", "this process may use only one processor");
    if (!o.json.empty())
        out.write_json(o.json);
    fmt::print("{}\n", out.all_met() ? "all bars met" : "some bars missed");
    return o.strict && !out.all_met() ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace bench

#endif
