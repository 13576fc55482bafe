#include <weir/cli/internal/picture.h>

#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weir/base/testing/matchers.h>
#include <weir/cli/internal/text_picture.h>
#include <weir/layout/language.h>

namespace weir::cli::internal {
namespace {

using ::testing::HasSubstr;
using ::weir::testing::StatusIs;

layout::Partition parsed(const std::string& text) {
  auto partition = layout::parse(text);
  EXPECT_TRUE(partition.is_ok()) << text << ": " << partition.status().message();
  return *partition;
}

std::string text_of(const std::string& layout, const PictureOptions& options = {}) {
  const layout::Partition partition = parsed(layout);
  const auto picture = draw(partition, options);
  if (!picture.is_ok()) return picture.status().message();
  return render_text(*picture, partition.element_count(), {});
}

TEST(PictureTest, TwoDimensions) {
  EXPECT_EQ(text_of("hpf(shape=[3,6], dist=(*,BLOCK), grid=[1,3])"),
            "       0 1 2 3 4 5\n"
            "   0   0 0 1 1 2 2\n"
            "   1   0 0 1 1 2 2\n"
            "   2   0 0 1 1 2 2\n"
            "(a cell is one array entry)\n");
}

TEST(PictureTest, FortranOrderDoesNotChangeWhoOwnsWhat) {
  EXPECT_EQ(text_of("hpf(shape=[4,6], dist=(CYCLIC,BLOCK), grid=[2,3])"),
            text_of("hpf(shape=[4,6], elem=8, dist=(CYCLIC,BLOCK), grid=[2,3], order=F)"));
}

TEST(PictureTest, TilesAreNumberedInArrayOrder) {
  EXPECT_EQ(text_of("tiles(shape=[4,5], tile=[2,2], over=2)"),
            "       0 1 2 3 4\n"
            "   0   0 0 1 1 0\n"
            "   1   0 0 1 1 0\n"
            "   2   1 1 0 0 1\n"
            "   3   1 1 0 0 1\n"
            "(a cell is one array entry)\n");
}

TEST(PictureTest, OneDimension) {
  EXPECT_EQ(text_of("hpf(shape=[7], dist=(CYCLIC(2)), grid=[2])"),
            "       0 1 2 3 4 5 6\n"
            "       0 0 1 1 0 0 1\n"
            "(a cell is one array entry)\n");
}

TEST(PictureTest, SliceOfThreeDimensions) {
  PictureOptions options;
  options.slice = "*, 1, *";
  EXPECT_EQ(text_of("hpf(shape=[2,4,3], dist=(BLOCK,BLOCK,CYCLIC), grid=[2,2,3])", options),
            "       0 1 2\n"
            "   0   0 1 2\n"
            "   1   6 7 8\n"
            "(slice [*,1,*]; a cell is one array entry; 0-9 a-z A-Z stand for elements 0 to 11)\n");
  options.slice = "1,3,*";
  EXPECT_EQ(text_of("hpf(shape=[2,4,3], dist=(BLOCK,BLOCK,CYCLIC), grid=[2,2,3])", options),
            "       0 1 2\n"
            "       9 a b\n"
            "(slice [1,3,*]; a cell is one array entry; 0-9 a-z A-Z stand for elements 0 to 11)\n");
}

TEST(PictureTest, SlicesThatDoNotFitAreRefused) {
  const layout::Partition cube = parsed("hpf(shape=[2,4,3], dist=(BLOCK,*,*), grid=[2,1,1])");
  const auto draw_slice = [&](const std::string& slice) {
    PictureOptions options;
    options.slice = slice;
    return draw(cube, options).status();
  };
  EXPECT_THAT(draw_slice("1,*"), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("2 indices")));
  EXPECT_THAT(draw_slice("*,*,*"), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("leaves 3 dimensions free")));
  EXPECT_THAT(draw_slice("0,0,0"), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("leaves 0 dimensions free")));
  EXPECT_THAT(draw_slice("2,*,*"), StatusIs(ErrorCode::kOutOfRange, HasSubstr("outside dimension 0 of 2")));
  EXPECT_THAT(draw_slice("x,*,*"), StatusIs(ErrorCode::kInvalidArgument, HasSubstr("'x'")));
}

TEST(PictureTest, BytesWithDisplacementGapAndOverlap) {
  EXPECT_EQ(text_of("falls(disp=2, {(0,1,6,1)} | {(2,3,6,1)} | {(4,5,6,1)})"),
            "   0  ..001122001122\n"
            "(file bytes 0 to 13; a cell is one byte; . on no element)\n");
  EXPECT_EQ(text_of("falls(period=8, {(0,2,-,1)} | {(2,4,-,1)})"),
            "   0  00#11...00#11...\n"
            "(file bytes 0 to 15; a cell is one byte; . on no element; # several elements)\n");
}

TEST(PictureTest, RowsOfBytesStartAtThePeriod) {
  PictureOptions options;
  options.max_columns = 20;
  options.periods = 4;
  EXPECT_EQ(text_of("stripe(unit=2, over=4)", options),
            "   0  0011223300112233\n"
            "  16  0011223300112233\n"
            "(file bytes 0 to 31; a cell is one byte)\n");
}

TEST(PictureTest, LargeStripesAreReducedWithoutLoss) {
  PictureOptions options;
  options.max_columns = 16;
  EXPECT_EQ(text_of("stripe(unit=64K, over=4, disp=5)", options),
            "     5  0000111122223333\n"
            "262149  0000111122223333\n"
            "(file bytes 5 to 524292; a cell stands for 16384 bytes)\n");
}

