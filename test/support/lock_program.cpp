// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The program of a lock_process.
//
//     lock_program URL SOCKET
//
// The session connects to the URL. Writes go to the server with the unix socket.

#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <support/any_guard.hpp>
#include <support/lock_process.hpp>
#include <support/reading_room.hpp>
#include <turnstile/redis/async_mutex.hpp>
#include <turnstile/redis/async_semaphore.hpp>
#include <turnstile/redis/monitor.hpp>
#include <turnstile/redis/shared_mutex.hpp>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

namespace asio = boost::asio;
namespace redis = turnstile::redis;

void say(const std::string& line)
{
    std::cout << line << std::endl;
}

/// A monitor, and the contribution of this process as a reader.
class reader
{
public:
    using monitor_type = redis::monitor<turnstile::test::reading_room>;
    using section_type = monitor_type::section;

    reader(redis::session& session, const std::string& name)
        : name_(name)
        , monitor_(session, name)
        , gone_(monitor_.make_condition(turnstile::test::reader_gone))
    {
    }

    void enter()
    {
        const auto body = [this](section_type& section)
        {
            ++section->visits;
            mine_ = section.contribute(&turnstile::test::reading_room::readers, 1, gone_);
        };
        monitor_.async_with(body,
                            [this](const std::exception_ptr& error)
                            {
                                // A critical section that never began has contributed nothing.
                                if (auto slot = mine_.lost(); slot.is_connected())
                                    slot.assign([this](asio::cancellation_type)
                                                { say("gone " + name_); });
                                say("entered " + name_ + (error ? " failed" : " ok"));
                            });
    }

    void leave()
    {
        monitor_.async_with(
            [this](section_type& section)
            {
                const bool is_back = section.withdraw(mine_);
                section.notify_all(gone_);
                return is_back;
            },
            [this](const std::exception_ptr& error, bool is_back)
            {
                say("left " + name_ + (error ? " failed" : is_back ? " yes" : " no"));
            });
    }

    void report() const { say("counts " + name_ + (mine_.valid() ? " yes" : " no")); }

private:
    std::string name_;
    monitor_type monitor_;
    monitor_type::condition_type gone_;
    monitor_type::contribution_type mine_;
};

class program
{
public:
    program(const std::string& url, std::string server)
        : server_(std::move(server))
        , session_(context_, with_log(url))
        , input_(context_, ::dup(STDIN_FILENO))
    {
    }

    void run()
    {
        await_ready();
        context_.run();
    }

private:
    /// The log shows why a test waits in vain.
    static redis::config with_log(const std::string& url)
    {
        redis::config settings(url);
        settings.logger = [](redis::log_level level, std::string_view text)
        {
            if (level != redis::log_level::debug)
                say("log " + std::string(text));
        };
        return settings;
    }

    /// The object with a name. The first command with that name creates it.
    struct section
    {
        explicit section(std::string what)
            : name(std::move(what))
        {
        }

        std::string name;
        std::unique_ptr<redis::async_mutex> mutex;
        std::unique_ptr<redis::shared_mutex> shared_mutex;
        std::unique_ptr<redis::async_semaphore> semaphore;
        std::unique_ptr<reader> visitor;
        turnstile::test::any_guard guard;
        // Earlier guards, which are held as well.
        std::vector<turnstile::test::any_guard> others;
        // Kept after the guard is destroyed.
        std::uint64_t fence = 0;
    };

    /// An attempt to connect may fail, and the next one follows.
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
            found = std::make_unique<section>(name);
        return *found;
    }

    redis::shared_mutex& shared_mutex_of(section& s)
    {
        if (!s.shared_mutex)
            s.shared_mutex = std::make_unique<redis::shared_mutex>(session_, s.name);
        return *s.shared_mutex;
    }

    /// Reports the result of an operation.
    static auto reporting(const std::string& word, const section& s)
    {
        return [word, name = s.name](const turnstile::error_code& error)
        { say(word + ' ' + name + ' ' + (error ? error.message() : "ok")); };
    }

    /// Keeps a guard, and reports it.
    static auto holding(section& s)
    {
        return [&s](const turnstile::error_code& error, auto guard)
        {
            if (error)
                return say("failed " + s.name + ' ' + error.message());
            s.others.push_back(
                std::exchange(s.guard, turnstile::test::any_guard(std::move(guard))));
            s.fence = s.guard.fence();
            s.guard.lost().assign([name = s.name](asio::cancellation_type)
                                  { say("lost " + name); });
            say("held " + s.name + ' ' + std::to_string(s.fence));
        };
    }

    void obey(std::istream& line)
    {
        std::string verb;
        std::string name;
        line >> verb >> name;
        section& s = section_of(name);
        if (verb == "unlock")
            s.guard.release(reporting("released", s));
        else if (verb == "write")
            say((turnstile::test::write_register(server_, name, s.fence) ? "accepted "
                                                                         : "refused ") +
                name);
        else if (verb == "valid")
            say("valid " + name + (s.guard.valid() ? " yes" : " no"));
        else if (verb == "acquire" || verb == "take" || verb == "add")
            obey_semaphore(verb, s, line);
        else if (verb == "enter" || verb == "leave" || verb == "counts")
            obey_reader(verb, s);
        else
            lock(verb, s);
    }

    void obey_reader(const std::string& verb, section& s)
    {
        if (!s.visitor)
            s.visitor = std::make_unique<reader>(session_, s.name);
        if (verb == "enter")
            s.visitor->enter();
        else if (verb == "leave")
            s.visitor->leave();
        else
            s.visitor->report();
    }

    void obey_semaphore(const std::string& verb, section& s, std::istream& line)
    {
        std::ptrdiff_t capacity = 0;
        std::ptrdiff_t units = 0;
        line >> capacity >> units;
        if (!s.semaphore)
            s.semaphore = std::make_unique<redis::async_semaphore>(session_, s.name, capacity);
        if (verb == "acquire")
            s.semaphore->async_acquire(units, holding(s));
        else if (verb == "take")
            s.semaphore->async_take(units, reporting("taken", s));
        else
            s.semaphore->async_release(units, reporting("added", s));
    }

    void lock(const std::string& verb, section& s)
    {
        if (verb == "lock")
        {
            if (!s.mutex)
                s.mutex = std::make_unique<redis::async_mutex>(session_, s.name);
            s.mutex->async_lock(holding(s));
        }
        else if (verb == "lock_shared")
            shared_mutex_of(s).async_lock_shared(holding(s));
        else if (verb == "lock_exclusive")
            shared_mutex_of(s).async_lock(holding(s));
        else if (verb == "lock_upgrade")
            shared_mutex_of(s).async_lock_upgrade(holding(s));
        else if (verb == "upgrade")
            shared_mutex_of(s).async_upgrade(s.guard.upgradable(), holding(s));
        else
            say("what? " + verb);
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
