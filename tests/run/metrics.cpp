// Records, JSON lines, the live table and the cut on resume. Numbers are read back by another JSON library.
#include "run/metrics.h"

#include <fcntl.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "run/digest.h"
#include "run/signals.h"
#include "support.h"

using namespace fp8rl;
using namespace fp8rl::run;
using namespace fp8rl::run::test;

TEST_CASE("a record is one flat JSON object in the order its keys were set") {
    Record r;
    r.set("step", 3).set("phase", "train").set("reward", 0.5).set("ok", true).set("count", uint32_t{7});
    r.set("step", int64_t{4});
    CHECK(r.json() == R"({"step": 4, "phase": "train", "reward": 0.5, "ok": true, "count": 7})");
    CHECK(Record().json() == "{}");
    CHECK(Record().set("a\"b", std::string("x\ny\\")).json() == R"({"a\"b": "x\ny\\"})");
    CHECK(r.number("reward") == 0.5);
    CHECK(r.number("step") == 4);
    CHECK(std::isnan(r.number("phase")));
    CHECK(std::isnan(r.number("absent")));
    CHECK(Record().set("x", 1).merge(Record().set("y", 2).set("x", 3)).json() == R"({"x": 3, "y": 2})");
}

TEST_CASE("numbers have the shortest form that reads back to the same bits") {
    CHECK(json_number(0.1f) == "0.1");
    CHECK(json_number(0.1) == "0.1");
    CHECK(json_number(static_cast<double>(0.1f)) == "0.10000000149011612");
    CHECK(json_number(1.0) == "1.0");
    CHECK(json_number(-0.0) == "-0.0");
    CHECK(json_number(1e-7) == "1e-07");
    uint64_t state = 1;
    for (int i = 0; i < 20000; ++i) {
        state = xxh64(&state, sizeof state);
        double x;
        std::memcpy(&x, &state, sizeof x);
        if (!std::isfinite(x)) continue;
        double back = nlohmann::json::parse(json_number(x)).get<double>();
        REQUIRE(std::memcmp(&x, &back, sizeof x) == 0);
        auto low = static_cast<uint32_t>(state);
        float f;
        std::memcpy(&f, &low, sizeof f);
        if (!std::isfinite(f)) continue;
        float f_back = std::strtof(json_number(f).c_str(), nullptr);
        REQUIRE(std::memcmp(&f, &f_back, sizeof f) == 0);
    }
}

TEST_CASE("NaN and Inf are texts that other languages read as numbers") {
    Record r;
    r.set("a", std::nan("")).set("b", std::numeric_limits<double>::infinity());
    r.set("c", -std::numeric_limits<float>::infinity());
    CHECK(r.json() == R"({"a": "NaN", "b": "Infinity", "c": "-Infinity"})");
    CHECK(nlohmann::json::parse(r.json())["b"] == "Infinity");
}

TEST_CASE("auto shows a table on a terminal and JSON lines elsewhere") {
    CHECK(stdout_form("auto", true) == StdoutForm::table);
    CHECK(stdout_form("auto", false) == StdoutForm::json);
    CHECK(stdout_form("json", true) == StdoutForm::json);
    CHECK(stdout_form("table", false) == StdoutForm::table);
    CHECK(holds(refusal([] { stdout_form("tabel", true); }), "--metrics tabel: auto, json or table"));
}

TEST_CASE("the table is aligned, repeats its header and shows what a record lacks as a dash") {
    Table table(Table::run_columns(), 2);
    Record r;
    r.set("step", 7)
        .set("phase", "train")
        .set("reward", 0.515625)
        .set("loss", -0.0123f)
        .set("grad_norm", 1.5);
    r.set("mismatch/max_abs", 0.0)
        .set("timing/generation_tokens_per_sec", 12345.0)
        .set("timing/left", 3723.0);
    const std::string header =
        " step      phase  reward accuracy      loss grad norm mismatch tokens/s    left\n";
    CHECK(header.size() == 80);
    CHECK(table.row(r) ==
          header + "    7      train  0.5156        -   -0.0123    1.5000        0    12.3K 1:02:03\n");
    Record v;
    v.set("step", 8).set("phase", "validation").set("validation/accuracy", 0.9f);
    v.set("mismatch/max_abs", 3e-5).set("loss", std::nan("")).set("grad_norm", 2e-9);
    CHECK(table.row(v) ==
          "    8 validation       -   0.9000       NaN  2.00e-09  3.0e-05        -       -\n");
    CHECK(table.row(r).rfind(header, 0) == 0);
}

