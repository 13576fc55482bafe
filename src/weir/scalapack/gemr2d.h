#pragma once

// ScaLAPACK's redistribution routines, under their own names: libweir_scalapack.so stands in for them when it is linked
// before ScaLAPACK or preloaded.  For arguments see ScaLAPACK's users' guide, or docs/guide/scalapack.md.
//
//   Cp?gemr2d   p?gemr2d_    copy an m x n submatrix of A, from row ia and column ja, to row ib and column jb of B
//   Cp?gemr2do  p?gemr2do_   the same without the last argument: all processes of the program call it

extern "C" {

#define WEIR_DECLARE_GEMR2D(letter)                                                                                    \
  void Cp##letter##gemr2d(int m, int n, const void* a, int ia, int ja, const int* desc_a, void* b, int ib, int jb,     \
                          const int* desc_b, int context);                                                             \
  void Cp##letter##gemr2do(int m, int n, const void* a, int ia, int ja, const int* desc_a, void* b, int ib, int jb,    \
                           const int* desc_b);                                                                         \
  void p##letter##gemr2d_(const int* m, const int* n, const void* a, const int* ia, const int* ja, const int* desc_a,  \
                          void* b, const int* ib, const int* jb, const int* desc_b, const int* context);               \
  void p##letter##gemr2do_(const int* m, const int* n, const void* a, const int* ia, const int* ja, const int* desc_a, \
                           void* b, const int* ib, const int* jb, const int* desc_b);

WEIR_DECLARE_GEMR2D(i)
WEIR_DECLARE_GEMR2D(s)
WEIR_DECLARE_GEMR2D(d)
WEIR_DECLARE_GEMR2D(c)
WEIR_DECLARE_GEMR2D(z)

#undef WEIR_DECLARE_GEMR2D
}
