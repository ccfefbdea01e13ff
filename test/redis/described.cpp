// Copyright (c) 2026 The Turnstile authors
// Distributed under the Boost Software License, Version 1.0.
// (See accompanying file LICENSE or copy at https://www.boost.org/LICENSE_1_0.txt)

// The fields of a Redis hash that store a described struct, and the conversion back.

#include <array>
#include <bit>
#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>
#include <boost/mp11/list.hpp>
#include <boost/test/unit_test.hpp>
#include <clocale>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <locale>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <support/random_runs.hpp>
#include <tuple>
#include <turnstile/redis/detail/described.hpp>
#include <turnstile/redis/error.hpp>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

using namespace std::string_literals;
using turnstile::redis::errc;
using turnstile::redis::redis_error;
using turnstile::redis::detail::fields;
using turnstile::redis::detail::from_fields;
using turnstile::redis::detail::storable;
using turnstile::redis::detail::to_fields;
using turnstile::test::dice;

// --- stored types ---------------------------------------------------------------------------

namespace states {

enum class colour : std::uint8_t
{
    red = 1,
    green = 2,
    also_green = 2,
    blue = 200,
};
BOOST_DESCRIBE_ENUM(colour, red, green, also_green, blue)

// The library has a function of this name, and must not call that of the user.
std::string text_of(colour) = delete;

/// An enumeration without an underlying type, and with negative values: from -4 to 3.
enum plain
{
    below = -3,
    nothing = 0,
    above = 2,
};
BOOST_DESCRIBE_ENUM(plain, below, nothing, above)

enum class undescribed : std::int16_t
{
};

enum class on_or_off : bool
{
};

enum undescribed_plain
{
    something,
};

/// A struct with one member of any type.
template <class T>
struct holder
{
    T value{};

    bool operator==(const holder&) const = default;

    BOOST_DESCRIBE_CLASS(holder, (), (value), (), ())
};

struct point
{
    int x = 0;
    int y = 0;

    bool operator==(const point&) const = default;
};
BOOST_DESCRIBE_STRUCT(point, (), (x, y))

struct named
{
    std::string name = "nobody";
    std::optional<int> age{};

    bool operator==(const named&) const = default;
};
BOOST_DESCRIBE_STRUCT(named, (), (name, age))

/// A struct with a base class, a private member, and nested structs.
class house : public named
{
public:
    point door{};
    holder<holder<bool>> deep{};

    void set_secret(int value) { secret_ = value; }
    [[nodiscard]] int secret() const { return secret_; }

    bool operator==(const house&) const = default;

private:
    int secret_ = 7;

    BOOST_DESCRIBE_CLASS(house, (named), (door, deep), (), (secret_))
};

struct shelf
{
    std::vector<int> numbers{};
    std::vector<std::string> names{};
    std::vector<std::vector<bool>> flags{};
    std::array<double, 3> reals{};
    std::map<std::string, point> places{};
    std::vector<std::optional<int>> maybe{};
    std::deque<named> people{};
    std::vector<colour> colours{};
    std::vector<std::byte> bytes{};

    bool operator==(const shelf&) const = default;
};
BOOST_DESCRIBE_STRUCT(shelf, (),
                      (numbers, names, flags, reals, places, maybe, people, colours, bytes))

/// A struct of any depth.
struct tree
{
    std::int64_t number = 0;
    double real = 0;
    std::string text{};
    std::optional<bool> flag{};
    std::vector<tree> children{};

    bool operator==(const tree&) const = default;
};
BOOST_DESCRIBE_STRUCT(tree, (), (number, real, text, flag, children))

struct forest
{
    std::string any_bytes{};
    std::optional<point> place{};
    std::optional<std::vector<int>> numbers{};
    std::map<std::string, std::vector<tree>> trees{};

    bool operator==(const forest&) const = default;
};
BOOST_DESCRIBE_STRUCT(forest, (), (any_bytes, place, numbers, trees))

struct nothing_at_all
{
    bool operator==(const nothing_at_all&) const = default;
};
BOOST_DESCRIBE_STRUCT(nothing_at_all, (), ())

/// A struct whose members have default values.
struct eager
{
    std::optional<int> number = 5;
    std::vector<int> numbers{1, 2};
    std::map<std::string, int> counts{{"a", 1}};
};
BOOST_DESCRIBE_STRUCT(eager, (), (number, numbers, counts))

struct without_description
{
    int value = 0;
};

struct on_unknown_ground : without_description
{
    int other = 0;
};
BOOST_DESCRIBE_STRUCT(on_unknown_ground, (without_description), (other))

union one_of_two
{
    int number;
    float real;
};

}  // namespace states

