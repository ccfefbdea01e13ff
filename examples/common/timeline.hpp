// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_EXAMPLES_COMMON_TIMELINE_HPP
#define TURNSTILE_EXAMPLES_COMMON_TIMELINE_HPP

#include <algorithm>
#include <cstddef>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace examples {

/// Shows the activities of all participants: a text chart with a row for each participant and a
/// column for each tick, and a table of turns and waiting times.
class timeline
{
public:
    explicit timeline(const std::vector<std::string>& names)
    {
        for (const auto& name : names)
        {
            rows_.emplace_back(name);
            name_width_ = std::max(name_width_, name.size());
        }
    }

    [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }

    [[nodiscard]] const std::string& name(std::size_t row) const { return rows_[row].name; }

    /// The number of waits in this row that ended successfully.
    [[nodiscard]] int turns(std::size_t row) const { return rows_[row].turns; }

    [[nodiscard]] int longest_wait(std::size_t row) const { return rows_[row].longest_wait; }

    /// Shows @p symbol in the row from @p tick on.
    void note(std::size_t row, int tick, char symbol)
    {
        extend(rows_[row].symbols, tick);
        rows_[row].symbols.push_back(symbol);
    }

    /// As note(), and a wait begins.
    void note_wait(std::size_t row, int tick, char symbol)
    {
        note(row, tick, symbol);
        rows_[row].waits_since = tick;
    }

    /// Like note(), but also ends the wait and counts a turn.
    void note_turn(std::size_t row, int tick, char symbol)
    {
        note(row, tick, symbol);
        ++rows_[row].turns;
        rows_[row].longest_wait = std::max(rows_[row].longest_wait, tick - rows_[row].waits_since);
    }

    /// The chart up to and including @p last, split into blocks that fit a terminal.
    [[nodiscard]] std::string chart(int last) const
    {
        constexpr int columns = 60;
        std::string text;
        for (int begin = 0; begin <= last; begin += columns)
        {
            const int end = std::min(last + 1, begin + columns);
            add_line(text, "", ruler(begin, end));
            for (const auto& row : rows_)
                add_line(text, row.name, piece(row.symbols, begin, end));
            text += '\n';
        }
        return text;
    }

    /// The table; @p unit names what a turn is.
    [[nodiscard]] std::string table(std::string_view unit) const
    {
        std::string text;
        add_line(text, "", fmt::format("{}  longest wait", unit));
        for (const auto& row : rows_)
            add_line(text, row.name,
                     fmt::format("{:{}}  {:12}", row.turns, unit.size(), row.longest_wait));
        return text;
    }

private:
    struct row_state
    {
        explicit row_state(std::string row_name)
            : name(std::move(row_name))
        {
        }

        std::string name;
        std::string symbols{};
        int turns = 0;
        int waits_since = 0;
        int longest_wait = 0;
    };

    /// Repeats the row's last symbol up to @p tick. A symbol that was noted at @p tick itself
    /// lasted for no time, and is replaced.
    static void extend(std::string& symbols, int tick)
    {
        const char last = symbols.empty() ? ' ' : symbols.back();
        symbols.resize(static_cast<std::size_t>(tick), last);
    }

    /// The symbols of the ticks from @p begin to @p end. Copies only these, because a chart consists of many pieces.
    static std::string piece(std::string_view symbols, int begin, int end)
    {
        const auto first = std::min(static_cast<std::size_t>(begin), symbols.size());
        const auto length = static_cast<std::size_t>(end - begin);
        std::string result(symbols.substr(first, length));
        result.resize(length, symbols.empty() ? ' ' : symbols.back());
        return result;
    }

    static std::string ruler(int begin, int end)
    {
        std::string line;
        for (int tick = begin; tick < end; tick += 5)
            line += fmt::format("{:<5}", tick);
        return line;
    }

    void add_line(std::string& text, std::string_view name, std::string_view content) const
    {
        auto line = fmt::format("{:{}}  {}", name, name_width_, content);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + '\n';
    }

    std::vector<row_state> rows_;
    std::size_t name_width_ = 0;
};

}  // namespace examples

#endif
