#include <weir/cli/internal/command.h>

namespace weir::cli::internal {
namespace {

constexpr char kLayoutHelp[] =
    "A layout is a text, quoted for the shell (or @FILE; @- reads standard input):\n"
    "  stripe(unit=64K, over=4)                                    round-robin blocks\n"
    "  hpf(shape=[4096,4096], elem=8, dist=(*,BLOCK), grid=[1,4])  *, BLOCK, BLOCK(m), CYCLIC, CYCLIC(k)\n"
    "  tiles(shape=[4096,4096], elem=8, tile=[256,256], over=4)    tiles dealt round robin, each stored whole\n"
    "  falls(disp=2, {(0,1,6,1)} | {(2,3,6,1)} | {(4,5,6,1)})      explicit elements, (l,r,s,n[,{...}])\n"
    "Numbers take K, M, G, T (powers of 1024).  hpf and tiles take order=C or order=F; all take disp=.\n"
    "\n"
    "Exit code: 0 done, 1 the answer is no, 2 bad usage or bad input.\n"
    "\n"
    "Examples:\n"
    "  weir layout show 'tiles(shape=[8,12], tile=[4,3], over=3)'\n"
    "  weir layout map 'stripe(unit=64K, over=4)' 1M\n"
    "  weir layout intersect 'hpf(shape=[8,8], dist=(*,BLOCK), grid=[1,4])' 'stripe(unit=16, over=4)'\n";

}  // namespace

void add_layout(CLI::App& app, Selection& selection) {
  CLI::App* layout = app.add_subcommand("layout", "Describe, draw and compare distributions of files and arrays");
  layout->require_subcommand(1);
  layout->footer(kLayoutHelp);
  add_show(*layout, selection);
  add_map_commands(*layout, selection);
  add_relation_commands(*layout, selection);
  add_text_commands(*layout, selection);
  add_batch(*layout, selection);
}

}  // namespace weir::cli::internal