namespace {

using namespace states;

/// The text of a value in a field of its own.
template <class T>
std::string written(const T& value)
{
    const fields all = to_fields(holder<T>{value});
    BOOST_TEST_REQUIRE(all.size() == 1U);
    return all.at("value");
}

template <class T>
T read(const std::string& text)
{
    return from_fields<holder<T>>({{"value", text}}).value;
}

/// The text of the error that a call throws.
template <class Call>
std::string refusal_by(Call call)
{
    try
    {
        call();
    }
    catch (const redis_error& error)
    {
        BOOST_TEST((error.code() == errc::bad_state));
        return error.what();
    }
    return "accepted";
}

template <class T>
std::string refusal_to_write(const T& value)
{
    return refusal_by([&] { (void)to_fields(value); });
}

template <class T>
std::string refusal_to_read(const fields& from)
{
    return refusal_by([&] { (void)from_fields<T>(from); });
}

/// The text of the error about the field of a T that contains this text.
template <class T>
std::string refusal_of(const std::string& text)
{
    return refusal_to_read<holder<T>>({{"value", text}});
}

template <class T>
void check_round_trip(const T& value)
{
    BOOST_TEST((from_fields<T>(to_fields(value)) == value));
}

using integers =
    std::tuple<char, signed char, unsigned char, short, unsigned short, int, unsigned, long,
               unsigned long, long long, unsigned long long, wchar_t, char8_t, char16_t, char32_t>;

using reals = std::tuple<float, double>;

/// The next number after the largest of a type, or before the smallest.
template <class T>
std::string just_outside(bool above)
{
    if constexpr (sizeof(T) < sizeof(std::int64_t))
        return above ? std::to_string(std::int64_t{std::numeric_limits<T>::max()} + 1)
                     : std::to_string(std::int64_t{std::numeric_limits<T>::min()} - 1);
    else if constexpr (std::is_signed_v<T>)
        return above ? "9223372036854775808" : "-9223372036854775809";
    else
        return above ? "18446744073709551616" : "-1";
}

}  // namespace

// --- supported types ------------------------------------------------------------------------

static_assert(storable<shelf> && storable<house> && storable<nothing_at_all>);
static_assert(storable<std::optional<shelf>> && storable<std::vector<point>>);
static_assert(storable<colour> && storable<plain> && storable<undescribed> && storable<std::byte>);

static_assert(!storable<int*> && !storable<const char*> && !storable<std::nullptr_t>);
static_assert(!storable<std::unique_ptr<int>> && !storable<std::shared_ptr<point>>);
static_assert(!storable<one_of_two> && !storable<std::variant<int, bool>>);
static_assert(!storable<without_description> && !storable<on_unknown_ground>);
static_assert(!storable<undescribed_plain> && !storable<long double> && !storable<int[3]>);
static_assert(!storable<std::string_view> && !storable<std::wstring> && !storable<std::u8string>);
static_assert(!storable<std::optional<std::optional<int>>>);
static_assert(!storable<std::set<int>> && !storable<std::map<int, int>>);
static_assert(!storable<std::multimap<std::string, int>>);
static_assert(!storable<std::unordered_map<std::string, int>>);

// --- scalars --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE_TEMPLATE(integers_are_whole_numbers, T, integers)
{
    constexpr T least = std::numeric_limits<T>::min();
    constexpr T most = std::numeric_limits<T>::max();
    for (const T value : {least, T{0}, T{1}, T{42}, most})
    {
        BOOST_TEST((written(value) == std::to_string(value)));
        BOOST_TEST((read<T>(written(value)) == value));
        BOOST_TEST((read<std::vector<T>>("[" + std::to_string(value) + "]").at(0) == value));
    }
    const std::string rule =
        " is not a whole number between " + std::to_string(least) + " and " + std::to_string(most);
    for (const bool above : {false, true})
    {
        const auto text = just_outside<T>(above);
        std::string refusal = "field 'value': '";
        refusal.append(text).append("'").append(rule);
        BOOST_TEST(refusal_of<T>(text) == refusal);
        BOOST_TEST(refusal_of<std::vector<T>>("[" + text + "]") == refusal);
    }
    for (const auto& text : {"", " ", " 1", "1 ", "12x", "x", "+1", "-", "--1", "0x1", "1.0", "1e1",
                             "1,0", "true", "9999999999999999999999999999"})
        BOOST_TEST(refusal_of<T>(text) == "field 'value': '"s + text + "'" + rule);
    BOOST_TEST(refusal_of<T>("1\0"s) == "field 'value': '1\\x00'" + rule);
}

