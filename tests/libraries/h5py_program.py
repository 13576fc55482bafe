"""An h5py program, with HDF5's MPI driver, that knows nothing of Weir.

usage: h5py_program.py write|update FILE
"""

import sys

import h5py
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.Get_rank(), comm.Get_size()

SHAPE = (21, 34)
WHOLE = np.arange(SHAPE[0] * SHAPE[1], dtype="f8").reshape(SHAPE)
DATASETS = {
    "contiguous": {},
    "chunked": {"chunks": (5, 9), "maxshape": (None, SHAPE[1])},
    "checked": {"chunks": (7, 34), "fletcher32": True, "shuffle": True},
}


def part(whole):
    return slice(whole * rank // ranks, whole * (rank + 1) // ranks)


def expect(condition, what):
    if not condition:
        print(f"rank {rank}: wrong: {what}", file=sys.stderr)
        comm.Abort(1)


def write(name):
    with h5py.File(name, "w", driver="mpio", comm=comm) as file:
        file.attrs["title"] = "written by h5py"
        group = file.create_group("group")
        group.attrs["numbers"] = np.arange(7)
        for dataset, options in DATASETS.items():
            # With a fill value all of the file is written; bytes that are not have no defined value on a local disk.
            made = group.create_dataset(dataset, SHAPE, "f8", fillvalue=-1.0, track_times=False, **options)
            made.attrs["unit"] = "m"
            with made.collective:
                made[part(SHAPE[0]), :] = WHOLE[part(SHAPE[0]), :]
        columns = file.create_dataset("columns", SHAPE, "i4", fillvalue=-1, track_times=False)
        columns[:, rank::ranks] = WHOLE[:, rank::ranks]
        file.flush()


def update(name):
    with h5py.File(name, "r+", driver="mpio", comm=comm) as file:
        expect(file.attrs["title"] == "written by h5py", "title")
        expect(np.array_equal(file["group"].attrs["numbers"], np.arange(7)), "numbers")
        for dataset in DATASETS:
            data = file["group"][dataset]
            expect(data.attrs["unit"] == "m", f"attribute of {dataset}")
            with data.collective:
                expect(np.array_equal(data[:, part(SHAPE[1])], WHOLE[:, part(SHAPE[1])]), f"{dataset}, collective")
            expect(np.array_equal(data[::3, 1::2], WHOLE[::3, 1::2]), f"{dataset}, independent")
        expect(np.array_equal(file["columns"][...], WHOLE), "columns")
        comm.Barrier()
        file["group/chunked"].resize(SHAPE[0] + 6, axis=0)
        more = part(6)
        with file["group/chunked"].collective:
            file["group/chunked"][SHAPE[0] + more.start : SHAPE[0] + more.stop, :] = 3.0
        file["columns"][part(SHAPE[0]), 3:5] = -2
        del file["group"].attrs["numbers"]
        file["group"].move("contiguous", "moved")
    with h5py.File(name, "r", driver="mpio", comm=comm) as file:
        expect(list(file["group"]) == ["checked", "chunked", "moved"], "names")
        expect((file["columns"][:, 3:5] == -2).all(), "columns after the update")
        expect((file["group/chunked"][SHAPE[0] :, :] == 3.0).all(), "new rows")


{"write": write, "update": update}[sys.argv[1]](sys.argv[2])
