#include <weir/scalapack/gemr2d.h>

#include <weir/scalapack/internal/routine.h>

using weir::scalapack::internal::redistribute;
using weir::scalapack::internal::redistribute_among_all;
using weir::scalapack::internal::Routine;

#define WEIR_DEFINE_GEMR2D(letter, elem)                                                                               \
  void Cp##letter##gemr2d(int m, int n, const void* a, int ia, int ja, const int* desc_a, void* b, int ib, int jb,     \
                          const int* desc_b, int context) {                                                            \
    redistribute(Routine{#letter[0], elem}, m, n, a, {ia, ja, desc_a}, b, {ib, jb, desc_b}, context);                  \
  }                                                                                                                    \
  void Cp##letter##gemr2do(int m, int n, const void* a, int ia, int ja, const int* desc_a, void* b, int ib, int jb,    \
                           const int* desc_b) {                                                                        \
    redistribute_among_all(Routine{#letter[0], elem}, m, n, a, {ia, ja, desc_a}, b, {ib, jb, desc_b});                 \
  }                                                                                                                    \
  void p##letter##gemr2d_(const int* m, const int* n, const void* a, const int* ia, const int* ja, const int* desc_a,  \
                          void* b, const int* ib, const int* jb, const int* desc_b, const int* context) {              \
    Cp##letter##gemr2d(*m, *n, a, *ia, *ja, desc_a, b, *ib, *jb, desc_b, *context);                                    \
  }                                                                                                                    \
  void p##letter##gemr2do_(const int* m, const int* n, const void* a, const int* ia, const int* ja, const int* desc_a, \
                           void* b, const int* ib, const int* jb, const int* desc_b) {                                 \
    Cp##letter##gemr2do(*m, *n, a, *ia, *ja, desc_a, b, *ib, *jb, desc_b);                                             \
  }

extern "C" {
WEIR_DEFINE_GEMR2D(i, 4)
WEIR_DEFINE_GEMR2D(s, 4)
WEIR_DEFINE_GEMR2D(d, 8)
WEIR_DEFINE_GEMR2D(c, 8)
WEIR_DEFINE_GEMR2D(z, 16)
}
