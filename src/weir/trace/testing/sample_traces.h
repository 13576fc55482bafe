#pragma once

// Traces for tests.

#include <sstream>
#include <string>
#include <vector>

#include <weir/base/text.h>
#include <weir/trace/reader.h>

namespace weir::trace::testing {

/// The first line.
inline std::string head(int rank, int ranks) {
  return concat("weir-trace\tversion=1\thost=here\tpid=", 100 + rank, "\trank=", rank, "\tranks=", ranks,
                "\tat=1000\n");
}

/// Column blocks of a 64 x 4096 array: rank r sees bytes [1024 r, 1024 r + 1023] of every row.
inline std::string columns_of(int rank, int ranks, const std::string& layout = "stripe(unit=64K, over=4)") {
  return concat(
      head(rank, ranks), "open\tfile=0\tpath=/out\tlayout=", layout, "\twhy=", rank == 0 ? "no hint" : "",
      "\trank=", rank, "\tranks=", ranks, "\tat=1000\ttook=10\thint.cb_nodes=2\n",
      rank == 0 ? "choice\tfile=0\twhat=collective writes\tchosen=two-phase\twhy=predicted <less>\n" : "",
      "view\tfile=0\tview=0\telement=0 1 {(0,0,-,1)}\tetype=1\tsize=1\tperiod=1\tdisp=0\tdegree=0.9\n",
      "view\tfile=0\tview=1\telement=0 262144 {(", 1024 * rank, ",", 1024 * rank + 1023,
      ",4096,64)}\tetype=1\tsize=65536\tperiod=262144\tdisp=0\tdegree=0.2\n",
      "access\tfile=0\tview=1\tcall=MPI_File_write_all\twrite=1\tat=2000000000\ttook=1000000000\tbytes=65536\tfirst=",
      1024 * rank, "\tlast=", 1024 * rank + 4096 * 63 + 1023,
      "\tmeet=250000000\tmove=500000000\tmessages=4\tindex=100\tmoved=65536\tdirect=65536\tgathered=0\n",
      "access\tfile=0\tview=1\tcall=MPI_File_read\twrite=0\tat=4000000000\ttook=1000000\tbytes=1000\tfirst=0"
      "\tlast=1023\tmove=1000\tmessages=0\tindex=0\tmoved=1000\tdirect=0\tgathered=0\n",
      "close\tfile=0\tat=5000000000\nend\tat=6000000000\n");
}

/// \pre It is a trace.
inline Trace read(const std::string& text) {
  std::istringstream in(text);
  return read_trace(in).value();
}

inline std::vector<Trace> columns(int ranks, const std::string& layout = "stripe(unit=64K, over=4)") {
  std::vector<Trace> traces;
  for (int rank = 0; rank < ranks; ++rank) traces.push_back(read(columns_of(rank, ranks, layout)));
  return traces;
}

/// On ranks 0 and 2 of 3.
inline std::vector<Trace> with_failures() {
  std::vector<Trace> traces = columns(3);
  traces[0].failures = {{"/out", "MPI_File_write_all", 2, "MPI_File_write_all /out: full"}};
  traces[2].failures = {{"/out", "MPI_File_write_all", 1, "full"}, {"/other", "MPI_File_open", 1, "no"}};
  return traces;
}

}  // namespace weir::trace::testing
