// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_BENCH_REDIS_CONSTRUCTS_HPP
#define TURNSTILE_BENCH_REDIS_CONSTRUCTS_HPP

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/redis/ignore.hpp>
#include <boost/redis/request.hpp>
#include <boost/redis/response.hpp>
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "redis_world.hpp"

// Readers and writers as in an article of 2014 ("Synchronization Constructs with Node + Redis"). It uses single
// constructs: a lock and two conditions, with one script per operation, and two shared variables, with one
// command per access. This is a reimplementation after the article's text, on the same Boost.Redis connection
// class as Turnstile. Where the article leaves a choice, the faster one was taken: scripts are called by their
// hash, one connection serves commands and messages, and a process has one channel, since it waits for one
// construct at a time.

namespace bench {

enum class role
{
    reader,
    writer,
};

/// The address by which processes reach the server.
struct route
{
    std::string_view name;
    std::uint16_t port;

    [[nodiscard]] std::string url() const { return fmt::format("redis://127.0.0.1:{}", port); }
};

/// Loads the scripts of the constructs into the server, and holds their hashes.
struct construct_scripts
{
    explicit construct_scripts(world& w)
    {
        // A lock is a number, 1 if it is free, and a list of the waiters' channels in FIFO order.
        acquire = load(w, R"(#!lua
local free = redis.call('GET', KEYS[1]) == '1'
if free then redis.call('DECR', KEYS[1]) else redis.call('RPUSH', KEYS[2], ARGV[1]) end
return free and 1 or 0)");
        // 0 means that no client received the message: then the next waiter has to be notified.
        release = load(w, R"(#!lua
local first = redis.call('LPOP', KEYS[2])
if first then return redis.call('PUBLISH', first, '') end
redis.call('SET', KEYS[1], 1)
return 1)");
        // A condition is a list of channels.
        wait = load(w, "#!lua\nredis.call('RPUSH', KEYS[1], ARGV[1]) return 1");
        signal = load(w, R"(#!lua
local first = redis.call('LPOP', KEYS[1])
return first and redis.call('PUBLISH', first, '') or 1)");
        notify_all = load(w, R"(#!lua
for _, each in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do redis.call('PUBLISH', each, '') end
redis.call('DEL', KEYS[1])
return 1)");
    }

    std::string acquire;
    std::string release;
    std::string wait;
    std::string signal;
    std::string notify_all;

private:
    static std::string load(world& w, std::string_view text)
    {
        std::string sha;
        w.run([&]() -> asio::awaitable<void>
              { sha = (co_await w.bare.send(world::words("SCRIPT", "LOAD", text))).at(0); });
        return sha;
    }
};

/// A process that builds a monitor from single constructs.
class construct_process
{
public:
    static constexpr std::string_view name = "article";

    construct_process(world& w, const route& to, int number, const construct_scripts& scripts)
        : connection_(w.context, to.port)
        , channel_(fmt::format("article:{}", number))
        , acquire_(script(scripts.acquire, {"2", lock_key, lock_queue, channel_}))
        , release_(script(scripts.release, {"2", lock_key, lock_queue}))
        , wait_to_read_(script(scripts.wait, {"1", readers_queue, channel_}))
        , wait_to_write_(script(scripts.wait, {"1", writers_queue, channel_}))
        , signal_writer_(script(scripts.signal, {"1", writers_queue}))
        , signal_readers_(script(scripts.notify_all, {"1", readers_queue}))
        , get_readers_(connection_, {"HGET", variables_key, "readers"})
        , get_writers_(connection_, {"HGET", variables_key, "writers"})
        , add_reader_(connection_, {"HINCRBY", variables_key, "readers", "1"})
        , add_writer_(connection_, {"HINCRBY", variables_key, "writers", "1"})
        , remove_reader_(connection_, {"HINCRBY", variables_key, "readers", "-1"})
        , remove_writer_(connection_, {"HINCRBY", variables_key, "writers", "-1"})
    {
    }

    /// The commands that clients send: scripts, and accesses to the variables. The variables are in a hash,
    /// because the server's statistics then separate these accesses from commands that scripts call.
    static constexpr std::array<const char*, 3> commands{"evalsha", "hget", "hincrby"};

