#pragma once

// What a benchmark has to say: tables, as text or as JSON, and plots.

#include <string>
#include <string_view>
#include <vector>

#include <weir/transfer/testing/ratio.h>

namespace weir::bench {

struct Table {
  std::string title;
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
  std::string note;
};

void print_text(const std::vector<Table>& tables);
/// Cells that are numbers become numbers.
void print_json(const std::vector<Table>& tables);

std::string number(double value, int digits);

/// Measured values with what is wanted of them: at least (ratios) or at most (times).
class Goals {
 public:
  Goals(std::string title, std::string note);
  void at_least(const std::string& name, const std::string& rival, const transfer::internal::Ratio& value,
                double wanted);
  void at_most(const std::string& name, const std::string& unit, const transfer::internal::Ratio& value, double wanted);
  [[nodiscard]] const Table& table() const { return table_; }

 private:
  void add(std::vector<std::string> what, const transfer::internal::Ratio& value, std::string wanted, bool is_missed);
  Table table_;
};

struct PlotPoint {
  double x = 0;
  double y = 0;
};
struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
};
struct PlotPanel {
  std::string title;
  std::string x_label;
  std::string y_label;
  bool is_log_y = false;
  std::vector<PlotSeries> series;
};

/// Panels in rows of `across`, x by powers of two, one legend for all.  \returns an SVG file
std::string draw_panels(const std::string& title, const std::vector<PlotPanel>& panels, int across);

/// Writes text to a file, or ends the program.
void write_file(const std::string& name, const std::string& text);

struct Arguments {
  bool is_quick = false;
  bool is_json = false;
  std::string svg;
  std::string text;  ///< Only cases whose name holds it.
};

/// Of `PROGRAM [--quick] [--json] [--svg FILE] [TEXT]`; ends the program on --help and on what it does not know.
Arguments parse_arguments(int argc, char** argv, std::string_view help);

}  // namespace weir::bench