BOOST_AUTO_TEST_CASE(an_error_names_field_text_and_rule)
{
    BOOST_TEST(refusal_to_read<house>({{"deep.value.value", "yes"}}) ==
               "field 'deep.value.value': 'yes' is neither true nor false");
    BOOST_TEST(refusal_of<int>("12x") ==
               "field 'value': '12x' is not a whole number between -2147483648 and 2147483647");
    // A long text is truncated, and control characters are escaped, so that a terminal shows it as it is.
    BOOST_TEST(refusal_of<bool>("\x1b[31m\xff" + std::string(100, 'y')) ==
               "field 'value': '\\x1b[31m\\xff" + std::string(58, 'y') +
                   "' and 42 bytes more is neither true nor false");
    BOOST_TEST(make_error_code(errc::bad_state).message() ==
               "the stored state cannot be read, or a value cannot be written");
    BOOST_TEST(make_error_code(errc::bad_state).value() == 14);
    BOOST_TEST((turnstile::error_code(errc::bad_state) != turnstile::redis::error_kind::temporary));
}

BOOST_AUTO_TEST_CASE(booleans_are_true_or_false)
{
    BOOST_TEST(written(true) == "true");
    BOOST_TEST(written(false) == "false");
    BOOST_TEST(read<bool>("true"));
    BOOST_TEST(!from_fields<holder<bool>>({{"value", "false"}}).value);
    for (const auto& text : {"", "1", "0", "True", "true ", "falsehood"})
        BOOST_TEST(refusal_of<bool>(text) ==
                   "field 'value': '"s + text + "' is neither true nor false");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(real_numbers_come_back_bit_by_bit, T, reals)
{
    using limits = std::numeric_limits<T>;
    using bits = std::conditional_t<std::same_as<T, float>, std::uint32_t, std::uint64_t>;
    const T values[] = {T{0},
                        -T{0},
                        T{1} / T{3},
                        T(0.1),
                        limits::max(),
                        limits::lowest(),
                        limits::min(),
                        std::nextafter(limits::min(), T{0}),
                        limits::denorm_min(),
                        -limits::denorm_min(),
                        limits::epsilon(),
                        limits::infinity(),
                        -limits::infinity(),
                        T(1e15),
                        T(123456789)};
    for (const T value : values)
        BOOST_TEST_CONTEXT(value)
        {
            BOOST_TEST(std::bit_cast<bits>(read<T>(written(value))) == std::bit_cast<bits>(value));
            const std::vector<T> list{value, value};
            BOOST_TEST(std::bit_cast<bits>(read<std::vector<T>>(written(list)).at(1)) ==
                       std::bit_cast<bits>(value));
        }
    for (const T value : {limits::quiet_NaN(), -limits::quiet_NaN()})
    {
        BOOST_TEST(std::isnan(read<T>(written(value))));
        BOOST_TEST(std::isnan(read<std::vector<T>>(written(std::vector{value})).at(0)));
    }
    for (const auto& text :
         {"", " 1", "1 ", "1,5", "1.5x", "0x1p3", "+1", "1e", ".", "1e999", "-1e999", "number"})
        BOOST_TEST(refusal_of<T>(text).starts_with("field 'value': '"s + text +
                                                   "' is not a number between -"));
}

BOOST_AUTO_TEST_CASE(real_numbers_are_short)
{
    BOOST_TEST(written(0.1) == "0.1");
    BOOST_TEST(written(0.1F) == "0.1");
    BOOST_TEST(written(-0.0) == "-0");
    BOOST_TEST(written(1e300) == "1e+300");
    BOOST_TEST(written(std::numeric_limits<double>::infinity()) == "inf");
    BOOST_TEST(written(std::vector{1.5, -std::numeric_limits<double>::infinity()}) ==
               R"([1.5,"-inf"])");
    BOOST_TEST(refusal_of<double>("1e309") ==
               "field 'value': '1e309' is not a number between -1.7976931348623157e+308 and "
               "1.7976931348623157e+308, inf, -inf or nan");
    BOOST_TEST(refusal_of<float>("1e39").ends_with("between -3.4028235e+38 and 3.4028235e+38, inf, "
                                                   "-inf or nan"));
}

BOOST_AUTO_TEST_CASE(enumerations_are_names_or_numbers)
{
    BOOST_TEST(written(colour::red) == "red");
    BOOST_TEST(written(colour::also_green) == "green");
    BOOST_TEST(written(static_cast<colour>(77)) == "77");
    BOOST_TEST((read<colour>("blue") == colour::blue));
    BOOST_TEST((read<colour>("also_green") == colour::green));
    BOOST_TEST((read<colour>("1") == colour::red));
    BOOST_TEST((read<colour>("255") == static_cast<colour>(255)));
    for (const auto& text : {"", "Red", "red ", "256", "-1", "purple"})
        BOOST_TEST(
            refusal_of<colour>(text) ==
            "field 'value': '"s + text +
                "' is not red, green, also_green, blue, or a whole number between 0 and 255");

    BOOST_TEST(written(undescribed{-5}) == "-5");
    BOOST_TEST((read<undescribed>("-32768") == undescribed{-32768}));
    BOOST_TEST(refusal_of<undescribed>("32768").ends_with("between -32768 and 32767"));
    BOOST_TEST((read<on_or_off>(written(on_or_off{true})) == on_or_off{true}));
    BOOST_TEST(refusal_of<on_or_off>("2").ends_with("between 0 and 1"));
}

BOOST_AUTO_TEST_CASE(an_enumeration_without_a_type_takes_only_the_numbers_that_it_can_have)
{
    BOOST_TEST(written(below) == "below");
    BOOST_TEST((read<plain>("-3") == below));
    BOOST_TEST((read<plain>("-4") == static_cast<plain>(-4)));
    BOOST_TEST((read<plain>("3") == static_cast<plain>(3)));
    for (const auto& text : {"-5", "4"})
        BOOST_TEST(refusal_of<plain>(text) ==
                   "field 'value': '"s + text +
                       "' is not below, nothing, above, or a whole number between -4 and 3");
}

BOOST_AUTO_TEST_CASE(a_string_keeps_its_bytes)
{
    std::string every_byte;
    for (int byte = 0; byte != 256; ++byte)
        every_byte += static_cast<char>(byte);
    for (const auto& text : {""s, "a"s, "\0\0"s, "\xff\xfe"s, "\"\\\n"s, every_byte})
    {
        BOOST_TEST(written(text) == text);
        BOOST_TEST(read<std::string>(text) == text);
    }
}

BOOST_AUTO_TEST_CASE(no_text_depends_on_the_locale)
{
    struct with_commas : std::numpunct<char>
    {
        char do_decimal_point() const override { return ','; }
        char do_thousands_sep() const override { return '.'; }
        std::string do_grouping() const override { return "\3"; }
    };
    const std::locale before = std::locale::global({std::locale(), new with_commas});
    BOOST_TEST(written(1234567) == "1234567");
    BOOST_TEST(written(1234.5) == "1234.5");
    BOOST_TEST(written(std::vector{1234567.25}) == "[1234567.25]");
    BOOST_TEST(read<double>("1234.5") == 1234.5);
    BOOST_TEST(refusal_of<double>("1,5") != "accepted");
    BOOST_TEST(refusal_of<int>("x").ends_with("-2147483648 and 2147483647"));
    BOOST_TEST(refusal_of<float>("x").find("3.4028235e+38") != std::string::npos);
    std::locale::global(before);
}

// --- structs --------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(members_have_fields_of_their_own)
{
    house h;
    h.name = "hut";
    h.age = 3;
    h.door.y = -1;
    h.deep.value.value = true;
    h.set_secret(8);
    const fields expected{{"name", "hut"},  {"age", "3"},     {"door.x", "0"},
                          {"door.y", "-1"}, {"secret_", "8"}, {"deep.value.value", "true"}};
    BOOST_TEST((to_fields(h) == expected));
    BOOST_TEST((from_fields<house>(expected) == h));
    check_round_trip(house{});
    check_round_trip(nothing_at_all{});
    BOOST_TEST(to_fields(nothing_at_all{}).empty());
}

BOOST_AUTO_TEST_CASE(a_missing_field_has_its_default)
{
    BOOST_TEST((from_fields<house>({}) == house{}));
    const auto partial = from_fields<house>({{"door.x", "5"}});
    BOOST_TEST(partial.door.x == 5);
    BOOST_TEST(partial.name == "nobody");
    BOOST_TEST(partial.secret() == 7);
    // A field with an empty text differs from a missing field.
    BOOST_TEST(from_fields<house>({{"name", ""}}).name.empty());
}

BOOST_AUTO_TEST_CASE(an_unknown_field_is_ignored)
{
    BOOST_TEST((from_fields<point>({{"x", "1"},
                                    {"z", "?"},
                                    {"x.y", "?"},
                                    {"", "?"},
                                    {".", "?"},
                                    {"X", "?"},
                                    {"x ", "?"}}) == point{1, 0}));
}

BOOST_AUTO_TEST_CASE(an_empty_optional_has_no_field)
{
    using maybe = holder<std::optional<int>>;
    BOOST_TEST(to_fields(maybe{}).empty());
    check_round_trip(maybe{});
    check_round_trip(maybe{0});
    BOOST_TEST((to_fields(maybe{5}) == fields{{"value", "5"}}));
    BOOST_TEST(refusal_of<std::optional<int>>("").ends_with(
        "is not a whole number between -2147483648 and 2147483647"));

    // A missing field resets even a member with a default value. Otherwise the value could never be removed.
    BOOST_TEST(!from_fields<eager>({}).number.has_value());

    using maybe_text = holder<std::optional<std::string>>;
    check_round_trip(maybe_text{});
    check_round_trip(maybe_text{""});
    using maybe_list = holder<std::optional<std::vector<int>>>;
    check_round_trip(maybe_list{});
    check_round_trip(maybe_list{std::vector<int>{}});
    BOOST_TEST((to_fields(maybe_list{std::vector<int>{}}) == fields{{"value", "[]"}}));
}

BOOST_AUTO_TEST_CASE(an_optional_struct_is_there_if_any_of_its_fields_is)
{
    using maybe = holder<std::optional<named>>;
    BOOST_TEST(to_fields(maybe{}).empty());
    check_round_trip(maybe{});
    check_round_trip(maybe{named{}});
    check_round_trip(maybe{named{"somebody", 5}});
    BOOST_TEST((to_fields(maybe{named{}}) == fields{{"value.name", "nobody"}}));
    BOOST_TEST((from_fields<maybe>({{"value.age", "5"}}) == maybe{named{"nobody", 5}}));
    // Fields of other programs are kept, but must not make the optional exist.
    BOOST_TEST((from_fields<maybe>({{"value.height", "5"}, {"value", "5"}}) == maybe{}));
}

// --- JSON text ------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(containers_are_json_text)
{
    shelf s;
    s.numbers = {1, -2, 3};
    s.names = {"", "a\"b\\c", "line\n\x01", "zero\0"s, "grün \xf0\x9f\x98\x80"};
    s.flags = {{}, {true, false}};
    s.reals = {0.5, -0.0, 1e300};
    s.places = {{"home", {1, 2}}, {"", {0, 0}}};
    s.maybe = {5, std::nullopt};
    s.people = {{"Ada", 36}, {"Bob", std::nullopt}};
    s.colours = {colour::red, static_cast<colour>(7)};
    s.bytes = {std::byte{0}, std::byte{255}};
    const fields expected{{"numbers", "[1,-2,3]"},
                          {"names", R"(["","a\"b\\c","line\n\u0001","zero\u0000","grün )"
                                    "\xf0\x9f\x98\x80\"]"},
                          {"flags", "[[],[true,false]]"},
                          {"reals", "[0.5,-0,1e+300]"},
                          {"places", R"({"":{"x":0,"y":0},"home":{"x":1,"y":2}})"},
                          {"maybe", "[5,null]"},
                          {"people", R"([{"name":"Ada","age":36},{"name":"Bob"}])"},
                          {"colours", R"(["red",7])"},
                          {"bytes", "[0,255]"}};
    for (const auto& [name, text] : to_fields(s))
        BOOST_TEST(text == expected.at(name));
    BOOST_TEST(to_fields(s).size() == expected.size());
    BOOST_TEST((from_fields<shelf>(expected) == s));
    check_round_trip(shelf{});
    BOOST_TEST(to_fields(shelf{}).at("numbers") == "[]");
    BOOST_TEST(to_fields(shelf{}).at("places") == "{}");
}

BOOST_AUTO_TEST_CASE(json_text_may_be_written_by_others)
{
    BOOST_TEST((read<std::vector<int>>(" [\t1 ,\r\n2 ] ") == std::vector{1, 2}));
    BOOST_TEST((read<std::vector<int>>("[ ]").empty()));
    BOOST_TEST(
        (read<std::vector<std::string>>(R"(["\u0041\"\\\/\b\f\n\r\t\uD83D\ude00\u00e4\u0000"])") ==
         std::vector{"A\"\\/\b\f\n\r\t\xf0\x9f\x98\x80\xc3\xa4\0"s}));
    BOOST_TEST((read<std::vector<double>>(R"([1e2,-0.5E-1,10,"nan"])").size() == 4U));
    BOOST_TEST((read<std::vector<double>>("[1E+2,-0.5e-1]") == std::vector{100.0, -0.05}));
    BOOST_TEST(
        (read<std::vector<colour>>(R"([1,"blue"])") == std::vector{colour::red, colour::blue}));
    // Unknown keys with any value are ignored, and keys may be missing.
    BOOST_TEST((read<std::vector<named>>(
                    R"([{"x":[{"y":[null,true,false,1e999,"\n",{}]},[]],"name":"Ada","x":0},{},)"
                    R"({"age":null},{"age":5}])") == std::vector<named>{{"Ada", std::nullopt},
                                                                        {"nobody", std::nullopt},
                                                                        {"nobody", std::nullopt},
                                                                        {"nobody", 5}}));
}

