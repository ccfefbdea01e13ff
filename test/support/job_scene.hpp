// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_TEST_SUPPORT_JOB_SCENE_HPP
#define TURNSTILE_TEST_SUPPORT_JOB_SCENE_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "script_scene.hpp"

namespace turnstile::test {

/// One job queue on a simulated server; its scripts are functions. Workers are named like waiters in script_scene, and
/// their leases last 15 seconds.
class job_scene : public script_scene
{
public:
    explicit job_scene(const std::vector<script_patch>& patches = {})
        : script_scene(patches)
    {
        keys = {"jobs"};
    }

    /// Pushes a job with default options, and returns its id.
    std::string push(const std::string& payload, char level = '2', std::int64_t delay = 0)
    {
        return push_record(std::string(1, level) + ' ' + payload, level, delay);
    }
    std::string push_record(const std::string& text, char level = '2', std::int64_t delay = 0,
                            const std::string& name = "", std::int64_t window = 0)
    {
        const words all = call("push", {"w:", text, std::string(1, level), std::to_string(delay),
                                        name, std::to_string(window)});
        return word(all.at(0), 2);
    }
    /// Asks for a job. Afterwards, `attempt` and `record` are those of the job, if there is one. Returns the status.
    std::string next(const std::string& worker, const std::string& finished = "",
                     const std::string& how = "first", const std::string& ticket = "0")
    {
        return started(call("next", {"w:", worker + "/15000", ticket, finished, "1", how}));
    }
    std::string fetch(const std::string& whose) { return started(call("fetch", {"w:", whose})); }
    std::string finish(const std::string& whose, const std::string& what = "finish",
                       const std::string& error = "", const std::string& how = "first")
    {
        return word(call("end", {"w:", whose, what, "1", how, error}).at(0), 0);
    }
    std::string cancel(const std::string& worker)
    {
        return word(call("cancel", {"w:", worker + "/15000"}).at(0), 2);
    }
    /// Renews the attempts. Returns a result for each. Afterwards, `next_due` is the time that the answer names.
    words renew(const words& attempts, const std::string& progress = "")
    {
        words arguments{"w:", "15000"};
        for (const std::string& each : attempts)
            arguments.insert(arguments.end(), {each, progress});
        words all = call("renew", arguments);
        next_due = word(all.at(0), 2);
        all.erase(all.begin());
        return all;
    }
    /// The grants. Afterwards, `tickets` are those of the requests.
    words resync(const std::string& nonce, const words& requests)
    {
        words arguments{"w:", nonce};
        arguments.insert(arguments.end(), requests.begin(), requests.end());
        words all = call("resync", arguments);
        tickets = all.at(1);
        all.erase(all.begin(), all.begin() + 2);
        return all;
    }
    /// Returns the answer without its time.
    std::string manage(const std::string& what, const std::string& number = "0",
                       const std::string& period = "0")
    {
        const std::string answer = call("manage", {"w:", what, number, period}).at(0);
        return word(answer, 0) + ' ' + word(answer, 2);
    }
    /// The numbers of waiting, delayed, active and dead jobs.
    std::string counts()
    {
        const std::string answer = call("list", {"w:", "counts", "0", "1"}).at(0);
        return word(answer, 3) + word(answer, 4) + word(answer, 5) + word(answer, 6);
    }
    /// For each job: the entry, the record, the progress and the error.
    words list(const std::string& state, int offset = 0, int number = 10)
    {
        words all = call("list", {"w:", state, std::to_string(offset), std::to_string(number)});
        all.erase(all.begin());
        return all;
    }
    /// The records of the jobs in a state.
    words records(const std::string& state, int offset = 0, int number = 10)
    {
        words result;
        const words all = list(state, offset, number);
        for (std::size_t i = 1; i < all.size(); i += 4)
            result.push_back(all[i]);
        return result;
    }

    /// The messages of the last script: the channel, the kind, and the record of a grant.
    [[nodiscard]] words heard() const
    {
        words result;
        for (const auto& [channel, text] : store.published)
        {
            std::size_t at = 0;
            for (int i = 0; i < 11 && at != std::string::npos; ++i)
                at = text.find(' ', at + 1);
            result.push_back(channel + ' ' + word(text, 2) +
                             (at == std::string::npos ? "" : text.substr(at)));
        }
        return result;
    }

    /// A word of a text.
    static std::string word(const std::string& text, int which)
    {
        std::istringstream from(text);
        std::string result;
        for (; which >= 0; --which)
            if (!(from >> result))
                return "";
        return result;
    }

    words call(const std::string& name, const words& arguments)
    {
        store.published.clear();
        const redis_reply reply = engine.run(store, "jobs_" + name, keys, arguments);
        BOOST_TEST(!reply.is_error(), reply.text);
        const words result = reply.leaves();
        has_more = result.at(0).ends_with(" more");
        return result;
    }

    std::string attempt;
    std::string record;
    std::string tickets;
    std::string next_due;
    /// Whether the caller of the last script has to send a renewal.
    bool has_more = false;

private:
    std::string started(const words& answer)
    {
        const bool has_job = answer.size() == 3;
        attempt = has_job ? answer[1] : "";
        record = has_job ? answer[2] : "";
        return word(answer.at(0), 0);
    }
};

}  // namespace turnstile::test

#endif