TEST_CASE("metrics go to the file always, and to stdout as lines or as rows") {
    TempFolder folder;
    for (StdoutForm form : {StdoutForm::json, StdoutForm::table, StdoutForm::none}) {
        std::string file = folder / "metrics.jsonl", shown = folder / "stdout";
        fs::remove(file);
        int fd = ::open(shown.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
        MetricsWriter writer(file, form, fd);
        writer.write(Record().set("step", 1).set("reward", 0.25));
        writer.write(Record().set("step", 2).set("reward", 0.5));
        writer.sync();
        ::close(fd);
        const std::string lines = "{\"step\": 1, \"reward\": 0.25}\n{\"step\": 2, \"reward\": 0.5}\n";
        CHECK(fp8rl::test::read_text(file) == lines);
        std::string out = fp8rl::test::read_text(shown);
        if (form == StdoutForm::json) CHECK(out == lines);
        if (form == StdoutForm::none) CHECK(out.empty());
        if (form == StdoutForm::table) CHECK(holds(out, "0.2500"));
    }
}

TEST_CASE("a reader that leaves ends the run cleanly: a stop is asked for, the file goes on") {
    TempFolder folder;
    pid_t child = start([&] {
        install_signal_handlers();
        int ends[2];
        if (::pipe(ends) != 0) return 1;
        MetricsWriter writer(folder / "metrics.jsonl", StdoutForm::json, ends[1]);
        writer.write(Record().set("step", 1));
        if (stop_requested() != Stop::none) return 2;
        ::close(ends[0]);
        writer.write(Record().set("step", 2));
        writer.write(Record().set("step", 3));
        return stop_requested() == Stop::output_closed ? 0 : 3;
    });
    CHECK(wait_for(child) == 0);
    CHECK(fp8rl::test::read_text(folder / "metrics.jsonl") ==
          "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n");
}

TEST_CASE("stdout that cannot be written is an error, not silence") {
    TempFolder folder;
    int full = ::open("/dev/full", O_WRONLY);
    if (full < 0) return;
    MetricsWriter writer(folder / "metrics.jsonl", StdoutForm::json, full);
    CHECK(holds(refusal([&] { writer.write(Record().set("step", 1)); }), "standard output"));
    ::close(full);
}

TEST_CASE("on resume, lines of later steps and a half-written line are cut off") {
    TempFolder folder;
    const std::string path = folder / "metrics.jsonl";
    const std::string kept =
        "{\"note\": 1}\n{\"step\": 1}\n{\"step\": 2, \"phase\": \"train\"}\n{\"step\": 2}\n";
    for (const std::string rest : {"", "{\"step\": 3}\n{\"step\": 4}\n", "{\"step\": 2, \"rew",
                                   "{\"step\": 2}", "garbage\n{\"step\": 1}\n", "[1]\n", "\n"}) {
        write_file(path, kept + rest);
        CHECK(truncate_after_step(path, 2) == rest.size());
        CHECK(fp8rl::test::read_text(path) == kept);
    }
    CHECK(truncate_after_step(path, 0) == kept.size() - 12);
    CHECK(truncate_after_step(folder / "absent.jsonl", 2) == 0);
    CHECK(!fs::exists(folder / "absent.jsonl"));
}

TEST_CASE("a run cut at a step and continued has the lines of an uninterrupted one") {
    TempFolder folder;
    auto write = [&](const std::string& path, int from, int to) {
        MetricsWriter writer(path, StdoutForm::none);
        for (int s = from; s <= to; ++s)
            writer.write(Record().set("step", s).set("reward", 1.0 / s).set("phase", "train"));
    };
    write(folder / "whole", 1, 9);
    write(folder / "resumed", 1, 6);
    truncate_after_step(folder / "resumed", 4);
    write(folder / "resumed", 5, 9);
    CHECK(fp8rl::test::read_text(folder / "whole") == fp8rl::test::read_text(folder / "resumed"));
}