TEST(PictureTest, OneElementOnly) {
  PictureOptions options;
  options.element = 1;
  EXPECT_EQ(text_of("stripe(unit=2, over=3)", options),
            "   0  ..11....11..\n"
            "(file bytes 0 to 11; a cell is one byte; . not on this element)\n");
}

TEST(PictureTest, ColorsOnlyOnRequest) {
  const layout::Partition partition = parsed("stripe(unit=1, over=2)");
  const auto picture = draw(partition, {});
  ASSERT_TRUE(picture.is_ok());
  TextStyle style;
  EXPECT_EQ(render_text(*picture, 2, style).find('\x1b'), std::string::npos);
  style.color = true;
  EXPECT_THAT(render_text(*picture, 2, style), HasSubstr("\x1b[48;5;"));
}

TEST(PictureTest, TheLargestFilesAreDrawn) {
  EXPECT_THAT(text_of("stripe(unit=1T, over=4194304)"), HasSubstr("# several elements"));
  EXPECT_THAT(text_of("hpf(shape=[1073741824,536870912], elem=8, dist=(BLOCK,CYCLIC(3)), grid=[4,4])"),
              HasSubstr("a cell stands for"));
  EXPECT_THAT(text_of("stripe(unit=4, over=4, disp=4611686018427387800)"), HasSubstr("4611686018427387800"));
}

/// The owner of a cell found by asking for every entry in it.
Offset slow_owner(const layout::Partition& partition, const Picture& picture, Offset row, Offset column) {
  const ArrayShape array = *array_shape(partition);
  Offset found = kOutside;
  const auto& [rows, columns] = std::pair(picture.row_axis, picture.column_axis);
  for (Offset i = row * rows.step; i < std::min((row + 1) * rows.step, rows.extent); ++i) {
    for (Offset j = column * columns.step; j < std::min((column + 1) * columns.step, columns.extent); ++j) {
      const Offset x = partition.disp() + i * array.strides[0] + j * array.strides[1];
      const auto owner = partition.owner(x);
      EXPECT_TRUE(owner.is_ok() && owner->has_value());
      if (found != kOutside && found != **owner) return kSeveral;
      found = **owner;
    }
  }
  return found;
}

std::string random_array(std::mt19937& random) {
  const auto below = [&](Offset end) { return static_cast<Offset>(random() % static_cast<unsigned>(end)); };
  const Offset rows = 1 + below(40);
  const Offset columns = 1 + below(40);
  const std::string tail = concat(", disp=", below(5), below(2) == 0 ? ", order=F)" : ")");
  const std::string shape = concat("shape=[", rows, ",", columns, "], elem=", 1 + below(3));
  if (below(2) == 0) {
    return concat("tiles(", shape, ", tile=[", 1 + below(rows), ",", 1 + below(columns), "], over=", 1 + below(6),
                  tail);
  }
  const auto dist = [&](Offset kind, Offset width) {
    return kind == 0 ? std::string("BLOCK") : kind == 1 ? "CYCLIC" : concat("CYCLIC(", width, ")");
  };
  return concat("hpf(", shape, ", dist=(", dist(below(3), 1 + below(9)), ",", dist(below(3), 1 + below(9)), "), grid=[",
                1 + below(5), ",", 1 + below(5), "]", tail);
}

TEST(PictureTest, ReducedArraysAgreeWithEveryEntry) {
  std::mt19937 random(20240817);
  for (int round = 0; round < 300; ++round) {
    const std::string text = random_array(random);
    const layout::Partition partition = parsed(text);
    PictureOptions options;
    options.max_columns = 1 + static_cast<Offset>(random() % 40);
    options.max_rows = 1 + static_cast<Offset>(random() % 40);
    const auto picture = draw(partition, options);
    ASSERT_TRUE(picture.is_ok()) << text;
    ASSERT_LE(picture->columns, options.max_columns) << text;
    ASSERT_LE(picture->rows, options.max_rows) << text;
    for (Offset row = 0; row < picture->rows; ++row) {
      for (Offset column = 0; column < picture->columns; ++column) {
        ASSERT_EQ(picture->at(row, column), slow_owner(partition, *picture, row, column))
            << text << " row " << row << " column " << column << " of " << picture->rows << " x " << picture->columns;
      }
    }
  }
}

TEST(TreeTest, DrawsNesting) {
  const auto set = layout::parse_falls("{(0,7,16,2,{(0,1,-,1),(4,4,2,2)}),(40,41,-,1)}");
  ASSERT_TRUE(set.is_ok());
  EXPECT_EQ(render_tree(*set, {}),
            "├─ (0,7,16,2)  2 blocks of 8 bytes every 16 from 0\n"
            "│  ├─ (0,1,-,1)  2 bytes at 0\n"
            "│  └─ (4,4,2,2)  2 blocks of 1 byte every 2 from 4\n"
            "└─ (40,41,-,1)  2 bytes at 40\n");
  TextStyle ascii;
  ascii.ascii = true;
  EXPECT_EQ(render_tree(*set, ascii, 2),
            "|- (0,7,16,2)  2 blocks of 8 bytes every 16 from 0\n"
            "|  |- (0,1,-,1)  2 bytes at 0\n"
            "|  `- ... and more\n");
}

}  // namespace
}  // namespace weir::cli::internal
