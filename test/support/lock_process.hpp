// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_LOCK_PROCESS_HPP
#define TURNSTILE_TEST_SUPPORT_LOCK_PROCESS_HPP

#include <string>
#include <support/redis_server.hpp>
#include <sys/types.h>
#include <vector>

namespace turnstile::test {

/**
 * @brief A process with a session of its own, which does what it is told, and can be killed and stopped.
 *
 * What it understands, and says:
 *
 *     lock NAME      held NAME FENCE      when it has got it; failed NAME TEXT
 *     unlock NAME    released NAME ok     or the text of the error
 *     write NAME     accepted NAME        by the register of that name, see write_register()
 *                    refused NAME         because of a higher fencing token
 *     valid NAME     valid NAME yes       what the guard says; or no
 *                    lost NAME            when a lock is lost
 *
 * Of a semaphore, which has CAPACITY units if it does not exist yet (NAME stands for one thing only):
 *
 *     acquire NAME CAPACITY UNITS    as lock
 *                                    (what it holds already it keeps, and unlock gives the latest back)
 *     take NAME CAPACITY UNITS       taken NAME ok
 *     take_sticky NAME CAPACITY UNITS    likewise
 *     add NAME CAPACITY UNITS        added NAME ok
 *
 * Of a shared mutex, all as lock:
 *
 *     lock_exclusive NAME
 *     lock_shared NAME
 *     lock_upgrade NAME
 *     upgrade NAME                   what is held, to be exclusive
 *
 * Of a monitor, whose state is a reading_room:
 *
 *     enter NAME     entered NAME ok      a section has contributed a reader
 *     counts NAME    counts NAME yes      what the contribution says; or no
 *     leave NAME     left NAME yes        a section has taken it back; or no
 *                    gone NAME            when the contribution is lost
 *
 * At any time:
 *
 *                    log TEXT             what the session logs
 */
class lock_process
{
public:
    /// Its session has the settings of the URL; its writes go to the server directly.
    lock_process(const redis_server& server, const std::string& url);
    lock_process(const lock_process&) = delete;
    lock_process& operator=(const lock_process&) = delete;
    /// Kills it.
    ~lock_process();

    [[nodiscard]] pid_t pid() const { return pid_; }

    /// Tells it a line.
    void tell(const std::string& line) const;
    /// Waits for a line that begins with a text, takes it out, and returns what follows the text. A test
    /// that waits too long fails with an exception.
    std::string hear(const std::string& beginning);
    /// Whether such a line has come. It stays.
    [[nodiscard]] bool has_said(const std::string& beginning);
    /// Both at once.
    std::string ask(const std::string& line, const std::string& beginning);

    /// SIGKILL, and waits for its end; whether the signal was what ended it.
    bool kill();
    /// SIGSTOP, and waits until it does not run; whether it is so.
    [[nodiscard]] bool stop() const;
    /// SIGCONT.
    void go_on() const;

private:
    void read(int timeout);
    /// What nobody has heard yet, in lines.
    [[nodiscard]] std::string said() const;
    [[nodiscard]] std::vector<std::string>::iterator find(const std::string& beginning);

    pid_t pid_ = 0;
    int socket_ = -1;
    std::string rest_;
    std::vector<std::string> lines_;
    bool has_ended_ = false;
};

/// Writes to a register in the server that remembers the highest fencing token, and refuses lower ones.
/// Whether it was accepted.
bool write_register(const redis_server& server, const std::string& name, std::uint64_t fence);

/// The same for a process that was told where the server is.
bool write_register(const std::filesystem::path& unix_socket, const std::string& name,
                    std::uint64_t fence);

}  // namespace turnstile::test

#endif
