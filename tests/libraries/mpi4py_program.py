"""An mpi4py program that knows nothing of Weir.

usage: mpi4py_program.py write|update FILE

write makes a file of four regions by views, collective, non-blocking and shared accesses; update, on other ranks, reads all of them
and changes some.  Element i of a region is i, so that any number of ranks writes the same bytes.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()

ROWS, COLUMNS = 24, 36
GRID = 0
STRIPES = GRID + ROWS * COLUMNS * 8
ORDERED = STRIPES + 60 * 4
RECORDS = ORDERED + 30 * 8
BIG_ENDIAN = RECORDS + 12 * 8
END = BIG_ENDIAN + 6 * 8


def part(whole):
    return whole * rank // ranks, whole * (rank + 1) // ranks


def expect(condition, what):
    if not condition:
        print(f"rank {rank}: wrong: {what}", file=sys.stderr)
        comm.Abort(1)


def grid_block(file, columns):
    """A view of the columns, or rows, of this rank, and what it holds."""
    begin, end = part(COLUMNS if columns else ROWS)
    size, start = ([ROWS, end - begin], [0, begin]) if columns else ([end - begin, COLUMNS], [begin, 0])
    filetype = MPI.DOUBLE.Create_subarray([ROWS, COLUMNS], size, start).Commit()
    file.Set_view(GRID, MPI.DOUBLE, filetype)
    filetype.Free()
    whole = np.arange(ROWS * COLUMNS, dtype="f8").reshape(ROWS, COLUMNS)
    return np.ascontiguousarray(whole[:, begin:end] if columns else whole[begin:end])


def stripes(file):
    """Every ranks-th pair of 60 integers: a vector that repeats."""
    filetype = MPI.INT.Create_vector(1, 2, 2 * ranks).Create_resized(0, 2 * ranks * 4).Commit()
    file.Set_view(STRIPES + 2 * 4 * rank, MPI.INT, filetype)
    filetype.Free()
    pairs = np.arange(60, dtype="i4").reshape(30, 2)
    return np.ascontiguousarray(pairs[rank::ranks])


def write(name):
    file = MPI.File.Open(comm, name, MPI.MODE_CREATE | MPI.MODE_RDWR)
    file.Set_size(0)
    file.Preallocate(END)
    expect(file.Get_size() == END, "size after Preallocate")

    file.Write_all(grid_block(file, columns=True))

    mine = stripes(file)
    half = len(mine) // 2
    file.Iwrite_at(0, mine[:half].copy()).Wait()
    file.Seek(2 * half)
    file.Write_all_begin(mine[half:].copy())
    file.Write_all_end(mine[half:].copy())
    expect(file.Get_position() == mine.size, "position")

    # In the order of ranks.
    file.Set_view(ORDERED, MPI.DOUBLE)
    begin, end = part(30)
    file.Write_ordered(np.arange(begin, end, dtype="f8"))
    comm.Barrier()
    expect(file.Get_position_shared() == 30, "shared position")

    # In any order: all records are alike.
    file.Set_view(RECORDS, MPI.DOUBLE)
    for _ in range(*part(12)):
        file.Write_shared(np.array([2.5]))
    comm.Barrier()
    expect(file.Get_position_shared() == 12, "shared position after Write_shared")

    file.Set_view(BIG_ENDIAN, MPI.DOUBLE, datarep="external32")
    begin, end = part(6)
    file.Iwrite_at_all(begin, np.arange(begin, end, dtype="f8")).Wait()
    file.Sync()
    file.Close()


def update(name):
    file = MPI.File.Open(comm, name, MPI.MODE_RDWR)
    expect(file.Get_size() == END, "size")

    want = grid_block(file, columns=False)
    got = np.zeros_like(want)
    file.Read_all(got)
    expect(np.array_equal(got, want), "rows of the grid")
    want = grid_block(file, columns=True)
    got = np.zeros_like(want)
    file.Iread(got).Wait()
    expect(np.array_equal(got, want), "columns of the grid")
    comm.Barrier()
    file.Write_at_all(0, want * 2)

    want = stripes(file)
    got = np.zeros_like(want)
    file.Iread_at_all(0, got).Wait()
    expect(np.array_equal(got, want), "stripes")

    file.Set_view(ORDERED, MPI.DOUBLE)
    begin, end = part(30)
    got = np.zeros(end - begin)
    file.Read_ordered(got)
    expect(np.array_equal(got, np.arange(begin, end)), "ordered")
    comm.Barrier()
    file.Seek_shared(30)
    status = MPI.Status()
    sum_of_records, got = 0.0, np.zeros(1)
    for _ in range(*part(12)):
        file.Read_shared(got, status)
        expect(status.Get_count(MPI.DOUBLE) == 1, "count of Read_shared")
        sum_of_records += got[0]
    expect(comm.allreduce(sum_of_records) == 12 * 2.5, "records")

    file.Set_view(BIG_ENDIAN)
    got = np.zeros(6, dtype=">f8")
    file.Read_at_all(0, [got, MPI.BYTE])
    expect(np.array_equal(got, np.arange(6)), "external32")
    file.Close()

    try:
        MPI.File.Open(comm, name + "-missing", MPI.MODE_RDONLY)
        expect(False, "a missing file was opened")
    except MPI.Exception as error:
        expect(error.Get_error_class() == MPI.ERR_NO_SUCH_FILE, f"class of {error}")


{"write": write, "update": update}[sys.argv[1]](sys.argv[2])
