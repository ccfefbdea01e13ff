// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

#ifndef TURNSTILE_REDIS_DETAIL_JSON_HPP
#define TURNSTILE_REDIS_DETAIL_JSON_HPP

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

// JSON text, one token after the other. Who writes or reads it knows the type of what comes next, so no
// tree of values is ever built, and numbers stay text until the type says what they are.

namespace turnstile::redis::detail {

/// A piece of what a field contains: for those who read it, and for what they say of it.
struct excerpt
{
    /// The name of the field.
    std::string_view field;
    std::string_view text;
    /// Where in the field it begins, unless it is all of it.
    std::optional<std::size_t> offset;
};

/// Throws a redis_error with `errc::bad_state`: names the field, quotes the text, and says which rule it
/// breaks, such as "is not a whole number between 0 and 255".
[[noreturn]] void refuse(const excerpt& what, std::string_view rule);

/// How deep arrays and objects may lie in each other. It keeps a hostile text from exhausting the stack.
inline constexpr int deepest_json = 64;

/// Writes JSON text. It has no spaces, so equal values have equal texts.
class json_writer
{
public:
    /// Begins a text that is meant for @p field, which has to live as long.
    explicit json_writer(std::string_view field) noexcept
        : field_(field)
    {
    }

    /// Writes a number, `true` or `false`; or a string, if the text is none of these.
    void scalar(std::string_view text);

    /// Writes a string. Throws if it is not UTF-8.
    void text(std::string_view text);

    void null();

    /// Begins an array with `[`, or an object with `{`.
    void open(char bracket);

    /// Ends it, with the other bracket.
    void close(char bracket);

    /// Writes the key of what comes next. Throws if it is not UTF-8.
    void key(std::string_view name);

    /// The text, once it is complete.
    [[nodiscard]] std::string take() && noexcept;

private:
    void begin_value();
    void put_quoted(std::string_view text);

    std::string_view field_;
    std::string result_;
    int depth_ = 0;
    bool follows_value_ = false;
};

/// Reads JSON text. What is not as expected throws.
class json_reader
{
public:
    /// Begins to read what @p field contains. Both have to live as long.
    json_reader(std::string_view field, std::string_view text) noexcept
        : field_(field)
        , text_(text)
    {
    }

    /// Goes past a `null`, if one is next.
    bool null();

    /// Reads a number, `true` or `false`; if @p or_string, a string will do as well. It is valid until
    /// something else is read.
    excerpt scalar(bool or_string);

    /// Reads a string.
    std::string text();

    /// Goes into an array, by `[`, or into an object, by `{`.
    void open(char bracket);

    /// Whether there is another element, or key; if not, goes past the bracket that closes.
    bool more(char bracket);

    /// Reads a key, up to its value.
    std::string key();

    /// Goes past a value, whatever it is.
    void skip();

    /// Throws if anything follows.
    void end();

    /// Throws for a reason that the caller knows.
    [[noreturn]] void refuse_here(std::string_view rule) const;

private:
    [[nodiscard]] char peek();
    void expect(char wanted);
    void read_escaped(std::string& to);
    char32_t read_code_unit();

    std::string_view field_;
    std::string_view text_;
    std::size_t position_ = 0;
    /// What scalar() returned, if it was a string.
    std::string string_;
    int depth_ = 0;
    bool follows_value_ = false;
};

}  // namespace turnstile::redis::detail

#endif