BOOST_AUTO_TEST_CASE(reading_replaces_what_the_default_has)
{
    const auto read_back = from_fields<eager>({{"numbers", "[3]"}, {"counts", "{}"}});
    BOOST_TEST(read_back.numbers == std::vector{3});
    BOOST_TEST(read_back.counts.empty());
    BOOST_TEST(from_fields<eager>({}).numbers.size() == 2U);

    // An empty optional is omitted in JSON text, too.
    using eager_list = holder<std::vector<eager>>;
    eager without_number;
    without_number.number.reset();
    const auto list = from_fields<eager_list>(to_fields(eager_list{{without_number}}));
    BOOST_TEST(!list.value.at(0).number.has_value());
}

namespace {

/// A malformed text, the wrong part of it, and the reason.
struct wrong_json
{
    std::string text;
    std::string what;
    std::string rule;
};

template <class T>
void check_refusals(const std::vector<wrong_json>& all)
{
    for (const wrong_json& each : all)
        BOOST_TEST_CONTEXT(each.text.substr(0, 100))
        {
            const auto text = refusal_of<T>(each.text);
            BOOST_TEST(text.starts_with("field 'value': '" + each.what + "'"), text);
            BOOST_TEST(text.find("' " + each.rule) != std::string::npos, text);
        }
}

/// Texts that are rejected for any type.
template <class T>
void check_no_json(const std::vector<std::string>& all, const std::string& why)
{
    for (const std::string& each : all)
        BOOST_TEST_CONTEXT(each.substr(0, 100))
        {
            const auto text = refusal_of<T>(each);
            BOOST_TEST(text.starts_with("field 'value': '"), text);
            BOOST_TEST(text.ends_with(" is not JSON text in UTF-8: " + why), text);
        }
}

}  // namespace