    asio::awaitable<void> open()
    {
        connection_.get().set_receive_response(messages_);
        co_await connection_.send(world::words("SET", lock_key, "1"));
        co_await connection_.send(
            world::words("HSET", variables_key, "readers", "0", "writers", "0"));
        connection_.set_no_delay();
        boost::redis::request request;
        request.push("SUBSCRIBE", channel_);
        co_await connection_.get().async_exec(request, boost::redis::ignore, asio::deferred);
        // The message that confirms the subscription.
        co_await hear();
    }

    asio::awaitable<void> enter(role as)
    {
        return as == role::reader ? enter_to_read() : enter_to_write();
    }

    asio::awaitable<void> leave(role as)
    {
        return as == role::reader ? leave_after_reading() : leave_after_writing();
    }

private:
    static constexpr const char* lock_key = "article:lock";
    static constexpr const char* lock_queue = "article:lock:queue";
    static constexpr const char* readers_queue = "article:ok_to_read:queue";
    static constexpr const char* writers_queue = "article:ok_to_write:queue";
    static constexpr const char* variables_key = "article:variables";

    raw_command script(const std::string& sha, std::vector<std::string> arguments)
    {
        arguments.insert(arguments.begin(), {"EVALSHA", sha});
        return {connection_, std::move(arguments)};
    }

    asio::awaitable<void> enter_to_read()
    {
        co_await lock();
        bool may_read = co_await is_zero(get_writers_);
        while (!may_read)
        {
            co_await wait(wait_to_read_);
            co_await lock();
            may_read = co_await is_zero(get_writers_);
        }
        co_await add_reader_.send();
        co_await send_until_received(release_);
    }

    asio::awaitable<void> leave_after_reading()
    {
        co_await lock();
        const bool was_last = co_await is_zero(remove_reader_);
        if (was_last)
            co_await send_until_received(signal_writer_);
        co_await send_until_received(release_);
    }

    asio::awaitable<void> enter_to_write()
    {
        co_await lock();
        bool may_write = co_await is_empty();
        while (!may_write)
        {
            co_await wait(wait_to_write_);
            co_await lock();
            may_write = co_await is_empty();
        }
        co_await add_writer_.send();
        co_await send_until_received(release_);
    }

    asio::awaitable<void> leave_after_writing()
    {
        co_await lock();
        co_await remove_writer_.send();
        co_await send_until_received(signal_writer_);
        co_await send_until_received(signal_readers_);
        co_await send_until_received(release_);
    }

    asio::awaitable<void> lock()
    {
        const bool must_wait = co_await is_zero(acquire_);
        if (must_wait)
            co_await hear();
    }

    /// Enqueues at a condition, and then releases the lock.
    asio::awaitable<void> wait(raw_command& queue_up)
    {
        co_await queue_up.send();
        co_await send_until_received(release_);
        co_await hear();
    }

    /// Repeats the command until a waiter received the message, or the queue is empty.
    static asio::awaitable<void> send_until_received(raw_command& command)
    {
        bool is_unheard = true;
        while (is_unheard)
            is_unheard = co_await is_zero(command);
    }

    /// Waits for a message. Each enqueueing causes exactly one, and the process waits for it before it
    /// enqueues again.
    asio::awaitable<void> hear()
    {
        co_await connection_.get().async_receive2(asio::deferred);
        messages_.value().clear();
    }

    /// Whether there is neither a reader nor a writer.
    asio::awaitable<bool> is_empty()
    {
        bool result = co_await is_zero(get_readers_);
        if (result)
            result = co_await is_zero(get_writers_);
        co_return result;
    }

    static asio::awaitable<bool> is_zero(raw_command& command)
    {
        co_await command.send();
        co_return command.answer(0) == "0";
    }

    boost::redis::generic_flat_response messages_;
    bare_connection connection_;
    std::string channel_;
    raw_command acquire_;
    raw_command release_;
    raw_command wait_to_read_;
    raw_command wait_to_write_;
    raw_command signal_writer_;
    raw_command signal_readers_;
    raw_command get_readers_;
    raw_command get_writers_;
    raw_command add_reader_;
    raw_command add_writer_;
    raw_command remove_reader_;
    raw_command remove_writer_;
};

}  // namespace bench

#endif
