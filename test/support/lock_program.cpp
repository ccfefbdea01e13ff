// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The program that a lock_process runs.
//
//     lock_program URL SOCKET
//
// The session goes to the URL; what is written, to the server with the unix socket.

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <support/lock_process.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <unistd.h>
#include <utility>

namespace {

namespace asio = boost::asio;
namespace redis = turnstile::redis;

void say(const std::string& line)
{
    std::cout << line << std::endl;
}

class program
{
public:
    program(const std::string& url, std::string server)
        : server_(std::move(server))
        , session_(context_, redis::config(url))
        , input_(context_, ::dup(STDIN_FILENO))
    {
    }

    void run()
    {
        await_ready();
        context_.run();
    }

private:
    struct section
    {
        section(redis::session& session, const std::string& name)
            : mutex(session, name)
        {
        }

        redis::async_mutex mutex;
        redis::async_mutex::guard_type guard;
        // Remembered after the guard is gone.
        std::uint64_t fence = 0;
    };

    /// An attempt to connect may fail; the next one follows.
    void await_ready()
    {
        session_.async_ready(
            [this](const turnstile::error_code& error)
            {
                if (error)
                    return await_ready();
                say("ready");
                read();
            });
    }

    void read()
    {
        asio::async_read_until(input_, asio::dynamic_buffer(buffer_), '\n',
                               [this](const turnstile::error_code& error, std::size_t size)
                               {
                                   if (error)
                                       return context_.stop();
                                   std::istringstream line(buffer_.substr(0, size));
                                   buffer_.erase(0, size);
                                   obey(line);
                                   read();
                               });
    }

    section& section_of(const std::string& name)
    {
        auto& found = sections_[name];
        if (!found)
            found = std::make_unique<section>(session_, name);
        return *found;
    }

    void obey(std::istream& line)
    {
        std::string verb;
        std::string name;
        line >> verb >> name;
        section& s = section_of(name);
        if (verb == "lock")
            lock(s);
        else if (verb == "unlock")
            s.guard.async_unlock(
                [name](const turnstile::error_code& error)
                { say("released " + name + ' ' + (error ? error.message() : "ok")); });
        else if (verb == "write")
            say((turnstile::test::write_register(server_, name, s.fence) ? "accepted "
                                                                         : "refused ") +
                name);
        else if (verb == "valid")
            say("valid " + name + (s.guard.valid() ? " yes" : " no"));
        else
            say("what? " + verb);
    }

    static void lock(section& s)
    {
        s.mutex.async_lock(
            [&s](const turnstile::error_code& error, redis::async_mutex::guard_type guard)
            {
                const std::string& name = s.mutex.name();
                if (error)
                    return say("failed " + name + ' ' + error.message());
                s.guard = std::move(guard);
                s.fence = s.guard.fencing_token();
                s.guard.lost().assign([name](asio::cancellation_type) { say("lost " + name); });
                say("held " + name + ' ' + std::to_string(s.fence));
            });
    }

    std::string server_;
    asio::io_context context_{1};
    redis::session session_;
    asio::posix::stream_descriptor input_;
    std::string buffer_;
    std::map<std::string, std::unique_ptr<section>> sections_;
};

}  // namespace

int main(int argc, char** argv)
try
{
    if (argc != 3)
    {
        std::cerr << "lock_program URL SOCKET\n";
        return 2;
    }
    program(argv[1], argv[2]).run();
}
catch (const std::exception& error)
{
    say(std::string("failed: ") + error.what());
    return 1;
}