BOOST_AUTO_TEST_CASE(text_that_is_not_json_is_refused)
{
    using list = std::vector<int>;
    BOOST_TEST(refusal_of<list>("[1;2]") ==
               "field 'value': '[1;2]' is not JSON text in UTF-8: syntax error");
    check_no_json<list>({"", " ", "[", "[1", "[1,", "[n"}, "incomplete JSON");
    check_no_json<list>({"[]]", "[] x", "[] []", "[]\0"s, "[1]//", "1 2"}, "extra data");
    check_no_json<list>({"\xef\xbb\xbf[]", "[1 2]",   "[1,]",      "[,1]",  "[1}",   "]",
                         "[nul]",          "[nullx]", "[01]",      "[+1]",  "[-]",   "[1.]",
                         "[.5]",           "[1e]",    "[0x1]",     "[NaN]", "[inf]", "['1']",
                         "[1/*2*/]",       "[-inf]",  "[Infinity]"},
                        "syntax error");
    check_no_json<std::vector<std::optional<int>>>({"[nullx]"}, "syntax error");
    check_no_json<std::array<int, 2>>({"[1,2,]"}, "syntax error");
    check_no_json<std::vector<point>>({R"([{"x" 1}])", R"([{"x":1 "y":1}])", R"([{"x":1,}])",
                                       R"([{x:1}])", R"([{"z":}])", R"([{1:1}])"},
                                      "syntax error");
    check_no_json<std::map<std::string, int>>({R"({"a":1]})"}, "syntax error");
}

BOOST_AUTO_TEST_CASE(json_of_another_type_is_refused)
{
    const std::string no_number = "is not a number, true or false in JSON text";
    const std::string out_of_range = "is not a whole number between";
    const std::string no_list = "is not an array in JSON text";
    check_refusals<std::vector<int>>({
        {"null", "null", no_list},
        {"{}", "{...}", no_list},
        {"5", "5", no_list},
        {"true", "true", no_list},
        {"\"[]\"", "\"[]\"", no_list},
        {"[\"1\"]", "\"1\"", no_number},
        {"[[1]]", "[...]", no_number},
        {"[{}]", "{...}", no_number},
        {"[null]", "null", no_number},
        {"[true]", "true", out_of_range},
        {"[1.0]", "1.0", out_of_range},
        {"[1e2]", "1e2", out_of_range},
        {"[-0.0]", "-0.0", out_of_range},
        {"[7,2147483648]", "2147483648", out_of_range},
        {"[" + std::string(100'000, '9') + "]", std::string(64, '9'), "and 99936 bytes more"},
    });
    check_refusals<std::vector<double>>({
        {"[1e999]", "1e999", "is not a number between"},
        {"[1e99999999999]", "1e99999999999", "is not a number between"},
        {"[\"1x\"]", "1x", "is not a number between"},
        {"[true]", "true", "is not a number between"},
        {"[{}]", "{...}", "is not a number, true, false or a string"},
    });
    check_refusals<std::vector<bool>>({{"[1]", "1", "is neither true nor false"}});
    check_refusals<std::vector<colour>>({
        {"[\"pink\"]", "pink", "is not red, green, also_green, blue, or"},
        {"[null]", "null", "is not a number, true, false or a string"},
    });
    check_refusals<std::array<int, 2>>({
        {"[1] ", "[...]", "is not an array of 2 elements in JSON text"},
        {"[1,2,3]", "[...]", "is not an array of 2 elements in JSON text"},
    });
    check_refusals<std::vector<point>>({
        {R"([{"x":1,"x":2}])", "x", "is the key of two values of an object"},
        {R"([{"x":"1"}])", "\"1\"", no_number},
        {R"([[1,2]])", "[...]", "is not an object in JSON text"},
    });
    check_refusals<std::map<std::string, int>>({
        {R"({"a":1,"b":2,"a":1})", "a", "is the key of two values of an object"},
        {"[]", "[...]", "is not an object in JSON text"},
    });
    check_refusals<std::vector<std::string>>({
        {"[1]", "1", "is not a string in JSON text"},
        {"[null]", "null", "is not a string in JSON text"},
    });
}

BOOST_AUTO_TEST_CASE(wrong_strings_are_refused)
{
    const std::string no_utf8 = "is not UTF-8, as a string in JSON text has to be";
    using strings = std::vector<std::string>;
    check_no_json<strings>({"[\"a", "[\"\\", "[\"\\u12", "[\"\\ud83d"}, "incomplete JSON");
    check_no_json<strings>({"[\"a\n\"]", "[\"a\0\"]"s, "[\"\\x41\"]"}, "syntax error");
    check_no_json<strings>({"[\"\\u12\"]", "[\"\\u 123\"]", "[\"\\u-123\"]"}, "expected hex digit");
    // Incomplete surrogate pairs.
    for (const auto& each :
         {"\\ud83d", "\\ud83dx", "\\ud83d\\n", "\\ud83d\\ud83d", "\\ude00\\ud83d"})
        BOOST_TEST(
            refusal_of<strings>("[\""s + each + "\"]").find(" is not JSON text in UTF-8: ") !=
            std::string::npos);
    // Invalid UTF-8: overlong, a surrogate, beyond U+10FFFF, truncated, a continuation byte without a first byte.
    for (const auto& bytes : {"\xc0\x80"s, "\xc1\xbf"s, "\xe0\x9f\xbf"s, "\xf0\x8f\xbf\xbf"s,
                              "\xed\xa0\x80"s, "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xff"s,
                              "\xc3"s, "\xe2\x82"s, "\xf0\x9f\x98"s, "\x80"s, "a\xbf"s, "\xc3("s,
                              "\xe2(\xa1"s, "\xe2\x82("s, "\xf0(\x8c\xbc"s, "\xf0\x90\x8c("s})
    {
        check_no_json<strings>({"[\"" + bytes + "\"]"}, "syntax error");
        BOOST_TEST(refusal_to_write(holder<strings>{{bytes}}).find(no_utf8) != std::string::npos);
        using table = holder<std::map<std::string, int>>;
        BOOST_TEST(refusal_to_write(table{{{bytes, 1}}}).find(no_utf8) != std::string::npos);
    }
    for (const auto& text :
         {"\xc2\x80"s, "\xdf\xbf"s, "\xe0\xa0\x80"s, "\xed\x9f\xbf"s, "\xee\x80\x80"s,
          "\xef\xbf\xbf"s, "\xf0\x90\x80\x80"s, "\xf4\x8f\xbf\xbf"s, "\x7f"s})
        BOOST_TEST((read<strings>(written(std::vector{text})) == std::vector{text}));
}

BOOST_AUTO_TEST_CASE(values_nested_too_deeply_are_refused)
{
    // A tree in a list adds two levels: an array and an object.
    const auto grown = [](int levels)
    {
        holder<std::vector<tree>> result;
        auto* place = &result.value;
        for (int i = 0; i != levels; ++i)
            place = &place->emplace_back().children;
        return result;
    };
    check_round_trip(grown(31));
    BOOST_TEST(refusal_to_write(grown(32)).ends_with("is nested too deeply"));

    BOOST_TEST(
        refusal_of<std::vector<int>>(std::string(100'000, '[')).ends_with("is nested too deeply"));
    const auto nested = [](std::size_t levels)
    {
        std::string text = R"([{"unknown":)" + std::string(levels, '[');
        return text + std::string(levels, ']') + "}]";
    };
    BOOST_TEST(read<std::vector<tree>>(nested(62)).size() == 1U);
    BOOST_TEST(refusal_of<std::vector<tree>>(nested(63)).ends_with("is nested too deeply"));
    BOOST_TEST(refusal_of<std::vector<tree>>(nested(1'000'000)).ends_with("is nested too deeply"));
    std::string deep;
    for (int i = 0; i != 100'000; ++i)
        deep += R"([{"children":)";
    BOOST_TEST(refusal_of<std::vector<tree>>(deep).ends_with("is nested too deeply"));
}

// --- random values --------------------------------------------------------------------------

namespace {

std::string random_bytes(dice& d)
{
    std::string result;
    for (unsigned left = d.below(12); left != 0; --left)
        result += static_cast<char>(d.below(256));
    return result;
}

std::string random_text(dice& d)
{
    static const std::vector<std::string> pieces{"a",
                                                 "\"",
                                                 "\\",
                                                 "/",
                                                 "\n",
                                                 "\0"s,
                                                 "\x1f",
                                                 "\x7f",
                                                 "ä",
                                                 "\xe2\x82\xac",
                                                 "\xf0\x9f\x98\x80",
                                                 "{",
                                                 "]",
                                                 ",",
                                                 ":",
                                                 "null",
                                                 "\\u0041"};
    std::string result;
    for (unsigned left = d.below(8); left != 0; --left)
        result += d.one_of(pieces);
    return result;
}

std::uint64_t random_bits(dice& d)
{
    std::uint64_t bits = 0;
    for (int i = 0; i != 4; ++i)
        bits = bits << 16 | d.below(1U << 16);
    return d.coin() ? bits : bits >> d.below(64);
}

double random_real(dice& d)
{
    // NaN would not be equal to itself.
    const auto value = std::bit_cast<double>(random_bits(d));
    return std::isnan(value) ? 0.5 : value;
}

std::vector<tree> random_trees(dice& d, unsigned depth)
{
    std::vector<tree> result(d.below(depth + 1));
    for (tree& each : result)
    {
        each.number = static_cast<std::int64_t>(random_bits(d));
        each.real = random_real(d);
        each.text = random_text(d);
        if (d.coin())
            each.flag = d.coin();
        each.children = random_trees(d, depth - 1);
    }
    return result;
}

forest random_forest(dice& d)
{
    forest result;
    result.any_bytes = random_bytes(d);
    if (d.coin())
        result.place = point{static_cast<int>(random_bits(d)), static_cast<int>(random_bits(d))};
    if (d.coin())
        result.numbers.emplace(d.below(5), static_cast<int>(random_bits(d)));
    for (unsigned left = d.below(4); left != 0; --left)
        result.trees[random_text(d)] = random_trees(d, 3);
    return result;
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_values_come_back)
{
    const auto run = [](std::uint64_t seed)
    {
        dice d{seed};
        const forest f = random_forest(d);
        const fields text = to_fields(f);
        BOOST_TEST((from_fields<forest>(text) == f));
        // Equal values have equal texts. A monitor depends on that to find the changed fields.
        BOOST_TEST((to_fields(from_fields<forest>(text)) == text));

        const auto bits = static_cast<std::uint32_t>(random_bits(d));
        const auto real = std::bit_cast<float>(bits);
        if (!std::isnan(real))
            BOOST_TEST(std::bit_cast<std::uint32_t>(read<float>(written(real))) == bits);
    };
    turnstile::test::run_seeds(2000, run);
}

BOOST_AUTO_TEST_CASE(damaged_text_is_refused_or_valid)
{
    const auto run = [](std::uint64_t seed)
    {
        dice d{seed};
        fields text = to_fields(random_forest(d));
        static const std::string characters = "[]{},:\"\\0123456789.eE+-utrfalsn \x01\x80\xff";
        for (auto& [name, value] : text)
            for (unsigned left = 1 + d.below(3); left != 0 && !value.empty(); --left)
            {
                const unsigned place = d.below(static_cast<unsigned>(value.size()));
                if (d.coin())
                    value[place] = d.one_of(characters);
                else if (d.coin())
                    value.erase(place, 1 + d.below(5));
                else
                    value.insert(place, value.substr(d.below(place + 1), d.below(20)));
            }
        try
        {
            const auto read_back = from_fields<forest>(text);
            BOOST_TEST((from_fields<forest>(to_fields(read_back)) == read_back));
        }
        catch (const redis_error& error)
        {
            BOOST_TEST((error.code() == errc::bad_state));
            BOOST_TEST(std::string_view(error.what()).starts_with("field '"));
        }
    };
    turnstile::test::run_seeds(2000, run);
}
